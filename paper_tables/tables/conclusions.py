"""Lays out what the paper concludes from two printed cells, and which of it our systems show: table `conclusions`.

The rule is in `analysis.scoring.contrasts`, and in the notes of the table.
"""

import functools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal

import msgspec

from aiayn.printed import (
    METRIC_BY_PAIR,
    PERPLEXITY_METRIC,
    PublishedConclusion,
    PublishedFinding,
    read_conclusions,
    read_findings,
)
from analysis.scoring.contrasts import (
    DECIDED,
    LATE_SHARE,
    MARGIN_BITS,
    MAX_REACH_BITS,
    SHARES,
    STARTED_BITS,
    UNIFORM_BITS,
    UNIFORM_ENTROPY,
    Call,
    Contrast,
    SeedRun,
    Spread,
    correct_family,
    draw_contrast,
    measure_spread,
    reach_of,
)
from analysis.scoring.scores import BITS_LOST_METRIC, BITS_METRIC, ENTROPY_METRIC
from analysis.scoring.verdict import ALPHA, MARGIN_BLEU, MAX_SEEDS_ADVISED, PooledSd
from paper_tables.frame import Frame, Number, PrintedCell
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
from paper_tables.rates import RateEffects, effects_at_rates
from paper_tables.tables.ours import complete, difference_provenance
from paper_tables.tables.testsets import further_testsets, heading_of

CONTROL = "base"  # of the rows of which the text concludes nothing
OUTCOME_WORDS = {"above": "higher", "below": "lower", "equivalent": "equivalent"}
NOTHING_CONCLUDED = "the text concludes nothing of it"
NOT_RUN = "One of the two systems is not run at this scale"
SHARES_WORDS = ", ".join(f"{share * 100:.0f}" for share in SHARES)
RULE_NOTES = (
    "The rule was fixed before seeds 5 and above of scale multi30k were trained; its seeds 1 to 4 had been looked at. "
    "A difference is the mean of the row over its seeds minus that of the other row over its own, two or more. Bits a "
    "subword are log2 of each seed's perplexity on dev, and primary; BLEU is secondary, and not corrected. sd: the "
    "standard deviation over seeds, pooled over the systems of this test set and metric of 2 seeds or more, with "
    "df degrees of freedom. Reach: t(0.975, df) sd sqrt(1/n1 + 1/n2), half of the 95 % interval. Higher or lower holds "
    "here if the difference in the paper's direction is more than the reach, is reversed if it is as large the other "
    "way, and is else too close to call.",
    f"Equivalent holds here if two one-sided tests at {ALPHA} reject a difference of {MARGIN_BITS:.2f} bits, about "
    f"what a single head costs as printed, or of {MARGIN_BLEU} BLEU; it is reversed if all of the 95 % interval lies "
    "outside of that. Holm's correction is over the contrasts in bits that are called, each by its p-value (two-sided, "
    "of no difference; of an equivalence that of its tests). As seen by the same seeds: of the seeds that both rows "
    "have, those whose difference lies in the paper's direction. Seeds that would decide: of the row, and of base as "
    "many or those that it has if they are more, if difference and sd stay. Elsewhere: what others found of what the "
    "row varies, at scales of their own; no reproduction of Table 3 with seeds and intervals is known to us. Further "
    "test sets, and dev by the alpha that a probe of base chose, stand uncalled; a change of sign is marked.",
    f"Did not start: every head of the decoder reads its source evenly (entropy over log S above {UNIFORM_ENTROPY}), "
    f"and a subword loses less than {UNIFORM_BITS} bits if all of them are made to. Such a row is not called; its "
    "difference is that of the seeds that started, and another column calls with all runs in. Late: the first "
    f"validation below {STARTED_BITS} bits came after {LATE_SHARE * 100:.0f} % of the updates; it counts as any other. "
    f"Still moving: the effect, looked at after {SHARES_WORDS} % of each system's updates, moves by more than half the "
    "reach between the last two.",
)
RATES_NOTE = (
    "At other rates: of single probes at so many times the rate of equation (3), which stand in no other table. An "
    "effect whose sign is another where each side has the best rate that was tried holds at this rate alone."
)


