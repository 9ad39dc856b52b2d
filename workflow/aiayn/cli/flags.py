"""Turns a class of typed fields into the flags of a verb (a subcommand), and defines the flags that
several verbs share.

    class Flags:
        corpus: str = CORPUS
        num_processes: int = flag("processes for chunks of text (default: 1)", "N", default=1,
        type=positive)

A flag has the name of its field, with hyphens for underscores. The type of the field decides how
the text after the flag is parsed: `bool` is a switch, a `Literal` lists the choices, `list[...]`
takes several values. A flag that is not a switch is required if its field has neither a default nor
the type `... | None`.
"""

import argparse
import contextlib
import math
import os
import re
import sys
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

from aiayn.errors import did_you_mean
from aiayn.paths import RESULTS_FOLDER
from aiayn.terminal import coloured, text_width

Device = Literal["auto", "cpu", "cuda"]


def flag(help: str, metavar: str | None = None, **keywords: Any) -> Any:
    """Return the declaration of a flag, to be assigned to a field of any type.

    `keywords` are keyword arguments of argparse's `add_argument`, and three further arguments that
    `add_flags` reads: `is_positional`, `heading` and `excludes`. `is_positional` makes the flag a
    positional argument. `heading` is the heading in --help for this flag and the flags after it.
    `excludes` is the name of a group: exactly one flag of each group must be given.
    """
    # argparse refuses a metavar for a switch, even the value None.
    titles = {"metavar": metavar} if metavar else {}
    return {"help": help, **titles, **keywords}


class VerbParser(argparse.ArgumentParser):
    """A verb's parser, which reports a wrong command line in one sentence. `example` is a complete
    command line.
    """

    example = ""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong in the command line and an example to type, and exit with code 2."""
        sentence = message.removeprefix("argument ")
        advice = f"see `{self.prog} --help`"
        # What follows the first colon, as in `unrecognized arguments: --sead 2`.
        arguments = re.findall(r"\S+", message.partition(": ")[2])
        # argparse has no codes for its errors, so they are distinguished by its sentences, such as
        # `the following arguments are required: RUN, --corpus`.
        if message.startswith("the following arguments are required"):
            actions = {title: action for action in self._actions for title in _titles(action)}
            missing = [title.rstrip(",") for title in arguments]
            sentence = "; ".join(f"{title} is missing ({actions[title].help})" for title in missing)
            advice = f"for example: {self.example}"
        # `one of the arguments --configfile --from-logs is required`: a group of `excludes`.
        elif names := re.fullmatch(r"one of the arguments (.*) is required", message):
            sentence = f"one of {', '.join(names[1].split())} is missing"
            advice = f"for example: {self.example}"
        elif message.startswith("unrecognized arguments"):
            # Only the first is explained: what follows an unknown flag is usually its value.
            choices = [title for action in self._actions for title in action.option_strings]
            hint = did_you_mean(arguments[0], choices, advice)
            kind = "no such flag" if arguments[0].startswith("-") else "one value too many"
            sentence = f"{arguments[0]}: {kind}"
            advice = hint
        elif choice := re.fullmatch(r"(.*): invalid choice: (.*) \(choose from (.*)\)", sentence):
            # `--device: invalid choice: 'gpu' (choose from 'auto', 'cpu', 'cuda')`, as Python 3.11
            # quotes the choices. Later versions do not quote them.
            choices = choice[3].replace("'", "").split(", ")
            sentence = f"{choice[1]}: {choice[2]}; expected one of {', '.join(choices)}"
            advice = did_you_mean(choice[2].strip("'"), choices, advice)
        print(
            f"{coloured(self.prog, 'red', sys.stderr)}: {sentence}; {advice}",
            file=sys.stderr,
        )
        self.exit(2)


def _titles(action: argparse.Action) -> list[str]:
    """Return the names of a flag or positional argument that may occur in argparse's messages."""
    return [*action.option_strings, str(action.metavar or action.dest), action.dest]


def help_format(prog: str) -> argparse.HelpFormatter:
    """Return argparse's formatter of help texts, with the width of this terminal."""
    return argparse.RawDescriptionHelpFormatter(prog, width=text_width())


def add_flags(parser: argparse.ArgumentParser, flags: type) -> None:
    """Add the flags that a class declares to a parser."""
    # The common base class of a parser and its groups, for which argparse has no public name.
    section: argparse._ActionsContainer = parser
    group_by_word: dict[str, argparse._ActionsContainer] = {}
    # The order of the fields is the order in --help. Fields of a base class come first.
    for name, hint in get_type_hints(flags).items():
        # A copy, because verbs share declarations such as RUN and DEVICE, and three keys are
        # removed.
        declared = dict(getattr(flags, name))
        heading, word = declared.pop("heading", ""), declared.pop("excludes", "")
        is_positional = declared.pop("is_positional", False)
        # argparse refuses the keyword `required` for a positional value.
        keywords = _keywords_of_type(hint, is_positional or "default" in declared) | declared
        title = name if is_positional else f"--{name.replace('_', '-')}"
        # A heading holds for the flags after it, up to the next heading.
        if heading:
            section = parser.add_argument_group(heading)
        if word and word not in group_by_word:
            group_by_word[word] = section.add_mutually_exclusive_group(required=True)
        # A positional value is optional in argparse only by its number of values.
        if is_positional and NoneType in get_args(hint):
            keywords["nargs"] = "?"
        group_by_word.get(word, section).add_argument(title, **keywords)


