"""Defines the trainings and generations (runs of fairseq-generate) in a folder of logs, and the
systems of the paper that they are compared with.

The module `join.py` joins the sections of logs (each is one run of a program) into trainings and
generations, and adds the facts that follow from several lines. The package `aiayn.known_good` adds
to each of these trainings the row of the paper's table, the problems (wrong settings), and which
numbers the tables use.
"""

from collections.abc import Mapping

import msgspec

from aiayn.facts.statistics import Statistics
from aiayn.facts.types import Fact, LogFile, Section, Value, show, whole
from aiayn.printed import PAPER_SCALE
from aiayn.spec.system import TrainingSpec

ANY = "any"  # the value of a quantity that the target's scale does not fix
TargetValue = Value | tuple[Value, ...]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The system that a training is compared with: its scale, its language pair, and the expected
    value of each quantity.

    The dict `average_by_role` has the expected average of checkpoints, such as last5 (the last
    five), for the dev set and the test set.
    """

    scale: str
    system: str
    language_pair: str
    values: dict[str, TargetValue]
    average_by_role: dict[str, str]
    training: TrainingSpec

    @property
    def name(self) -> str:
        """The name of the system in messages, such as `base, en-de`, followed by the scale if it is
        not the paper's scale.
        """
        scale = "" if self.scale == PAPER_SCALE else f", {self.scale}"
        return f"{self.system}, {self.language_pair}{scale}"

    def values_of_role(self, role: str) -> Mapping[str, TargetValue]:
        """Return the expected values for a generation that translated the dev set, the test set, or
        a further test set, depending on `role`.
        """
        # Values are compared by the name of their quantity, so the role is removed from the names.
        values = dict(self.values)
        values["num_sentences"] = values.get(f"{role}_sentences", ANY)
        values["average"] = self.average_by_role.get(role, ANY)
        # A further test set has a different length, and the tables have no row for it.
        if role not in ("dev", "test"):
            values["reference_tokens"] = ANY
        return values


class Problem(msgspec.Struct, frozen=True):
    """A difference between a log and the system that it is compared with: a quantity, its value,
    the expected value, and the file and line. Messages show `words` in place of the quantity.

    The tuple `keeps_out` lists the numbers of the log that the tables do not use because of this
    problem. If the problem is only a note, `keeps_out` is empty. The field `is_stated` is False if
    no line of the log states the quantity.
    """

    quantity: str
    value: Value
    expected: str
    path: str = ""
    line: int = 0
    why: str = ""
    words: str = ""
    is_stated: bool = True
    keeps_out: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The location of the problem in the log as `file:line`, or '' if no line states the
        quantity.
        """
        return f"{self.path}:{self.line}" if self.line else self.path

    @property
    def name(self) -> str:
        """The quantity in messages."""
        return self.words or self.quantity

    @property
    def label(self) -> str:
        """The quantity that has the problem and its value, in a few words."""
        return f"{self.name} {show(self.value) if self.is_stated else 'not stated'}"

    @property
    def text(self) -> str:
        """The problem as a sentence."""
        if not self.is_stated:
            return f"{self.name} is not stated; expected {self.expected} ({self.why})"
        return f"{self.place}: {self.label}, expected {self.expected} ({self.why})"


