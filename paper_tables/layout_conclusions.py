"""Lays out what holds: each conclusion of the paper's text that two printed cells support, printed and ours.

The rule stands in `analysis.conclusion`, and in the notes of the table; both were fixed before anything was run.
"""

from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from aiayn.paths import Evaluation
from analysis.conclusion import Call, Conclusion, draw_conclusion
from analysis.verdict import ALPHA, MARGIN_BLEU
from paper_tables.findings import Findings
from paper_tables.judged import pool_of
from paper_tables.layout import Aside, Cell, Column, Note, Row, Table, blank_cell, format_difference, text_cell
from paper_tables.layout_ours import difference_provenance, mark_note, mark_of, precision_note, signatures_of
from paper_tables.published import (
    CellJoin,
    PublishedCell,
    PublishedConclusion,
    find_join,
    find_printed,
    read_cells,
    read_conclusions,
    read_table,
)

OUTCOME_WORDS = {"above": "higher", "below": "lower", "equivalent": "equivalent"}
NOT_RUN = "One of the two systems is not run at this scale"
RULE_NOTES = (
    "The rule was fixed before anything was run. A difference is the mean of the row over its seeds minus that of the "
    "other row over its own. sd: the standard deviation over seeds, pooled over the systems of this scale, test set "
    "and metric that have 2 seeds or more, with df degrees of freedom. Higher or lower: holds here if the difference "
    "in the paper's direction is more than the reach, t(0.975, df) sd sqrt(1/n1 + 1/n2); reversed if it is as large "
    "the other way; else too close to call. Without any system of 2 seeds there is no sd, and nothing is called.",
    f"Equivalent, in BLEU: holds here if the size of the difference plus the reach, t({1 - ALPHA}, df) sd sqrt(1/n1 + "
    f"1/n2), is below {MARGIN_BLEU} BLEU, the verdicts' margin (two one-sided tests); reversed if all of the 95 % "
    "interval of the difference lies outside the margin; else too close to call.",
    "Of forty such calls of directions that are not there, one is expected to read holds here by chance.",
)


class Pair(NamedTuple):
    """A conclusion, its two printed cells and joins, and our two evaluations, None if one is not run at this scale."""

    conclusion: PublishedConclusion
    metric: str
    printed_difference: Decimal
    row: Evaluation | None
    reference: Evaluation | None


def lay_out_conclusions(findings: Findings) -> Table:
    """Return one row a conclusion and metric, in the order of conclusions.csv."""
    pairs = pair_conclusions(findings)
    found = [conclude(findings, pair) for pair in pairs]
    rows = [_row(findings, pair, conclusion) for pair, conclusion in zip(pairs, found, strict=True)]
    shown = [(e, pair.metric) for pair in pairs for e in (pair.row, pair.reference) if e is not None]
    return Table(
        name="conclusions",
        title="What holds?",
        caption="What the paper's text concludes from its Tables 2 and 3, and whether our systems show it: the printed "
        "difference, ours, and the call by one rule. A call is of our corpus and sizes; at a smaller scale than the "
        "paper's a row keeps its ratio to base, not the sizes that the words name.",
        columns=(
            Column("sentence", "section: sentence", side="label"),
            Column("statement", "of the rows", side="label"),
            Column("rows", "difference", side="label"),
            Column("metric", "metric", side="label"),
            Column("printed", "printed"),
            Column("expected", "concluded", side="label"),
            Column("ours", "ours", side="ours"),
            Column("reach", "reach", side="ours"),
            Column("call", "call", side="ours"),
        ),
        rows=tuple(rows),
        notes=(
            *mark_note(findings, [evaluation for evaluation, _ in shown]),
            *precision_note(findings, [evaluation for evaluation, _ in shown]),
            *_sd_notes(pairs, found),
            *(Note("", text) for text in RULE_NOTES),
        ),
        signatures=signatures_of(findings, shown),
    )