class PrintedContrast(msgspec.Struct, frozen=True, kw_only=True):
    """A contrast as the paper prints it, as others found it, and ours; `printed_effect` is in our metric's unit.

    `conclusion` is None if the text concludes nothing from the two cells. Our numbers are None where a row is not
    run at this scale, `ours` is None where one of the two has no value. `beside` has, by test set, the same contrast
    on further ones and, in BLEU, with another alpha; none of these is called. `at_rates` is what probes at other
    learning rates came to, in bits.
    """

    conclusion: PublishedConclusion | None
    elsewhere: PublishedFinding | None
    table: int
    metric: str
    row_name: str
    control_name: str
    printed_difference: Decimal
    printed_effect: float
    row: Number | None
    control: Number | None
    ours: Contrast | None = None
    beside: dict[str, Contrast] = {}
    at_rates: RateEffects | None = None

    @property
    def name(self) -> str:
        """The name of the difference: our systems, or the printed rows where they are not run."""
        row = self.row_name if self.row is None else self.row.key.system
        return f"{row} minus {self.control_name if self.control is None else self.control.key.system}"

    @property
    def numbers(self) -> tuple[Number, ...]:
        """Ours of the row and of its control, those that are run at this scale."""
        return tuple(number for number in (self.row, self.control) if number is not None)

    @property
    def place(self) -> tuple[str, str] | None:
        """The test set and the metric; None if a row is not run."""
        return None if self.row is None or self.control is None else (self.row.key.testset, self.metric)

    @property
    def is_of_rate(self) -> bool:
        """Whether the effect has another sign where each side has the best rate that was tried."""
        return self.ours is not None and self.at_rates is not None and self.ours.difference * self.at_rates.at_best < 0

    @property
    def is_primary(self) -> bool:
        """Whether it is one of those that are counted: in bits, and of something that the paper concludes."""
        return self.metric == BITS_METRIC and self.conclusion is not None


class Contrasts(msgspec.Struct, frozen=True, kw_only=True):
    """All contrasts of a scale, those in bits first, and the standard deviations by test set and metric."""

    contrasts: tuple[PrintedContrast, ...]
    spread_by_place: dict[tuple[str, str], Spread]

    @property
    def primary(self) -> list[PrintedContrast]:
        """Those that are counted."""
        return [one for one in self.contrasts if one.is_primary]


def draw_contrasts(frame: Frame) -> Contrasts:
    """Return every contrast that the paper's text, or a row of Table 3, asks for, called by the rule."""
    drawn = _printed_contrasts(frame)
    runs_by_place = {
        place: _runs_by_system(frame, [number for one in drawn if one.place == place for number in one.numbers])
        for place in dict.fromkeys(one.place for one in drawn)
        if place is not None
    }
    spread_by_place = {place: measure_spread(runs) for place, runs in runs_by_place.items()}
    for index, one in enumerate(drawn):
        if one.place is not None:
            ours = _our_contrast(one, runs_by_place[one.place], spread_by_place[one.place])
            beside, at_rates = _contrasts_beside(frame, one), _effects_at_rates(frame, one)
            drawn[index] = msgspec.structs.replace(one, ours=ours, beside=beside, at_rates=at_rates)
    family = {index: one.ours for index, one in enumerate(drawn) if one.is_primary and one.ours is not None}
    for index, ours in zip(family, correct_family(list(family.values())), strict=True):
        drawn[index] = msgspec.structs.replace(drawn[index], ours=ours)
    return Contrasts(contrasts=tuple(drawn), spread_by_place=spread_by_place)


def _contrasts_beside(frame: Frame, asked: PrintedContrast) -> dict[str, Contrast]:
    """Return a row's contrasts on further test sets, uncalled; of big on Table 2's test set there are none."""
    beside: dict[str, Contrast] = {}
    for testset in further_testsets(frame) if asked.table == 3 else ():
        here = {(key.system, key.average): frame.numbers[key, asked.metric] for key in frame.keys
                if (key.corpus, key.testset) == (asked.numbers[0].key.corpus, testset)}  # fmt: skip
        row, control = (here.get((number.key.system, number.key.average)) for number in asked.numbers)
        if row is not None and control is not None:
            runs_by_system = _runs_by_system(frame, [row, control])
            on_testset = msgspec.structs.replace(asked, conclusion=None, row=row, control=control)
            contrast = _our_contrast(on_testset, runs_by_system, measure_spread(runs_by_system))
            beside |= {} if contrast is None else {testset: contrast}
    return beside


