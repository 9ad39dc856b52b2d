"""Lays out verdicts: on every printed BLEU (a table, and verdicts.tsv), and on published
replications beside ours.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import pandas as pd

from aiayn.printed import PAPER_SCALE, read_replications
from aiayn.scoring.verdict import (
    ALPHA,
    MARGIN_BLEU,
    MIN_SEEDS,
    Outcome,
    PooledSd,
    Verdict,
    judge_family,
)
from paper_tables.frame import Frame, PrintedCell
from paper_tables.layout import (
    DASH,
    PLUS_MINUS,
    Aside,
    Cell,
    Field,
    Note,
    Table,
    blank_cell,
    columns_of,
    format_difference,
    format_interval,
    format_value,
    label_field,
    our_field,
    printed_field,
    rows_of,
    text_cell,
)
from paper_tables.public_seeds import noise_sentence, seeds_by_public_noise
from paper_tables.tables.ours import complete, our_cell

P_DECIMALS = 3
# measured: tests/benchmarks/bench_verdicts.py, a system of four times the others' sd
UNEQUAL_SPREADS = (
    " The systems do not share one spread: verdicts on those that vary more than the pool are"
    f" wrong more often than {ALPHA}."
)

MEANINGS = (  # of the two answers in a row
    (
        f"Verdict: is the mean of our runs the printed number, to within {MARGIN_BLEU} BLEU? That"
        " number is taken as a constant."
    ),
    (
        "Printed as one run: the printed number is itself a single run; does it lie in the 95 %"
        " prediction interval of one more run of ours, mean \u00b1 t sd sqrt(1 + 1/n)? Inside says"
        f" that one run cannot be told from ours. It is no {Outcome.REPRODUCED.value}: the fewer"
        " the seeds, the wider the interval."
    ),
)


def lay_out_replications(frame: Frame) -> Table:
    """Return the published numbers of other papers beside ours, each with its verdict."""
    replication_by_row = {replication.row: replication for replication in read_replications()}

    def place(cell: PrintedCell) -> str:
        one = replication_by_row[cell.row]
        return f"{one.corpus}, {one.testset}, {one.average}"

    def aside(cell: PrintedCell) -> Aside | None:
        return (
            None
            if cell.number
            else Aside(f"{cell.row} ({place(cell)})", cell.verdict.reason.rstrip("."))
        )

    fields: tuple[Field[PrintedCell], ...] = (
        label_field("row", "system", lambda cell: cell.row),
        label_field("conditions", "corpus, test set, average", place),
        *_fields(),
    )
    sources = [
        Note(
            "",
            f"{r.row}: {r.paper}. {r.source_repository}, {r.source_path} at {r.source_commit[:8]}: "
            f"\u201c{r.printed_line}\u201d ({r.num_seeds} seed(s)). {r.conditions}.",
        )
        for r in replication_by_row.values()
    ]
    table = Table(
        name="replications",
        title="Replications",
        caption=(
            "Numbers that others published at a smaller scale, beside ours under the same"
            " conditions: same text, test set and definition of BLEU. A difference is to that"
            " published number, never to the paper's."
        ),
        columns=columns_of(fields),
        rows=rows_of(
            fields, [cell for cell in frame.judged if cell.table == "replications"], aside=aside
        ),
        notes=(*_meanings(frame.judged), *sources),
    )
    text = (
        "Not the paper's corpus or scale; compared only with the number printed in the same line."
    )
    return complete(frame, table, mark_text=text, has_precisions=False)


def lay_out_verdicts(frame: Frame) -> Table:
    """Return the verdict on every printed BLEU, also where the system is not run at this scale."""
    fields: tuple[Field[PrintedCell], ...] = (
        label_field("cell", "printed cell", name_of),
        *_fields(),
        our_field(
            "p_equivalent", "p equivalent (Holm)", lambda cell: _p_cell(cell, "p_equivalent")
        ),
        our_field("p_outside", "p outside (Holm)", lambda cell: _p_cell(cell, "p_outside")),
    )
    table = Table(
        name="verdicts",
        title="Verdicts",
        caption=(
            f"The rule, fixed beforehand: margin {MARGIN_BLEU} BLEU, two one-sided t-tests at"
            f" {ALPHA}, at least {MIN_SEEDS} seeds, standard deviation pooled over the systems of"
            " this scale in one definition. The printed number is taken as a constant. Differences"
            " with 95 % interval; p-values, and by Holm's correction over all judged cells."
        ),
        columns=columns_of(fields),
        rows=rows_of(
            fields,
            frame.judged,
            aside=lambda cell: (
                Aside(name_of(cell), cell.verdict.reason.rstrip("."))
                if is_not_comparable(cell)
                else None
            ),
        ),
        notes=(
            *_meanings(frame.judged),
            *_family_notes(frame.judged),
            *_spread_notes(frame.judged),
            *_noise_notes(frame),
        ),
    )
    return complete(frame, table, has_states=False, has_signatures=False)


def _noise_notes(frame: Frame) -> list[Note]:
    """Return a note on the seed noise of public trainings, for verdicts at the paper's scale."""
    return [Note("", noise_sentence())] if frame.scale == PAPER_SCALE else []