def pair_conclusions(findings: Findings) -> list[Pair]:
    """Return every conclusion with what was printed, and with our evaluations of its two rows."""
    joins, cells_by_table = read_cells(), {number: read_table(number) for number in (2, 3)}
    pairs = []
    for conclusion in read_conclusions():
        row, reference = (find_join(conclusion, name, joins) for name in (conclusion.row, conclusion.reference))
        difference = _printed(row, cells_by_table) - _printed(reference, cells_by_table)
        evaluations = (_evaluation(findings, row), _evaluation(findings, reference))
        pairs.append(Pair(conclusion, row.metric, difference, *evaluations))
    return pairs


def conclude(findings: Findings, pair: Pair) -> Conclusion | None:
    """Return the call on a conclusion; None if one of the two rows has no value here."""
    if pair.row is None or pair.reference is None:
        return None
    values, reference_values = (
        list(findings.values_of(evaluation, pair.metric).values()) for evaluation in (pair.row, pair.reference)
    )
    if not values or not reference_values:
        return None
    pooled = pool_of(findings, [pair.row, pair.reference], pair.metric)
    return draw_conclusion(pair.conclusion.relation, values, reference_values, pooled)


def _printed(join: CellJoin, cells_by_table: dict[int, list[PublishedCell]]) -> Decimal:
    return Decimal(find_printed(join, cells_by_table[join.table]).value)


def _evaluation(findings: Findings, join: CellJoin) -> Evaluation | None:
    return findings.evaluation_of(findings.corpus_of(join.language_pair), join.system, join.average, join.role)


def _row(findings: Findings, pair: Pair, found: Conclusion | None) -> Row:
    asked = pair.conclusion
    marks = mark_of(findings, pair.row) if pair.row is not None else ()
    cells = (
        text_cell(f"{asked.section}: {asked.sentence}", "label"),
        text_cell(asked.statement, "label"),
        text_cell(f"{_name(pair.row, asked.row)} minus {_name(pair.reference, asked.reference)}", "label"),
        text_cell(pair.metric, "label"),
        text_cell(f"{pair.printed_difference:+}"),
        text_cell(OUTCOME_WORDS[asked.relation], "label"),
    )
    if found is not None and pair.row is not None and pair.reference is not None:
        ours, *others = _found_cells(found, marks)
        provenance = difference_provenance(findings, pair.row, pair.reference, pair.metric)
        return Row((*cells, replace(ours, provenance=provenance), *others))
    is_run = pair.row is not None and pair.reference is not None
    return Row(
        (*cells, text_cell("not measured" if is_run else "not run", "state", *marks), blank_cell(), blank_cell()),
        aside=None if is_run else Aside(f"{asked.row} minus {asked.reference} ({pair.metric})", NOT_RUN),
    )


def _name(evaluation: Evaluation | None, row: str) -> str:
    return row if evaluation is None else evaluation.system


def _found_cells(found: Conclusion, marks: tuple[str, ...]) -> tuple[Cell, ...]:
    ours = f"{format_difference(found.difference)} (n={found.num_seeds} and {found.num_reference_seeds})"
    reach = blank_cell() if found.reach is None else text_cell(f"{found.reach:.2f}", "ours")
    is_called = found.call in (Call.HOLDS, Call.REVERSED)
    return (text_cell(ours, "ours", *marks), reach, text_cell(found.call.value, "ours" if is_called else "state"))


def _sd_notes(pairs: list[Pair], found: list[Conclusion | None]) -> list[Note]:
    """Return the pooled sd of each metric and test set that something was called by."""
    texts: dict[str, None] = {}
    for pair, conclusion in zip(pairs, found, strict=True):
        pooled = None if conclusion is None else conclusion.pooled
        if pooled is not None and pair.row is not None:
            texts[
                f"sd of {pair.metric} on {pair.row.testset}: {pooled.sd:.3f}, {pooled.degrees_of_freedom} degrees of "
                f"freedom, pooled over {pooled.num_systems} system(s)."
            ] = None
    return [Note("", text) for text in texts]