def _effects_at_rates(frame: Frame, asked: PrintedContrast) -> RateEffects | None:
    """Return a row's effects at other learning rates; None in BLEU, and where none was probed."""
    values = [[value for _, value in number.values] for number in asked.numbers]
    if asked.metric != BITS_METRIC or not all(values):
        return None
    row, control = (
        (number.key.system, statistics.mean(some)) for number, some in zip(asked.numbers, values, strict=True)
    )
    return effects_at_rates(row, control, frame.rate_probes)


def _our_contrast(
    asked: PrintedContrast, runs_by_system: Mapping[str, list[SeedRun]], spread: Spread
) -> Contrast | None:
    """Return a contrast whose two rows are run here; None if one of them has no value."""
    runs, control_runs = (runs_by_system.get(number.key.system, []) for number in asked.numbers)
    relation = None if asked.conclusion is None else asked.conclusion.relation
    if not runs or not control_runs:
        return None
    return draw_contrast(relation, runs, control_runs, spread, is_in_bits=asked.metric == BITS_METRIC)


def _printed_contrasts(frame: Frame) -> list[PrintedContrast]:
    """Return what the paper concludes, then the other rows of Table 3: first all in bits, then in BLEU."""

    def cell(conclusion: PublishedConclusion, row: str) -> PrintedCell:
        place, editions = (str(conclusion.table), row, conclusion.column), (conclusion.edition, "both")
        return next(one for one in frame.cells if (one.table, one.row, one.column) == place and one.edition in editions)

    asked = [(one, cell(one, one.row), cell(one, one.reference)) for one in read_conclusions()]
    contrasts = []
    for metric in (PERPLEXITY_METRIC, METRIC_BY_PAIR["en-de"]):
        is_bits = metric == PERPLEXITY_METRIC
        concluded = [one for one in asked if (one[1].metric == PERPLEXITY_METRIC) == is_bits]
        column = {one.row: one for one in frame.cells if (one.table, one.metric) == ("3", metric)}
        control, named = column.pop(CONTROL), {row.row for _, row, _ in concluded if row.table == "3"}
        others = [(None, row, control) for name, row in column.items() if name not in named]
        contrasts += [_printed_contrast(frame, *one) for one in (*concluded, *others)]
    return contrasts


def _printed_contrast(
    frame: Frame, conclusion: PublishedConclusion | None, row: PrintedCell, control: PrintedCell
) -> PrintedContrast:
    values = [Decimal(cell.printed) for cell in (row, control)]
    is_bits = row.metric == PERPLEXITY_METRIC
    metric = BITS_METRIC if is_bits else row.metric
    return PrintedContrast(
        conclusion=conclusion,
        elsewhere=read_findings().get(row.row) if conclusion else None,
        table=int(row.table),
        metric=metric,
        row_name=row.row,
        control_name=control.row,
        printed_difference=values[0] - values[1],
        printed_effect=math.log2(values[0] / values[1]) if is_bits else float(values[0] - values[1]),
        row=frame.number(row.key, metric),
        control=frame.number(control.key, metric),
    )


def _runs_by_system(frame: Frame, judged: list[Number]) -> dict[str, list[SeedRun]]:
    """Return the runs of every system on the test set of some numbers, in their metric.

    A judged system is represented by its judged number, any other by the first of its own: a second average of the
    same trainings is not independent of the first.
    """
    number_by_system: dict[str, Number] = {}
    for number in (*judged, *(frame.numbers[key, judged[0].metric] for key in frame.keys)):
        if (number.key.corpus, number.key.testset) == (judged[0].key.corpus, judged[0].key.testset):
            number_by_system.setdefault(number.key.system, number)
    return {system: _seed_runs(frame, number) for system, number in number_by_system.items() if number.values}


def _seed_runs(frame: Frame, number: Number) -> list[SeedRun]:
    """Return the seeds of a number; whether they started is recorded on dev, whichever the test set."""
    place = (number.key.corpus, number.key.system)
    of_dev = (key for key in frame.keys if key.role == "dev" and (key.corpus, key.system) == place)
    dev = next(of_dev, number.key)
    entropies, bits_lost = (frame.numbers[dev, name].value_by_seed for name in (ENTROPY_METRIC, BITS_LOST_METRIC))
    return [
        SeedRun(
            value=value,
            lowest_entropy=entropies.get(run.seed),
            bits_lost=bits_lost.get(run.seed),
            bits_by_update=run.bits_by_update,
            updates=run.train.updates,
        )
        for run, value in number.values
        if run.seed is not None and run.train is not None
    ]


