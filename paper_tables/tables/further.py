"""Lays out two tables: the scores of baselines (systems that need no training), and the state of
each run.
"""

from aiayn.paths import CellKey
from aiayn.printed import (
    BASELINE_ROLE,
    METRIC_BY_PAIR,
    REFERENCE_SYSTEM,
    evaluations_of,
)
from paper_tables.frame import Frame, Number, Run
from paper_tables.layout import (
    NAME_BY_PAIR,
    SACRE_METRIC,
    Cell,
    Column,
    Field,
    Note,
    Table,
    anchor_of,
    cell_frame,
    columns_of,
    label,
    label_field,
    our_field,
    row_of,
    rows_of,
)
from paper_tables.rounding import rounded
from paper_tables.tables.ours import complete, our_cell


def lay_out_baselines(frame: Frame) -> Table:
    """Return the table of baselines, which are systems that need no training. The last row of the
    table has the scores of base on the same test sets.
    """
    cells_by_row: dict[str, dict[str, Cell]] = {}
    columns = [Column("baseline", "", side="label")]
    base_cells = {"baseline": label(f"{REFERENCE_SYSTEM} (trained)")}
    column_by_score: dict[tuple[str, str], str] = {}
    bases: dict[str, Number | None] = {}
    for pair, group in NAME_BY_PAIR.items():
        # The definition of the printed number, and sacreBLEU.
        for metric in (METRIC_BY_PAIR[pair], SACRE_METRIC):
            name = f"{metric}_{pair.replace('-', '_')}"
            columns.append(Column(name, metric, group, "ours"))
            column_by_score[pair, metric] = name
            bases[name] = frame.number(_base_key(frame, pair), metric)
            base_cells[name] = our_cell(bases[name])
    signatures = set()
    for record in frame.baselines:
        pair = frame.corpora[record.corpus].language_pair
        for baseline, scores in record.scores_by_baseline.items():
            cells = cells_by_row.setdefault(baseline, {"baseline": label(baseline)})
            for score in scores:
                name = column_by_score.get((pair, score.metric), "")
                base = bases.get(name)
                # Other definitions are only in the record of the baselines.
                if name:
                    marks = base.marks if base else ()
                    cells[name] = Cell(rounded(score.value, score.metric), "ours", marks)
                    # Scores of two corpora may have the same definition and signature.
                    testset = f"{record.testset} ({record.corpus})"
                    signatures.add((score.metric, testset, score.signature))
    rows = []
    for cells in cells_by_row.values():
        # A baseline may not have been scored on the test set of one language pair.
        for name, base in bases.items():
            cells.setdefault(name, Cell("missing", "state", base.marks if base else ()))
        rows.append(row_of(cells))
    if rows:
        rows.append(row_of(base_cells, side="ours"))
    table = Table(
        name="baselines",
        title="Baselines",
        caption=(
            "Scores that need no training, on the test sets of this scale: a trained system must"
            " score far higher."
        ),
        columns=tuple(columns),
        cells=cell_frame(rows),
        notes=() if rows else (Note("No baselines are recorded at this scale."),),
        signatures=tuple(signatures),
    )
    return complete(frame, table, has_precisions=False, has_states=False)


def _base_key(frame: Frame, pair: str) -> CellKey:
    """Return the key of the cell of base with which the baselines of a language pair are
    compared.
    """
    # Which checkpoints are averaged depends on the language pair and the system, for example the
    # last 5 for base.
    average_by_role = {role: average for average, role in evaluations_of(pair, REFERENCE_SYSTEM)}
    return frame.find(pair, REFERENCE_SYSTEM, average_by_role[BASELINE_ROLE], BASELINE_ROLE)


def lay_out_runs(frame: Frame) -> Table:
    """Return the table of every training of the scale with its state. Trainings with seeds that
    were added later come last.
    """
    # Optional columns follow below, so that a table of a scale that is not trained yet is narrow.
    fields: list[Field[Run]] = [
        label_field(
            "training", "training", lambda run: f"{run.corpus} {run.system} seed {run.seed}"
        ),
        our_field("state", "state", _state_cell),
        our_field(
            "updates",
            "updates",
            lambda run: Cell(f"{run.status.update or 0:,} of {run.status.updates:,}", "ours"),
        ),
        our_field("wall_seconds", "wall seconds", _seconds_cell),
    ]
    runs = (*frame.runs, *frame.later_runs)
    # Before the first training begins, no run has a name.
    if any(run.status.run for run in runs):
        fields += [
            label_field("hardware", "hardware", lambda run: run.hardware),
            label_field("commit", "commit", lambda run: run.commit),
            label_field("run", "run", lambda run: run.status.run),
        ]
    # Each of these two columns is added only if it has text in at least one row.
    if any(run.status.reason for run in runs):
        fields.append(label_field("reason", "why not finished", lambda run: run.status.reason))
    if any(run.train and run.train.remarks for run in runs):
        fields.append(
            label_field("remarks", "remarks", lambda run: run.train.remarks if run.train else "")
        )
    return Table(
        name="runs",
        title="Runs",
        caption=f"The trainings of scale {frame.scale}, and the state of each.",
        columns=columns_of(fields),
        cells=rows_of(
            fields, runs, anchor=lambda run: anchor_of(run.status.run) if run.status.run else ""
        ),
    )


def _state_cell(run: Run) -> Cell:
    return Cell(run.status.state, "ours" if run.status.state == "finished" else "state")


def _seconds_cell(run: Run) -> Cell:
    return Cell(rounded(run.train.wall_seconds, "wall_seconds") if run.train else "", "ours")
