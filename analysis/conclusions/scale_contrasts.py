"""Turns the frame of a scale into contrasts: one for each conclusion of the paper's text and for
each other row of Table 3.

The rule is in `analysis.conclusions.contrasts`, the six answers are in
`analysis.conclusions.answers`. The table, the forest and the page show these contrasts.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

import msgspec

from aiayn.errors import TableError
from aiayn.printed import METRIC_BY_PAIR, PERPLEXITY_METRIC
from aiayn.scoring.scores import BITS_METRIC
from analysis.conclusions.answers import (
    Answer,
    Answered,
    Relation,
    answer_family,
)
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
    """A contrast as the paper prints it, as others found it, and ours.

    `conclusion` is None if the text concludes nothing from the two cells. `printed_effect` is in
    our metric's unit. `row` and `control` are None where a system is not run at this scale, `ours`
    is None without a value of both. `by_testset` has the same contrast on further test sets and, in
    BLEU, with another alpha; none of these is called. `at_rates` has the effects, in bits, at other
    learning rates. Primary contrasts are `answered`, unless a run did not start or the control has
    a single seed; `differing` names the readings that give another direction, and `is_moving` is
    the test of slopes.
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
    by_testset: dict[str, Contrast] = {}
    at_rates: RateEffects | None = None
    answered: Answered | None = None
    differing: tuple[str, ...] = ()
    is_moving: bool = False

    @property
    def statement(self) -> str:
        """What the paper's text says about the two rows, else the name of the difference."""
        return self.name if self.conclusion is None else self.conclusion.statement

    @property
    def name(self) -> str:
        """The name of the difference: our systems, or the printed rows where they are not run."""
        row = self.row_name if self.row is None else self.row.key.system
        control = self.control_name if self.control is None else self.control.key.system
        return f"{row} minus {control}"

    @property
    def numbers(self) -> tuple[Number, ...]:
        """Our numbers of the row and of its control, as far as they are run at this scale."""
        return tuple(number for number in (self.row, self.control) if number is not None)

    @property
    def place(self) -> tuple[str, str] | None:
        """The test set and the metric; None if a system is not run."""
        if self.row is None or self.control is None:
            return None
        return self.row.key.testset, self.metric

    @property
    def relation(self) -> Relation | None:
        """What the paper concludes about the row; None if it concludes nothing."""
        return None if self.conclusion is None else self.conclusion.relation

    @property
    def flips_at_best_rate(self) -> bool:
        """Whether the effect changes sign when each system uses its best learning rate.

        At equation (3)'s rate the effect must have its final sign after the probes' updates
        already: else the number of updates, not the rate, explains the change.
        """
        if self.at_rates is None or self.ours is None:
            return False
        return self.at_rates.changes_sign and self.ours.difference * self.at_rates.at_best < 0

    @property
    def is_primary(self) -> bool:
        """Whether it is counted: it is in bits, and the paper concludes something from it."""
        return self.metric == BITS_METRIC and self.conclusion is not None


class Contrasts(msgspec.Struct, frozen=True, kw_only=True):
    """All contrasts of a scale, those in bits first, and the sds by test set and metric.

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
        """The primary contrasts by each of the six answers; two further lists hold those without an
        answer.
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
    """Return every contrast, called by the rule; without `rate_probes` the shipped probes count."""
    rate_probes = read_rate_probes(frame.scale) if rate_probes is None else rate_probes
    printed = _printed_contrasts(frame)
    numbers_by_place: dict[tuple[str, str], list[Number]] = {}
    for contrast in printed:
        if contrast.place is not None:
            numbers_by_place.setdefault(contrast.place, []).extend(contrast.numbers)
    runs_by_place, spread_by_place = {}, {}
    for place, numbers in numbers_by_place.items():
        runs_by_place[place] = runs_by_system(frame, numbers)
        spread_by_place[place] = measure_spread(runs_by_place[place])
    drawn = []
    for contrast in printed:
        if contrast.place is None:
            drawn.append(contrast)
            continue
        runs = runs_by_place[contrast.place]
        own = _our_contrast(contrast, contrast.relation, runs, spread_by_place[contrast.place])
        measured = msgspec.structs.replace(
            contrast,
            ours=own,
            by_testset=_contrasts_by_testset(frame, contrast),
            at_rates=_effects_at_rates(contrast, runs, rate_probes),
        )
        drawn.append(measured)
    answered, readings = _answer(frame, _correct(drawn))
    return Contrasts(contrasts=answered, spread_by_place=spread_by_place, readings=readings)


def _correct(drawn: Sequence[PrintedContrast]) -> list[PrintedContrast]:
    """Return the contrasts, with calls by Holm's correction for the primary contrasts."""
    family = [contrast.ours for contrast in drawn if contrast.is_primary and contrast.ours]
    corrected = iter(correct_family(family))
    contrasts = []
    for contrast in drawn:
        is_in_family = contrast.is_primary and contrast.ours is not None
        ours = next(corrected) if is_in_family else contrast.ours
        contrasts.append(msgspec.structs.replace(contrast, ours=ours))
    return contrasts


