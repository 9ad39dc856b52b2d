"""Lays out the verdicts (is a number of the paper reproduced here?) on every BLEU in the paper, as
a table and as verdicts.tsv, and the table of replications.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import pandas as pd

from aiayn.printed import PAPER_SCALE, PublishedReplication, read_replications
from aiayn.scoring.verdict import (
    ALPHA,
    MARGIN_BLEU,
    MIN_SEEDS,
    Outcome,
    Verdict,
    judge_family,
    largest_reproducible_sd,
)
from paper_tables.frame import Frame, PrintedCell
from paper_tables.layout import (
    DASH,
    Cell,
    Field,
    Note,
    Table,
    columns_of,
    label_field,
    our_field,
    printed_field,
    rows_of,
    words_field,
)
from paper_tables.public_seeds import noise_sentence, seeds_by_public_noise
from paper_tables.rounding import BLEU, PLUS_MINUS, rounded, rounded_p, rounded_range
from paper_tables.tables.ours import complete, our_cell

# The effect was measured by simulation, in tests/unit/test_simulation.py.
UNEQUAL_SPREADS = (
    " The systems do not share one spread: by the pooled sd alone, verdicts on those that vary more"
    f" than the pool are wrong more often than {ALPHA}."
)

VERDICT_COLUMNS = [
    "table",
    "row",
    "column",
    "edition",
    "printed",
    "corpus",
    "system",
    "average",
    "testset",
    "metric",
    "num_seeds",
    "mean",
    "difference",
    "ci_low",
    "ci_high",
    "outcome",
    "reason",
    "largest_equivalent_difference",
    "num_seeds_to_decide",
    "sd",
    "degrees_of_freedom",
    "num_systems",
    "smallest_sd",
    "largest_sd",
    "bartlett_p",
    "p_difference",
    "p_equivalent",
    "p_outside",
    "p_equivalent_holm",
    "p_outside_holm",
    "outcome_holm",
    "prediction_low",
    "prediction_high",
    "prediction_half_width",
    "printed_in_prediction",
    "num_judged",
    "chance_wrongly_reproduced",
    "chance_wrongly_not_reproduced",
    "judging_sd",
    "judging_df",
    "outcome_by_pooled_sd",
]
# Columns of whole numbers with empty cells.
COUNTS = ("num_seeds", "num_seeds_to_decide", "degrees_of_freedom", "num_systems")

# A row has two answers: the verdict, and the prediction interval.
MEANINGS = (
    (
        f"Verdict: is the mean of our runs the printed number, to within {MARGIN_BLEU} BLEU? That"
        " number is taken as a constant."
    ),
    (
        "Printed as one run: the printed number is itself a single run; is it in the 95 %"
        " prediction interval of one more run of ours, mean \u00b1 t sd sqrt(1 + 1/n)? If it is"
        " inside, it could be one more run of ours. This does not count as"
        f" {Outcome.REPRODUCED.value}: the fewer the seeds, the wider the interval."
    ),
)


def lay_out_replications(frame: Frame) -> Table:
    """Return the table of replications: numbers that other papers published, next to ours, each
    with its verdict.
    """
    replication_by_row = {replication.row: replication for replication in read_replications()}

    def place(cell: PrintedCell) -> str:
        replication = replication_by_row[cell.row]
        return f"{replication.corpus}, {replication.testset}, {replication.average}"

    def aside(cell: PrintedCell) -> tuple[str, str] | None:
        # A replication that this scale does not run is only listed below the table, with the
        # reason.
        if cell.number:
            return None
        return f"{cell.row} ({place(cell)})", cell.verdict.reason.rstrip(".")

    fields: tuple[Field[PrintedCell], ...] = (
        label_field("row", "system", lambda cell: cell.row),
        label_field("conditions", "corpus, test set, average", place),
        *_fields(),
    )
    sources = [_source_words(replication) for replication in replication_by_row.values()]
    cells = [cell for cell in frame.judged if cell.table == "replications"]
    table = Table(
        name="replications",
        title="Replications",
        caption=(
            "Numbers that others published at a smaller scale, next to ours under the same"
            " conditions: same text, test set and definition of BLEU. A difference is to that"
            " published number, never to the paper's."
        ),
        columns=columns_of(fields),
        cells=rows_of(fields, cells, aside=aside),
        notes=(*_meanings(frame.judged), *map(Note, sources)),
    )
    text = (
        "Not the paper's corpus or scale; compared only with the number printed in the same line."
    )
    return complete(frame, table, mark_text=text, has_precisions=False)


def _source_words(replication: PublishedReplication) -> str:
    """Return a text that says where a replication is published, which line of the publication
    contains it, and under which conditions it was measured.
    """
    source = f"{replication.source_repository}, {replication.source_path}"
    return (
        f"{replication.row}: {replication.paper}. {source} at {replication.source_commit[:8]}:"
        f" \u201c{replication.printed_line}\u201d ({replication.num_seeds} seed(s))."
        f" {replication.conditions}."
    )


def lay_out_verdicts(frame: Frame) -> Table:
    """Return the table with the verdict on every BLEU in the paper, including systems that this
    scale does not run.
    """
    fields: tuple[Field[PrintedCell], ...] = (
        label_field("cell", "printed cell", name_of),
        *_fields(),
        words_field(
            "p_equivalent", "p equivalent (Holm)", lambda cell: _p_words(cell, "p_equivalent")
        ),
        words_field("p_outside", "p outside (Holm)", lambda cell: _p_words(cell, "p_outside")),
    )

    def aside(cell: PrintedCell) -> tuple[str, str] | None:
        if not is_not_comparable(cell):
            return None
        return name_of(cell), cell.verdict.reason.rstrip(".")

    notes = [*_meanings(frame.judged), *_family_notes(frame.judged), *_spread_notes(frame.judged)]
    notes += _rule_notes(frame.judged)
    # The public trainings are on WMT, so their noise says nothing at a smaller scale.
    if frame.scale == PAPER_SCALE:
        notes.append(Note(noise_sentence()))
    table = Table(
        name="verdicts",
        title="Verdicts",
        caption=(
            f"The rule, fixed beforehand: margin {MARGIN_BLEU} BLEU, two one-sided t-tests at"
            f" {ALPHA}, at least {MIN_SEEDS} seeds, the larger of the cell's own standard deviation"
            " and that pooled over the systems of this scale in one definition (decision 0014;"
            " formerly always the pooled). The printed number is taken as a constant. Differences"
            " with 95 % interval; p-values, and by Holm's correction over all judged cells."
        ),
        columns=columns_of(fields),
        cells=rows_of(fields, frame.judged, aside=aside),
        notes=tuple(notes),
    )
    return complete(frame, table, has_states=False, has_signatures=False)


def _fields() -> tuple[Field[PrintedCell], ...]:
    """Return the fields (columns) that the tables of verdicts and of replications share, from the
    published number to the verdict.
    """

    def largest(cell: PrintedCell) -> str:
        difference = cell.verdict.largest_equivalent_difference
        return "none" if difference is None else rounded(difference, cell.metric)

    def where_judged(text_of: Callable[[PrintedCell], str]) -> Callable[[PrintedCell], str]:
        # Where the rule was not applied, questions about seeds cannot be answered.
        return lambda cell: "" if is_not_comparable(cell) else text_of(cell)

    return (
        label_field("metric", "definition", lambda cell: cell.metric),
        printed_field("printed", "printed", lambda cell: cell.printed),
        our_field("ours", "ours", lambda cell: our_cell(cell.number)),
        our_field("difference", "difference", _difference),
        our_field("verdict", "verdict", lambda cell: Cell(cell.verdict.outcome.value, "ours")),
        our_field("verdict_by_pooled_sd", "by the former rule (pooled sd)", _former_cell),
        label_field("reason", "reason", lambda cell: cell.verdict.reason),
        our_field("prediction", "printed as one run (95 % prediction)", _prediction),
        words_field(
            "largest_equivalent_difference",
            "largest difference callable equivalent",
            where_judged(largest),
        ),
        words_field(
            "num_seeds_to_decide",
            "seeds that would decide",
            where_judged(_seeds_to_decide),
        ),
    )


def _seeds_to_decide(cell: PrintedCell) -> str:
    """Return the number of seeds that would decide the verdict with our sd, or, if our sd is
    unknown, with the sds of public trainings.

    The public trainings have about the paper's scale, so they do not tell how many seeds a
    replication on a smaller corpus needs.
    """
    if cell.verdict.num_seeds_to_decide is not None:
        return str(cell.verdict.num_seeds_to_decide)
    # MLPerf and AlgoPerf train on WMT17. A replication is on a smaller corpus.
    if cell.table == "replications":
        return "not known"
    return seeds_by_public_noise(cell.verdict) or "not known"


def _former_cell(cell: PrintedCell) -> Cell | None:
    """Return the cell with the verdict by an earlier version of the rule, which used only the
    pooled sd. The table cell is empty if the rule for verdicts could not be applied.
    """
    former = cell.verdict.outcome_by_pooled_sd
    return None if former is None else Cell(former.value, "ours")


def _difference(cell: PrintedCell) -> Cell | None:
    verdict = cell.verdict
    if cell.number is None:
        return None
    # No seed has a value yet, or the conditions are different.
    if verdict.difference is None:
        return Cell(DASH, "state")
    interval = ""
    if verdict.interval:
        interval = f" ({rounded_range(*verdict.interval, BLEU, is_signed=True)})"
    text = f"{rounded(verdict.difference, BLEU, is_signed=True)}{interval}"
    return Cell(text, "ours", numbers=(cell.number,))


def _prediction(cell: PrintedCell) -> Cell | None:
    """Return the cell that says whether the published number could be from one more run of ours,
    with the prediction interval.
    """
    verdict = cell.verdict
    if verdict.prediction_interval is None or verdict.prediction_half_width is None:
        return None if is_not_comparable(cell) else Cell(DASH, "state")
    interval = rounded_range(*verdict.prediction_interval, cell.metric)
    half_width = rounded(verdict.prediction_half_width, cell.metric)
    return Cell(f"{prediction_word(verdict)} {interval} ({PLUS_MINUS}{half_width})", "ours")


def _meanings(judged_cells: Sequence[PrintedCell]) -> list[Note]:
    """Return notes that explain the two answers in a row (verdict and prediction), if any cell has
    a value of ours.
    """
    # Before the first score there is nothing to explain.
    if all(cell.verdict.mean is None for cell in judged_cells):
        return []
    return list(map(Note, MEANINGS))


def is_not_comparable(cell: PrintedCell) -> bool:
    """Return whether the rule for verdicts cannot be applied, because no run exists, or because its
    conditions are not the paper's.
    """
    return cell.verdict.outcome is Outcome.NOT_COMPARABLE


def name_of(cell: PrintedCell) -> str:
    """Return the place of a number in the paper, such as `Table 2: big, bleu_en_fr (arxiv)`."""
    table_name = f"Table {cell.table}" if cell.table.isdigit() else cell.table
    # The edition is shown only if the editions print different numbers. It is '' for a replication.
    edition = f" ({cell.edition})" if cell.edition not in ("both", "") else ""
    return f"{table_name}: {cell.row}, {cell.column}{edition}"


def _p_words(cell: PrintedCell, name: Literal["p_equivalent", "p_outside"]) -> str:
    """Return a p-value of the verdict, followed by its value after Holm's correction."""
    # Without a verdict by the rule, p-values do not exist.
    if cell.corrected is None:
        return ""
    p_value, corrected = getattr(cell.verdict, name), getattr(cell.corrected, name)
    return f"{rounded_p(p_value)} ({rounded_p(corrected)})"


