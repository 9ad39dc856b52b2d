"""Lays out what is judged: published replications beside ours, and the verdict on every printed BLEU."""

from collections.abc import Sequence
from dataclasses import replace

from aiayn.paths import Evaluation
from analysis.family import Corrected, Family
from analysis.verdict import ALPHA, MARGIN_BLEU, MIN_SEEDS, Outcome
from paper_tables.findings import Findings
from paper_tables.judged import JudgedCell, family_of
from paper_tables.layout import (
    DASH,
    Aside,
    Cell,
    Column,
    Note,
    Row,
    Table,
    blank_cell,
    format_difference,
    format_interval,
    format_value,
    text_cell,
)
from paper_tables.layout_ours import (
    mark_note,
    metric_cell,
    precision_note,
    provenance_of,
    signatures_of,
    state_notes,
)
from paper_tables.published import read_replications

P_DECIMALS = 3
UNLIKE_SYSTEMS = (  # measured: tests/benchmarks/bench_verdicts.py, a system of four times the others' sd
    " The systems do not share one spread: verdicts on those that vary more than the pool are wrong more often than "
    f"{ALPHA}."
)


def lay_out_replications(findings: Findings, judged: Sequence[JudgedCell]) -> Table:
    """Return the published numbers of other papers beside ours, each with its verdict."""
    replication_by_row = {replication.row: replication for replication in read_replications()}
    cells = [cell for cell in judged if cell.table == "replications"]
    evaluations = [cell.evaluation for cell in cells if cell.evaluation is not None]
    rows = []
    for cell in cells:
        replication = replication_by_row[cell.row]
        ours = text_cell("not run", "state")
        if cell.evaluation is not None:
            ours = metric_cell(findings, cell.evaluation, cell.metric)
        place = f"{replication.corpus}, {replication.testset}, {replication.average}"
        rows.append(
            Row(
                (
                    text_cell(cell.row, "label"),
                    text_cell(place, "label"),
                    text_cell(cell.metric, "label"),
                    text_cell(cell.printed),
                    ours,
                    _difference(findings, cell),
                    *_verdict_cells(cell),
                ),
                aside=None if cell.evaluation else Aside(f"{cell.row} ({place})", cell.verdict.reason.rstrip(".")),
            )
        )
    sources = [
        Note("", f"{r.row}: {r.paper}. {r.source_repository}, {r.source_path} at {r.source_commit[:8]}: "
                 f"\u201c{r.printed_line}\u201d ({r.num_seeds} seed(s)). {r.conditions}.")
        for r in replication_by_row.values()
    ]  # fmt: skip
    return Table(
        name="replications",
        title="Replications",
        caption="Numbers that others published at a smaller scale, beside ours under the same conditions: same text, "
        "test set and definition of BLEU. A difference is to that published number, never to the paper's.",
        columns=(
            Column("row", "system", side="label"),
            Column("conditions", "corpus, test set, average", side="label"),
            Column("metric", "definition", side="label"),
            Column("printed", "printed"),
            Column("ours", "ours", side="ours"),
            Column("difference", "difference", side="ours"),
            *_verdict_columns(),
        ),
        rows=tuple(rows),
        notes=(*_replication_mark(findings, evaluations), *sources, *state_notes(findings, evaluations)),
        signatures=signatures_of(findings, [(c.evaluation, c.metric) for c in cells if c.evaluation is not None]),
    )


def _replication_mark(findings: Findings, evaluations: Sequence[Evaluation]) -> list[Note]:
    text = "Not the paper's corpus or scale; compared only with the number printed in the same line."
    return [Note(note.mark, text) for note in mark_note(findings, evaluations)]


def _difference(findings: Findings, cell: JudgedCell) -> Cell:
    verdict = cell.verdict
    if cell.evaluation is None:
        return blank_cell()
    if verdict.difference is None:
        return text_cell(DASH, "state")
    interval = f" ({format_interval(verdict.interval)})" if verdict.interval else ""
    shown = text_cell(f"{format_difference(verdict.difference)}{interval}", "ours")
    return replace(shown, provenance=provenance_of(findings, cell.evaluation, cell.metric))


def _verdict_columns() -> tuple[Column, ...]:
    return (
        Column("verdict", "verdict", side="ours"),
        Column("reason", "reason", side="label"),
        Column("largest_equivalent_difference", "largest difference callable equivalent", side="ours"),
        Column("num_seeds_to_decide", "seeds that would decide", side="ours"),
    )


def _verdict_cells(cell: JudgedCell) -> tuple[Cell, ...]:
    verdict = cell.verdict
    largest, needed = verdict.largest_equivalent_difference, verdict.num_seeds_to_decide
    applies = not is_unlike(cell)
    return (
        text_cell(verdict.outcome.value, "ours"),
        text_cell(verdict.reason, "label"),
        text_cell("none" if largest is None else format_value(largest, cell.metric), "ours")
        if applies
        else blank_cell(),
        text_cell("not known" if needed is None else str(needed), "ours") if applies else blank_cell(),
    )


