"""Runs `aiayn VERB`: imports a verb's module only when it is called, and turns errors into exit
codes.

0 done, 1 the input or a check is at fault, 2 usage, 3 a run failed, 4 another verdict than
`--expect` named, 130 interrupted, 141 the pipe's reader has left.
"""

import argparse
import importlib
import logging
import os
import select
import sys
from collections.abc import Sequence

from aiayn.cli.flags import add_flags
from aiayn.errors import AiaynError, ConfigError, did_you_mean
from aiayn.removed import explain_removed_flag, explain_removed_verb
from aiayn.wings import module_of_verb, present_wings

# The verbs of the core, in the order of the data flow. `analysis/<wing>/wing.py` registers the
# verbs of a wing.
CORE_VERBS = {
    "fetch": "get a corpus: download and verify it, or generate it",
    "clean": "prepare text and drop unfit training pairs, as the corpus file says",
    "segment": "learn the subword vocabulary (section 5.1)",
    "binarize": "turn text into fairseq's data-bin",
    "train": "train one system with one seed, or resume it (section 5)",
    "status": "list the runs: state, update, loss, speed, time left, cost, job",
    "logs": "print the log of a run, or follow it",
    "cancel": "end a run that is training or queued; it saves first",
    "average": "average the last checkpoints of a training (section 6.1)",
    "decode": "translate a test set with beam search (section 6.1)",
    "perplexity": "measure perplexity per subword on a test set (Table 3)",
    "score": "score translations under every definition of BLEU, with signatures",
    "baselines": (
        "score translations that need no training: a copy, a dictionary, the nearest sentence"
    ),
    "tables": "render the paper's tables with our numbers, from records or from logs",
    "translate": "translate sentences from standard input with a trained run",
}
EXIT_INTERRUPTED = 130
EXIT_UNREAD = 141  # 128 + SIGPIPE, as a shell reports it


def verbs() -> list[str]:
    """Return the verbs of the core, then the verbs of the wings."""
    return [*CORE_VERBS, *(verb for wing in present_wings().values() for verb in wing.verbs)]


def build_parser(verb: str) -> argparse.ArgumentParser:
    """Return the parser of one verb, made by that verb's module."""
    name = f"aiayn.cli.{verb}" if verb in CORE_VERBS else module_of_verb(verb)
    module = importlib.import_module(str(name))
    parser = argparse.ArgumentParser(
        prog=f"aiayn {verb}",
        description=module.__doc__,
        epilog=f"example:\n  {module.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_flags(parser, module.Flags)
    parser.set_defaults(run_verb=module.run)
    return parser


def _overview() -> str:
    groups = [("verbs:", CORE_VERBS)]
    groups += [
        (f"more: {wing.summary} ({name})", wing.verbs)
        for name, wing in present_wings().items()
        if wing.verbs
    ]
    lines = [
        "usage: aiayn VERB [--help] ...",
        "",
        "Reproduce 'Attention Is All You Need', stage by stage.",
        "",
    ]
    for heading, summary_by_verb in groups:
        lines += [
            heading,
            *(f"  {verb:<12}{summary}" for verb, summary in summary_by_verb.items()),
            "",
        ]
    explained = "`aiayn VERB --help` explains a verb, with an example."
    return "\n".join(
        [*lines, f"{explained} The whole workflow is run by snakemake: see README.md."]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code. A pipe that its reader has closed ends it silently."""
    exit_code = 0
    try:
        try:
            exit_code = _run(arguments)
        except ConfigError as error:  # raised for a wing, before any verb runs
            print(f"aiayn: {error}", file=sys.stderr)
            exit_code = error.exit_code
        finally:
            print(end="", flush=True)  # here: at its own end Python would report a broken pipe
    except BrokenPipeError:
        if not _is_unread():
            raise
        # Python flushes the rest of the output at its end, into this file.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_code or EXIT_UNREAD
    return exit_code


def _is_unread() -> bool:
    """Return whether standard output is a pipe that its reader has closed."""
    try:
        number = sys.stdout.fileno()
    except OSError:  # no file at all
        return False
    poll = select.poll()
    poll.register(number, select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _run(arguments: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return 0 if arguments else 2
    verb = arguments[0]
    if refusal := _explain_refusal(verb, arguments[1:]):
        print(refusal, file=sys.stderr)
        return 2
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    # fairseq's progress belongs in a training's log.
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    parsed = build_parser(verb).parse_args(arguments[1:])
    try:
        _check_checkout()
        # Most verbs return None; `doctor`, for example, answers by its exit code.
        exit_code: int | None = parsed.run_verb(parsed)
    except AiaynError as error:
        print(f"aiayn {verb}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"aiayn {verb}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _is_unread():
            raise
        print(
            f"aiayn {verb}: {error.filename or ''}: {error.strerror or error}; no output is"
            " half-written",
            file=sys.stderr,
        )
        return 1
    return exit_code or 0


def _explain_refusal(verb: str, arguments: Sequence[str]) -> str:
    """Return why a verb or a flag does not exist, or "" if argparse can read the command line."""
    # The core is asked first, so that its verbs work although a wing is broken.
    if verb not in CORE_VERBS and verb not in verbs():
        hint = did_you_mean(verb, verbs(), f"expected one of {', '.join(verbs())}")
        return f"aiayn: {explain_removed_verb(verb) or f'no verb {verb!r}; {hint}'}"
    removed = explain_removed_flag(verb, arguments)
    return f"aiayn {verb}: {removed}" if removed else ""


def _check_checkout() -> None:
    """Raise if this is a copy of the code without the other folders of the checkout."""
    from aiayn.spec.system import CONFIG_FOLDER

    if not CONFIG_FOLDER.is_dir():
        raise ConfigError(
            f"{CONFIG_FOLDER}: no such folder: systems, corpora and printed numbers are read from"
            " the checkout, and this installation is a copy without them; in the checkout run `pip"
            " install --constraint constraints.txt --editable .`, or `make install`"
        )


if __name__ == "__main__":
    sys.exit(main())