def _family_notes(judged_cells: Sequence[PrintedCell]) -> list[Note]:
    """Return notes on all verdicts together: the probabilities of a wrong verdict, and which
    verdicts Holm's correction would change.
    """
    family = judge_family([cell.verdict for cell in judged_cells])
    if family.num_judged == 0:
        return [Note("Family of verdicts: the rule was applied to no cell, so none can be wrong.")]
    # A correction that changes an outcome must be visible next to the outcome.
    changed = []
    for cell in judged_cells:
        before, corrected = cell.verdict.outcome.value, cell.corrected
        if corrected is not None and corrected.outcome.value != before:
            changed.append(f"{name_of(cell)} ({before} to {corrected.outcome.value})")
    # The two kinds of errors are two families, because a cell can be wrong in only one of the two
    # ways.
    wrongly_reproduced = rounded_p(family.chance_wrongly_reproduced)
    wrongly_not = rounded_p(family.chance_wrongly_not_reproduced)
    reproduced, not_reproduced = Outcome.REPRODUCED.value, Outcome.NOT_REPRODUCED.value
    chance = (
        f"Family of verdicts: the rule was applied to {family.num_judged} cell(s), each at {ALPHA}."
        " If every true difference were the margin itself, the worst case, and the cells"
        f" independent, the chance of at least one wrong {reproduced} would be"
        f" {wrongly_reproduced}, 1 - (1 - {ALPHA})^{family.num_judged}, and"
        f" of at least one wrong {not_reproduced} {wrongly_not}."
    )
    correction = (
        f"Holm's correction holds both chances at {ALPHA} for all cells together, however they"
        f" depend on one another; it would change: {'; '.join(changed) or 'none'}."
    )
    return [Note(chance), Note(correction)]


