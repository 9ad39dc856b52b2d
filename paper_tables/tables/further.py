"""Lays out Table 4, which is only printed, the baselines, and the state of each run."""

from dataclasses import replace
from typing import Literal

from aiayn.printed import (
    BASELINE_ROLE,
    METRIC_BY_PAIR,
    REFERENCE_SYSTEM,
    evaluations_of,
    read_columns,
    read_table,
)
from paper_tables.frame import Frame, Number, Run
from paper_tables.layout import (
    DASH,
    NAME_BY_PAIR,
    SACRE_METRIC,
    Cell,
    CellKind,
    Column,
    Field,
    Note,
    Row,
    Table,
    anchor_of,
    columns_of,
    format_difference,
    format_value,
    label,
    label_field,
    our_field,
    row_by_column,
    rows_of,
    text_cell,
)
from paper_tables.tables.ours import complete, our_cell

CAPTION_OF_TABLE_4 = (
    "English constituency parsing, F1 on section 23 of the Wall Street Journal, as printed (arXiv"
    " edition only)."
)
KIND_BY_COLUMN_KIND: dict[str, CellKind] = {
    "symbolic": "formula",
    "label": "label",
    "measured": "printed",
}
NOTE_OF_TABLE_4 = "Ours: not run. Parsing is not part of this benchmark."


def lay_out_table4(frame: Frame) -> Table:  # called like every other table
    """Return Table 4, which has printed values only, the same at every scale."""
    columns, kind_by_column = [], {}
    for column in read_columns()[4]:
        side: Literal["label", "printed"] = "label" if column.kind == "label" else "printed"
        columns.append(Column(column.name, column.heading, side=side))
        kind_by_column[column.name] = KIND_BY_COLUMN_KIND[column.kind]
    cells_by_row: dict[str, dict[str, Cell]] = {}
    for cell in read_table(4):
        cells = cells_by_row.setdefault(cell.row, {})
        cells[cell.column] = text_cell(cell.value, kind_by_column[cell.column])
    return Table(
        name="table4",
        title="Table 4",
        caption=CAPTION_OF_TABLE_4,
        columns=tuple(columns),
        rows=tuple(Row(row_by_column(columns, cells)) for cells in cells_by_row.values()),
        notes=(Note("", NOTE_OF_TABLE_4),),
        summary=f"As printed. {NOTE_OF_TABLE_4}",
    )


def lay_out_baselines(frame: Frame) -> Table:
    """Return the scores of baselines, which need no training, and base's on the same test sets.

    The last row is the smallest lead of base: its lowest seed minus the best baseline.
    """
    values_by_column: dict[tuple[str, str], dict[str, float]] = {}  # then by baseline
    base_by_column: dict[tuple[str, str], Number | None] = {}
    for pair in NAME_BY_PAIR:
        roles = evaluations_of(pair, REFERENCE_SYSTEM)
        average = next(average for average, role in roles if role == BASELINE_ROLE)
        base_key = frame.find(pair, REFERENCE_SYSTEM, average, BASELINE_ROLE)
        for metric in (METRIC_BY_PAIR[pair], SACRE_METRIC):
            values_by_column[pair, metric] = {}
            base_by_column[pair, metric] = frame.number(base_key, metric)
    names: dict[str, None] = {}
    signatures = set()
    for record in frame.baselines:
        pair = frame.corpora[record.corpus].language_pair
        for name, scores in record.scores_by_baseline.items():
            names[name] = None
            for score in scores:
                if (pair, score.metric) in values_by_column:
                    values_by_column[pair, score.metric][name] = score.value
                    testset = f"{record.testset} ({record.corpus})"
                    signatures.add((score.metric, testset, score.signature))

    columns = [Column("baseline", "", side="label")]
    cells_by_name = {name: [label(name)] for name in names}
    base_cells, lead_cells = (
        [label(f"{REFERENCE_SYSTEM} (trained)")],
        [label(f"{REFERENCE_SYSTEM} above the best of these")],
    )
    for (pair, metric), values in values_by_column.items():
        column_name = f"{metric}_{pair.replace('-', '_')}"
        columns.append(Column(column_name, metric, NAME_BY_PAIR[pair], "ours"))
        base = base_by_column[pair, metric]
        marks = base.marks if base else ()
        for name, cells in cells_by_name.items():
            cell = text_cell("missing", "state", *marks)
            if name in values:
                cell = text_cell(format_value(values[name], metric), "ours", *marks)
            cells.append(cell)
        base_cell = our_cell(base)
        lead_cell = text_cell(DASH, "state", *marks)
        if base is not None and base.values and values:
            lead = min(value for _, value in base.values) - max(values.values())
            text = f"{format_difference(lead)} (lowest seed)"
            lead_cell = replace(text_cell(text, "ours", *marks), provenance=base_cell.provenance)
        base_cells.append(base_cell)
        lead_cells.append(lead_cell)
    rows = [Row(tuple(cells)) for cells in cells_by_name.values()]
    if rows:
        rows += [Row(tuple(base_cells), "ours"), Row(tuple(lead_cells), "ours")]
    table = Table(
        name="baselines",
        title="Baselines",
        caption=(
            "Scores that need no training, on the test sets of this scale: a trained system must"
            " score far higher."
        ),
        columns=tuple(columns),
        rows=tuple(rows),
        notes=() if rows else (Note("", "No baselines are recorded at this scale."),),
        signatures=tuple(signatures),
    )
    return complete(frame, table, has_precisions=False, has_states=False)


def lay_out_runs(frame: Frame) -> Table:
    """Return every training of the scale and its state, later seeds last."""

    def seconds(run: Run) -> Cell:
        text = format_value(run.train.wall_seconds, "wall_seconds") if run.train else ""
        return text_cell(text, "ours")

    def state(run: Run) -> Cell:
        return text_cell(run.state.status, "ours" if run.state.status == "finished" else "state")

    fields: list[Field[Run]] = [
        label_field(
            "training", "training", lambda run: f"{run.corpus} {run.system} seed {run.seed}"
        ),
        our_field("state", "state", state),
        our_field(
            "updates",
            "updates",
            lambda run: text_cell(f"{run.state.update:,} of {run.state.updates:,}", "ours"),
        ),
        our_field("wall_seconds", "wall seconds", seconds),
        label_field("hardware", "hardware", lambda run: run.hardware),
        label_field("commit", "commit", lambda run: run.commit),
        label_field("run", "run", lambda run: run.state.run),
    ]
    runs = (*frame.runs, *frame.later_runs)
    if any(run.state.reason for run in runs):
        fields.append(label_field("reason", "why not finished", lambda run: run.state.reason))
    rows = []
    for run, row in zip(runs, rows_of(fields, runs), strict=True):
        rows.append(replace(row, anchor=anchor_of(run.state.run) if run.state.run else ""))
    return Table(
        name="runs",
        title="Runs",
        caption=f"The trainings of scale {frame.scale}, and the state of each.",
        columns=columns_of(fields),
        rows=tuple(rows),
    )
