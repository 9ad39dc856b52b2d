"""Lays out Table 4, which is printed only, the baselines, replications by others, and the state of
each run.
"""

from dataclasses import replace

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


def lay_out_table4() -> Table:
    """Return Table 4: printed values only."""
    kind_by_column = {column.name: KIND_BY_COLUMN_KIND[column.kind] for column in read_columns()[4]}
    columns = tuple(
        Column(column.name, column.heading, side="label" if column.kind == "label" else "printed")
        for column in read_columns()[4]
    )
    cells_by_row: dict[str, dict[str, Cell]] = {}
    for cell in read_table(4):
        cells_by_row.setdefault(cell.row, {})[cell.column] = text_cell(
            cell.value, kind_by_column[cell.column]
        )
    return Table(
        name="table4",
        title="Table 4",
        caption=CAPTION_OF_TABLE_4,
        columns=columns,
        rows=tuple(Row(row_by_column(columns, cells)) for cells in cells_by_row.values()),
        notes=(Note("", NOTE_OF_TABLE_4),),
        summary=f"As printed. {NOTE_OF_TABLE_4}",
    )


def lay_out_baselines(frame: Frame) -> Table:
    """Return the scores of what needs no training beside those of base, on the test set of each
    language pair.
    """
    shown = [
        (pair, metric) for pair in NAME_BY_PAIR for metric in (METRIC_BY_PAIR[pair], SACRE_METRIC)
    ]
    names = dict.fromkeys(name for record in frame.baselines for name in record.scores_by_baseline)
    value_by_baseline: dict[tuple[str, str, str], float] = {}
    signatures = set()
    for record in frame.baselines:
        pair = frame.corpora[record.corpus].language_pair
        for name, scores in record.scores_by_baseline.items():
            for score in scores:
                if (pair, score.metric) in shown:
                    value_by_baseline[pair, score.metric, name] = score.value
                    signatures.add(
                        (score.metric, f"{record.testset} ({record.corpus})", score.signature)
                    )
    base_by_column: dict[tuple[str, str], Number | None] = {}
    for language_pair, metric in shown:
        evaluations = evaluations_of(language_pair, REFERENCE_SYSTEM)
        average = next(average for average, role in evaluations if role == BASELINE_ROLE)
        base_key = frame.find(language_pair, REFERENCE_SYSTEM, average, BASELINE_ROLE)
        base_by_column[language_pair, metric] = frame.number(base_key, metric)

    def score_cell(name: str, column: tuple[str, str]) -> Cell:
        value, base = value_by_baseline.get((*column, name)), base_by_column[column]
        marks = base.marks if base else ()
        if value is None:
            return text_cell("missing", "state", *marks)
        return text_cell(format_value(value, column[1]), "ours", *marks)

    def lead_cell(column: tuple[str, str]) -> Cell:
        """Return the lowest lead over seeds of base above the best baseline: same test set, same
        definition.
        """
        base = base_by_column[column]
        scores = [
            value for (*place, _), value in value_by_baseline.items() if tuple(place) == column
        ]
        if base is None or not base.values or not scores:
            return text_cell(DASH, "state", *(base.marks if base else ()))
        lead = min(value for _, value in base.values) - max(scores)
        cell = text_cell(f"{format_difference(lead)} (lowest seed)", "ours", *base.marks)
        return replace(cell, provenance=our_cell(base).provenance)

    rows = [Row((label(name), *(score_cell(name, column) for column in shown))) for name in names]
    if rows:
        rows.append(
            Row(
                (label(f"{REFERENCE_SYSTEM} (trained)"), *map(our_cell, base_by_column.values())),
                "ours",
            )
        )
        rows.append(
            Row(
                (
                    label(f"{REFERENCE_SYSTEM} above the best of these"),
                    *(lead_cell(column) for column in shown),
                ),
                "ours",
            )
        )
    table = Table(
        name="baselines",
        title="Baselines",
        caption=(
            "What needs no training, on the test sets of this scale: a trained system must lie far"
            " above."
        ),
        columns=(
            Column("baseline", "", side="label"),
            *(
                Column(f"{metric}_{pair.replace('-', '_')}", metric, NAME_BY_PAIR[pair], "ours")
                for pair, metric in shown
            ),
        ),
        rows=tuple(rows),
        notes=() if rows else (Note("", "No baselines are recorded at this scale."),),
        signatures=tuple(signatures),
    )
    return complete(frame, table, has_precisions=False, has_states=False)


def lay_out_runs(frame: Frame) -> Table:
    """Return every training of the scale and its state, later seeds last."""

    def updates(run: Run) -> Cell:
        return text_cell(f"{run.state.update:,} of {run.state.updates:,}", "ours")

    def seconds(run: Run) -> Cell:
        return text_cell(
            format_value(run.train.wall_seconds, "wall_seconds") if run.train else "", "ours"
        )

    def state(run: Run) -> Cell:
        return text_cell(run.state.status, "ours" if run.state.status == "finished" else "state")

    fields: list[Field[Run]] = [
        label_field(
            "training", "training", lambda run: f"{run.corpus} {run.system} seed {run.seed}"
        ),
        our_field("state", "state", state),
        our_field("updates", "updates", updates),
        our_field("wall_seconds", "wall seconds", seconds),
        label_field("hardware", "hardware", lambda run: run.hardware),
        label_field("commit", "commit", lambda run: run.commit),
        label_field("run", "run", lambda run: run.state.run),
    ]
    runs = (*frame.runs, *frame.later_runs)
    if any(run.state.reason for run in runs):
        fields.append(label_field("reason", "why not finished", lambda run: run.state.reason))
    rows = zip(runs, rows_of(fields, runs), strict=True)
    return Table(
        name="runs",
        title="Runs",
        caption=f"The trainings of scale {frame.scale}, and the state of each.",
        columns=columns_of(fields),
        rows=tuple(
            replace(row, anchor=anchor_of(run.state.run) if run.state.run else "")
            for run, row in rows
        ),
    )