def _rule_notes(judged_cells: Sequence[PrintedCell]) -> list[Note]:
    """Return two kinds of notes: the cells that had a different verdict by an earlier version of
    the rule, with the reasons, and the sds that are too large for the verdict REPRODUCED.
    """
    # Decision 0014 changed the rule, so the page shows what each rule says.
    changed, limits = [], []
    for cell in judged_cells:
        verdict, judging = cell.verdict, cell.verdict.judging
        # The rule was not applied to this cell, or its sd is not known.
        if verdict.outcome_by_pooled_sd is None or judging is None or verdict.pooled is None:
            continue
        limits.append((verdict.num_seeds, judging.degrees_of_freedom))
        if verdict.outcome is not verdict.outcome_by_pooled_sd:
            changed.append(
                f"{name_of(cell)} ({verdict.outcome_by_pooled_sd.value} to {verdict.outcome.value},"
                f" because its own sd {rounded(judging.sd, cell.metric)} is above the pooled"
                f" {rounded(verdict.pooled.sd, cell.metric)})"
            )
    if not limits:
        return []
    texts = [f"Against the former rule changed: {'; '.join(changed) or 'none'}."]
    # Few seeds with a large sd can never show that a number is reproduced, even if the difference
    # is 0.
    for num_seeds, degrees_of_freedom in sorted(set(limits)):
        largest = rounded(largest_reproducible_sd(num_seeds, degrees_of_freedom), BLEU)
        texts.append(
            f"With {num_seeds} seeds and an sd of {degrees_of_freedom} degrees of freedom, no"
            f" difference can be {Outcome.REPRODUCED.value} if the sd is {largest} or more."
        )
    return list(map(Note, texts))


