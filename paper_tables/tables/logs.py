"""Lays out Tables 2 and 3 from logs: the printed rows, and under each the lines of logs.

Under each printed row is a line for each configuration that was trained, named by its differences from the row;
its numbers are means over seeds. No difference to a printed BLEU is taken: fairseq's own BLEU is of another definition.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from aiayn.cost import training_flops
from aiayn.printed import COLUMNS_BY_TABLE, PAPER_SCALE, PERPLEXITY_METRIC, read_cells, read_table
from aiayn.spec.hardware import HardwareSpec
from analysis.logs.averages import AveragedLine
from analysis.logs.logged import LoggedTraining
from paper_tables.layout import (
    DASH,
    MARK_BY_SCALE,
    NAME_BY_PAIR,
    Aside,
    Cell,
    CellProvenance,
    Column,
    Note,
    Part,
    Row,
    Source,
    Table,
    blank_cell,
    format_seeds,
    format_value,
    printed_by_column,
    row_by_column,
    text_cell,
)
from paper_tables.tables.table2 import group_of as table2_group
from paper_tables.tables.table3 import SYMBOL_BY_COLUMN
from paper_tables.tables.table3 import group_of as table3_group

DEFINITION = "definition"
NOTHING_OF_TABLE_2 = "Logs without a BLEU of a test set, and without a GPU whose rate is known"
DEFINITION_NOTES = (
    "bleu_as_given: fairseq-generate's BLEU4, on the data's tokens as they stand, compounds unsplit; on text that was "
    "tokenised otherwise it is another number. fairseq's length penalty is n^alpha, not GNMT's ((5 + n) / 6)^alpha.",
    "bleu_sacre_13a_of_detokenised: sacreBLEU 13a of --eval-bleu, hypothesis and reference both detokenised from the "
    "data's tokens; bleu_sacre_on_tokens: the same on tokens.",
)


def lay_out_logged_table2(lines: Sequence[AveragedLine], hardware: HardwareSpec) -> Table:
    """Return Table 2: printed rows, and under base and big the lines of logs with the BLEU on test and the cost."""
    columns, joins = _columns_of_table2(), read_cells()

    def logged(name: str) -> list[Row]:
        systems = {join.system for join in joins if (join.table, join.row) == (2, name)}
        return [_table2_row(line, columns, hardware) for line in lines if line.row.system in systems]

    return Table(
        name="table2",
        title="Table 2, from logs",
        caption="BLEU on the test sets and training cost: printed, and from logs alone. A number of a log has "
        "the name of its definition and is never subtracted from a printed one, which is of another.",
        columns=columns,
        rows=_rows(2, columns, table2_group, logged),
        notes=(*_scale_notes(lines), *(Note("", text) for text in DEFINITION_NOTES), *_cost_notes(lines, hardware)),
    )


def _rows(
    table: int, columns: Sequence[Column], group_of: Callable[[str], str], logged: Callable[[str], list[Row]]
) -> tuple[Row, ...]:
    """Return every printed row, and under it the lines of logs that are of it."""
    printed = read_table(table)
    rows = []
    for name in dict.fromkeys(cell.row for cell in printed):
        as_printed = Row(row_by_column(columns, printed_by_column(printed, name)))
        rows += [replace(row, group=group_of(name)) for row in (as_printed, *logged(name))]
    return tuple(rows)


def _columns_of_table2() -> tuple[Column, ...]:
    columns = [Column("model", "Model", side="label")]
    for pair, name in NAME_BY_PAIR.items():
        bleu, group = f"bleu_{pair.replace('-', '_')}", f"BLEU {name}"
        columns += [
            Column(bleu, "printed", group),
            Column(f"{bleu}_logs", "from logs", group, "ours"),
            Column(f"{bleu}_{DEFINITION}", DEFINITION, group, "ours"),
        ]
    group = "Training Cost (FLOPs)"
    columns += [Column(f"flops_{p.replace('-', '_')}", f"printed {name}", group) for p, name in NAME_BY_PAIR.items()]
    columns += [
        Column(f"flops_{p.replace('-', '_')}_logs", f"from logs {name}", group, "ours")
        for p, name in NAME_BY_PAIR.items()
    ]
    return tuple(columns)


def _table2_row(line: AveragedLine, columns: Sequence[Column], hardware: HardwareSpec) -> Row:
    pair = line.language_pair.replace("-", "_")
    bleu, definition = _bleu_cells(line, "test")
    cost_by_path = {one.path: cost for one in line.trainings if (cost := _cost(one, hardware)) is not None}
    ours = {
        f"bleu_{pair}_logs": bleu,
        f"bleu_{pair}_{DEFINITION}": definition,
        f"flops_{pair}_logs": _number_cell(line, "training cost", "training_flops", cost_by_path),
    }
    is_empty = all(cell.kind != "ours" for cell in ours.values())
    name = _label_cell(line)
    aside = Aside(f"{name.parts[0].text}, {line.language_pair}", NOTHING_OF_TABLE_2) if is_empty else None
    return Row(row_by_column(columns, {"model": name, **ours}), "ours", aside)


def _marks(line: AveragedLine) -> tuple[str, ...]:
    return () if line.row.scale == PAPER_SCALE else (MARK_BY_SCALE[line.row.scale],)


def _label_cell(line: AveragedLine) -> Cell:
    words = "; ".join((line.row.system, *line.configuration))
    return text_cell(f"logs: {words}", "label", *_marks(line))


def _bleu_cells(line: AveragedLine, role: str) -> list[Cell]:
    """Return the BLEU of a role and its definition; several definitions or settings are side by side."""
    by_definition = line.evaluations(role)
    if not by_definition:
        return [text_cell(DASH, "state"), blank_cell()]
    values, definitions, sources = [], [], []
    for (metric, settings), evaluations in by_definition.items():
        text = format_seeds([one.value for one in evaluations], metric, len(line.trainings))
        values.append(Part(text, _marks(line)))
        sources += [(one.path, f"{one.value:.2f}") for one in evaluations]
        definitions.append(Part("; ".join(filter(None, (metric, settings)))))
    provenance = _provenance(line, f"BLEU ({role})", sources)
    return [Cell(tuple(values), "ours", provenance=provenance), Cell(tuple(definitions), "label")]


def _provenance(line: AveragedLine, of: str, value_by_path: Sequence[tuple[str, str]]) -> CellProvenance:
    """Return the logs of a number, each with its own value; seed and GPU are those of the training."""
    training_by_path = {training.path: training for training in line.trainings}
    sources = []
    for path, value in value_by_path:
        training = training_by_path.get(path)
        seed = training.seed if training else None
        gpu = training.log.gpu if training else ""
        sources.append(Source(path, seed if isinstance(seed, int) else None, value, hardware=gpu or ""))
    return CellProvenance(f"{of} of {line.row.system}, {line.language_pair}, from logs", tuple(sources))


def _number_cell(line: AveragedLine, of: str, metric: str, value_by_path: Mapping[str, float]) -> Cell:
    """Return the cell of a number over the logs that have it; a dash if none has."""
    if not value_by_path:
        return text_cell(DASH, "state", *_marks(line))
    text = format_seeds(list(value_by_path.values()), metric, len(line.trainings))
    values = [(path, format_value(value, metric)) for path, value in value_by_path.items()]
    return replace(text_cell(text, "ours", *_marks(line)), provenance=_provenance(line, of, values))


def _cost(training: LoggedTraining, hardware: HardwareSpec) -> float | None:
    """Return footnote 5's cost: GPU seconds x sustained rate; None where the log lacks one of them."""
    gpu = hardware.find_gpu(training.log.gpu) if training.log.gpu else None
    if gpu is None or training.gpu_seconds is None:
        return None
    return training_flops(training.gpu_seconds, gpu.sustained_flops_per_second.value)


