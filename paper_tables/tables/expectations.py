"""Lays out the directions of Table 3 that were fixed before anything was run, and whether they held, seed by seed."""

from dataclasses import replace
from typing import NamedTuple

from aiayn.paths import Evaluation
from aiayn.printed import PublishedExpectation, evaluations_of, read_expectations
from paper_tables.layout import (
    Cell,
    Field,
    Note,
    Table,
    columns_of,
    format_value,
    label_field,
    our_field,
    rows_of,
    text_cell,
)
from paper_tables.scale_results import ScaleResults
from paper_tables.tables.ours import complete, difference_provenance, mark_of

LANGUAGE_PAIR = "en-de"  # Table 3's
RELATION_SIGN = {"above": ">", "below": "<"}


class Expected(NamedTuple):
    """An expectation, the dev evaluations of its two systems, and their values by common seed."""

    expectation: PublishedExpectation
    ours: Evaluation
    reference: Evaluation
    pairs: dict[int, tuple[float, float]]


def lay_out_expectations(results: ScaleResults) -> Table:
    """Return one row an expectation; only seeds that both systems were trained with are compared."""
    expected = [
        Expected(one, ours, reference, _pairs(results, one.metric, ours, reference))
        for one in read_expectations()
        if (ours := _dev_evaluation(results, one.system)) is not None
        and (reference := _dev_evaluation(results, one.reference)) is not None
    ]
    fields: tuple[Field[Expected], ...] = (
        label_field("statement", "fixed beforehand", lambda one: one.expectation.statement),
        label_field("source", "printed", lambda one: one.expectation.source),
        our_field("seeds", "ours, seed by seed", lambda one: _seeds_cell(results, one)),
        our_field("outcome", "outcome", lambda one: _outcome_cell(results, one)),
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


def _pairs(
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


def _outcome_cell(results: ScaleResults, one: Expected) -> Cell:
    held = [holds(one.expectation, *pair) for pair in one.pairs.values()]
    marks = mark_of(results, one.ours)
    if not held:
        return text_cell("open", "state", *marks)
    if all(held):
        return text_cell("held" if len(held) == 1 else f"held in all {len(held)} seeds", "ours", *marks)
    return text_cell(f"held in {sum(held)} of {len(held)} seeds", "state", *marks)
