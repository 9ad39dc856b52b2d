"""Lays out what is printed only (Table 4) and what the paper lacks: baselines, and how each run stands."""

from collections.abc import Sequence
from dataclasses import replace

from aiayn.paths import Evaluation
from aiayn.records import BaselineRecords, ScoreRecord
from paper_tables.evaluations import BASELINE_ROLE
from paper_tables.findings import Findings
from paper_tables.layout import (
    DASH,
    NAME_BY_PAIR,
    SACRE_METRIC,
    Cell,
    CellKind,
    Column,
    Note,
    Row,
    Table,
    anchor_of,
    blank_cell,
    format_difference,
    format_value,
    text_cell,
)
from paper_tables.layout_ours import (
    commit_words,
    hardware_words,
    mark_note,
    mark_of,
    metric_cell,
    provenance_of,
    signatures_of,
)
from paper_tables.layout_table2 import METRIC_BY_PAIR, shown_metrics
from paper_tables.published import COLUMNS_BY_TABLE, evaluations_of, read_table

BASELINE_SYSTEM = "base"
CAPTION_OF_TABLE_4 = (
    "English constituency parsing, F1 on section 23 of the Wall Street Journal, as printed (arXiv edition only)."
)
KIND_BY_COLUMN_KIND: dict[str, CellKind] = {"symbolic": "formula", "label": "label", "measured": "printed"}
NOTE_OF_TABLE_4 = "Ours: not run. Parsing is not part of this benchmark."


def lay_out_table4() -> Table:
    """Return Table 4: printed values only."""
    columns = COLUMNS_BY_TABLE[4]
    printed = read_table(4)
    rows = []
    for row in dict.fromkeys(cell.row for cell in printed):
        value_by_column = {cell.column: cell.value for cell in printed if cell.row == row}
        cells = []
        for column in columns:
            kind = KIND_BY_COLUMN_KIND[column.kind]
            cells.append(
                text_cell(value_by_column[column.name], kind) if column.name in value_by_column else blank_cell()
            )
        rows.append(Row(tuple(cells)))
    return Table(
        name="table4",
        title="Table 4",
        caption=CAPTION_OF_TABLE_4,
        columns=tuple(
            Column(column.name, column.heading, side="label" if column.kind == "label" else "printed")
            for column in columns
        ),
        rows=tuple(rows),
        notes=(Note("", NOTE_OF_TABLE_4),),
        summary=f"As printed. {NOTE_OF_TABLE_4}",
    )


def lay_out_baselines(findings: Findings) -> Table:
    """Return the scores of what needs no training beside those of base, on the test set of each language pair."""
    record_by_pair: dict[str, BaselineRecords] = {
        findings.corpora[record.corpus].language_pair: record for record in findings.baselines
    }
    evaluation_by_pair = {pair: _base_evaluation(findings, pair) for pair in NAME_BY_PAIR}
    names = dict.fromkeys(name for record in record_by_pair.values() for name in record.scores_by_baseline)
    rows = [Row((text_cell(name, "label"), *_baseline_cells(findings, name, record_by_pair))) for name in names]
    if record_by_pair:
        base_label = text_cell(f"{BASELINE_SYSTEM} (trained)", "label")
        rows.append(Row((base_label, *_base_cells(findings, evaluation_by_pair)), "ours"))
        leads = [_lead_cell(findings, pair, metric, evaluation_by_pair[pair], record_by_pair.get(pair))
                 for pair in NAME_BY_PAIR for metric in (METRIC_BY_PAIR[pair], SACRE_METRIC)]  # fmt: skip
        rows.append(Row((text_cell(f"{BASELINE_SYSTEM} above the best of these", "label"), *leads), "ours"))
    evaluations = [evaluation for evaluation in evaluation_by_pair.values() if evaluation is not None]
    notes = mark_note(findings, evaluations)
    shown_signatures = signatures_of(findings, shown_metrics(evaluations)) if record_by_pair else ()
    if not record_by_pair:
        notes.append(Note("", "No baselines are recorded at this scale."))
    return Table(
        name="baselines",
        title="Baselines",
        caption="What needs no training, on the test sets of this scale: a trained system must lie far above.",
        columns=(Column("baseline", "", side="label"), *(
            Column(f"{metric}_{pair.replace('-', '_')}", metric, name, "ours")
            for pair, name in NAME_BY_PAIR.items() for metric in (METRIC_BY_PAIR[pair], SACRE_METRIC)
        )),
        rows=tuple(rows),
        notes=tuple(notes),
        signatures=tuple(sorted({*_baseline_signatures(findings), *shown_signatures})),
    )  # fmt: skip


