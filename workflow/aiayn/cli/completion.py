"""Print a script with which a shell completes the verbs, flags and values of `aiayn` (made by
shtab).

For this terminal:
  eval "$(aiayn completion bash)"
For all terminals from now on (in zsh, write to a file `_aiayn` in a folder of $fpath):
  aiayn completion bash >> ~/.bash_completion
"""

import argparse
from collections.abc import Callable
from typing import Literal

from aiayn.cli.flags import flag

EXAMPLE = "aiayn completion bash"


class Flags:
    shell: Literal["bash", "zsh"] = flag("bash or zsh", is_positional=True)


class CompletionArguments(Flags):
    """The parsers of all verbs. `aiayn` passes the parsers to every verb, but only `completion`
    uses them.
    """

    make_parsers: Callable[[], dict[str, argparse.ArgumentParser]]


def run(args: CompletionArguments) -> None:
    """Print the completion script for the shell."""
    import shtab

    parser = argparse.ArgumentParser(prog="aiayn")
    parser.add_argument("--version", action="store_true", help="print version and commit")
    # shtab completes a single parser, but each verb has a parser of its own. Here the verbs become
    # subparsers of one parser.
    choices = parser.add_subparsers()
    for verb, own_parser in args.make_parsers().items():
        # The parent already has --help. argparse refuses to add the same flag twice.
        choices.add_parser(verb, parents=[own_parser], add_help=False, help=verb)
    print(shtab.complete(parser, shell=args.shell))
