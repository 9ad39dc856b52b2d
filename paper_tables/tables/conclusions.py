"""Lays out what the paper concludes from two printed cells, and whether ours show it; and expectations.

The rule of conclusions is in `analysis.scoring.verdict`, and in the notes of the table. An expectation is a
direction of Table 3, looked at seed by seed. All were fixed before any run.
"""

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from aiayn.paths import Evaluation
from aiayn.printed import (
    CellJoin,
    PublishedCell,
    PublishedConclusion,
    PublishedExpectation,
    evaluations_of,
    find_join,
    find_printed,
    read_cells,
    read_conclusions,
    read_expectations,
    read_table,
)
from analysis.scoring.verdict import ALPHA, MARGIN_BLEU, Call, Conclusion, draw_conclusion
from paper_tables.cell_verdicts import pool_of
from paper_tables.layout import (
    Aside,
    Cell,
    Field,
    Note,
    Table,
    blank_cell,
    columns_of,
    format_difference,
    format_value,
    label_field,
    our_field,
    printed_field,
    rows_of,
    text_cell,
)
from paper_tables.scale_results import ScaleResults
from paper_tables.tables.ours import complete, difference_provenance, mark_of

LANGUAGE_PAIR = "en-de"  # Table 3's
RELATION_SIGN = {"above": ">", "below": "<"}
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
    """A conclusion, what its two cells print, our two evaluations, None if one is not run at this scale, and the call.

    `found` is None if one of the two rows has no value here.
    """

    conclusion: PublishedConclusion
    metric: str
    printed_difference: Decimal
    row: Evaluation | None
    reference: Evaluation | None
    found: Conclusion | None

    @property
    def name(self) -> str:
        """The name of the difference: our system, or the printed row where that is not run."""
        row = self.conclusion.row if self.row is None else self.row.system
        reference = self.conclusion.reference if self.reference is None else self.reference.system
        return f"{row} minus {reference}"

    @property
    def aside(self) -> Aside | None:
        """Why its row has no number of ours; None if it has."""
        if self.row is not None and self.reference is not None:
            return None
        return Aside(f"{self.conclusion.row} minus {self.conclusion.reference} ({self.metric})", NOT_RUN)


def lay_out_conclusions(results: ScaleResults) -> Table:
    """Return one row a conclusion and metric, in the order of conclusions.csv."""
    pairs = pair_conclusions(results)
    fields: tuple[Field[Pair], ...] = (
        label_field("sentence", "section: sentence", lambda of: f"{of.conclusion.section}: {of.conclusion.sentence}"),
        label_field("statement", "of the rows", lambda of: of.conclusion.statement),
        label_field("rows", "difference", lambda of: of.name),
        label_field("metric", "metric", lambda of: of.metric),
        printed_field("printed", "printed", lambda of: f"{of.printed_difference:+}"),
        label_field("expected", "concluded", lambda of: OUTCOME_WORDS[of.conclusion.relation]),
        our_field("ours", "ours", lambda of: _difference_cell(results, of)),
        our_field("reach", "reach", lambda of: _reach_cell(of.found)),
        our_field("call", "call", lambda of: _call_cell(of.found)),
    )
    table = Table(
        name="conclusions",
        title="What holds?",
        caption="What the paper's text concludes from its Tables 2 and 3, and whether our systems show it: the printed "
        "difference, ours, and the call by one rule. A call is of our corpus and sizes; at a smaller scale than the "
        "paper's a row keeps its ratio to base, not the sizes that the words name.",
        columns=columns_of(fields),
        rows=rows_of(fields, pairs, aside=lambda of: of.aside),
        notes=(*_sd_notes(pairs), *(Note("", text) for text in RULE_NOTES)),
    )
    return complete(results, table, has_states=False)


def pair_conclusions(results: ScaleResults) -> list[Pair]:
    """Return every conclusion with what was printed, with our evaluations of its two rows, and the call on it."""
    joins, cells_by_table = read_cells(), {number: read_table(number) for number in (2, 3)}
    pairs = []
    for conclusion in read_conclusions():
        row, reference = (find_join(conclusion, name, joins) for name in (conclusion.row, conclusion.reference))
        difference = _printed(row, cells_by_table) - _printed(reference, cells_by_table)
        evaluations = [one for join in (row, reference) if (one := results.evaluation_for(join)) is not None]
        values = [list(results.values_of(one, row.metric).values()) for one in evaluations]
        found = None
        if len(evaluations) == 2 and all(values):
            pooled = pool_of(results, evaluations, row.metric)
            found = draw_conclusion(conclusion.relation, values[0], values[1], pooled)
        both = (results.evaluation_for(row), results.evaluation_for(reference))
        pairs.append(Pair(conclusion, row.metric, difference, *both, found))
    return pairs


def _printed(join: CellJoin, cells_by_table: dict[int, list[PublishedCell]]) -> Decimal:
    return Decimal(find_printed(join, cells_by_table[join.table]).value)


