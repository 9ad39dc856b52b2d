"""The cells of one scale, made once: what is printed, ours over its seeds, the verdict, and the
runs behind it.

`paper_tables.make_frame` fills a frame from the records of a scale, `paper_tables.logs.frame` from
logs. Tables and figures read a frame and nothing else. To follow a cell: a number of the page is a
`Number`, each of its values has its `Run`, and the run its record or its log.
"""

import functools
from collections.abc import Iterable
from typing import Any

import msgspec

from aiayn.paths import CellKey
from aiayn.printed import COMPARED_AVERAGE, COMPARED_ROLE
from aiayn.records import BaselineRecords, TrainRecord, read_trained
from aiayn.runs.log import read_training_bits, read_validations
from aiayn.scoring.runs import RunState
from aiayn.scoring.verdict import Corrected, Verdict
from aiayn.spec.hardware import HardwareSpec
from aiayn.spec.system import CorpusSpec, SystemSpec, TrainingSpec


class Run(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A training that was asked for, or one that a log is of: `state.run` is its name, or the path
    of the log.

    `train` is its record, None if it is not finished under the present spec, or of a log. `commit`
    and `hardware` are '' where they are not recorded. `word` says in a word or two why the training
    has no number.
    """

    corpus: str
    system: str
    seed: int | None
    state: RunState
    train: TrainRecord | None = None
    commit: str = ""
    hardware: str = ""

    @functools.cached_property
    def trained_as(self) -> TrainingSpec | None:
        """The spec that it was trained as; None if this version does not know its keys and
        values.
        """
        return read_trained(self.train) if self.train else None

    @functools.cached_property
    def bits_by_update(self) -> dict[int, float]:
        """The validations of a finished training, from its log: bits a subword on dev; empty
        without a log.
        """
        return read_validations(self.train.log_path) if self.train else {}

    @functools.cached_property
    def training_bits_by_update(self) -> dict[int, float]:
        """The bits a subword on training batches, from the log of a finished training; empty
        without a log.
        """
        return read_training_bits(self.train.log_path) if self.train else {}

    @property
    def word(self) -> str:
        """Why it has no number."""
        if self.state.status != "finished":
            return self.state.status
        return "not recorded" if self.train is None else "not scored"


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """A number of ours: one metric of a cell, over its seeds.

    `values` are in the order of their seeds; `missing` has a word for each run without one ('': the
    quantity does not exist for it, which is a dash). `quantity` says in words what the number is
    of; `mark` is the scale's, '' under the paper's own conditions. `settings` are those of a search
    that a log tells, beside its definition.
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
        """The mark, if there is one."""
        return (self.mark,) if self.mark else ()

    @property
    def value_by_seed(self) -> dict[int, float]:
        """The values of runs whose seed is known."""
        return {run.seed: value for run, value in self.values if run.seed is not None}


Numbers = dict[tuple[CellKey, str], Number]  # by cell and metric


class PrintedCell(msgspec.Struct, frozen=True, kw_only=True):
    """A printed number in one edition, ours beside it (None: not run at this scale), and the
    verdict.

    `table` is `2`, `3` or `replications`. The test set of `key` is '' where the scale has no such
    corpus. `corrected` is the verdict by Holm over all cells; None where the rule was not applied.
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
    """What is ours of a printed row of Table 2 or 3: beside it, or, with a `label`, in a line of
    its own below it.

    `numbers` are by column; several are of one quantity in several definitions. `settings` are the
    hyper-parameters really used, by their names in a spec.
    """

    table: int
    row: str
    numbers: dict[str, tuple[Number | None, ...]]
    label: str = ""
    marks: tuple[str, ...] = ()
    settings: dict[str, object] = {}


def group_runs(runs: Iterable[Run]) -> dict[tuple[str, str], list[Run]]:
    """Return runs by corpus and system, those of one in the order of their seeds."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.corpus, run.system), []).append(run)
    return {
        system: sorted(group, key=lambda run: run.seed or 0) for system, group in groups.items()
    }


def is_bleu(metric: str) -> bool:
    """Return whether the rule, whose margin is in BLEU, applies to a metric."""
    return metric.startswith("bleu_")


class Translations(msgspec.Struct, frozen=True):
    """The translations of a test set, a line a sentence, and the signature of the search that found
    them.
    """

    lines: tuple[str, ...]
    signature: str


class Frame(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All of one scale that tables and figures show.

    `numbers` are by cell and metric, `runs` in the order of the scale's lists. `later_numbers` and
    `later_runs` belong to the scale's `later_seeds`, which were added after the others had been
    looked at: no printed row, conclusion or verdict uses them. Of `variants` and `architectures`
    the scale names some of those that are `known`. What `is_of_logs` has lines alone, and `notes`
    by table. `dirty_evaluations` were made from a changed working tree.
    """

    scale: str
    hardware: HardwareSpec
    cells: tuple[PrintedCell, ...] = ()
    lines: tuple[Line, ...] = ()
    numbers: Numbers = {}
    runs: tuple[Run, ...] = ()
    later_numbers: Numbers = {}
    later_runs: tuple[Run, ...] = ()
    dirty_evaluations: tuple[tuple[CellKey, int], ...] = ()  # cell and seed
    system_by_name: dict[str, SystemSpec] = {}
    corpora: dict[str, CorpusSpec] = {}
    corpus_by_pair: dict[str, str] = {}
    vocabulary_sizes_by_corpus: dict[str, dict[str, int]] = {}
    variants: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    known: dict[str, tuple[str, ...]] = {}
    baselines: tuple[BaselineRecords, ...] = ()
    translations: dict[
        CellKey, dict[int, Translations]
    ] = {}  # by seed, of what is shown sentence by sentence
    record_by_stage: dict[str, Any] = {}  # of wings' stages, by verb
    runs_folder: str = ""
    num_row_seeds: int = 0  # that Table 3's rows are to have, and base beside them
    num_base_seeds: int = 0
    is_of_logs: bool = False
    notes: dict[str, tuple[str, ...]] = {}

    @functools.cached_property
    def judged(self) -> list[PrintedCell]:
        """The printed BLEUs, to which alone the rule applies."""
        return [cell for cell in self.cells if is_bleu(cell.metric)]

    @functools.cached_property
    def keys(self) -> list[CellKey]:
        """What is evaluated, in the order of the scale's lists."""
        return list(dict.fromkeys(key for key, _ in self.numbers))

    @property
    def num_scored(self) -> int:
        """How many evaluations, of one seed each, have a number that is not of the training
        alone.
        """
        scored = {
            (key, run.seed)
            for (key, _), one in self.numbers.items()
            if one.signatures
            for run, _ in one.values
        }
        return len(scored)

    @functools.cached_property
    def runs_by_system(self) -> dict[tuple[str, str], list[Run]]:
        """The runs by corpus and system, in order of seed."""
        return group_runs(self.runs)

    def trained(self, key: CellKey) -> list[Run]:
        """Return the finished runs of a cell's system."""
        return [
            run
            for run in self.runs_by_system.get((key.corpus, key.system), [])
            if run.train is not None
        ]

    def find(
        self, language_pair: str, system: str, average: str, role: str, corpus: str = ""
    ) -> CellKey:
        """Return the key of one of the paper's systems, or on another corpus; its test set is '' if
        it is not run.
        """
        corpus = corpus or self.corpus_by_pair[language_pair]
        for key in self.keys:
            if (key.corpus, key.system, key.average, key.role) == (corpus, system, average, role):
                return key
        return CellKey(
            corpus=corpus,
            system=system,
            average=average,
            testset="",
            role=role,
            language_pair=language_pair,
        )

    def compared(self, system: str) -> CellKey:
        """Return the key by which a variant, an architecture or a row of Table 3 is compared."""
        return self.find("en-de", system, COMPARED_AVERAGE, COMPARED_ROLE)

    def number(self, key: CellKey, metric: str) -> Number | None:
        """Return a number of ours; None if it is of nothing that is run here."""
        return self.numbers.get((key, metric))
