"""Draws every contrast that the paper's text, or a row of Table 3, asks for, from the frame of a
scale.

The rule is in `analysis.conclusions.contrasts`, the six answers are in
`analysis.conclusions.answers`. Table, forest and page show what is drawn here.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

import msgspec

from aiayn.printed import METRIC_BY_PAIR, PERPLEXITY_METRIC
from aiayn.scoring.scores import BITS_METRIC
from analysis.conclusions.answers import Answer, Answered, answer_family, estimate_difference
from analysis.conclusions.contrasts import (
    CALLED,
    Contrast,
    SeedRun,
    Spread,
    correct_family,
    draw_contrast,
    measure_spread,
)
from analysis.conclusions.published import (
    PublishedConclusion,
    PublishedFinding,
    read_conclusions,
    read_findings,
)
from analysis.conclusions.rates import RateEffects, RateProbes, effects_at_rates, read_rate_probes
from analysis.conclusions.readings import differing_readings
from analysis.conclusions.runs import runs_by_system
from analysis.conclusions.scale_readings import Readings, make_readings
from paper_tables.frame import Frame, Number, PrintedCell

CONTROL = "base"  # for rows about which the text concludes nothing
NOT_ANSWERED, NOT_MEASURED = "cannot be answered", "not measured yet"


class PrintedContrast(msgspec.Struct, frozen=True, kw_only=True):
    """A contrast as the paper prints it, as others found it, and ours; `printed_effect` is in our
    metric's unit.

    `conclusion` is None if the text concludes nothing from the two cells. Our numbers are None
    where a row is not run at this scale, `ours` is None where one of the two has no value. `beside`
    has, by test set, the same contrast on further ones and, in BLEU, with another alpha; none of
    these is called. `at_rates` is what probes at other learning rates came to, in bits. Primary
    contrasts are `answered`, unless a run did not start or the control has one seed; `differing`
    names the readings that give another direction, and `is_moving` is the test of slopes.
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
    answered: Answered | None = None
    differing: tuple[str, ...] = ()
    is_moving: bool = False

    @property
    def statement(self) -> str:
        """What the paper's text says about the two rows, or the name of the difference if it says
        nothing.
        """
        return self.name if self.conclusion is None else self.conclusion.statement

    @property
    def name(self) -> str:
        """The name of the difference: our systems, or the printed rows where they are not run."""
        row = self.row_name if self.row is None else self.row.key.system
        return (
            f"{row} minus {self.control_name if self.control is None else self.control.key.system}"
        )

    @property
    def numbers(self) -> tuple[Number, ...]:
        """Ours of the row and of its control, those that are run at this scale."""
        return tuple(number for number in (self.row, self.control) if number is not None)

    @property
    def place(self) -> tuple[str, str] | None:
        """The test set and the metric; None if a row is not run."""
        return (
            None
            if self.row is None or self.control is None
            else (self.row.key.testset, self.metric)
        )

    @property
    def is_of_rate(self) -> bool:
        """Whether the effect that is called has another sign where each side has the best rate that
        was tried.

        At equation (3)'s rate it must have its sign after the probes' updates already: else the
        updates change it.
        """
        if self.at_rates is None or self.ours is None:
            return False
        return self.at_rates.changes_sign and self.ours.difference * self.at_rates.at_best < 0

    @property
    def is_primary(self) -> bool:
        """Whether it is counted: it is in bits, and the paper concludes something from it."""
        return self.metric == BITS_METRIC and self.conclusion is not None


class Contrasts(msgspec.Struct, frozen=True, kw_only=True):
    """All contrasts of a scale, those in bits first, and the standard deviations by test set and
    metric.

    `readings` has the further readings of the answered contrasts, by system; None without an
    answer.
    """

    contrasts: tuple[PrintedContrast, ...]
    spread_by_place: dict[tuple[str, str], Spread]
    readings: Readings | None = None

    @property
    def primary(self) -> list[PrintedContrast]:
        """The contrasts that are counted."""
        return [contrast for contrast in self.contrasts if contrast.is_primary]

    @property
    def by_answer(self) -> dict[str, list[PrintedContrast]]:
        """The primary contrasts by each of the six answers; two further lists hold those that have
        no answer.
        """
        answers: dict[str, list[PrintedContrast]] = {str(answer): [] for answer in Answer}
        answers |= {NOT_ANSWERED: [], NOT_MEASURED: []}
        for contrast in self.primary:
            if contrast.answered is not None:
                answers[contrast.answered.answer].append(contrast)
            else:
                answers[NOT_MEASURED if contrast.ours is None else NOT_ANSWERED].append(contrast)
        return answers


def draw_contrasts(frame: Frame, rate_probes: RateProbes | None = None) -> Contrasts:
    """Return every contrast, called by the rule; `rate_probes` are those that are shipped, unless
    they are given.
    """
    rate_probes = read_rate_probes(frame.scale) if rate_probes is None else rate_probes
    drawn = _printed_contrasts(frame)
    places = dict.fromkeys(contrast.place for contrast in drawn if contrast.place is not None)
    runs_by_place = {
        place: runs_by_system(
            frame,
            [
                number
                for contrast in drawn
                if contrast.place == place
                for number in contrast.numbers
            ],
        )
        for place in places
    }
    spread_by_place = {place: measure_spread(runs) for place, runs in runs_by_place.items()}
    for index, contrast in enumerate(drawn):
        if contrast.place is not None:
            drawn[index] = msgspec.structs.replace(
                contrast,
                ours=_our_contrast(
                    contrast, runs_by_place[contrast.place], spread_by_place[contrast.place]
                ),
                beside=_contrasts_beside(frame, contrast),
                at_rates=_effects_at_rates(contrast, runs_by_place[contrast.place], rate_probes),
            )
    family = {
        i: contrast.ours
        for i, contrast in enumerate(drawn)
        if contrast.is_primary and contrast.ours is not None
    }
    for index, ours in zip(family, correct_family(list(family.values())), strict=True):
        drawn[index] = msgspec.structs.replace(drawn[index], ours=ours)
    answered, readings = _answer(frame, drawn, spread_by_place)
    return Contrasts(contrasts=answered, spread_by_place=spread_by_place, readings=readings)