def _difference_cell(results: ScaleResults, pair: Pair) -> Cell:
    found, marks = pair.found, mark_of(results, pair.row)
    shows = tuple((evaluation, pair.metric) for evaluation in (pair.row, pair.reference) if evaluation is not None)
    if found is None or pair.row is None or pair.reference is None:
        return replace(text_cell("not measured" if len(shows) == 2 else "not run", "state", *marks), shows=shows)
    text = f"{format_difference(found.difference)} (n={found.num_seeds} and {found.num_reference_seeds})"
    provenance = difference_provenance(results, pair.row, pair.reference, pair.metric)
    return replace(text_cell(text, "ours", *marks), provenance=provenance, shows=shows)


def _reach_cell(found: Conclusion | None) -> Cell:
    return blank_cell() if found is None or found.reach is None else text_cell(f"{found.reach:.2f}", "ours")


def _call_cell(found: Conclusion | None) -> Cell:
    if found is None:
        return blank_cell()
    return text_cell(found.call.value, "ours" if found.call in (Call.HOLDS, Call.REVERSED) else "state")


def _sd_notes(pairs: Iterable[Pair]) -> list[Note]:
    """Return the pooled sd of each metric and test set that a call used."""
    texts: dict[str, None] = {}
    for pair in pairs:
        pooled = None if pair.found is None else pair.found.pooled
        if pooled is not None and pair.row is not None:
            texts[
                f"sd of {pair.metric} on {pair.row.testset}: {pooled.sd:.3f}, {pooled.degrees_of_freedom} degrees of "
                f"freedom, pooled over {pooled.num_systems} system(s)."
            ] = None
    return [Note("", text) for text in texts]


class Expected(NamedTuple):
    """An expectation, the dev evaluations of its two systems, and their values by common seed."""

    expectation: PublishedExpectation
    ours: Evaluation
    reference: Evaluation
    pairs: dict[int, tuple[float, float]]


def lay_out_expectations(results: ScaleResults) -> Table:
    """Return one row an expectation; only seeds that both systems were trained with are compared."""
    expected = [
        Expected(one, ours, reference, _common_values(results, one.metric, ours, reference))
        for one in read_expectations()
        if (ours := _dev_evaluation(results, one.system)) is not None
        and (reference := _dev_evaluation(results, one.reference)) is not None
    ]
    fields: tuple[Field[Expected], ...] = (
        label_field("statement", "fixed beforehand", lambda one: one.expectation.statement),
        label_field("source", "printed", lambda one: one.expectation.source),
        our_field("seeds", "ours, seed by seed", lambda one: _seeds_cell(results, one)),
        our_field("outcome", "outcome", lambda one: _held_cell(results, one)),
    )
    note = Note("", "No system that an expectation is about is run at this scale.")
    table = Table(
        name="expectations",
        title="Expectations",
        caption="Directions of Table 3, fixed before anything was run, on the dev set and seed by seed, "
        "ours on the left of the sign and base's on the right. A seed that "
        "disagrees is printed, not tuned away.",
        columns=columns_of(fields),
        rows=rows_of(fields, expected, "ours"),
        notes=() if expected else (note,),
    )
    return complete(results, table, has_precisions=False, has_states=False)


def holds(expectation: PublishedExpectation, ours: float, reference: float) -> bool:
    """Return whether a seed's pair of values lies as expected; equal values do not."""
    return ours > reference if expectation.relation == "above" else ours < reference


def _dev_evaluation(results: ScaleResults, system: str) -> Evaluation | None:
    average = next(average for average, role in evaluations_of(LANGUAGE_PAIR, system) if role == "dev")
    return results.evaluation_of(results.corpus_of(LANGUAGE_PAIR), system, average, "dev")


def _common_values(
    results: ScaleResults, metric: str, ours: Evaluation, reference: Evaluation
) -> dict[int, tuple[float, float]]:
    values, others = (results.values_of(one, metric) for one in (ours, reference))
    return {seed: (value, others[seed]) for seed, value in values.items() if seed in others}


def _seeds_cell(results: ScaleResults, one: Expected) -> Cell:
    metric, sign = one.expectation.metric, RELATION_SIGN[one.expectation.relation]
    texts = [
        f"seed {seed}: {format_value(pair[0], metric)} {'' if holds(one.expectation, *pair) else 'not '}{sign} "
        f"{format_value(pair[1], metric)}"
        for seed, pair in one.pairs.items()
    ]
    return replace(
        text_cell("; ".join(texts) or "not measured yet", "ours" if texts else "state", *mark_of(results, one.ours)),
        provenance=difference_provenance(results, one.ours, one.reference, metric, one.pairs),
        shows=((one.ours, metric), (one.reference, metric)),
    )


def _held_cell(results: ScaleResults, one: Expected) -> Cell:
    held = [holds(one.expectation, *pair) for pair in one.pairs.values()]
    marks = mark_of(results, one.ours)
    if not held:
        return text_cell("open", "state", *marks)
    if all(held):
        return text_cell("held" if len(held) == 1 else f"held in all {len(held)} seeds", "ours", *marks)
    return text_cell(f"held in {sum(held)} of {len(held)} seeds", "state", *marks)
