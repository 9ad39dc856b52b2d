"""Defines the frame of a scale, from which its tables are made: the paper's numbers, our numbers
over seeds, the verdicts (is a number of the paper reproduced?), and the runs from which our numbers
are computed.

`paper_tables.make_frame` makes a frame from the records of a scale, `paper_tables.logs.frame` makes
a frame from logs. Tables and figures read only the frame, never the files of records or logs. To
find the origin of a number: a `Number` contains a value for each seed, each value has its `Run`,
and the run contains its record or the path of its log.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from aiayn.paths import CellKey
from aiayn.printed import COMPARED_AVERAGE, COMPARED_ROLE
from aiayn.records import BaselineRecords, TrainRecord, read_trained
from aiayn.runs.status import RunStatus
from aiayn.scoring.verdict import Corrected, Verdict
from aiayn.spec.hardware import HardwareSpec
from aiayn.spec.sheet import SheetRow
from aiayn.spec.system import CorpusSpec, SystemSpec, TrainingSpec

Made = TypeVar("Made")


# Cached properties are stored in the dict of an object. A struct has a dict only with `dict=True`.
class Run(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A training, from the scale's sheet (the list of trainings) or from a log.

    `status.run` is the name of the run, or the path of the log. `train` is the record of a finished
    training. `train` is None for a log, and for a training that is unfinished or was made with a
    different spec. `commit` and `hardware` are '' if they were not recorded. `bits_by_update` are
    the bits per subword on dev in the run's log, empty if there is no log.
    """

    corpus: str
    system: str
    seed: int | None
    status: RunStatus
    train: TrainRecord | None = None
    commit: str = ""
    hardware: str = ""
    bits_by_update: dict[int, float] = {}

    @functools.cached_property
    def trained_as(self) -> TrainingSpec | None:
        """The spec with which the run was trained. None if its record contains keys or values that
        this version of `aiayn` does not know.
        """
        return read_trained(self.train) if self.train else None

    @property
    def word(self) -> str:
        """The reason why the training has no value yet, in one or two words."""
        # A finished training without a value was not scored yet, or the record of the score is
        # stale.
        if self.status.state != "finished":
            return self.status.state
        return "not scored"


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """Our number for one metric of a cell (a system on a test set): a value for each seed that was
    run.

    `values` are pairs of a run and its value, in the order of the seeds. `missing` has a word for
    each run without a value. The word is '' (shown as a dash) if the metric does not exist for the
    run. `quantity` describes in words what was measured. `mark` is the footnote mark of the scale,
    '' if the number was measured under the paper's conditions. `settings` are the settings of the
    beam search that a log states next to its BLEU.
    """

    key: CellKey
    metric: str
    quantity: str
    mark: str = ""
    values: tuple[tuple[Run, float], ...] = ()
    missing: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    settings: str = ""

    @property
    def marks(self) -> tuple[str, ...]:
        """The footnote mark of the number as a tuple, which is empty if the number has no mark."""
        return (self.mark,) if self.mark else ()

    @property
    def seed_values(self) -> list[float]:
        """The values of the number without their runs, in the order of the seeds."""
        return [value for _, value in self.values]

    @property
    def value_by_seed(self) -> dict[int, float]:
        """The values of the number by seed. Values of runs with an unknown seed are left out."""
        # A foreign log may not state its seed.
        return {run.seed: value for run, value in self.values if run.seed is not None}


Numbers = dict[tuple[CellKey, str], Number]  # by cell and metric


class PrintedCell(msgspec.Struct, frozen=True, kw_only=True):
    """A number in one version (`edition`) of the paper, our number for it, and the verdict (is it
    reproduced?).

    `table` is the table of the number: `2`, `3` or `replications`. `number` is None if the scale
    does not run the system. The test set of `key` is '' if the scale does not use this corpus.
    `corrected` is the verdict after Holm's correction over all cells, None if the rule for verdicts
    was not applied.
    """

    table: str
    row: str
    column: str
    edition: str
    printed: str
    key: CellKey
    metric: str
    number: Number | None
    verdict: Verdict
    corrected: Corrected | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Our numbers for one row of Table 2 or 3.

    Without a `label` our numbers are shown in the paper's row itself. With a `label` our numbers
    are a separate row below the paper's row. The keys of `numbers` are columns. If a column has
    several numbers, they are the same quantity in several definitions. `settings` are the
    hyper-parameters that were used, by their names in the spec of a training.
    """

    table: int
    row: str
    numbers: dict[str, tuple[Number | None, ...]]
    label: str = ""
    marks: tuple[str, ...] = ()
    settings: dict[str, object] = {}


def group_runs(runs: Iterable[Run]) -> dict[tuple[str, str], list[Run]]:
    """Return runs grouped by corpus and system, each group in the order of its seeds."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.corpus, run.system), []).append(run)
    for group in groups.values():
        # Logs come in the order of their files, and a foreign log may not state its seed.
        group.sort(key=lambda run: run.seed or 0)
    return groups


