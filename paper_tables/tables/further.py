"""Lays out the baselines, and the state of each run."""

from dataclasses import replace

from aiayn.paths import CellKey
from aiayn.printed import (
    BASELINE_ROLE,
    METRIC_BY_PAIR,
    REFERENCE_SYSTEM,
    evaluations_of,
)
from paper_tables.frame import Frame, Run
from paper_tables.layout import (
    NAME_BY_PAIR,
    SACRE_METRIC,
    Cell,
    Column,
    Field,
    Note,
    Row,
    Table,
    anchor_of,
    columns_of,
    label,
    label_field,
    our_field,
    rows_of,
    text_cell,
)
from paper_tables.rounding import rounded
from paper_tables.tables.ours import complete, our_cell


def lay_out_baselines(frame: Frame) -> Table:
    """Return the scores of baselines, which need no training, and base's on the same test sets."""
    values_by_column: dict[tuple[str, str], dict[str, float]] = {}  # then by baseline
    for pair in NAME_BY_PAIR:
        for metric in (METRIC_BY_PAIR[pair], SACRE_METRIC):
            values_by_column[pair, metric] = {}
    rows: dict[str, list[Cell]] = {}
    signatures = set()
    for record in frame.baselines:
        pair = frame.corpora[record.corpus].language_pair
        for name, scores in record.scores_by_baseline.items():
            rows[name] = [label(name)]
            for score in scores:
                if (pair, score.metric) in values_by_column:
                    values_by_column[pair, score.metric][name] = score.value
                    testset = f"{record.testset} ({record.corpus})"
                    signatures.add((score.metric, testset, score.signature))
    columns = [Column("baseline", "", side="label")]
    base_cells = [label(f"{REFERENCE_SYSTEM} (trained)")]
    for (pair, metric), values in values_by_column.items():
        column_name = f"{metric}_{pair.replace('-', '_')}"
        columns.append(Column(column_name, metric, NAME_BY_PAIR[pair], "ours"))
        base = frame.number(_base_key(frame, pair), metric)
        marks = base.marks if base else ()
        for name, cells in rows.items():
            if name in values:
                cells.append(text_cell(rounded(values[name], metric), "ours", *marks))
            else:
                cells.append(text_cell("missing", "state", *marks))
        base_cells.append(our_cell(base))
    shown_rows = [Row(tuple(cells)) for cells in rows.values()]
    if rows:
        shown_rows.append(Row(tuple(base_cells), "ours"))
    table = Table(
        name="baselines",
        title="Baselines",
        caption=(
            "Scores that need no training, on the test sets of this scale: a trained system must"
            " score far higher."
        ),
        columns=tuple(columns),
        rows=tuple(shown_rows),
        notes=() if rows else (Note("No baselines are recorded at this scale."),),
        signatures=tuple(signatures),
    )
    return complete(frame, table, has_precisions=False, has_states=False)


def _base_key(frame: Frame, pair: str) -> CellKey:
    """Return the cell of base on the test set of the baselines."""
    average_by_role = {role: average for average, role in evaluations_of(pair, REFERENCE_SYSTEM)}
    return frame.find(pair, REFERENCE_SYSTEM, average_by_role[BASELINE_ROLE], BASELINE_ROLE)


def lay_out_runs(frame: Frame) -> Table:
    """Return every training of the scale and its state, later seeds last."""

    def seconds(run: Run) -> Cell:
        text = rounded(run.train.wall_seconds, "wall_seconds") if run.train else ""
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
    ]
    runs = (*frame.runs, *frame.later_runs)
    if any(run.state.run for run in runs):  # before the first training has begun none has a name
        fields += [
            label_field("hardware", "hardware", lambda run: run.hardware),
            label_field("commit", "commit", lambda run: run.commit),
            label_field("run", "run", lambda run: run.state.run),
        ]
    if any(run.state.reason for run in runs):
        fields.append(label_field("reason", "why not finished", lambda run: run.state.reason))
    if any(run.train and run.train.remarks for run in runs):
        fields.append(
            label_field("remarks", "remarks", lambda run: run.train.remarks if run.train else "")
        )
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