def _answer(
    frame: Frame,
    drawn: Sequence[PrintedContrast],
    spread_by_place: Mapping[tuple[str, str], Spread],
) -> tuple[tuple[PrintedContrast, ...], Readings | None]:
    """Return the contrasts with the answers, failing readings and slopes of the primary ones, and
    all readings.
    """
    asked = {}
    for contrast in drawn:
        ours, conclusion = contrast.ours, contrast.conclusion
        if not contrast.is_primary or ours is None or conclusion is None or ours.call not in CALLED:
            continue
        spread = spread_by_place[contrast.place] if contrast.place else None
        pooled = None if spread is None else spread.started or spread.everything
        if pooled is not None:
            numbers = (ours.num_compared, ours.num_compared_controls)
            estimate = estimate_difference(ours.difference, pooled, *numbers)
            asked[contrast.numbers[0].key.system] = (
                conclusion.relation,
                contrast.printed_effect,
                estimate,
            )
    if not asked:
        return tuple(drawn), None
    answers, readings = answer_family(asked), make_readings(frame, list(asked))
    answered = []
    for contrast in drawn:
        system = contrast.numbers[0].key.system if contrast.numbers else ""
        own = answers.get(system) if contrast.is_primary else None
        if own is not None:
            direction = own.estimate.direction(less_is_better=True)
            contrast = msgspec.structs.replace(  # noqa: PLW2901
                contrast,
                answered=own,
                differing=tuple(differing_readings(readings.readings, system, direction)),
                is_moving=readings.moves(system),
            )
        answered.append(contrast)
    return tuple(answered), readings


def _contrasts_beside(frame: Frame, asked: PrintedContrast) -> dict[str, Contrast]:
    """Return a row's contrasts on further test sets, uncalled; of big on Table 2's test set there
    are none.
    """
    beside: dict[str, Contrast] = {}
    for testset in further_testsets(frame) if asked.table == 3 else ():
        here = {
            (key.system, key.average): frame.numbers[key, asked.metric]
            for key in frame.keys
            if (key.corpus, key.testset) == (asked.numbers[0].key.corpus, testset)
        }
        row, control = (
            here.get((number.key.system, number.key.average)) for number in asked.numbers
        )
        if row is not None and control is not None:
            runs = runs_by_system(frame, [row, control])
            on_testset = msgspec.structs.replace(asked, conclusion=None, row=row, control=control)
            contrast = _our_contrast(on_testset, runs, measure_spread(runs))
            beside |= {} if contrast is None else {testset: contrast}
    return beside


def _effects_at_rates(
    asked: PrintedContrast, runs: Mapping[str, list[SeedRun]], rate_probes: RateProbes | None
) -> RateEffects | None:
    """Return a row's effects at other learning rates; None in BLEU, and where none was probed."""
    if asked.metric != BITS_METRIC or rate_probes is None:
        return None
    systems = (number.key.system for number in asked.numbers)
    row, control = ((system, runs.get(system, [])) for system in systems)
    return effects_at_rates(row, control, rate_probes)


def _our_contrast(
    asked: PrintedContrast, runs: Mapping[str, list[SeedRun]], spread: Spread
) -> Contrast | None:
    """Return a contrast whose two rows are run here; None if a row has no value."""
    row_runs, control_runs = (runs.get(number.key.system, []) for number in asked.numbers)
    relation = None if asked.conclusion is None else asked.conclusion.relation
    if not row_runs or not control_runs:
        return None
    return draw_contrast(
        relation, row_runs, control_runs, spread, is_in_bits=asked.metric == BITS_METRIC
    )


def _printed_contrasts(frame: Frame) -> list[PrintedContrast]:
    """Return what the paper concludes, then the other rows of Table 3: first all in bits, then in
    BLEU.
    """

    def find_cell(asked: PublishedConclusion, row: str) -> PrintedCell:
        place, editions = (str(asked.table), row, asked.column), (asked.edition, "both")
        return next(
            cell
            for cell in frame.cells
            if (cell.table, cell.row, cell.column) == place and cell.edition in editions
        )

    concluded = [
        (asked, find_cell(asked, asked.row), find_cell(asked, asked.reference))
        for asked in read_conclusions()
    ]
    contrasts = []
    for metric in (PERPLEXITY_METRIC, METRIC_BY_PAIR["en-de"]):
        is_bits = metric == PERPLEXITY_METRIC
        called = [pair for pair in concluded if (pair[1].metric == PERPLEXITY_METRIC) == is_bits]
        column = {
            cell.row: cell for cell in frame.cells if (cell.table, cell.metric) == ("3", metric)
        }
        control, named = column.pop(CONTROL), {row.row for _, row, _ in called if row.table == "3"}
        uncalled = [(None, row, control) for name, row in column.items() if name not in named]
        contrasts += [_printed_contrast(frame, *pair) for pair in (*called, *uncalled)]
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
        printed_effect=math.log2(values[0] / values[1])
        if is_bits
        else float(values[0] - values[1]),
        row=frame.number(row.key, metric),
        control=frame.number(control.key, metric),
    )


def further_testsets(frame: Frame) -> list[str]:
    """Return the further test sets of Table 3's rows, and dev by another alpha."""
    return list(
        dict.fromkeys(key.testset for key in frame.keys if key.role in ("further", "alpha"))
    )