def is_bleu(metric: str) -> bool:
    """Return whether a metric is a BLEU. The rule for verdicts applies only to BLEU, because the
    rule's margin is in BLEU.
    """
    # All definitions of BLEU begin like this, such as `bleu_sacre_13a`.
    return metric.startswith("bleu_")


class Frame(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All results of one scale that tables and figures show.

    `rows` are the rows of the scale's sheet (its list of trainings). `runs` are the trainings in
    the sheet, in the same order. `later_runs` and `later_numbers` come from trainings that were
    requested only by a decision (workflow/decisions/), after the results of the other seeds had
    been seen. The paper's rows, conclusions and verdicts do not use these later trainings.
    `record_by_stage` has the records of the stages that wings (optional packages) add, by verb. A
    frame made from logs (`is_of_logs`) has only `lines` and `notes`. The keys of `notes` are names
    of tables.
    """

    scale: str
    hardware: HardwareSpec
    cells: tuple[PrintedCell, ...] = ()
    lines: tuple[Line, ...] = ()
    numbers: Numbers = {}
    runs: tuple[Run, ...] = ()
    later_numbers: Numbers = {}
    later_runs: tuple[Run, ...] = ()
    system_by_name: dict[str, SystemSpec] = {}
    corpora: dict[str, CorpusSpec] = {}
    corpus_by_pair: dict[str, str] = {}
    vocabulary_sizes_by_corpus: dict[str, dict[str, int]] = {}
    rows: tuple[SheetRow, ...] = ()
    baselines: tuple[BaselineRecords, ...] = ()
    record_by_stage: dict[str, Any] = {}
    runs_folder: str = ""
    is_of_logs: bool = False
    notes: dict[str, tuple[str, ...]] = {}

    @functools.cached_property
    def judged(self) -> list[PrintedCell]:
        """The cells with a BLEU of the paper. The rule for verdicts applies only to cells with a
        BLEU.
        """
        return [cell for cell in self.cells if is_bleu(cell.metric)]

    @functools.cached_property
    def keys(self) -> list[CellKey]:
        """The keys of the evaluated cells (a system on a test set), in the order of the sheet (the
        list of trainings).
        """
        # A dict keeps the order of insertion, a set does not.
        return list(dict.fromkeys(key for key, _ in self.numbers))

    @functools.cached_property
    def runs_by_system(self) -> dict[tuple[str, str], list[Run]]:
        """The runs of the scale by corpus and system, in order of seed."""
        return group_runs(self.runs)

    def once(self, make: Callable[["Frame"], Made]) -> Made:
        """Return the result of `make` for this frame. `make` is called once, and its result is
        cached.
        """
        # Several tables need the same result, for example the contrasts of the conclusions. The
        # frozen struct cannot have a field for it, because wings define such results. The key is
        # the function itself. A lambda that is created at each call would never be found again.
        results_by_function = self.__dict__.setdefault("made", {})
        if make not in results_by_function:
            results_by_function[make] = make(self)
        result: Made = results_by_function[make]
        return result

    def trained(self, key: CellKey) -> list[Run]:
        """Return the finished runs of the system that a cell is about."""
        runs = self.runs_by_system.get((key.corpus, key.system), [])
        return [run for run in runs if run.train is not None]

    def find(
        self, language_pair: str, system: str, average: str, role: str, corpus: str = ""
    ) -> CellKey:
        """Return the key of the cell for a system, an average of checkpoints and the use of a test
        set (`role`: dev or test). Without `corpus`, the corpus of this scale for the language pair
        is used.

        If the scale does not evaluate this cell, the test set in the key is ''.
        """
        corpus = corpus or self.corpus_by_pair[language_pair]
        for key in self.keys:
            # A corpus has one test set for the role dev, and one for the role test.
            if (key.corpus, key.system, key.average, key.role) == (corpus, system, average, role):
                return key
        # The cell still exists without an evaluation: the printed number is shown, and ours is "not
        # run".
        return CellKey(
            corpus=corpus,
            system=system,
            average=average,
            testset="",
            role=role,
            language_pair=language_pair,
        )

    def compared(self, system: str) -> CellKey:
        """Return the key of the cell (corpus, average, test set) in which a variant, an
        architecture or a row of Table 3 is compared with base.
        """
        return self.find("en-de", system, COMPARED_AVERAGE, COMPARED_ROLE)

    def number(self, key: CellKey, metric: str) -> Number | None:
        """Return our number in a metric for a cell, or None if the scale does not evaluate the
        cell.
        """
        return self.numbers.get((key, metric))
