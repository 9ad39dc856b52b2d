"""Lays out Table 4, which is printed only, the baselines, replications by others, and the state of each run."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from aiayn.experiment import BASELINE_ROLE
from aiayn.paths import Evaluation
from aiayn.printed import (
    METRIC_BY_PAIR,
    evaluations_of,
    read_columns,
    read_table,
)
from aiayn.records import BaselineRecords, ScoreRecord, TrainRecord
from analysis.scoring.runs import RunState
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
from paper_tables.scale_results import ScaleResults
from paper_tables.tables.ours import commit_words, complete, hardware_words, mark_of, metric_cell, provenance_of

BASELINE_SYSTEM = "base"
CAPTION_OF_TABLE_4 = (
    "English constituency parsing, F1 on section 23 of the Wall Street Journal, as printed (arXiv edition only)."
)
KIND_BY_COLUMN_KIND: dict[str, CellKind] = {"symbolic": "formula", "label": "label", "measured": "printed"}
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
        cells_by_row.setdefault(cell.row, {})[cell.column] = text_cell(cell.value, kind_by_column[cell.column])
    return Table(
        name="table4",
        title="Table 4",
        caption=CAPTION_OF_TABLE_4,
        columns=columns,
        rows=tuple(Row(row_by_column(columns, cells)) for cells in cells_by_row.values()),
        notes=(Note("", NOTE_OF_TABLE_4),),
        summary=f"As printed. {NOTE_OF_TABLE_4}",
    )


def lay_out_baselines(results: ScaleResults) -> Table:
    """Return the scores of what needs no training beside those of base, on the test set of each language pair."""
    record_by_pair: dict[str, BaselineRecords] = {
        results.corpora[one.corpus].language_pair: one for one in results.baseline_records
    }
    shown = [(pair, metric) for pair in NAME_BY_PAIR for metric in (METRIC_BY_PAIR[pair], SACRE_METRIC)]
    names = dict.fromkeys(name for record in record_by_pair.values() for name in record.scores_by_baseline)
    rows = [
        Row((label(name), *(_baseline_cell(results, name, *one, record_by_pair.get(one[0])) for one in shown)))
        for name in names
    ]
    if rows:
        trained = label(f"{BASELINE_SYSTEM} (trained)")
        leads = label(f"{BASELINE_SYSTEM} above the best of these")
        of_base = [metric_cell(results, _base_evaluation(results, pair), metric) for pair, metric in shown]
        rows.append(Row((trained, *of_base), "ours"))
        rows.append(Row((leads, *(_lead_cell(results, *one, record_by_pair.get(one[0])) for one in shown)), "ours"))
    signatures = {
        (score.metric, f"{record.testset} ({record.corpus})", score.signature)
        for pair, record in record_by_pair.items()
        for scores in record.scores_by_baseline.values()
        for score in scores
        if (pair, score.metric) in shown
    }
    table = Table(
        name="baselines",
        title="Baselines",
        caption="What needs no training, on the test sets of this scale: a trained system must lie far above.",
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
    return complete(results, table, has_precisions=False, has_states=False)


def _base_evaluation(results: ScaleResults, pair: str) -> Evaluation | None:
    average = next(average for average, role in evaluations_of(pair, BASELINE_SYSTEM) if role == BASELINE_ROLE)
    return results.evaluation_of(results.corpus_of(pair), BASELINE_SYSTEM, average, BASELINE_ROLE)


def _score(scores: Iterable[ScoreRecord], metric: str) -> float | None:
    return next((score.value for score in scores if score.metric == metric), None)


def _baseline_cell(results: ScaleResults, name: str, pair: str, metric: str, record: BaselineRecords | None) -> Cell:
    marks = mark_of(results, _base_evaluation(results, pair))
    value = _score(record.scores_by_baseline.get(name, []) if record else [], metric)
    return (
        text_cell("missing", "state", *marks)
        if value is None
        else text_cell(format_value(value, metric), "ours", *marks)
    )


def _lead_cell(results: ScaleResults, pair: str, metric: str, record: BaselineRecords | None) -> Cell:
    """Return the lowest lead over seeds of base above the best baseline: same test set and definition on both sides."""
    evaluation = _base_evaluation(results, pair)
    values = list(results.values_of(evaluation, metric).values()) if evaluation else []
    scores = [_score(scores, metric) for scores in record.scores_by_baseline.values()] if record else []
    best = max((score for score in scores if score is not None), default=None)
    marks = mark_of(results, evaluation)
    if evaluation is None or not values or best is None:
        return text_cell(DASH, "state", *marks)
    cell = text_cell(f"{format_difference(min(values) - best)} (lowest seed)", "ours", *marks)
    return replace(cell, provenance=provenance_of(results, evaluation, metric))


class _Run(NamedTuple):
    """A training, its state, and its record if it is finished."""

    key: tuple[str, str, int]
    state: RunState
    train: TrainRecord | None

    @property
    def updates(self) -> str:
        """Its updates so far, and those in all."""
        return f"{format_value(self.state.update, 'steps')} of {format_value(self.state.updates, 'steps')}"

    @property
    def wall_seconds(self) -> str:
        """Its seconds, or nothing."""
        return "" if self.train is None else format_value(self.train.wall_seconds, "wall_seconds")


def lay_out_runs(results: ScaleResults) -> Table:
    """Return every training of the scale and its state."""
    runs = [_Run(key, state, results.train_by_key.get(key)) for key, state in results.state_by_key.items()]
    fields: list[Field[_Run]] = [
        label_field("training", "training", lambda run: "{} {} seed {}".format(*run.key)),
        our_field(
            "state",
            "state",
            lambda run: text_cell(run.state.status, "ours" if run.state.status == "finished" else "state"),
        ),
        our_field("updates", "updates", lambda run: text_cell(run.updates, "ours")),
        our_field("wall_seconds", "wall seconds", lambda run: text_cell(run.wall_seconds, "ours")),
        label_field(
            "hardware", "hardware", lambda run: "" if run.train is None else hardware_words(run.train.hardware)
        ),
        label_field("commit", "commit", lambda run: "" if run.train is None else commit_words(run.train.provenance)),
        label_field("run", "run", lambda run: run.state.run),
    ]
    if any(run.state.reason for run in runs):
        fields.append(label_field("reason", "why not finished", lambda run: run.state.reason))
    rows = zip(runs, rows_of(fields, runs), strict=True)
    return Table(
        name="runs",
        title="Runs",
        caption=f"The trainings of scale {results.scale.scale}, and the state of each.",
        columns=columns_of(fields),
        rows=tuple(replace(row, anchor=anchor_of(run.state.run) if run.state.run else "") for run, row in rows),
    )
