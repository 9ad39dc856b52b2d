"""Lays out what the paper concludes from two printed cells, and which of it our systems show: table
`conclusions`.

The rules are in `analysis.conclusions.answers` and `analysis.conclusions.contrasts`, and in the
notes of the table.
"""

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from aiayn.scoring.scores import BITS_METRIC
from aiayn.scoring.start import UNIFORM_BITS, UNIFORM_ENTROPY
from aiayn.scoring.verdict import ALPHA, MARGIN_BLEU, PooledSd
from analysis.conclusions.answers import MARGIN_OF_ABSENCE, Answer
from analysis.conclusions.contrasts import (
    DECIDED,
    LATE_SHARE,
    MARGIN_BITS,
    MAX_REACH_BITS,
    SHARES,
    SLOPE_FROM,
    STARTED_BITS,
    Call,
    Contrast,
    reach_of,
)
from analysis.conclusions.rates import RateProbes
from analysis.conclusions.scale_contrasts import (
    NOT_ANSWERED,
    Contrasts,
    PrintedContrast,
    draw_contrasts,
    further_testsets,
)
from analysis.conclusions.tables.testsets import heading_of
from paper_tables.frame import Frame
from paper_tables.layout import (
    BITS_DECIMALS,
    BLEU_DECIMALS,
    Aside,
    Cell,
    Field,
    Note,
    Table,
    blank_cell,
    columns_of,
    label_field,
    our_field,
    printed_field,
    rows_of,
    text_cell,
)
from paper_tables.tables.ours import complete, difference_provenance

OUTCOME_WORDS = {"above": "higher", "below": "lower", "equivalent": "equivalent"}
NOTHING_CONCLUDED = "the text concludes nothing of it"
NOT_RUN = "One of the two systems is not run at this scale"
SHARES_WORDS = ", ".join(f"{share * 100:.0f}" for share in SHARES)
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
        " of contrasts; it is a bound and is never tested. Other readings: the entries of table"
        " `readings` that give another direction; no reading changes an answer."
    ),
    (
        "Calls (decision 0009, fixed before seeds 5 and above of scale multi30k were trained; its"
        " seeds 1 to 4 had been looked at): higher or lower holds here if the difference in the"
        " paper's direction is more than the reach, is reversed if it is as large the other way,"
        " and is else too close to call. Equivalent holds here if two one-sided tests at"
        f" {ALPHA} reject a difference of {MARGIN_BITS:.2f} bits, about what a single head costs as"
        f" printed, or of {MARGIN_BLEU} BLEU; it is reversed if the whole 95 % interval is outside"
        " of that. Call by Holm: corrected over the contrasts in bits that are called, each by its"
        " p-value (two-sided, of no difference; for an equivalence from its two tests). As seen by"
        " the same seeds: the number of seeds of both rows whose difference has the paper's"
        " direction. Elsewhere: what others found, at scales of their own; no reproduction of"
        " Table 3 with seeds and intervals is known to us. Further test sets, and dev by the alpha"
        " that a probe of base chose, are not called; a change of sign is marked."
    ),
    (
        "Did not start: every head of the decoder reads its source evenly (entropy over log S"
        f" above {UNIFORM_ENTROPY}), and a subword loses less than {UNIFORM_BITS} bits if all of"
        " them are made to. Such a row is not called and not answered; its difference is that of"
        " the seeds that started, and another column calls with all runs in. Late: the first"
        f" validation below {STARTED_BITS} bits came after {LATE_SHARE * 100:.0f} % of the updates;"
        " it counts as any other. Still moving: the least-squares slopes of the validations over"
        f" the last {(1 - SLOPE_FROM) * 100:.0f} % of the updates differ between row and base, by"
        f" Holm's correction at {ALPHA}. The effect itself is shown after {SHARES_WORDS} % of each"
        " system's updates, from the logs, which have three digits."
    ),
)
RATES_NOTE = (
    "At other rates: each probe is a single training at so many times the rate of equation (3), and"
    " is in no other table. Probes and our own seeds are compared after the probes' number of"
    " updates. An effect holds at this rate only if it has one sign there and at the end, and the"
    " other sign where each side has its best rate."
)