def _fields() -> tuple[Field[PrintedCell], ...]:
    """Return the columns of both tables: printed, ours, the difference, and the verdict with its
    reason.
    """

    def largest(cell: PrintedCell) -> str:
        difference = cell.verdict.largest_equivalent_difference
        return "none" if difference is None else format_value(difference, cell.metric)

    def where_judged(words: Callable[[PrintedCell], str]) -> Callable[[PrintedCell], Cell]:
        return lambda cell: (
            blank_cell() if is_not_comparable(cell) else text_cell(words(cell), "ours")
        )

    return (
        label_field("metric", "definition", lambda cell: cell.metric),
        printed_field("printed", "printed", lambda cell: cell.printed),
        our_field("ours", "ours", lambda cell: our_cell(cell.number)),
        our_field("difference", "difference", _difference),
        our_field("verdict", "verdict", lambda cell: text_cell(cell.verdict.outcome.value, "ours")),
        label_field("reason", "reason", lambda cell: cell.verdict.reason),
        our_field("prediction", "printed as one run (95 % prediction)", _prediction),
        our_field(
            "largest_equivalent_difference",
            "largest difference callable equivalent",
            where_judged(largest),
        ),
        our_field(
            "num_seeds_to_decide",
            "seeds that would decide",
            where_judged(_seeds_to_decide),
        ),
    )


def _seeds_to_decide(cell: PrintedCell) -> str:
    """Return the seeds that would decide: at our sd, else at the sds of public trainings at the
    paper's scale.
    """
    if cell.verdict.num_seeds_to_decide is not None:
        return str(cell.verdict.num_seeds_to_decide)
    is_of_paper = cell.table != "replications"
    return (seeds_by_public_noise(cell.verdict) if is_of_paper else "") or "not known"


def _difference(cell: PrintedCell) -> Cell:
    verdict = cell.verdict
    if cell.number is None:
        return blank_cell()
    if verdict.difference is None:
        return text_cell(DASH, "state")
    interval = f" ({format_interval(verdict.interval)})" if verdict.interval else ""
    shown = text_cell(f"{format_difference(verdict.difference)}{interval}", "ours")
    return replace(shown, provenance=our_cell(cell.number).provenance)


def _prediction(cell: PrintedCell) -> Cell:
    """Return whether the printed number could be one more run of ours, and the interval that says
    so.
    """
    verdict = cell.verdict
    if verdict.prediction_interval is None or verdict.prediction_half_width is None:
        return blank_cell() if is_not_comparable(cell) else text_cell(DASH, "state")
    low, high, half_width = (
        format_value(value, cell.metric)
        for value in (*verdict.prediction_interval, verdict.prediction_half_width)
    )
    return text_cell(
        f"{prediction_word(verdict)} {low} to {high} ({PLUS_MINUS}{half_width})", "ours"
    )


def _meanings(judged: Sequence[PrintedCell]) -> list[Note]:
    """Return what the two answers mean, where any cell has them."""
    return [
        Note("", text) for text in MEANINGS if any(cell.verdict.mean is not None for cell in judged)
    ]


def is_not_comparable(cell: PrintedCell) -> bool:
    """Return whether the rule cannot be applied to a printed number here: not run, or not under its
    conditions.
    """
    return cell.verdict.outcome is Outcome.NOT_COMPARABLE


def name_of(cell: PrintedCell) -> str:
    """Return where a number is printed, as `Table 2: big, bleu_en_fr (arxiv)`."""
    place = f"Table {cell.table}" if cell.table.isdigit() else cell.table
    edition = f" ({cell.edition})" if cell.edition not in ("both", "") else ""
    return f"{place}: {cell.row}, {cell.column}{edition}"


def format_p(p_value: float) -> str:
    """Return a p-value with three decimals; what would round to zero is below 0.001."""
    smallest = 10.0**-P_DECIMALS
    return f"{p_value:.{P_DECIMALS}f}" if p_value >= smallest else f"<{smallest:g}"


def _p_cell(cell: PrintedCell, name: Literal["p_equivalent", "p_outside"]) -> Cell:
    """Return a p-value of the verdict, and by Holm's correction."""
    if cell.corrected is None:
        return blank_cell()
    return text_cell(
        f"{format_p(getattr(cell.verdict, name))} ({format_p(getattr(cell.corrected, name))})",
        "ours",
    )


