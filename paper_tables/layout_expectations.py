"""Lays out the directions of Table 3 that were fixed before anything was run, and whether they held, seed by seed."""

from collections.abc import Sequence
from dataclasses import replace

from aiayn.paths import Evaluation
from paper_tables.findings import Findings
from paper_tables.layout import Cell, Column, Note, Row, Table, format_value, text_cell
from paper_tables.layout_ours import difference_provenance, mark_note, mark_of, signatures_of
from paper_tables.published import PublishedExpectation, evaluations_of, read_expectations

LANGUAGE_PAIR = "en-de"  # Table 3's
RELATION_SIGN = {"above": ">", "below": "<"}


def lay_out_expectations(findings: Findings) -> Table:
    """Return one row an expectation; only seeds that both systems were trained with are compared."""
    rows, evaluations, measured = [], [], []
    for expectation in read_expectations():
        ours = _dev_evaluation(findings, expectation.system)
        reference = _dev_evaluation(findings, expectation.reference)
        if ours is None or reference is None:
            continue
        rows.append(_row(findings, expectation, ours, reference))
        evaluations += [ours, reference]
        measured += [(ours, expectation.metric), (reference, expectation.metric)]
    notes = mark_note(findings, evaluations)
    if not rows:
        notes.append(Note("", "No system that an expectation is about is run at this scale."))
    return Table(
        name="expectations",
        title="Expectations",
        caption="Directions of Table 3, fixed before anything was run, on the dev set and seed by seed, "
        "ours on the left of the sign and base's on the right. A seed that "
        "disagrees is printed, not tuned away.",
        columns=(
            Column("statement", "fixed beforehand", side="label"),
            Column("source", "printed", side="label"),
            Column("seeds", "ours, seed by seed", side="ours"),
            Column("outcome", "outcome", side="ours"),
        ),
        rows=tuple(rows),
        notes=tuple(notes),
        signatures=signatures_of(findings, measured),
    )


def holds(expectation: PublishedExpectation, ours: float, reference: float) -> bool:
    """Tell whether a seed's pair of values lies as expected; equal values do not."""
    return ours > reference if expectation.relation == "above" else ours < reference


def _dev_evaluation(findings: Findings, system: str) -> Evaluation | None:
    average = next(average for average, role in evaluations_of(LANGUAGE_PAIR, system) if role == "dev")
    return findings.evaluation_of(findings.corpus_of(LANGUAGE_PAIR), system, average, "dev")


def _row(findings: Findings, expectation: PublishedExpectation, ours: Evaluation, reference: Evaluation) -> Row:
    values, reference_values = (findings.values_of(e, expectation.metric) for e in (ours, reference))
    seeds = sorted(values.keys() & reference_values.keys())
    held = [holds(expectation, values[seed], reference_values[seed]) for seed in seeds]
    sign = RELATION_SIGN[expectation.relation]
    texts = [
        f"seed {seed}: {format_value(values[seed], expectation.metric)} "
        f"{'' if as_expected else 'not '}{sign} {format_value(reference_values[seed], expectation.metric)}"
        for seed, as_expected in zip(seeds, held, strict=True)
    ]
    marks = mark_of(findings, ours)
    seeds_cell = (
        text_cell("; ".join(texts), "ours", *marks) if texts else text_cell("not measured yet", "state", *marks)
    )
    provenance = difference_provenance(findings, ours, reference, expectation.metric, seeds)
    cells = (
        text_cell(expectation.statement, "label"),
        text_cell(expectation.source, "label"),
        replace(seeds_cell, provenance=provenance),
        _outcome(held, marks),
    )
    return Row(cells, "ours")


def _outcome(held: Sequence[bool], marks: Sequence[str]) -> Cell:
    if not held:
        return text_cell("open", "state", *marks)
    if all(held):
        return text_cell("held" if len(held) == 1 else f"held in all {len(held)} seeds", "ours", *marks)
    return text_cell(f"held in {sum(held)} of {len(held)} seeds", "state", *marks)
