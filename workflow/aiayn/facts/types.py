"""Defines the content of a log: facts, the sections of a file (each is one run of a program), and
the reasons why a file is not read.

The perplexity in Table 3 is 2 to the power of a validation's negative log-likelihood in bits
(`nll_bits`). Lines of a log are counted from 1, and only line feeds end a line.
"""

import posixpath
import re
from typing import Literal, NamedTuple

import msgspec

from aiayn.facts.statistics import Statistics

Value = bool | int | float | str | None
Program = Literal["train", "generate", "average"]
# From this loss on, in bits a subword, no perplexity is computed. A uniform guess costs about 15
# bits. A training that diverged may print thousands, and 2.0**1024 raises an OverflowError.
MAX_BITS = 100.0
MAX_MENTIONED = 20  # unknown, torn or contradicting lines of a section
DEFAULT_INTERVAL = 1000  # of lines of statistics, in updates: fairseq up to 0.9
OUR_TASK = "aiayn_translation"


class Fact(NamedTuple):
    """A fact: a quantity, its value, and the file and line that state the value.

    The quantity for an argument KEY of fairseq is called train.KEY or generate.KEY. A quantity that
    a line of a log states has the name of its field in templates.csv. A derived quantity gets its
    name in the module `derived.py`.
    """

    quantity: str
    value: Value
    path: str
    line: int


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a file, or the rest of a file, is not read. The line number `line` is 0 if the
    file could not be opened or read at all.
    """

    line: int
    text: str
    next_step: str = "copy the log again"


class Section(msgspec.Struct, kw_only=True):
    """The part of a log from one start of a program to the next start: the program's arguments, the
    facts that it prints, and a summary of the lines of statistics.

    The style in which fairseq prints the arguments (`form`) is `print` up to fairseq 0.9,
    `namespace` in 0.10, and `config` after 0.10 (up to 0.12, and in the fork). The dict `arguments`
    has the first value of each argument. The statistics of validations (`validations`) are stored
    by data set and update number, the statistics at the ends of epochs (`epochs`) by epoch number.
    Every `sample_step`-th line of statistics within an epoch is kept (`samples`). The dict
    `mentioned` has the values of facts about unknown, incomplete or contradicting lines, and limits
    their number. The dict `symbols` has the training's arguments as the paper's symbols. The dev
    set (`dev_subset`), whose perplexity is used, is the first data set in fairseq's --valid-subset.
    The folder of the checkpoints (`save_folder`) is the value of fairseq's --save-dir. The language
    pair, such as `en-de`, comes from the arguments, or else from the order of the dictionaries in
    the log. The list `averaged_paths` has the checkpoints that were averaged. The clock times
    `first_time` and `last_time` are in ISO format without time zone, '' if the log has no times.
    """

    path: str
    program: Program
    line: int
    last_line: int = 0
    form: str = ""
    arguments: dict[str, Value] = {}
    facts: list[Fact] = []
    validations: dict[tuple[str, int], Statistics] = {}
    epochs: dict[int, Statistics] = {}
    log_format: str = ""
    first_update: int | None = None
    first_epoch: int | None = None
    last_update: int = 0
    num_inner: int = 0
    samples: list[Statistics] = []
    sample_step: int = 1
    mentioned: dict[str, list[Value]] = {}
    first_time: str = ""
    last_time: str = ""
    num_hypotheses: int = 0
    num_marked: int = 0
    cut_line: int | None = None
    copied_in: list[str] = []
    symbols: dict[str, Value] = {}
    save_folder: str = "checkpoints"
    dev_subset: str = "valid"
    language_pair: str = ""
    averaged_paths: list[str] = []

    @property
    def name(self) -> str:
        """The name of the section: its log file, with the line number at which the section begins,
        unless this is line 1.
        """
        return self.path if self.line == 1 else f"{self.path}:{self.line}"

    @property
    def is_ours(self) -> bool:
        """Whether `aiayn train` started this training."""
        return self.arguments.get("task") == OUR_TASK

    @property
    def reach(self) -> int:
        """The last update that the training may have reached in this section of the log: the last
        printed, saved or loaded update plus one log interval, because updates after the last line
        are not printed.
        """
        # A checkpoint may be saved after the last line of statistics, and a start that failed early
        # has only the checkpoint that it loaded.
        states = [*self.values("saved_updates"), *self.values("resumed_updates")]
        interval = whole(self.arguments.get("log_interval")) or DEFAULT_INTERVAL
        return max([self.last_update, *(whole(update) or 0 for update in states)]) + interval

    def find(self, quantity: str) -> Fact | None:
        """Return the last fact in the section about a quantity, or None if no line states the
        quantity.
        """
        for fact in reversed(self.facts):
            if fact.quantity == quantity:
                return fact
        return None

    def value(self, quantity: str) -> Value:
        """Return the last value in the section of a quantity, or None if no line states the
        quantity.
        """
        fact = self.find(quantity)
        return None if fact is None else fact.value

    def whole(self, quantity: str) -> int | None:
        """Return the last value in the section of a quantity if this value is a whole number,
        otherwise None.
        """
        return whole(self.value(quantity))

    def real(self, quantity: str) -> float | None:
        """Return the last value in the section of a quantity if this value is a number, otherwise
        None.
        """
        return real(self.value(quantity))

    def values(self, quantity: str) -> list[Value]:
        """Return all values of a quantity in the section, in the order of their lines."""
        return [fact.value for fact in self.facts if fact.quantity == quantity]

    def fact(self, quantity: str, value: Value, line: int = 0) -> Fact:
        """Return a new fact about a line of the section. The line is the section's first line if
        `line` is 0.
        """
        return Fact(quantity, value, self.path, line or self.line)

    def state(self, quantity: str, value: Value, line: int = 0) -> None:
        """Add a fact to the section."""
        self.facts.append(self.fact(quantity, value, line))

    def line_of(self, quantity: str) -> int:
        """Return the line number of the last fact in the section about a quantity, 0 if no line
        states the quantity.
        """
        fact = self.find(quantity)
        return 0 if fact is None else fact.line

    def mention(self, quantity: str, value: Value, line: int, most: int = MAX_MENTIONED) -> None:
        """Add a fact about a line, unless the section already has a fact with the same quantity and
        value, or the maximum number `most` of facts about this quantity.
        """
        values = self.mentioned.setdefault(quantity, [])
        if len(values) < most and value not in values:
            values.append(value)
            self.state(quantity, value, line)


class LogFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one log file. The field `refusal` says why the file was not read, or not
    completely.
    """

    path: str
    num_lines: int
    sections: tuple[Section, ...] = ()
    refusal: Refusal | None = None