def lay_out_conclusions(frame: Frame) -> Table:
    """Return one row a contrast: those in bits a subword, then those in BLEU."""
    drawn = draw_contrasts(frame)
    rates_note = [RATES_NOTE] if any(one.at_rates for one in drawn.contrasts) else []

    def sentence(one: PrintedContrast) -> str:
        return NOTHING_CONCLUDED if one.conclusion is None else f"{one.conclusion.section}: {one.conclusion.sentence}"

    def elsewhere(one: PrintedContrast) -> str:
        finding = one.elsewhere
        return "" if finding is None else f"{finding.finding} ({finding.source}, {finding.place})"

    def printed_bits(one: PrintedContrast) -> str:
        return _shown(one, one.printed_effect, "+") if one.metric == BITS_METRIC else ""

    def aside(one: PrintedContrast) -> Aside | None:
        return Aside(f"{one.row_name} minus {one.control_name} ({one.metric})", NOT_RUN) if not one.place else None

    fields: tuple[Field[PrintedContrast], ...] = (
        label_field("sentence", "section: sentence", sentence),
        label_field("statement", "of the rows", lambda one: one.conclusion.statement if one.conclusion else ""),
        label_field("rows", "difference", lambda one: one.name),
        label_field("metric", "metric", lambda one: one.metric),
        printed_field("printed", "printed", lambda one: f"{one.printed_difference:+}"),
        printed_field("printed_bits", "printed, in bits", printed_bits),
        label_field("expected", "concluded", _expected),
        our_field("ours", "ours", _difference_cell),
        our_field("reach", "reach", lambda one: _words(one, lambda ours: _shown(one, ours.reach))),
        our_field("call", "call", _call_cell),
        our_field("call_holm", "call by Holm", lambda one: _words(one, lambda ours: ours.corrected or "")),
        our_field("call_with_all", "call with all runs", lambda one: _words(one, lambda ours: ours.with_all or "")),
        our_field("effects", f"at {SHARES_WORDS} % of updates", lambda one: _words(one, _effects)),
        *(
            our_field(f"on_{testset}", heading_of(testset), functools.partial(_beside_cell, testset))
            for testset in further_testsets(frame)
        ),
        our_field("at_rates", "at other rates", _at_rates_cell),
        our_field("starts", "starts", lambda one: _words(one, _starts)),
        our_field("same_seeds", "as seen by the same seeds", _same_seeds_cell),
        our_field("seeds_to_decide", "seeds that would decide", lambda one: _words(one, _seeds_to_decide)),
        label_field("elsewhere", "elsewhere", elsewhere),
    )
    table = Table(
        name="conclusions",
        title="What holds?",
        caption="What the paper's text concludes from its Tables 2 and 3, and whether our systems show it: the printed "
        "difference, ours with its 95 % interval, and the call by one rule. A call is of our corpus, sizes and rate; "
        "at a smaller scale than the paper's a row keeps its ratio to base, not the sizes that the words name. "
        f"{summarise(drawn)}",
        columns=columns_of(fields),
        rows=rows_of(fields, drawn.contrasts, aside=aside),
        notes=(*_spread_notes(frame, drawn), *(Note("", text) for text in (*RULE_NOTES, *rates_note))),
    )
    return complete(frame, table, has_states=False)


def summarise(drawn: Contrasts) -> str:
    """Return how many of the primary contrasts are decided and which way, and which are not to be relied on."""
    ours_by_row = {one.row_name: one.ours for one in drawn.primary if one.ours is not None}

    def decided(calls: Counter[Call | None]) -> str:
        return (
            f"{sum(calls[call] for call in DECIDED)} ({calls[Call.HOLDS]} hold here, {calls[Call.REVERSED]} reversed)"
        )

    def named(is_so: Callable[[Contrast], bool]) -> str:
        return ", ".join(row for row, ours in ours_by_row.items() if is_so(ours)) or "none"

    return (
        f"Decided of {len(drawn.primary)} contrasts in bits a subword: "
        f"{decided(Counter(ours.call for ours in ours_by_row.values()))}, by Holm's correction "
        f"{decided(Counter(ours.corrected for ours in ours_by_row.values()))}. "
        f"Still moving: {named(lambda ours: ours.is_moving)}. Late: {named(lambda ours: ours.num_late > 0)}. "
        f"Did not start: {named(lambda ours: ours.num_unstarted > 0)}."
    )


