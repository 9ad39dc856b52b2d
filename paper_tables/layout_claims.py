"""Lays out what others say of the paper, grouped by verdict: settled, contradicted, not settled, not testable here."""

from collections import Counter
from collections.abc import Sequence

from paper_tables.claim_evidence import RECORD_METRICS, judge_claim
from paper_tables.claims import VERDICTS, Judgement, PublishedClaim, read_claims
from paper_tables.findings import Findings
from paper_tables.judged import JudgedCell
from paper_tables.layout import Cell, Column, Note, Row, Table, text_cell
from paper_tables.layout_ours import mark_note, mark_of, signatures_of

NOTES = (
    "A test settles a claim by its presence: its outcome is not read here. It stands in this checkout, and continuous "
    "integration runs it with all others; where a test fails, it settles nothing.",
    "What is expected stands in paper_tables/published/claims.csv beside the claim from whose words it follows; for a "
    "training it stood there before the training was run. A number settles a claim if all of its 95 % interval is as "
    "expected, and contradicts it if none of it is. The interval of a measurement is over its draws, that of a "
    "comparison over the seeds that both systems have, pair by pair; of two seeds the two differences are shown. Of "
    "twenty such intervals one is expected to miss the true value.",
    "A comparison is settled at the scale at which it was run, and at no other. What the paper's own printed numbers "
    "settle is what is printed.",
)


def lay_out_claims(findings: Findings, judged: Sequence[JudgedCell]) -> Table:
    """Return one row a claim or part of one, sorted by verdict; the counts stand in the caption."""
    claims = read_claims()
    pairs = [(claim, judge_claim(claim, findings, judged)) for claim in claims]
    pairs.sort(key=lambda pair: VERDICTS.index(pair[1].verdict))
    judgements = [judgement for _, judgement in pairs]
    counts = Counter(judgement.verdict for judgement in judgements)
    counted = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    evaluations = [evaluation for judgement in judgements for evaluation in judgement.evaluations]
    return Table(
        name="claims",
        title="Claims",
        caption="What notes, lectures, tutorials and the paper itself say, and what decides it. A source that says "
        f"several things has several lines. Of {len(claims)} statements: {counted}.",
        columns=(
            Column("id", "", side="label"),
            Column("statement", "claim", side="label"),
            Column("kind", "kind", side="label"),
            Column("source", "source", side="label"),
            Column("verdict", "verdict", side="label"),
            Column("by", "by what", side="label"),
        ),
        rows=tuple(Row(_cells(findings, claim, judgement)) for claim, judgement in pairs),
        notes=(*mark_note(findings, evaluations), *(Note("", text) for text in NOTES)),
        summary=f"{len(claims)} statements: {counted}",
        signatures=tuple(sorted({*_measured(judgements), *_compared(findings, judgements)})),
    )


def _cells(findings: Findings, claim: PublishedClaim, judgement: Judgement) -> tuple[Cell, ...]:
    marks = mark_of(findings, judgement.evaluations[0]) if judgement.evaluations else ()
    return (
        text_cell(claim.name, "label"),
        text_cell(claim.statement, "label"),
        text_cell(claim.kind, "label"),
        text_cell(claim.source, "label"),
        text_cell(judgement.verdict, "label", *marks),
        text_cell(judgement.by, "label"),
    )


def _measured(judgements: Sequence[Judgement]) -> list[tuple[str, str, str]]:
    measurements = (judgement.measurement for judgement in judgements)
    return [(one.name, "measured without a training", one.signature) for one in measurements if one is not None]


def _compared(findings: Findings, judgements: Sequence[Judgement]) -> tuple[tuple[str, str, str], ...]:
    compared = [
        (evaluation, judgement.metric)
        for judgement in judgements
        if judgement.metric not in RECORD_METRICS
        for evaluation in judgement.evaluations
    ]
    return signatures_of(findings, compared)