def lay_out_conclusions(frame: Frame, rate_probes: RateProbes | None = None) -> Table:
    """Return one row a contrast: those in bits a subword, then those in BLEU."""
    drawn = draw_contrasts(frame, rate_probes)
    rates_note = [RATES_NOTE] if any(contrast.at_rates for contrast in drawn.contrasts) else []

    def sentence(contrast: PrintedContrast) -> str:
        return (
            NOTHING_CONCLUDED
            if contrast.conclusion is None
            else f"{contrast.conclusion.section}: {contrast.conclusion.sentence}"
        )

    def elsewhere(contrast: PrintedContrast) -> str:
        finding = contrast.elsewhere
        return "" if finding is None else f"{finding.finding} ({finding.source}, {finding.place})"

    def printed_bits(contrast: PrintedContrast) -> str:
        return (
            _shown(contrast, contrast.printed_effect, "+") if contrast.metric == BITS_METRIC else ""
        )

    def aside(contrast: PrintedContrast) -> Aside | None:
        return (
            Aside(f"{contrast.row_name} minus {contrast.control_name} ({contrast.metric})", NOT_RUN)
            if not contrast.place
            else None
        )

    fields: tuple[Field[PrintedContrast], ...] = (
        label_field("statement", "of the rows", lambda contrast: contrast.statement),
        label_field("metric", "metric", lambda contrast: contrast.metric),
        printed_field("printed", "printed", lambda contrast: f"{contrast.printed_difference:+}"),
        printed_field("printed_bits", "printed, in bits", printed_bits),
        label_field("expected", "concluded", _expected),
        our_field("ours", "ours", _difference_cell),
        our_field(
            "reach",
            "reach",
            lambda contrast: _words(contrast, lambda ours: _shown(contrast, ours.reach)),
        ),
        our_field("answer", "answer", _answer_cell),
        our_field("answer_holm", "difference by Holm", _holm_cell),
        our_field("within", f"within {MARGIN_OF_ABSENCE} bits", _within_cell),
        our_field("smallest_margin", "smallest margin, plain and corrected", _smallest_margin_cell),
        our_field(
            "differing",
            "other readings",
            lambda contrast: _shown_words("; ".join(contrast.differing)),
        ),
        our_field("call", "call", _call_cell),
        our_field(
            "call_holm",
            "call by Holm",
            lambda contrast: _words(contrast, lambda ours: ours.corrected or ""),
        ),
        our_field(
            "call_with_all",
            "call with all runs",
            lambda contrast: _words(contrast, lambda ours: ours.with_all or ""),
        ),
        our_field(
            "effects",
            f"at {SHARES_WORDS} % of updates",
            lambda contrast: _words(contrast, _effects),
        ),
        *(
            our_field(
                f"on_{testset}", heading_of(testset), functools.partial(_beside_cell, testset)
            )
            for testset in further_testsets(frame)
        ),
        our_field("at_rates", "at other rates", _at_rates_cell),
        our_field("starts", "starts", lambda contrast: _words(contrast, _starts)),
        our_field("same_seeds", "as seen by the same seeds", _same_seeds_cell),
        label_field("rows", "difference", lambda contrast: contrast.name),
        label_field("sentence", "section: sentence", sentence),
        label_field("elsewhere", "elsewhere", elsewhere),
    )
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
        rows=rows_of(fields, drawn.contrasts, aside=aside),
        notes=(
            *_spread_notes(frame, drawn),
            *(Note("", text) for text in (*RULE_NOTES, *rates_note)),
        ),
    )
    return complete(frame, table, has_states=False)


def summarise(drawn: Contrasts) -> str:
    """Return how many primary contrasts have which answer and which call, and which are not to be
    relied on.
    """
    ours_by_row = {
        contrast.row_name: contrast.ours for contrast in drawn.primary if contrast.ours is not None
    }
    counts = [
        f"{len(contrasts)} {answer}" for answer, contrasts in drawn.by_answer.items() if contrasts
    ]
    moving = [contrast.row_name for contrast in drawn.primary if contrast.is_moving]

    def decided(calls: Counter[Call | None]) -> str:
        return (
            f"{sum(calls[call] for call in DECIDED)} ({calls[Call.HOLDS]} hold here,"
            f" {calls[Call.REVERSED]} reversed)"
        )

    def named(is_so: Callable[[Contrast], bool]) -> str:
        return ", ".join(row for row, ours in ours_by_row.items() if is_so(ours)) or "none"

    return (
        f"Answers for {len(drawn.primary)} contrasts in bits a subword: {', '.join(counts)}. Calls,"
        f" decided: {decided(Counter(ours.call for ours in ours_by_row.values()))}, by Holm's"
        f" correction {decided(Counter(ours.corrected for ours in ours_by_row.values()))}. Still"
        f" moving: {', '.join(moving) or 'none'}. Late: {named(lambda ours: ours.num_late > 0)}."
        f" Did not start: {named(lambda ours: ours.num_unstarted > 0)}."
    )


def _shown_words(text: str) -> Cell:
    return text_cell(text, "ours") if text else blank_cell()