def _cost_notes(lines: Sequence[AveragedLine], hardware: HardwareSpec) -> list[Note]:
    """Return which GPUs are not known, and that a log without seconds of all its starts has no cost."""
    gpus = {training.log.gpu for line in lines for training in line.trainings if training.log.gpu}
    notes = [
        Note("", f"{gpu}: not in hardware.yaml, so no cost; add its sustained rate there.")
        for gpu in sorted(gpus)
        if hardware.find_gpu(gpu) is None
    ]
    return [*notes, Note("", "Cost: seconds of all starts x GPUs x sustained rate of the GPU that the log names.")]


def _scale_notes(lines: Sequence[AveragedLine]) -> list[Note]:
    scales = dict.fromkeys(line.row.scale for line in lines if line.row.scale != PAPER_SCALE)
    text = "another corpus and smaller systems than the paper's; no reproduction of its number."
    return [Note(MARK_BY_SCALE[scale], f"Trained at scale {scale}: {text}") for scale in scales]


def lay_out_logged_table3(lines: Sequence[AveragedLine]) -> Table:
    """Return Table 3: printed rows, and under each the lines of logs with every value really used."""
    columns: list[Column] = []
    for column in COLUMNS_BY_TABLE[3]:
        columns.append(Column(column.name, column.heading, side="label" if column.kind == "label" else "printed"))
        if column.name == "bleu_dev":
            columns.append(Column(DEFINITION, DEFINITION, side="ours"))

    def logged(name: str) -> list[Row]:
        return [
            _table3_row(line, columns) for line in lines if (line.row.system, line.language_pair) == (name, "en-de")
        ]

    return Table(
        name="table3",
        title="Table 3, from logs",
        caption="Variations on the architecture, EN-DE, on the dev set (the paper's: newstest2013): printed, and from "
        "logs alone. Perplexity is 2 to the nll_loss of the validation at the last update, per subword of the log's "
        "own vocabulary: it compares with other lines of the same data, not with the printed one.",
        columns=tuple(columns),
        rows=_rows(3, columns, table3_group, logged),
        notes=(*_scale_notes(lines), *(Note("", text) for text in DEFINITION_NOTES)),
    )


def _table3_row(line: AveragedLine, columns: Sequence[Column]) -> Row:
    symbols, marks = line.trainings[0].symbols, _marks(line)
    bleu, definition = _bleu_cells(line, "dev")
    cells = {
        "label": _label_cell(line),
        **{
            column: text_cell(str(symbols.get(name, DASH)), "ours", *marks) for column, name in SYMBOL_BY_COLUMN.items()
        },
        "train_steps": _metric_cell(line, "steps"),
        "ppl_dev": _metric_cell(line, PERPLEXITY_METRIC),
        "bleu_dev": bleu,
        DEFINITION: definition,
        "params": _metric_cell(line, "num_parameters"),
    }
    return Row(row_by_column(columns, cells), "ours")


def _metric_cell(line: AveragedLine, metric: str) -> Cell:
    trainings = [one for one in line.trainings if metric in one.value_by_metric]
    return _number_cell(line, metric, metric, {one.path: one.value_by_metric[metric] for one in trainings})
