"""Lays out claims of others about the paper, grouped by verdict: settled, contradicted, not settled, not testable."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from paper_tables.cell_verdicts import JudgedCell
from paper_tables.claims.evidence import judge_claim
from paper_tables.claims.published import VERDICTS, Judgement, PublishedClaim, read_claims
from paper_tables.layout import Cell, Column, Field, Note, Table, columns_of, label, label_field, rows_of
from paper_tables.scale_results import ScaleResults
from paper_tables.tables.ours import complete, mark_of

NOTES = (
    "A test settles a claim by its presence: its outcome is not read here. It is in this checkout, and continuous "
    "integration runs it with all others; where a test fails, it settles nothing.",
    "The expectation is in paper_tables/published/claims.csv beside the claim from whose words it follows; for a "
    "training it was there before the training was run. A number settles a claim if all of its 95 % interval is as "
    "expected, and contradicts it if none of it is. The interval of a measurement is over its draws, that of a "
    "comparison over the seeds that both systems have, pair by pair; of two seeds the two differences are shown. Of "
    "twenty such intervals one is expected to miss the true value.",
    "A comparison is settled at the scale at which it was run, and at no other. What the paper's own printed numbers "
    "settle is what is printed.",
)


def lay_out_claims(results: ScaleResults, judged: Sequence[JudgedCell]) -> Table:
    """Return one row a claim or part of one, sorted by verdict; the counts are in the caption."""
    pairs = [(claim, judge_claim(claim, results, judged)) for claim in read_claims()]
    pairs.sort(key=lambda pair: VERDICTS.index(pair[1].verdict))
    counts = Counter(judgement.verdict for _, judgement in pairs)
    counted = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    measured = [judgement.measurement for _, judgement in pairs if judgement.measurement is not None]
    fields: tuple[Field[tuple[PublishedClaim, Judgement]], ...] = (
        label_field("id", "", lambda pair: pair[0].name),
        label_field("statement", "claim", lambda pair: pair[0].statement),
        label_field("kind", "kind", lambda pair: pair[0].kind),
        label_field("source", "source", lambda pair: pair[0].source),
        Field(Column("verdict", "verdict", side="label"), lambda pair: _verdict_cell(results, pair[1])),
        label_field("by", "by what", lambda pair: pair[1].by),
    )
    table = Table(
        name="claims",
        title="Claims",
        caption="What notes, lectures, tutorials and the paper itself say, and what decides it. A source that says "
        f"several things has several lines. Of {len(pairs)} statements: {counted}.",
        columns=columns_of(fields),
        rows=rows_of(fields, pairs),
        notes=tuple(Note("", text) for text in NOTES),
        summary=f"{len(pairs)} statements: {counted}",
        signatures=tuple((one.name, "measured without a training", one.signature) for one in measured),
    )
    return complete(results, table, has_precisions=False, has_states=False)


def _verdict_cell(results: ScaleResults, judgement: Judgement) -> Cell:
    evaluations = judgement.evaluations
    marks = mark_of(results, evaluations[0]) if evaluations else ()
    shows = tuple((evaluation, judgement.metric) for evaluation in evaluations)
    return replace(label(judgement.verdict, *marks), shows=shows)