class Training(msgspec.Struct, kw_only=True):
    """A training with all of its starts (runs of fairseq-train), in the order of their updates, and
    its generations (runs of fairseq-generate).

    The list `facts` has the facts of all starts and the derived facts. The validations on the dev
    set (`validations`) and the statistics of epochs (`epochs`) cover only the history of the final
    weights: if a start resumed from a checkpoint, the values that the previous start printed for
    later updates are left out. The set `places` has pairs of folders: a folder with a log of the
    training or a copy of the log, and the folder into which the training saved checkpoints.

    The package `aiayn.known_good`, which compares a log with the paper's settings, sets the fields
    from `target` on. The training fills the table row of the system `target`. If the training does
    not fill a row (`has_row` is false), `target` is the nearest system. The version of the code
    (`version`) is the commit of this project for a run of this project, otherwise fairseq's version
    if the log states it. The field `gpu` is the GPU model, if the log states exactly one. The GPU
    time `gpu_seconds` is the sum over all starts, None if the log does not cover all starts. The
    dict `stated` has all numbers of the training by metric, and `value_by_metric` only the numbers
    that the tables use. The set `filled` has the kinds of this training's numbers that the tables
    use: `train`, `ppl` (perplexity), `cost`.
    """

    sections: list[Section]
    facts: list[Fact] = []
    validations: list[Statistics] = []
    epochs: list[Statistics] = []
    copies: list[str] = []
    places: set[tuple[str, str]] = set()
    generations: list["Generation"] = []
    target: Target | None = None
    has_row: bool = False
    version: str = ""
    gpu: str = ""
    gpu_seconds: float | None = None
    problems: list[Problem] = []
    filled: set[str] = set()
    stated: dict[str, float] = {}
    value_by_metric: dict[str, float] = {}

    @property
    def name(self) -> str:
        """The log file in which the training begins, with the line number if the training does not
        begin in line 1.
        """
        return self.first.name

    @property
    def first(self) -> Section:
        """The section of the log with the first start of the training."""
        return self.sections[0]

    @property
    def last(self) -> Section:
        """The section of the log with the last start of the training."""
        return self.sections[-1]

    @property
    def seed(self) -> int | None:
        """The seed of the training's last start (run of fairseq-train)."""
        return whole(self.last.arguments.get("seed"))

    @property
    def final_validation(self) -> Statistics | None:
        """The validation at the training's last update, None if the last validation was earlier."""
        # An earlier validation measured other weights than the saved weights.
        newest = self.validations[-1] if self.validations else None
        return newest if newest and newest.update == self.last.last_update else None

    @property
    def row(self) -> Target | None:
        """The system of the table row that this training fills, or None."""
        return self.target if self.has_row else None


class Generation(msgspec.Struct, kw_only=True):
    """A generation (a run of fairseq-generate), its training if known, and the averagings that made
    its checkpoint.

    The path of the translated model's checkpoint, `model_path`, is normalised, and is '' if the log
    does not state it. The field `role` says which text was translated: dev, test, or fairseq's name
    for a further test set. The field `metric` is the definition of BLEU by which the translations
    were scored.

    The package `aiayn.known_good`, which compares a log with the paper's settings, sets the fields
    from `target` on. The problems of a generation (`problems`) include the problems of its
    training. A generation without a known training does not fill a row of a table. The field
    `value` is the BLEU if the tables use it, otherwise None.
    """

    section: Section
    model_path: str = ""
    role: str = ""
    metric: str = ""
    training: Training | None = None
    averagings: list[Section] = []
    facts: list[Fact] = []
    target: Target | None = None
    problems: list[Problem] = []
    value: float | None = None

    @property
    def name(self) -> str:
        """The log file of the generation, with the line number if the generation does not begin in
        line 1.
        """
        return self.section.name

    @property
    def bleu(self) -> float | None:
        """The BLEU in the log of the generation, in percent."""
        return self.section.real("bleu")


class JoinedLogs(msgspec.Struct, kw_only=True):
    """The content of a folder of logs: the files by their path below the folder, trainings with
    their generations (runs of fairseq-generate), generations without a known training, and
    averagings of checkpoints.
    """

    file_by_path: dict[str, LogFile]
    trainings: list[Training]
    others: list[Generation]
    averagings: list[Section]

    @property
    def generations(self) -> list[Generation]:
        """All generations in the folder: first the generations with a training, in the order of the
        trainings, then the generations without a training.
        """
        listed = [entry for training in self.trainings for entry in training.generations]
        return [*listed, *self.others]