def _answer(
    frame: Frame, drawn: Sequence[PrintedContrast]
) -> tuple[tuple[PrintedContrast, ...], Readings | None]:
    """Return all contrasts, with answers, differing readings and slopes for the primary contrasts;
    and all readings.
    """
    asked = {}
    for contrast in drawn:
        ours, relation = contrast.ours, contrast.relation
        if not contrast.is_primary or ours is None or ours.call not in CALLED:
            continue
        if relation is not None and ours.estimate is not None:
            asked[_system_of(contrast)] = (relation, contrast.printed_effect, ours.estimate)
    if not asked:
        return tuple(drawn), None
    answers, readings = answer_family(asked), make_readings(frame, list(asked))
    answered = []
    for contrast in drawn:
        system = _system_of(contrast)
        if not contrast.is_primary or system not in answers:
            answered.append(contrast)
            continue
        direction = answers[system].estimate.direction(less_is_better=True)
        with_answer = msgspec.structs.replace(
            contrast,
            answered=answers[system],
            differing=tuple(differing_readings(readings.readings, system, direction)),
            is_moving=readings.moves(system),
        )
        answered.append(with_answer)
    return tuple(answered), readings


def _system_of(contrast: PrintedContrast) -> str:
    """Return the system of our row; "" if it is not run."""
    return contrast.numbers[0].key.system if contrast.numbers else ""


def _contrasts_by_testset(frame: Frame, contrast: PrintedContrast) -> dict[str, Contrast]:
    """Return a row's contrasts on further test sets, uncalled; empty for Table 2's rows."""
    contrasts: dict[str, Contrast] = {}
    if contrast.table != 3:
        return contrasts
    for testset in further_testsets(frame):
        numbers = []
        for number in contrast.numbers:
            wanted = (number.key.corpus, number.key.system, number.key.average, testset)
            for key in frame.keys:
                if (key.corpus, key.system, key.average, key.testset) == wanted:
                    numbers.append(frame.numbers[key, contrast.metric])
                    break
        if len(numbers) < 2:
            continue
        runs = runs_by_system(frame, numbers)
        on_testset = _our_contrast(contrast, None, runs, measure_spread(runs))
        if on_testset is not None:
            contrasts[testset] = on_testset
    return contrasts


def _effects_at_rates(
    contrast: PrintedContrast, runs: Mapping[str, list[SeedRun]], rate_probes: RateProbes | None
) -> RateEffects | None:
    """Return a row's effects at other learning rates; None in BLEU, and without probes."""
    if contrast.metric != BITS_METRIC or rate_probes is None:
        return None
    row, control = (number.key.system for number in contrast.numbers)
    return effects_at_rates((row, runs.get(row, [])), (control, runs.get(control, [])), rate_probes)


def _our_contrast(
    contrast: PrintedContrast,
    relation: Relation | None,
    runs: Mapping[str, list[SeedRun]],
    spread: Spread,
) -> Contrast | None:
    """Return our contrast of two systems that are run here; None if one has no value."""
    row_runs, control_runs = (runs.get(number.key.system, []) for number in contrast.numbers)
    if not row_runs or not control_runs:
        return None
    is_in_bits = contrast.metric == BITS_METRIC
    return draw_contrast(relation, row_runs, control_runs, spread, is_in_bits=is_in_bits)


def _printed_contrasts(frame: Frame) -> list[PrintedContrast]:
    """Return what the paper concludes, then the other rows of Table 3: first all in bits, then in
    BLEU.
    """
    contrasts = []
    for metric in (PERPLEXITY_METRIC, METRIC_BY_PAIR["en-de"]):
        rows_of_table3 = set()
        for conclusion in read_conclusions():
            row = _find_cell(frame, conclusion, conclusion.row)
            if (row.metric == PERPLEXITY_METRIC) != (metric == PERPLEXITY_METRIC):
                continue
            control = _find_cell(frame, conclusion, conclusion.reference)
            contrasts.append(_printed_contrast(frame, conclusion, row, control))
            if row.table == "3":
                rows_of_table3.add(row.row)
        cells = {
            cell.row: cell for cell in frame.cells if (cell.table, cell.metric) == ("3", metric)
        }
        for name, cell in cells.items():
            if name != CONTROL and name not in rows_of_table3:
                contrasts.append(_printed_contrast(frame, None, cell, cells[CONTROL]))
    return contrasts


def _find_cell(frame: Frame, conclusion: PublishedConclusion, row: str) -> PrintedCell:
    """Return the printed cell of a row in the column that a conclusion is about."""
    place = (str(conclusion.table), row, conclusion.column)
    for cell in frame.cells:
        is_edition = cell.edition in (conclusion.edition, "both")
        if (cell.table, cell.row, cell.column) == place and is_edition:
            return cell
    raise TableError(
        f"conclusions.csv: {' '.join(place)} is not printed; correct its row or column"
    )


def _printed_contrast(
    frame: Frame, conclusion: PublishedConclusion | None, row: PrintedCell, control: PrintedCell
) -> PrintedContrast:
    value, control_value = Decimal(row.printed), Decimal(control.printed)
    metric, effect = row.metric, float(value - control_value)
    if row.metric == PERPLEXITY_METRIC:
        metric, effect = BITS_METRIC, math.log2(value / control_value)
    return PrintedContrast(
        conclusion=conclusion,
        elsewhere=read_findings().get(row.row) if conclusion else None,
        table=int(row.table),
        metric=metric,
        row_name=row.row,
        control_name=control.row,
        printed_difference=value - control_value,
        printed_effect=effect,
        row=frame.number(row.key, metric),
        control=frame.number(control.key, metric),
    )


def further_testsets(frame: Frame) -> list[str]:
    """Return the further test sets of Table 3's rows, and dev by another alpha."""
    testsets = [key.testset for key in frame.keys if key.role in ("further", "alpha")]
    return list(dict.fromkeys(testsets))
