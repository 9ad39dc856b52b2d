"""Lays out table `conclusions`: what the paper concludes from pairs of cells of its tables, and
which of these conclusions our systems show.

A row of the table is a contrast: the difference between a row of Table 2 or 3 and its control. A
row has an answer by decision 0012 (`analysis.conclusions.answers`) and a call by the older rule of
decision 0009 (`analysis.conclusions.contrasts`). The notes of the table explain answer and call.
"""

from collections.abc import Callable, Sequence

from aiayn.printed import REFERENCE_SYSTEM
from aiayn.scoring.scores import BITS_METRIC
from aiayn.scoring.verdict import ALPHA, MARGIN_BLEU, PooledSd
from analysis.conclusions.answers import MARGIN_OF_ABSENCE, Answered, ContrastAnswer
from analysis.conclusions.contrasts import (
    DECIDED,
    LATE_SHARE,
    MARGIN_BITS,
    MAX_REACH_BITS,
    SHARES,
    SLOPE_FROM,
    STARTED_BITS,
    UNIFORM_BITS,
    UNIFORM_ENTROPY,
    Call,
    Contrast,
    reach_of,
)
from analysis.conclusions.scale_contrasts import (
    NOT_ANSWERED,
    NOT_MEASURED,
    Contrasts,
    PrintedContrast,
    draw_contrasts,
    further_testsets,
)
from analysis.conclusions.tables.testsets import heading_of
from paper_tables.frame import Frame
from paper_tables.layout import (
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
from paper_tables.rounding import BITS, rounded, rounded_range, with_reach
from paper_tables.tables.ours import complete

OUTCOME_WORDS = {"above": "higher", "below": "lower", "equivalent": "equivalent"}
NOTHING_CONCLUDED = "the text concludes nothing of it"
NOT_RUN = "One of the two systems is not run at this scale"
SHARES_WORDS = ", ".join(rounded(share * 100, 0) for share in SHARES)
# The notes repeat the two rules, because the table is also read outside of this project. Decision
# 0009 was fixed before the trainings, decision 0012 after a look at them, and each note says so.
RULE_NOTES = (
    (
        "A difference is the mean of the row over its seeds minus that of the other row over its"
        " own, two or more. Bits a subword are log2 of each seed's perplexity on dev, and primary;"
        " BLEU is secondary, and not corrected. sd: the standard deviation over seeds, pooled over"
        " the systems of this test set and metric with 2 seeds or more, all measured on averaged"
        " models or all on last checkpoints, with df degrees of freedom. Reach: t(0.975, df) sd"
        " sqrt(1/n1 + 1/n2), half of the 95 % interval."
    ),
    (
        "Answers (decision 0012, written after a look at the runs of scale multi30k). As printed,"
        " reversed: the interval excludes 0, with or against the printed sign. Differs: the two"
        " are printed as equal, and the interval excludes 0; they are as printed if it includes 0"
        " and the effect is within the margin. Absent: the interval includes 0 and excludes the"
        f" printed effect, and two one-sided tests at {ALPHA} reject an effect of"
        f" {MARGIN_OF_ABSENCE} bits or more. Too small to tell: the same, but the interval includes"
        " the printed effect. Undecided: anything else. Holm's correction runs twice, over the"
        " p-values of difference and over the p-values of equivalence. The smallest margin is the"
        " larger absolute end of the 90 % interval, and the same with alpha divided by the number"
        " of contrasts; it is a bound and is never tested."
    ),
    (
        "Calls (decision 0009, fixed before seeds 5 and above of scale multi30k were trained; its"
        " seeds 1 to 4 had been looked at): higher or lower holds here if the difference in the"
        " paper's direction is more than the reach, is reversed if it is as large the other way,"
        " and is else too close to call. Equivalent holds here if two one-sided tests at"
        f" {ALPHA} reject a difference of {rounded(MARGIN_BITS, 2)} bits, about what a single head"
        f" costs as printed, or of {MARGIN_BLEU} BLEU; it is reversed if the whole 95 % interval is"
        " outside of that. Call by Holm: corrected over the contrasts in bits that are called, each"
        " by its p-value (two-sided, of no difference; for an equivalence from its two tests). As"
        " seen by the same seeds: the number of seeds of both rows whose difference has the paper's"
        " direction. Elsewhere: what others found, at scales of their own; no reproduction of"
        " Table 3 with seeds and intervals is known to us. Further test sets, and dev by the alpha"
        " that a probe of base chose, are not called; a change of sign is marked."
    ),
    (
        "Did not start: every head of the decoder reads its source evenly (entropy over log S"
        f" above {UNIFORM_ENTROPY}), and a subword loses less than {UNIFORM_BITS} bits if all of"
        " them are made to. A row with such a seed has no call and no answer. Its difference is"
        " shown for the seeds that started, and one more column has the call with all seeds."
        " Late: the first"
        f" validation below {STARTED_BITS} bits came after {rounded(LATE_SHARE * 100, 0)} % of the"
        " updates; it counts as any other. Still moving: the least-squares slopes of the"
        f" validations over the last {rounded((1 - SLOPE_FROM) * 100, 0)} % of the updates differ"
        f" between row and base, by Holm's correction at {ALPHA}. The effect itself is shown after"
        f" {SHARES_WORDS} % of each system's updates, from the logs, which have three digits."
    ),
)


def lay_out_conclusions(frame: Frame) -> Table:
    """Return table `conclusions` with one row per contrast: contrasts in bits per subword, then
    contrasts in BLEU.
    """
    # The contrasts are cached in the frame, because the picture of the page needs them, too.
    drawn = frame.once(draw_contrasts)
    notes = [*_spread_notes(frame, drawn), *RULE_NOTES]
    fields: list[Field[PrintedContrast]] = [
        label_field("statement", "of the rows", lambda contrast: contrast.statement),
        label_field("metric", "metric", lambda contrast: contrast.metric),
        printed_field("printed", "printed", lambda contrast: f"{contrast.printed_difference:+}"),
        printed_field("printed_bits", "printed, in bits", _printed_bits),
        label_field("expected", "concluded", _expected),
        our_field("ours", "ours", _difference_cell),
        _words_field("reach", "reach", lambda contrast, ours: _shown(contrast, ours.reach)),
        our_field("answer", "answer", _answer_cell),
        _answer_field("answer_holm", "difference by Holm", _holm_words),
        _answer_field("within", f"within {MARGIN_OF_ABSENCE} bits", _within_words),
        _answer_field(
            "smallest_margin", "smallest margin, plain and corrected", _smallest_margin_words
        ),
        # Decision 0012 keeps the calls of the older rule, which was fixed before the trainings.
        our_field("call", "call", _call_cell),
        _words_field("call_holm", "call by Holm", lambda _, ours: ours.corrected or ""),
        _words_field("call_with_all", "call with all runs", lambda _, ours: ours.with_all or ""),
        _words_field("effects", f"at {SHARES_WORDS} % of updates", _effects),
        *(_testset_field(testset) for testset in further_testsets(frame)),
        _words_field("starts", "starts", _starts),
        _words_field("same_seeds", "as seen by the same seeds", _same_seeds_words),
        label_field("rows", "difference", lambda contrast: contrast.name),
        label_field("sentence", "section: sentence", _sentence),
        label_field("elsewhere", "elsewhere", _elsewhere),
    ]
    table = Table(
        name="conclusions",
        title="What holds?",
        caption=(
            "What the paper's text concludes from its Tables 2 and 3, and whether our systems show"
            " it: the printed difference, ours with its 95 % interval, the answer, and the call by"
            " the older rule. Both are about our corpus, sizes and rate; at a smaller scale than"
            " the paper's a row keeps its ratio to base, not the sizes that the words name."
            f" {summarise(drawn)}"
        ),
        columns=columns_of(fields),
        cells=rows_of(fields, drawn.contrasts, aside=_aside),
        notes=tuple(map(Note, notes)),
        first=("statement", "printed", "ours", "answer", "within"),
    )
    return complete(frame, table, has_states=False)


def _words_field(
    name: str, heading: str, words_of: Callable[[PrintedContrast, Contrast], str]
) -> Field[PrintedContrast]:
    """Return a column with text about our difference of each contrast. A cell is blank if the
    contrast has no difference of ours, or if `words_of` returns ''.
    """

    def words(contrast: PrintedContrast) -> str:
        return "" if contrast.ours is None else words_of(contrast, contrast.ours)

    return words_field(name, heading, words)


def _answer_field(
    name: str, heading: str, words_of: Callable[[PrintedContrast, Answered], str]
) -> Field[PrintedContrast]:
    """Return a column with text about the answer for each contrast. A cell is blank for a contrast
    without an answer.
    """

    def words(contrast: PrintedContrast, ours: Contrast) -> str:
        return "" if contrast.answered is None else words_of(contrast, contrast.answered)

    return _words_field(name, heading, words)


def summarise(drawn: Contrasts) -> str:
    """Return a summary: how many primary contrasts have each answer, how many calls are decided,
    and which rows are still moving, started late or did not start to learn.
    """
    words = [contrast.answer_words for contrast in drawn.primary]
    counts = []
    # The order of the answers is fixed, so that two scales can be compared. Answers without a
    # contrast are left out.
    for answer in (*ContrastAnswer, NOT_ANSWERED, NOT_MEASURED):
        if answer in words:
            counts.append(f"{words.count(answer)} {answer}")
    # The rows in each state are listed even if there are none: "none" is a result, too.
    rows_by_state: dict[str, list[str]] = {"Still moving": [], "Late": [], "Did not start": []}
    plain, corrected = [], []
    for contrast in drawn.primary:
        if contrast.is_moving:
            rows_by_state["Still moving"].append(contrast.row_name)
        if contrast.ours is not None:
            plain.append(contrast.ours.call)
            corrected.append(contrast.ours.corrected)
            if contrast.ours.num_late:
                rows_by_state["Late"].append(contrast.row_name)
            if contrast.ours.num_unstarted:
                rows_by_state["Did not start"].append(contrast.row_name)
    text = (
        f"Answers for {len(drawn.primary)} contrasts in bits a subword: {', '.join(counts)}. Calls,"
        f" decided: {_decided_words(plain)}, by Holm's correction {_decided_words(corrected)}."
    )
    for state, rows in rows_by_state.items():
        text += f" {state}: {', '.join(rows) or 'none'}."
    return text


def _decided_words(calls: Sequence[Call | None]) -> str:
    num_held, num_reversed = calls.count(Call.HOLDS), calls.count(Call.REVERSED)
    return f"{num_held + num_reversed} ({num_held} hold here, {num_reversed} reversed)"


def _aside(contrast: PrintedContrast) -> tuple[str, str] | None:
    if contrast.place is not None:
        return None
    # The metric is in the name, because a row has one contrast in bits and one in BLEU.
    name = f"{contrast.row_name} minus {contrast.control_name} ({contrast.metric})"
    return name, NOT_RUN


def _sentence(contrast: PrintedContrast) -> str:
    if contrast.conclusion is None:
        return NOTHING_CONCLUDED
    return f"{contrast.conclusion.section}: {contrast.conclusion.sentence}"


def _elsewhere(contrast: PrintedContrast) -> str:
    finding = contrast.elsewhere
    return "" if finding is None else f"{finding.finding} ({finding.source}, {finding.place})"


def _printed_bits(contrast: PrintedContrast) -> str:
    # For BLEU the column `printed` already has the same unit.
    is_in_bits = contrast.metric == BITS_METRIC
    return _shown(contrast, contrast.printed_effect, is_signed=True) if is_in_bits else ""


def _expected(contrast: PrintedContrast) -> str:
    return "" if contrast.relation is None else OUTCOME_WORDS[contrast.relation]


def _answer_cell(contrast: PrintedContrast) -> Cell | None:
    """Return the cell with the answer of a primary contrast, and whether its difference still
    changes at the end of training.
    """
    if not contrast.is_primary or contrast.ours is None:
        return None
    if contrast.answered is None:
        return Cell(NOT_ANSWERED, "state")
    answer = contrast.answered.answer
    text = f"{answer}; still moving" if contrast.is_moving else str(answer)
    return Cell(text, "state" if answer is ContrastAnswer.UNDECIDED else "ours")


def _holm_words(contrast: PrintedContrast, answered: Answered) -> str:
    word = "yes" if answered.has_difference_by_holm else "no"
    return f"{word} (p {rounded(answered.holm_difference, 'p')})"


def _within_words(contrast: PrintedContrast, answered: Answered) -> str:
    """Return in words whether the difference is within the margin, and the p-value after Holm's
    correction.
    """
    word = "yes" if answered.is_within_margin else "no"
    return f"{word} (p by Holm {rounded(answered.holm_within, 'p')})"


def _smallest_margin_words(contrast: PrintedContrast, answered: Answered) -> str:
    corrected = _shown(contrast, answered.corrected_smallest_margin)
    return f"{_shown(contrast, answered.smallest_margin)}; {corrected}"


def _shown(contrast: PrintedContrast, value: float | None, *, is_signed: bool = False) -> str:
    """Return a value as text, rounded to the number of digits of its metric, or '' if there is no
    value.
    """
    return "" if value is None else rounded(value, contrast.metric, is_signed=is_signed)


def _difference_cell(contrast: PrintedContrast) -> Cell:
    """Return the cell with our difference, its 95 % interval and the numbers of seeds."""
    ours, row, control = contrast.ours, contrast.row, contrast.control
    # The mark of the scale, such as a dagger, says that the number was not measured under the
    # paper's conditions.
    marks = row.marks if row else ()
    if ours is None or row is None or control is None:
        state = "not run" if contrast.place is None else "not measured"
        return Cell(state, "state", marks, numbers=contrast.numbers)
    # Without an sd over seeds there is a difference, but no interval.
    interval = ""
    if ours.interval is not None:
        interval = f"{rounded_range(*ours.interval, contrast.metric, is_signed=True)}; "
    numbers = f"n={ours.num_compared} and {ours.num_compared_controls}"
    text = f"{_shown(contrast, ours.difference, is_signed=True)} ({interval}{numbers})"
    return Cell(text, "ours", marks, numbers=contrast.numbers)


def _call_cell(contrast: PrintedContrast) -> Cell | None:
    """Return the cell with the call, the answer by decision 0009's rule.

    If the call is "too close", the cell also says whether the paper's difference is smaller than
    half of our 95 % interval. Less than half of all experiments with our numbers of seeds would
    find a difference that is smaller than half of the 95 % interval.
    """
    ours = contrast.ours
    if ours is None:
        return None
    text = str(ours.call)
    if ours.call is Call.NOT_STARTED:
        text += f" ({ours.num_unstarted} of {ours.num_seeds})"
    elif ours.call is Call.CONTROL_NOT_STARTED:
        numbers = f"{ours.num_unstarted_controls} of {ours.num_control_seeds}"
        text += f" ({numbers}): choose the scale anew"
    elif ours.call is Call.TOO_CLOSE and ours.reach is not None:
        name, size = "printed effect", abs(contrast.printed_effect)
        # For an equivalence the margin replaces the printed effect, which is about 0.
        if contrast.relation == "equivalent":
            name = "margin"
            size = MARGIN_BITS if contrast.metric == BITS_METRIC else MARGIN_BLEU
        text += f"; the {name} is {'above' if size > ours.reach else 'below'} the reach"
    return Cell(text, "ours" if ours.call in DECIDED else "state")


def _testset_field(testset: str) -> Field[PrintedContrast]:
    """Return the column of a further test set or length penalty: the difference, half of its 95 %
    interval, and whether its sign differs from the sign on dev.
    """

    def words(contrast: PrintedContrast, ours: Contrast) -> str:
        further = contrast.by_testset.get(testset)
        if further is None:
            return ""
        text = with_reach(further.difference, further.reach, contrast.metric)
        # Decision 0009: contrasts on further test sets are not called, but a different sign is
        # marked.
        if further.difference * ours.difference < 0:
            text += "; sign changes"
        return text

    return _words_field(f"on_{testset}", heading_of(testset), words)


def _effects(contrast: PrintedContrast, ours: Contrast) -> str:
    # All effects are None if the logs are not there, or if the metric is BLEU.
    if set(ours.effects) == {None}:
        return ""
    text = ", ".join(
        _shown(contrast, effect, is_signed=True) or "not known" for effect in ours.effects
    )
    if ours.effect_at_control_updates is not None:
        early = _shown(contrast, ours.effect_at_control_updates, is_signed=True)
        text += f"; {early} at the control's last update"
    return text


def _starts(contrast: PrintedContrast, ours: Contrast) -> str:
    """Return how many seeds of a row did not start to learn or started late. Return "" if all seeds
    started in time.
    """
    number_by_state = {
        "did not start": ours.num_unstarted,
        "late": ours.num_late,
        "not known if it started": ours.num_unknown,
    }
    texts = []
    for state, number in number_by_state.items():
        if number:
            texts.append(f"{state} ({number} of {ours.num_seeds})")
    return "; ".join(texts)


def _same_seeds_words(contrast: PrintedContrast, ours: Contrast) -> str:
    """Return for how many of the seeds that both systems share the difference has the paper's
    direction.

    Runs with the same seed read their training data in the same order.
    """
    if contrast.relation not in ("above", "below"):
        return ""
    # A seed that both systems have shows the effect without the chance of the order of data. The
    # interval above does not use this pairing.
    row, control = (number.value_by_seed for number in contrast.numbers)
    common = row.keys() & control.keys()
    sign = 1 if contrast.relation == "above" else -1
    num_held = sum(sign * (row[seed] - control[seed]) > 0 for seed in common)
    return f"{num_held} of {len(common)}" if common else ""


def _spread_notes(frame: Frame, drawn: Contrasts) -> list[str]:
    """Return a note for each test set and metric: the pooled sd that was used, the largest sds, and
    how late runs and runs that did not start change the sd.
    """
    notes = []
    for (testset, metric), spread in drawn.spread_by_place.items():
        # `draw_contrast` makes the same choice, so the note has the sd that was used.
        pooled = spread.started or spread.everything
        if pooled is None:
            continue
        largest = ", ".join(f"{system} {rounded(sd, BITS)}" for system, sd in spread.largest)
        text = f"sd of {metric} on {testset}: {_sd_words(pooled)}; the largest: {largest}."
        if metric == BITS_METRIC:
            text += _third_seed_words(frame, pooled)
        if spread.unstarted:
            names, sd = ", ".join(spread.unstarted), _sd_words(spread.everything)
            text += f" Did not start: {names}; with all runs {sd}."
        if spread.late:
            text += f" Late: {', '.join(spread.late)}."
        if spread.late or spread.unstarted:
            text += f" Without these systems {_sd_words(spread.punctual)}."
        notes.append(text)
    return notes


def _third_seed_words(frame: Frame, pooled: PooledSd) -> str:
    """Return a sentence with half of a row's 95 % interval, from the sd and the numbers of seeds,
    and whether all rows get a further seed.
    """
    # The numbers of seeds come from the sheet and not from the results, because decision 0009
    # computes the reach before any difference is looked at.
    num_seeds = num_controls = 0
    for row in frame.rows:
        if "table3" in row.asked_by and row.system == REFERENCE_SYSTEM:
            num_controls = len(row.seeds)
        # The rule is about the rows with variations. Big, which is also in Table 2, is left out.
        elif "table3" in row.asked_by and "table2" not in row.asked_by:
            num_seeds = max(num_seeds, len(row.seeds))
    if not num_seeds or not num_controls:
        return ""
    reach = reach_of(pooled, num_seeds, num_controls)
    seeds = f"{num_seeds} {'seeds' if num_seeds > 1 else 'seed'} of a row"
    verdict = f"above {rounded(MAX_REACH_BITS, 2)}: seed {num_seeds + 1} of all rows is asked for"
    if reach <= MAX_REACH_BITS:
        verdict = (
            f"not above {rounded(MAX_REACH_BITS, 2)}: no further seed of the rows is asked for"
        )
    corpus = frame.corpus_by_pair["en-de"]
    # A further training can still change the sd, and with it the reach.
    if any(run.corpus == corpus and run.train is None for run in frame.runs):
        verdict += " so far; it is decided when all are in"
    words = f"{seeds} beside {num_controls} of base reach {rounded(reach, BITS)} bits"
    return f" By it {words}, {verdict}."


def _sd_words(pooled: PooledSd | None) -> str:
    if pooled is None:
        return "not known, as no other has two seeds"
    degrees = "degree" if pooled.degrees_of_freedom == 1 else "degrees"
    systems = "system" if pooled.num_systems == 1 else "systems"
    return (
        f"{rounded(pooled.sd, BITS)} ({pooled.degrees_of_freedom} {degrees} of freedom,"
        f" {pooled.num_systems} {systems})"
    )