def _family_notes(judged: Sequence[PrintedCell]) -> list[Note]:
    """Return the notes on all verdicts together, and those that Holm's correction would change."""
    family = judge_family([cell.verdict for cell in judged])
    if family.num_judged == 0:
        return [
            Note("", "Family of verdicts: the rule was applied to no cell, so none can be wrong.")
        ]
    changed = [
        f"{name_of(cell)} ({cell.verdict.outcome.value} to {cell.corrected.outcome.value})"
        for cell in judged
        if cell.corrected is not None and cell.corrected.outcome is not cell.verdict.outcome
    ]
    reproduced, not_reproduced = Outcome.REPRODUCED.value, Outcome.NOT_REPRODUCED.value
    chance = (
        f"Family of verdicts: the rule was applied to {family.num_judged} cell(s), each at {ALPHA}."
        " If every true difference were the margin itself, the worst case, and the cells"
        f" independent, the chance of at least one wrong {reproduced} would be"
        f" {format_p(family.chance_wrongly_reproduced)}, 1 - (1 - {ALPHA})^{family.num_judged}, and"
        f" of at least one wrong {not_reproduced} {format_p(family.chance_wrongly_not_reproduced)}."
    )
    correction = (
        f"Holm's correction holds both chances at {ALPHA} for all cells together, however they"
        f" depend on one another; it would change: {'; '.join(changed) or 'none'}."
    )
    return [Note("", chance), Note("", correction)]


def _spread_notes(cells: Sequence[PrintedCell]) -> list[Note]:
    """Return, for each definition, the pooled standard deviation and how much the systems'
    differ.
    """
    notes: dict[str, None] = {}
    for cell in cells:
        pooled = cell.verdict.pooled
        if pooled is not None:
            sd, smallest, largest = (
                format_value(value, cell.metric)
                for value in (pooled.sd, pooled.smallest_sd, pooled.largest_sd)
            )
            p_value = pooled.bartlett_p
            test = "" if p_value is None else f", Bartlett's p {format_p(p_value)}"
            warning = UNEQUAL_SPREADS if p_value is not None and p_value < ALPHA else ""
            notes[
                f"{cell.metric}: sd {sd} pooled over {pooled.num_systems} system(s),"
                f" {pooled.degrees_of_freedom} degrees of freedom; single sds {smallest} to"
                f" {largest}{test}.{warning}"
            ] = None
    return [Note("", text) for text in notes]


def verdict_frame(cells: Sequence[PrintedCell]) -> pd.DataFrame:
    """Return verdicts.tsv's frame, a line a cell; what does not apply is empty.

    Its last three columns are the family's, the same in every line.
    """
    family, lines = judge_family([cell.verdict for cell in cells]), []
    for cell in cells:
        key, verdict, corrected = cell.key, cell.verdict, cell.corrected
        low, high = verdict.interval or (None, None)
        prediction_low, prediction_high = verdict.prediction_interval or (None, None)
        lines.append(
            {
                "table": cell.table,
                "row": cell.row,
                "column": cell.column,
                "edition": cell.edition,
                "printed": cell.printed,
                "corpus": key.corpus,
                "system": key.system,
                "average": key.average,
                "testset": cell.number.key.testset if cell.number else None,
                "metric": cell.metric,
                "num_seeds": verdict.num_seeds,
                "mean": verdict.mean,
                "difference": verdict.difference,
                "ci_low": low,
                "ci_high": high,
                "outcome": verdict.outcome.value,
                "reason": verdict.reason,
                "largest_equivalent_difference": verdict.largest_equivalent_difference,
                "num_seeds_to_decide": verdict.num_seeds_to_decide,
                **{
                    name: getattr(verdict.pooled, name, None) for name in PooledSd.__struct_fields__
                },
                "p_difference": verdict.p_difference,
                "p_equivalent": verdict.p_equivalent,
                "p_outside": verdict.p_outside,
                "p_equivalent_holm": corrected.p_equivalent if corrected else None,
                "p_outside_holm": corrected.p_outside if corrected else None,
                "outcome_holm": corrected.outcome.value if corrected else None,
                "prediction_low": prediction_low,
                "prediction_high": prediction_high,
                "prediction_half_width": verdict.prediction_half_width,
                "printed_in_prediction": prediction_word(verdict) or None,
                "num_judged": family.num_judged,
                "chance_wrongly_reproduced": family.chance_wrongly_reproduced,
                "chance_wrongly_not_reproduced": family.chance_wrongly_not_reproduced,
            }
        )
    counts = (
        "num_seeds",
        "num_seeds_to_decide",
        "degrees_of_freedom",
        "num_systems",
    )  # whole though some are empty
    return pd.DataFrame(lines).astype(dict.fromkeys(counts, "Int64"))


def prediction_word(verdict: Verdict) -> str:
    """Return whether the printed number lies `inside` or `outside` our prediction interval; ''
    without one.
    """
    return {True: "inside", False: "outside", None: ""}[verdict.is_printed_predicted]