def _answer_cell(contrast: PrintedContrast) -> Cell:
    """Return the answer of a primary contrast, and whether its effect still moves."""
    if not contrast.is_primary or contrast.ours is None:
        return blank_cell()
    if contrast.answered is None:
        return text_cell(NOT_ANSWERED, "state")
    answer = contrast.answered.answer
    text = f"{answer}; still moving" if contrast.is_moving else str(answer)
    return text_cell(text, "state" if answer is Answer.UNDECIDED else "ours")


def _holm_cell(contrast: PrintedContrast) -> Cell:
    if contrast.answered is None:
        return blank_cell()
    word = "yes" if contrast.answered.has_difference_by_holm else "no"
    return text_cell(f"{word} (p {contrast.answered.holm_difference:.2g})", "ours")


def _within_cell(contrast: PrintedContrast) -> Cell:
    """Return whether the effect is within the margin, and the p-value of that after Holm's
    correction.
    """
    if contrast.answered is None:
        return blank_cell()
    word = "yes" if contrast.answered.is_within_margin else "no"
    return text_cell(f"{word} (p by Holm {contrast.answered.holm_within:.2g})", "ours")


def _smallest_margin_cell(contrast: PrintedContrast) -> Cell:
    if contrast.answered is None:
        return blank_cell()
    margins = (contrast.answered.smallest_margin, contrast.answered.corrected_smallest_margin)
    return text_cell("; ".join(_shown(contrast, margin) for margin in margins), "ours")


def _expected(contrast: PrintedContrast) -> str:
    return "" if contrast.conclusion is None else OUTCOME_WORDS[contrast.conclusion.relation]


def _shown(contrast: PrintedContrast, value: float | None, sign: str = "") -> str:
    """Return a value in the contrast's metric; bits have a decimal more than BLEU."""
    return (
        ""
        if value is None
        else f"{value:{sign}.{BITS_DECIMALS if contrast.metric == BITS_METRIC else BLEU_DECIMALS}f}"
    )


def _words(contrast: PrintedContrast, words_of: Callable[[Contrast], str]) -> Cell:
    """Return a cell of words on our contrast; blank without a contrast, or without words."""
    text = "" if contrast.ours is None else words_of(contrast.ours)
    return text_cell(text, "ours") if text else blank_cell()


def _difference_cell(contrast: PrintedContrast) -> Cell:
    ours, marks = contrast.ours, contrast.row.marks if contrast.row else ()
    if ours is None or contrast.row is None or contrast.control is None:
        return replace(
            text_cell("not run" if contrast.place is None else "not measured", "state", *marks),
            shows=contrast.numbers,
        )
    interval = (
        ""
        if ours.interval is None
        else f"{' to '.join(_shown(contrast, end, '+') for end in ours.interval)}; "
    )
    numbers = f"n={ours.num_compared} and {ours.num_compared_controls}"
    text = f"{_shown(contrast, ours.difference, '+')} ({interval}{numbers})"
    return replace(
        text_cell(text, "ours", *marks),
        provenance=difference_provenance(contrast.row, contrast.control),
        shows=contrast.numbers,
    )


def _call_cell(contrast: PrintedContrast) -> Cell:
    """Return the call, with what weakens it: a printed effect below the reach, or an effect of this
    rate only.
    """
    if contrast.ours is None:
        return blank_cell()
    ours, text = contrast.ours, str(contrast.ours.call)
    if ours.call is Call.NOT_STARTED:
        text += f" ({ours.num_unstarted} of {ours.num_seeds})"
    elif ours.call is Call.CONTROL_NOT_STARTED:
        text += (
            f" ({ours.num_unstarted_controls} of {ours.num_control_seeds}): choose the scale anew"
        )
    elif ours.call is Call.TOO_CLOSE and ours.reach is not None:
        size, what = abs(contrast.printed_effect), "printed effect"
        if _expected(contrast) == OUTCOME_WORDS["equivalent"]:
            size, what = MARGIN_BITS if contrast.metric == BITS_METRIC else MARGIN_BLEU, "margin"
        text += f"; the {what} is {'above' if size > ours.reach else 'below'} the reach"
    text += "; at this rate" if contrast.flips_at_best_rate else ""
    return text_cell(text, "ours" if ours.call in DECIDED else "state")


def _beside_cell(testset: str, contrast: PrintedContrast) -> Cell:
    """Return the difference on a further test set or with another alpha, and whether its sign is
    another.
    """
    beside = contrast.by_testset.get(testset)
    if beside is None or contrast.ours is None:
        return blank_cell()
    reach = "" if beside.reach is None else f" \N{PLUS-MINUS SIGN} {_shown(contrast, beside.reach)}"
    changes = "; sign changes" if beside.difference * contrast.ours.difference < 0 else ""
    return text_cell(f"{_shown(contrast, beside.difference, '+')}{reach}{changes}", "ours")