def answers_of(drawn: Contrasts) -> dict[str, list[PrintedContrast]]:
    """Return the primary contrasts by answer; one that still moves is in a list of its own, too."""
    calls_by_answer = {
        "Held": (Call.HOLDS,), "Reversed": (Call.REVERSED,), "Undecided": (Call.TOO_CLOSE, Call.FEW_CONTROLS),
        "Did not start": (Call.NOT_STARTED, Call.CONTROL_NOT_STARTED),
    }  # fmt: skip
    ours = [(one, one.ours) for one in drawn.primary if one.ours is not None]
    answers = {name: [one for one, of_it in ours if of_it.call in calls] for name, calls in calls_by_answer.items()}
    answers["Still moving"] = [one for one, of_it in ours if of_it.is_moving]
    answers["Not measured yet"] = [one for one in drawn.primary if one.ours is None]
    return answers


def _expected(one: PrintedContrast) -> str:
    return "" if one.conclusion is None else OUTCOME_WORDS[one.conclusion.relation]


def _shown(one: PrintedContrast, value: float | None, sign: str = "") -> str:
    """Return a value in the contrast's metric; bits have a decimal more than BLEU."""
    return "" if value is None else f"{value:{sign}.{BITS_DECIMALS if one.metric == BITS_METRIC else BLEU_DECIMALS}f}"


def _words(one: PrintedContrast, words_of: Callable[[Contrast], str]) -> Cell:
    """Return a cell of words on our contrast; blank without one, or without words."""
    text = "" if one.ours is None else words_of(one.ours)
    return text_cell(text, "ours") if text else blank_cell()


def _difference_cell(one: PrintedContrast) -> Cell:
    ours, marks = one.ours, one.row.marks if one.row else ()
    if ours is None or one.row is None or one.control is None:
        return replace(
            text_cell("not run" if one.place is None else "not measured", "state", *marks), shows=one.numbers
        )
    interval = "" if ours.interval is None else f"{' to '.join(_shown(one, end, '+') for end in ours.interval)}; "
    numbers = f"n={ours.num_compared} and {ours.num_compared_controls}"
    text = f"{_shown(one, ours.difference, '+')} ({interval}{numbers})"
    return replace(
        text_cell(text, "ours", *marks), provenance=difference_provenance(one.row, one.control), shows=one.numbers
    )


def _call_cell(one: PrintedContrast) -> Cell:
    """Return the call, with what weakens it: an effect that still moves, or that is too small for the reach."""
    if one.ours is None:
        return blank_cell()
    ours, text = one.ours, str(one.ours.call)
    if ours.call is Call.NOT_STARTED:
        text += f" ({ours.num_unstarted} of {ours.num_seeds})"
    elif ours.call is Call.CONTROL_NOT_STARTED:
        text += f" ({ours.num_unstarted_controls} of {ours.num_control_seeds}): choose the scale anew"
    elif ours.call is Call.TOO_CLOSE and ours.reach is not None:
        size, what = abs(one.printed_effect), "printed effect"
        if _expected(one) == OUTCOME_WORDS["equivalent"]:
            size, what = MARGIN_BITS if one.metric == BITS_METRIC else MARGIN_BLEU, "margin"
        text += f"; the {what} is {'above' if size > ours.reach else 'below'} the reach"
    text += "; still moving" if ours.is_moving else ""
    text += "; at this rate" if one.is_of_rate else ""
    return text_cell(text, "ours" if ours.call in DECIDED else "state")


def _beside_cell(testset: str, one: PrintedContrast) -> Cell:
    """Return the difference on a further test set or with another alpha, and whether its sign is another."""
    beside = one.beside.get(testset)
    if beside is None or one.ours is None:
        return blank_cell()
    reach = "" if beside.reach is None else f" \N{PLUS-MINUS SIGN} {_shown(one, beside.reach)}"
    changes = "; sign changes" if beside.difference * one.ours.difference < 0 else ""
    return text_cell(f"{_shown(one, beside.difference, '+')}{reach}{changes}", "ours")