def _baseline_signatures(findings: Findings) -> set[tuple[str, str, str]]:
    shown_by_corpus = {findings.corpus_of(pair): (metric, SACRE_METRIC) for pair, metric in METRIC_BY_PAIR.items()}
    return {
        (score.metric, f"{record.testset} ({record.corpus})", score.signature)
        for record in findings.baselines
        for scores in record.scores_by_baseline.values()
        for score in scores
        if score.metric in shown_by_corpus[record.corpus]
    }


def _base_evaluation(findings: Findings, pair: str) -> Evaluation | None:
    average = next(average for average, role in evaluations_of(pair, BASELINE_SYSTEM) if role == BASELINE_ROLE)
    return findings.evaluation_of(findings.corpus_of(pair), BASELINE_SYSTEM, average, BASELINE_ROLE)


def _score(scores: Sequence[ScoreRecord], metric: str) -> float | None:
    return next((score.value for score in scores if score.metric == metric), None)


def _baseline_cells(findings: Findings, name: str, record_by_pair: dict[str, BaselineRecords]) -> list[Cell]:
    cells = []
    for pair in NAME_BY_PAIR:
        record = record_by_pair.get(pair)
        evaluation = _base_evaluation(findings, pair)
        marks = mark_of(findings, evaluation) if evaluation else ()
        scores = record.scores_by_baseline.get(name, []) if record else []
        for metric in (METRIC_BY_PAIR[pair], SACRE_METRIC):
            value = _score(scores, metric)
            is_there = value is not None
            text = format_value(value, metric) if value is not None else "missing"
            cells.append(text_cell(text, "ours" if is_there else "state", *marks))
    return cells


def _base_cells(findings: Findings, evaluation_by_pair: dict[str, Evaluation | None]) -> list[Cell]:
    cells = []
    for pair, evaluation in evaluation_by_pair.items():
        for metric in (METRIC_BY_PAIR[pair], SACRE_METRIC):
            not_run = text_cell("not run", "state")
            cells.append(not_run if evaluation is None else metric_cell(findings, evaluation, metric))
    return cells


def _lead_cell(
    findings: Findings, pair: str, metric: str, evaluation: Evaluation | None, record: BaselineRecords | None
) -> Cell:
    """Return the lowest lead over seeds of base above the best baseline: same test set and definition on both sides."""
    values = list(findings.values_of(evaluation, metric).values()) if evaluation else []
    scores = [_score(scores, metric) for scores in record.scores_by_baseline.values()] if record else []
    best = max((score for score in scores if score is not None), default=None)
    marks = mark_of(findings, evaluation) if evaluation else ()
    if not values or best is None:
        return text_cell(DASH, "state", *marks)
    cell = text_cell(f"{format_difference(min(values) - best)} (lowest seed)", "ours", *marks)
    return replace(cell, provenance=provenance_of(findings, evaluation, metric) if evaluation else None)


def lay_out_runs(findings: Findings) -> Table:
    """Return every training of the scale and how it stands."""
    has_reasons = any(state.reason for state in findings.state_by_key.values())
    rows = []
    for (corpus, system, seed), state in findings.state_by_key.items():
        train = findings.train_by_key.get((corpus, system, seed))
        is_finished = state.status == "finished"
        rows.append(
            Row(
                (
                    text_cell(f"{corpus} {system} seed {seed}", "label"),
                    text_cell(state.status, "ours" if is_finished else "state"),
                    text_cell(
                        f"{format_value(state.update, 'steps')} of {format_value(state.updates, 'steps')}", "ours"
                    ),
                    text_cell("" if train is None else format_value(train.wall_seconds, "wall_seconds"), "ours"),
                    text_cell("" if train is None else hardware_words(train.hardware), "label"),
                    text_cell("" if train is None else commit_words(train.provenance), "label"),
                    text_cell(state.run, "label"),
                    *([text_cell(state.reason, "label")] if has_reasons else []),
                ),
                anchor=anchor_of(state.run) if state.run else "",
            )
        )
    return Table(
        name="runs",
        title="Runs",
        caption=f"The trainings of scale {findings.scale.scale}, and how each stands.",
        columns=(
            Column("training", "training", side="label"),
            Column("state", "state", side="ours"),
            Column("updates", "updates", side="ours"),
            Column("wall_seconds", "wall seconds", side="ours"),
            Column("hardware", "hardware", side="label"),
            Column("commit", "commit", side="label"),
            Column("run", "run", side="label"),
            *([Column("reason", "why not finished", side="label")] if has_reasons else []),
        ),
        rows=tuple(rows),
    )
