"""What one line of published/*.csv holds: the printed columns, cells, joins and replications, as typed rows.

`published` reads and checks the files; this module says what may stand in them (see published/README.md).
"""

import re
from typing import Annotated, Literal, NamedTuple

import msgspec

from aiayn.errors import TableError

VALUE_BY_SUFFIX = {"": 1.0, "K": 1000.0}  # Table 3 prints train steps as 100K and 300K

Edition = Literal["neurips2017", "arxiv", "both"]
LanguagePair = Literal["en-de", "en-fr"]
Average = Literal["last1", "last5", "last10", "last20"]
Role = Literal["dev", "test"]
Metric = Literal[
    "bleu_tok_compound_split",
    "bleu_tok_moses",
    "bleu_as_given",
    "ppl_per_subword",
    "num_parameters",
    "training_flops",
    "steps",
]
_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Count = Annotated[int, msgspec.Meta(ge=1)]


class PublishedColumn(NamedTuple):
    """A column of a printed table: its name here, its printed heading, and what stands in it.

    `label` names the row, `symbolic` is a formula (Table 1), `setting` a hyper-parameter, `measured` a result.
    """

    name: str
    heading: str
    kind: Literal["label", "symbolic", "setting", "measured"]


COLUMNS_BY_TABLE: dict[int, tuple[PublishedColumn, ...]] = {
    1: (
        PublishedColumn("layer_type", "Layer Type", "label"),
        PublishedColumn("complexity_per_layer", "Complexity per Layer", "symbolic"),
        PublishedColumn("sequential_operations", "Sequential Operations", "symbolic"),
        PublishedColumn("maximum_path_length", "Maximum Path Length", "symbolic"),
    ),
    2: (
        PublishedColumn("model", "Model", "label"),
        PublishedColumn("bleu_en_de", "BLEU EN-DE", "measured"),
        PublishedColumn("bleu_en_fr", "BLEU EN-FR", "measured"),
        PublishedColumn("flops_en_de", "Training Cost (FLOPs) EN-DE", "measured"),
        PublishedColumn("flops_en_fr", "Training Cost (FLOPs) EN-FR", "measured"),
    ),
    3: (
        PublishedColumn("label", "", "label"),
        PublishedColumn("N", "N", "setting"),
        PublishedColumn("d_model", "d_model", "setting"),
        PublishedColumn("d_ff", "d_ff", "setting"),
        PublishedColumn("h", "h", "setting"),
        PublishedColumn("d_k", "d_k", "setting"),
        PublishedColumn("d_v", "d_v", "setting"),
        PublishedColumn("P_drop", "P_drop", "setting"),
        PublishedColumn("eps_ls", "eps_ls", "setting"),
        PublishedColumn("train_steps", "train steps", "measured"),
        PublishedColumn("ppl_dev", "PPL (dev)", "measured"),
        PublishedColumn("bleu_dev", "BLEU (dev)", "measured"),
        PublishedColumn("params", "params x10^6", "measured"),
    ),
    4: (
        PublishedColumn("parser", "Parser", "label"),
        PublishedColumn("training", "Training", "label"),
        PublishedColumn("f1_wsj23", "WSJ 23 F1", "measured"),
    ),
}


class PublishedCell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One printed cell. One that covers several columns or rows stands at the first and names them all in `span`."""

    table: int
    row: _Name
    column: _Name
    value: _Name
    page: _Count
    edition: Edition
    span: str
    note: str

    @property
    def covered_columns(self) -> tuple[str, ...]:
        """The columns under which this cell is printed; one, unless `span` lists columns."""
        names = tuple(self.span.split())
        return names if self.column in names else (self.column,)

    @property
    def covered_rows(self) -> tuple[str, ...]:
        """The rows beside which this cell is printed; one, unless `span` lists rows."""
        names = tuple(self.span.split())
        return names if self.row in names else (self.row,)


class CellJoin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which evaluation of ours answers a printed cell; a printed 1 is worth `printed_unit` in the metric's unit."""

    table: int
    row: _Name
    column: _Name
    edition: Edition
    language_pair: LanguagePair
    system: _Name
    average: Average
    role: Role
    metric: Metric
    printed_unit: _Count


class RepeatedRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What others ran and our config repeats: a row that a scale may name under `replications`, and its evaluation."""

    row: _Name
    corpus: _Name
    language_pair: Literal["en-de", "en-fr", "en-es"]
    system: _Name
    average: Average
    role: Role
    testset: _Name


class PublishedReplication(RepeatedRun, frozen=True, kw_only=True):
    """A number that others printed at another scale, where it stands, and the conditions that our config repeats."""

    metric: Metric
    value: _Name
    printed_line: _Name
    source_repository: _Name
    source_commit: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]
    source_path: _Name
    paper: _Name
    num_seeds: _Count
    conditions: _Name


class PublishedSentence(RepeatedRun, frozen=True, kw_only=True):
    """A sentence that others translated: what they `reported` ('' if not to be had), what their program puts out."""

    sentence: _Name
    reported: str
    program_output: _Name
    program_run: _Name
    source_repository: _Name
    source_commit: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]
    source_path: _Name
    article: _Name


class PublishedExpectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A direction that the paper prints and any scale can be asked for: `system`'s dev metric against another's."""

    name: _Name
    statement: _Name
    system: _Name
    reference: _Name
    metric: Metric
    relation: Literal["above", "below"]
    source: _Name


class PublishedConclusion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the paper concludes from the cells of two rows in one column: how `row`'s number lies to `reference`'s.

    `sentence` is the paper's own, shortened; `statement` says it of the two rows.
    """

    name: _Name
    section: _Name
    sentence: _Name
    statement: _Name
    table: int
    row: _Name
    reference: _Name
    column: _Name
    edition: Edition
    relation: Literal["above", "below", "equivalent"]


def printed_number(value: str, place: str = "a printed cell") -> float:
    """Return the number that a printed string stands for, 100K being 100,000; a heading's unit (10^6) is not applied.

    Raises:
        TableError: the string is not a plain number; `place` says where it stands.
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?)(K?)", value)
    if match is None:
        raise TableError(f"{place}: {value!r} is not a number as printed (27.3, 3.3e18, 100K); compare with the paper")
    return float(match[1]) * VALUE_BY_SUFFIX[match[2]]