def perplexity_of(nll_bits: float | None) -> float | None:
    """Return the perplexity for a loss in bits per subword, or None for a loss that is absent,
    negative or too large.
    """
    if nll_bits is None or not 0 <= nll_bits < MAX_BITS:
        return None
    return float(2.0**nll_bits)


def normal_path(path: Value) -> str:
    """Return a path with forward slashes and without "./" at its beginning. Backslashes of Windows
    paths are converted.
    """
    # A backslash is part of a name on Linux, unless the path has no slash at all.
    text = str(path)
    return posixpath.normpath(text if "/" in text else text.replace("\\", "/"))


def models_of(model_path: str) -> list[str]:
    """Return the paths of checkpoints in the value of fairseq's option --path. Paths are separated
    by colons, but the colon after a drive letter (`C:`) is part of a Windows path.
    """
    # Not after the drive letter of the first path, and not after a drive letter that follows a
    # colon, as in `C:\a.pt:D:\b.pt`.
    return re.split(r"(?<!^[A-Za-z]):|(?<=:[A-Za-z]):(?![\\/])", model_path)


def is_same_place(first: str, second: str) -> bool:
    """Return whether two paths are equal, or one path is the end of the other path, such as
    run/a.pt and /home/run/a.pt.
    """
    # `.`, the folder of the log, is not the end of any path.
    if "." in (first, second):
        return first == second
    return first == second or first.endswith(f"/{second}") or second.endswith(f"/{first}")


def whole(value: Value) -> int | None:
    """Return the value of a fact if it is a whole number, otherwise None."""
    # A bool is an int in Python, but a switch is not a number.
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def real(value: Value) -> float | None:
    """Return the value of a fact as a float if it is a number, otherwise None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def show(value: object) -> str:
    """Return a value as text for messages: thousands with commas, small numbers with three
    digits.
    """
    if value is None:
        return "none"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        # Larger numbers are not exact, so their digits would mean nothing.
        if value.is_integer() and abs(value) < 1e15:
            return f"{value:,.0f}"
        return f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}"
    return str(value)