def _keywords_of_type(hint: Any, is_given: bool) -> dict[str, Any]:
    """Return the keyword arguments of `add_argument` that follow from a field's type. `is_given` is
    true for a positional argument, which argparse requires by itself, and for a flag with a
    default.
    """
    if hint is bool:
        return {"action": "store_true"}
    is_optional = NoneType in get_args(hint)
    # The arguments of `Path | None` are (Path, NoneType).
    kind = get_args(hint)[0] if is_optional else hint
    keywords: dict[str, Any] = {}
    if get_origin(kind) is list:
        kind = get_args(kind)[0]
        # A list is never required: without the flag it is empty, or None if the type allows None.
        keywords = {"nargs": "+", "default": None if is_optional else []}
    elif not (is_optional or is_given):
        keywords = {"required": True}
    if get_origin(kind) is Literal:
        return {**keywords, "choices": get_args(kind)}
    # With `type=float` the message is `invalid float value: '26,9'`, which does not say what to
    # type.
    return {**keywords, "type": decimal_number if kind is float else kind}


def whole_number(text: str, *, least: int = 0, most: int = 10**9) -> int:
    """Parse the text of a flag as a whole number.

    Raises:
        ArgumentTypeError: if the text is not a whole number from `least` to `most`.
    """
    # `int` also accepts signs, blanks and underscores. Above 4,300 digits it raises its own error.
    if not text.isdecimal() or len(text) > 18 or not least <= int(text) <= most:
        # The upper bound is shown only to a user whose number is too large.
        bounds = f"{least} to {most}" if text.isdecimal() and text > "0" else f"{least} or more"
        raise argparse.ArgumentTypeError(f"{text[:30]!r}: expected a whole number of {bounds}")
    return int(text)


def decimal_number(text: str) -> float:
    """Parse the text of a flag as a number.

    Raises:
        ArgumentTypeError: if the text is not a finite number with a decimal point.
    """
    with contextlib.suppress(ValueError):
        # `float` also accepts `nan` and `inf`.
        if math.isfinite(number := float(text)):
            return number
    # A decimal comma, as in German and French: `26,9`.
    with_point = text.replace(",", ".", 1)
    is_comma = re.fullmatch(r"-?\d+,\d+", text)
    hint = f"write a decimal point: {with_point}" if is_comma else "such as 26.9"
    raise argparse.ArgumentTypeError(f"{text!r}: expected a number; {hint}")


def positive(text: str) -> int:
    """Parse the text of a flag as a whole number that is at least 1."""
    return whole_number(text, least=1)


def seed(text: str) -> int:
    """Parse a seed, which must be less than 2^31. fairseq adds the number of the epoch to the seed,
    and the sum must fit into 32 bits.
    """
    return whole_number(text, most=2**31 - 1)


def num_threads(text: str) -> int:
    """Parse a number of threads, at most 1,024. torch ends the process if it cannot start its
    threads.
    """
    return whole_number(text, least=1, most=1024)


# Several verbs share these flags. They are declared once, so that a flag has the same text and
# default in all verbs.
RUN = flag("a run's name, or any unique beginning of it", "RUN", is_positional=True)
RUNS_FOLDER = flag("folder of runs (default: runs)", "FOLDER", default=Path("runs"))
RESULTS = flag("default: results", "FOLDER", default=RESULTS_FOLDER)
AVERAGE = flag("last1, last5, ... (default: the average of most checkpoints)")
SCALE = flag("demo, multi30k or paper (default: paper)", default="paper")
SYSTEM_SCALE = flag("demo, multi30k or paper: which folder of systems")
CORPUS = flag("a corpus of workflow/config/corpora/", "NAME")
TESTSET = flag("a test set of the corpus")
LANGUAGE_PAIR = flag("any pair that sacreBLEU has (default: en-de)", "XX-YY", default="en-de")
BINARIZED = flag("record of binarize", "RECORD")
CHECKPOINT = flag("record of average", "RECORD")
RECORD = flag("the record to write")
TEXT_RECORD = flag("the record to write; the text is written next to it")
CONFIGFILE = flag("the scale's config file", "FILE")
CONFIG = flag("replace values of the config, as for snakemake", "KEY=VALUE")
CLUSTER = flag("a file of workflow/config/clusters (default: the config's)", "NAME")
UPDATES = flag("number of updates, instead of the system's own", "N", type=positive)
PRECISION = flag("precision of products, instead of the system's own")
DEVICE = flag("default: a GPU if there is one", default="auto")
THREADS = flag("CPU threads (default: 1)", default=1, type=num_threads)
JSON = flag("print one JSON object")
ARCHIVES_VARIABLE = "AIAYN_ARCHIVES"
ARCHIVES_FOLDER = flag(
    "folder of archives under their public names: those there are used (also offline), missing"
    f" ones are downloaded into it (default: {ARCHIVES_VARIABLE}, else results/archives)",
    "FOLDER",
)


def choose_archives(named: Path | None) -> Path:
    """Return the folder of archives: of the flag, else of the environment variable, else the
    default.
    """
    # An empty variable counts as not set.
    return named or Path(os.environ.get(ARCHIVES_VARIABLE) or "results/archives")