def _at_rates_cell(contrast: PrintedContrast) -> Cell:
    """Return the difference at each rate that was probed, and where each side has its best rate."""
    if contrast.at_rates is None:
        return blank_cell()
    at_each = [
        f"{_shown(contrast, bits, '+')} at {times:g} x"
        for times, bits in contrast.at_rates.by_times_peak.items()
    ]
    return text_cell(
        f"{', '.join(at_each)}; each at its best"
        f" {_shown(contrast, contrast.at_rates.at_best, '+')}",
        "ours",
    )


def _effects(ours: Contrast) -> str:
    shown = [
        "not known" if effect is None else f"{effect:+.{BITS_DECIMALS}f}" for effect in ours.effects
    ]
    early = ours.effect_at_control_updates
    text = ", ".join(shown) + (
        "" if early is None else f"; {early:+.{BITS_DECIMALS}f} at the control's last update"
    )
    return "" if set(ours.effects) == {None} else text


def _starts(ours: Contrast) -> str:
    """Return what is to be said of how the row's seeds started; nothing if all did, and in time."""
    numbers = (ours.num_unstarted, ours.num_late, ours.num_unknown)
    words = ("did not start", "late", "not known if it started")
    return "; ".join(
        f"{word} ({n} of {ours.num_seeds})" for n, word in zip(numbers, words, strict=True) if n
    )


def _same_seeds_cell(contrast: PrintedContrast) -> Cell:
    """Return how many of the seeds that both rows have lie in the paper's direction: they share the
    order of data.
    """
    expected = _expected(contrast)
    if contrast.row is None or contrast.control is None or expected not in ("higher", "lower"):
        return blank_cell()
    values, control_values = contrast.row.value_by_seed, contrast.control.value_by_seed
    differences = [
        value - control_values[seed] for seed, value in values.items() if seed in control_values
    ]
    held = sum(
        difference > 0 if expected == "higher" else difference < 0 for difference in differences
    )
    return text_cell(f"{held} of {len(differences)}", "ours") if differences else blank_cell()


def _spread_notes(frame: Frame, drawn: Contrasts) -> list[Note]:
    """Return, of each test set and metric, the sd that was used, the largest, and what unstarted
    and late runs do.
    """
    notes = []
    for (testset, metric), spread in drawn.spread_by_place.items():
        pooled = spread.started or spread.everything
        if pooled is None:
            continue
        largest = ", ".join(f"{system} {sd:.3f}" for system, sd in spread.largest)
        text = f"sd of {metric} on {testset}: {_sd_words(pooled)}; the largest: {largest}."
        text += _third_seed_words(frame, pooled) if metric == BITS_METRIC else ""
        if spread.unstarted:
            text += (
                f" Did not start: {', '.join(spread.unstarted)}; with all runs"
                f" {_sd_words(spread.everything)}."
            )
        if spread.late:
            text += f" Late: {', '.join(spread.late)}."
        if spread.late or spread.unstarted:
            text += f" Without these systems {_sd_words(spread.punctual)}."
        notes.append(Note("", text))
    return notes


def _third_seed_words(frame: Frame, pooled: PooledSd) -> str:
    """Return what a row's seeds reach by the sd alone, and whether by the rule all rows get a
    third.
    """
    num_seeds, num_controls = frame.num_row_seeds, frame.num_base_seeds
    if not num_seeds or not num_controls:
        return ""
    reach = reach_of(pooled, num_seeds, num_controls)
    is_enough = reach <= MAX_REACH_BITS
    seeds = f"{num_seeds} seed{'s' if num_seeds > 1 else ''} of a row beside {num_controls} of base"
    missing = any(
        run.corpus == frame.corpus_by_pair["en-de"] and run.train is None for run in frame.runs
    )
    return (
        f" By it {seeds} reach {reach:.3f} bits, {'not ' if is_enough else ''}above"
        f" {MAX_REACH_BITS:.2f}:"
        f" {'no further seed of the rows is' if is_enough else f'seed {num_seeds + 1} of all rows is'} asked"  # noqa: E501
        f" for{' so far; it is decided when all are in' if missing else ''}."
    )


def _sd_words(pooled: PooledSd | None) -> str:
    if pooled is None:
        return "not known, as no other has two seeds"
    degrees = (
        f"{pooled.degrees_of_freedom} degree{'' if pooled.degrees_of_freedom == 1 else 's'} of"
        " freedom"
    )
    return (
        f"{pooled.sd:.3f} ({degrees},"
        f" {pooled.num_systems} system{'' if pooled.num_systems == 1 else 's'})"
    )