def lay_out_verdicts(findings: Findings, judged: Sequence[JudgedCell]) -> Table:
    """Return the verdict on every printed BLEU, also where the system is not run at this scale."""
    evaluations = [cell.evaluation for cell in judged if cell.evaluation is not None]
    family = family_of(judged)
    return Table(
        name="verdicts",
        title="Verdicts",
        caption=f"The rule, fixed beforehand: margin {MARGIN_BLEU} BLEU, two one-sided t-tests at {ALPHA}, at least "
        f"{MIN_SEEDS} seeds, standard deviation pooled over the systems of this scale in one definition. The printed "
        "number is taken as a constant. Differences with 95 % interval; p-values, and by Holm's correction over all "
        "judged cells.",
        columns=(
            Column("cell", "printed cell", side="label"),
            Column("metric", "definition", side="label"),
            Column("printed", "printed"),
            Column("ours", "ours", side="ours"),
            Column("difference", "difference", side="ours"),
            *_verdict_columns(),
            Column("p_equivalent", "p equivalent (Holm)", side="ours"),
            Column("p_outside", "p outside (Holm)", side="ours"),
        ),
        rows=tuple(
            _verdict_row(findings, cell, corrected) for cell, corrected in zip(judged, family.corrected, strict=True)
        ),
        notes=(
            *mark_note(findings, evaluations),
            *precision_note(findings, evaluations),
            *_family_notes(judged, family),
            *_spread_notes(judged),
        ),
    )


def _verdict_row(findings: Findings, cell: JudgedCell, corrected: Corrected | None) -> Row:
    ours = text_cell("not run", "state")
    if cell.evaluation is not None:
        ours = metric_cell(findings, cell.evaluation, cell.metric)
    return Row(
        (
            text_cell(name_of(cell), "label"),
            text_cell(cell.metric, "label"),
            text_cell(cell.printed),
            ours,
            _difference(findings, cell),
            *_verdict_cells(cell),
            _p_cell(cell.verdict.p_equivalent, None if corrected is None else corrected.p_equivalent),
            _p_cell(cell.verdict.p_outside, None if corrected is None else corrected.p_outside),
        ),
        aside=Aside(name_of(cell), cell.verdict.reason.rstrip(".")) if is_unlike(cell) else None,
    )


def is_unlike(cell: JudgedCell) -> bool:
    """Tell whether the rule cannot be applied to a printed number here: not run, or not under its conditions."""
    return cell.verdict.outcome is Outcome.NOT_COMPARABLE


def name_of(cell: JudgedCell) -> str:
    """Return where a number is printed, as `Table 2: big, bleu_en_fr (arxiv)`."""
    place = f"Table {cell.table}" if cell.table.isdigit() else cell.table
    edition = f" ({cell.edition})" if cell.edition not in ("both", "") else ""
    return f"{place}: {cell.row}, {cell.column}{edition}"


def format_p(p_value: float) -> str:
    """Return a p-value with three decimals; what would round to zero is below 0.001."""
    smallest = 10.0**-P_DECIMALS
    return f"{p_value:.{P_DECIMALS}f}" if p_value >= smallest else f"<{smallest:g}"


def _p_cell(p_value: float | None, adjusted: float | None) -> Cell:
    if p_value is None or adjusted is None:
        return blank_cell()
    return text_cell(f"{format_p(p_value)} ({format_p(adjusted)})", "ours")


def _family_notes(judged: Sequence[JudgedCell], family: Family) -> list[Note]:
    """Return what all verdicts together are worth, and which of them Holm's correction would take back."""
    if family.num_judged == 0:
        return [Note("", "Family of verdicts: the rule was applied to no cell, so none can be wrong.")]
    changed = [
        f"{name_of(cell)} ({cell.verdict.outcome.value} to {corrected.outcome.value})"
        for cell, corrected in zip(judged, family.corrected, strict=True)
        if corrected is not None and corrected.outcome is not cell.verdict.outcome
    ]
    reproduced, not_reproduced = Outcome.REPRODUCED.value, Outcome.NOT_REPRODUCED.value
    chance = (
        f"Family of verdicts: the rule was applied to {family.num_judged} cell(s), each at {ALPHA}. If every true "
        "difference were the margin itself, the worst case, and the cells independent, the chance of at least one "
        f"wrong {reproduced} would be {format_p(family.chance_wrongly_reproduced)}, "
        f"1 - (1 - {ALPHA})^{family.num_judged}, and of at least one wrong {not_reproduced} "
        f"{format_p(family.chance_wrongly_not_reproduced)}."
    )
    correction = (
        f"Holm's correction holds both chances at {ALPHA} for all cells together, however they depend on one another; "
        f"it would change: {'; '.join(changed) or 'none'}."
    )
    return [Note("", chance), Note("", correction)]


def _spread_notes(cells: Sequence[JudgedCell]) -> list[Note]:
    """Return, for each definition, the pooled standard deviation and how unlike the systems are."""
    notes: dict[str, None] = {}
    for cell in cells:
        pooled = cell.verdict.pooled
        if pooled is not None:
            sd, smallest, largest = (
                format_value(value, cell.metric) for value in (pooled.sd, pooled.smallest_sd, pooled.largest_sd)
            )
            p_value = pooled.bartlett_p
            test = "" if p_value is None else f", Bartlett's p {format_p(p_value)}"
            warning = UNLIKE_SYSTEMS if p_value is not None and p_value < ALPHA else ""
            notes[
                f"{cell.metric}: sd {sd} pooled over {pooled.num_systems} system(s), {pooled.degrees_of_freedom} "
                f"degrees of freedom; single sds {smallest} to {largest}{test}.{warning}"
            ] = None
    return [Note("", text) for text in notes]