def _at_rates_cell(one: PrintedContrast) -> Cell:
    """Return the difference at each rate that was probed, and where each side has its best rate."""
    if one.at_rates is None:
        return blank_cell()
    at_each = [f"{_shown(one, bits, '+')} at {times:g} x" for times, bits in sorted(one.at_rates.by_times_peak.items())]
    return text_cell(f"{', '.join(at_each)}; each at its best {_shown(one, one.at_rates.at_best, '+')}", "ours")


def _seeds_to_decide(ours: Contrast) -> str:
    if ours.call is not Call.TOO_CLOSE:
        return ""
    return f"more than {MAX_SEEDS_ADVISED:,}" if ours.num_seeds_to_decide is None else f"{ours.num_seeds_to_decide:,}"


def _effects(ours: Contrast) -> str:
    shown = ["not known" if effect is None else f"{effect:+.{BITS_DECIMALS}f}" for effect in ours.effects]
    early = ours.effect_at_control_updates
    text = ", ".join(shown) + ("" if early is None else f"; {early:+.{BITS_DECIMALS}f} at the control's last update")
    return "" if set(ours.effects) == {None} else text


def _starts(ours: Contrast) -> str:
    """Return what is to be said of how the row's seeds started; nothing if all did, and in time."""
    numbers = (ours.num_unstarted, ours.num_late, ours.num_unknown)
    words = ("did not start", "late", "not known if it started")
    return "; ".join(f"{word} ({n} of {ours.num_seeds})" for n, word in zip(numbers, words, strict=True) if n)


def _same_seeds_cell(one: PrintedContrast) -> Cell:
    """Return how many of the seeds that both rows have lie in the paper's direction: they share the order of data."""
    expected = _expected(one)
    if one.row is None or one.control is None or expected not in ("higher", "lower"):
        return blank_cell()
    values, control_values = one.row.value_by_seed, one.control.value_by_seed
    differences = [value - control_values[seed] for seed, value in values.items() if seed in control_values]
    held = sum(difference > 0 if expected == "higher" else difference < 0 for difference in differences)
    return text_cell(f"{held} of {len(differences)}", "ours") if differences else blank_cell()


def _spread_notes(frame: Frame, drawn: Contrasts) -> list[Note]:
    """Return, of each test set and metric, the sd that was used, the largest, and what unstarted and late runs do."""
    notes = []
    for (testset, metric), spread in drawn.spread_by_place.items():
        pooled = spread.started or spread.everything
        if pooled is None:
            continue
        largest = ", ".join(f"{system} {sd:.3f}" for system, sd in spread.largest)
        text = f"sd of {metric} on {testset}: {_sd_words(pooled)}; the largest: {largest}."
        text += _third_seed_words(frame, pooled) if metric == BITS_METRIC else ""
        if spread.unstarted:
            text += f" Did not start: {', '.join(spread.unstarted)}; with all runs {_sd_words(spread.everything)}."
        if spread.late:
            text += f" Late: {', '.join(spread.late)}."
        if spread.late or spread.unstarted:
            text += f" Without these systems {_sd_words(spread.punctual)}."
        notes.append(Note("", text))
    return notes


def _third_seed_words(frame: Frame, pooled: PooledSd) -> str:
    """Return what a row's seeds reach by the sd alone, and whether by the rule all rows get a third."""
    num_seeds, num_controls = frame.num_row_seeds, frame.num_base_seeds
    if not num_seeds or not num_controls:
        return ""
    reach = reach_of(pooled, num_seeds, num_controls)
    is_enough = reach <= MAX_REACH_BITS
    seeds = f"{num_seeds} seed{'s' if num_seeds > 1 else ''} of a row beside {num_controls} of base"
    missing = any(run.corpus == frame.corpus_by_pair["en-de"] and run.train is None for run in frame.runs)
    return (
        f" By it {seeds} reach {reach:.3f} bits, {'not ' if is_enough else ''}above {MAX_REACH_BITS:.2f}: "
        f"{'no further seed of the rows is' if is_enough else f'seed {num_seeds + 1} of all rows is'} asked for"
        f"{' so far; it is decided when all are in' if missing else ''}."
    )


def _sd_words(pooled: PooledSd | None) -> str:
    if pooled is None:
        return "not known, as no other has two seeds"
    degrees = f"{pooled.degrees_of_freedom} degree{'' if pooled.degrees_of_freedom == 1 else 's'} of freedom"
    return f"{pooled.sd:.3f} ({degrees}, {pooled.num_systems} system{'' if pooled.num_systems == 1 else 's'})"
