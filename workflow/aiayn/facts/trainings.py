"""Defines the trainings and generations of a folder, and what they are compared with.

`join.py` joins the sections of logs into trainings and generations, and adds the facts that follow
from several lines. A generation is a run of fairseq-generate. `aiayn.known_good` adds the row of
the paper, the problems, and which numbers the tables use.
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
    """What a training is compared with: a system of a scale and language pair, with the expected
    value of each quantity.

    `average_by_role` maps a role (`dev` or `test`) to the expected average of checkpoints, such as
    `last5`.
    """

    scale: str
    system: str
    language_pair: str
    values: dict[str, TargetValue]
    average_by_role: dict[str, str]
    training: TrainingSpec

    @property
    def name(self) -> str:
        """The name in messages, such as `base, en-de`, with the scale if it is not the paper's."""
        scale = "" if self.scale == PAPER_SCALE else f", {self.scale}"
        return f"{self.system}, {self.language_pair}{scale}"

    def values_of_role(self, role: str) -> Mapping[str, TargetValue]:
        """Return the values for a generation of a test set of this role."""
        # Values are compared by the name of their quantity, so the role is removed from the names.
        values = dict(self.values)
        values["num_sentences"] = values.get(f"{role}_sentences", ANY)
        values["average"] = self.average_by_role.get(role, ANY)
        # A further test set has a different length, and the tables have no row for it.
        if role not in ("dev", "test"):
            values["reference_tokens"] = ANY
        return values


class Problem(msgspec.Struct, frozen=True):
    """A difference between a log and its target: a quantity, its value, the expected value, and the
    file and line.

    `keeps_out` lists the numbers that the tables do not use because of this problem. It is empty if
    the problem is only a note. `is_stated` is False if no line states the quantity.
    """

    quantity: str
    value: Value
    expected: str
    path: str = ""
    line: int = 0
    why: str = ""
    is_stated: bool = True
    keeps_out: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The location as `file:line`, or '' if no line states the quantity."""
        return f"{self.path}:{self.line}" if self.line else self.path

    @property
    def label(self) -> str:
        """The quantity and its value, in a few words."""
        return f"{self.quantity} {show(self.value) if self.is_stated else 'not stated'}"

    @property
    def text(self) -> str:
        """The problem as a sentence."""
        if not self.is_stated:
            return f"{self.quantity} is not stated; expected {self.expected} ({self.why})"
        return f"{self.place}: {self.label}, expected {self.expected} ({self.why})"


class Training(msgspec.Struct, kw_only=True):
    """A training with all of its starts, in the order of their updates, and its generations.

    `name` is the file in which the training begins, with the line number if the training is not the
    first section of the file. `facts` has the facts of all starts and the derived facts.
    `validations` (on the dev set) and `epochs` cover only the history of the final weights: if a
    start resumed from a checkpoint, later values of the previous start are left out.
    `final_validation` is the validation at the training's last update, if there was one. `places`
    are pairs of a folder with a log, or a copy of it, and the save folder.

    `aiayn.known_good` sets the other fields. If `has_row`, `target` is the training's row,
    otherwise the nearest row. `version` is the commit of this project for our runs, otherwise
    fairseq's version if the log states it. `gpu` is the kind of GPU, if the log states exactly one.
    `gpu_seconds` is the sum over all starts, None if the log does not cover all starts. `stated`
    contains all numbers by metric, `value_by_metric` the numbers that the tables use. `filled`
    contains the kinds of numbers that the tables use: `train`, `ppl`, `cost`.
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
        """The file of its log, with the line if needed."""
        return self.first.name

    @property
    def first(self) -> Section:
        """The section that the training began with."""
        return self.sections[0]

    @property
    def last(self) -> Section:
        """The section that the training ended with."""
        return self.sections[-1]

    @property
    def seed(self) -> int | None:
        """The seed of the last start."""
        return whole(self.last.arguments.get("seed"))

    @property
    def final_validation(self) -> Statistics | None:
        """The validation at the training's last update, if there was one."""
        # An earlier validation measured other weights than the saved weights.
        newest = self.validations[-1] if self.validations else None
        return newest if newest and newest.update == self.last.last_update else None

    @property
    def row(self) -> Target | None:
        """The table row of the training, or None."""
        return self.target if self.has_row else None


class Generation(msgspec.Struct, kw_only=True):
    """A generation, its training if known, and the averagings that made its checkpoint.

    `model_path` is the normalised path of the checkpoint, '' if the log does not state it. `role`
    is `dev`, `test`, or the subset's own name. `metric` is the definition of its BLEU.

    `aiayn.known_good` sets the other fields. `problems` includes the problems of its training. A
    generation without a training does not have a row. `value` is the BLEU if the tables use it,
    otherwise None.
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
        """The file of its log, with the line if needed."""
        return self.section.name

    @property
    def bleu(self) -> float | None:
        """The printed BLEU in percent."""
        return self.section.real("bleu")


class JoinedLogs(msgspec.Struct, kw_only=True):
    """The content of a folder: files by their path below it, trainings with their generations,
    generations without a training, and averagings.
    """

    file_by_path: dict[str, LogFile]
    trainings: list[Training]
    others: list[Generation]
    averagings: list[Section]

    @property
    def generations(self) -> list[Generation]:
        """All generations: first the generations of the trainings, in the order of the trainings,
        then the others.
        """
        listed = [entry for training in self.trainings for entry in training.generations]
        return [*listed, *self.others]