def _spread_notes(cells: Sequence[PrintedCell]) -> list[Note]:
    """Return a note for each definition of BLEU with the pooled standard deviation over seeds and
    the range of the systems' sds.
    """
    # All cells of one definition share a pooled sd, which is listed once.
    texts: dict[str, None] = {}
    for cell in cells:
        pooled = cell.verdict.pooled
        if pooled is None:
            continue
        # The range shows whether one sd for all systems is a fair assumption.
        sds = rounded_range(pooled.smallest_sd, pooled.largest_sd, cell.metric)
        text = (
            f"{cell.metric}: sd {rounded(pooled.sd, cell.metric)} pooled over"
            f" {pooled.num_systems} system(s), {pooled.degrees_of_freedom} degrees of freedom;"
            f" single sds {sds}"
        )
        if pooled.bartlett_p is not None:
            text += f", Bartlett's p {rounded_p(pooled.bartlett_p)}"
        is_unequal = pooled.bartlett_p is not None and pooled.bartlett_p < ALPHA
        texts[f"{text}.{UNEQUAL_SPREADS if is_unequal else ''}"] = None
    return list(map(Note, texts))


def verdict_frame(cells: Sequence[PrintedCell]) -> pd.DataFrame:
    """Return the data frame of verdicts.tsv, with one line per cell of the paper. Values that do
    not apply to a cell are empty.

    The columns from `num_judged` to `chance_wrongly_not_reproduced` describe all cells together and
    are the same in every line. The last three columns have the sd that the rule used and the
    outcome by an earlier version of the rule.
    """
    # The fields of the structs have the names of the columns. Fields that are structs or have a
    # different name are set below. All other fields are dropped at the end.
    family, lines = judge_family([cell.verdict for cell in cells]), []
    for cell in cells:
        verdict, corrected = cell.verdict, cell.corrected
        line = msgspec.structs.asdict(cell.key)
        for struct in (cell, verdict, verdict.pooled, family):
            if struct is not None:
                line |= msgspec.structs.asdict(struct)
        line["testset"] = cell.number.key.testset if cell.number else None
        line["outcome"] = verdict.outcome.value
        line["outcome_by_pooled_sd"] = verdict.outcome_by_pooled_sd
        if verdict.judging is not None:
            line["judging_sd"] = verdict.judging.sd
            line["judging_df"] = verdict.judging.degrees_of_freedom
        line["ci_low"], line["ci_high"] = verdict.interval or (None, None)
        prediction = verdict.prediction_interval or (None, None)
        line["prediction_low"], line["prediction_high"] = prediction
        line["printed_in_prediction"] = prediction_word(verdict) or None
        if corrected is not None:
            line["p_equivalent_holm"] = corrected.p_equivalent
            line["p_outside_holm"] = corrected.p_outside
            line["outcome_holm"] = corrected.outcome.value
        lines.append(line)
    # `Int64` is pandas' type for whole numbers with gaps. Otherwise 3 seeds would become 3.0.
    return pd.DataFrame(lines, columns=VERDICT_COLUMNS).astype(dict.fromkeys(COUNTS, "Int64"))


def prediction_word(verdict: Verdict) -> str:
    """Return `inside` or `outside`: whether the published number is in our prediction interval.
    Return '' if there is no interval.
    """
    return {True: "inside", False: "outside", None: ""}[verdict.is_printed_predicted]
