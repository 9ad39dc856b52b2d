"""Turns the results of a scale (its frame) into contrasts: one for each conclusion of the paper's
text and for each other row of Table 3.

A contrast is the difference between a row of the paper's tables and its control, usually base. The
*call* of a contrast is the answer by the rule of decision 0009 (`analysis.conclusions.contrasts`).
The *answer* of a contrast is one of the six answers of decision 0012
(`analysis.conclusions.answers`). The table `conclusions`, the picture of the page and the study of
Multi30k use these contrasts.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from decimal import Decimal

import msgspec

from aiayn.errors import TableError
from aiayn.printed import METRIC_BY_PAIR, PERPLEXITY_METRIC
from aiayn.scoring.scores import BITS_METRIC
from aiayn.scoring.verdict import ALPHA, holm_adjusted, pool_sd
from analysis.conclusions.answers import (
    Answered,
    Relation,
    answer_family,
    estimate_difference,
)
from analysis.conclusions.contrasts import (
    CALLED,
    MIN_CONTROL_SEEDS,
    Contrast,
    SeedRun,
    Spread,
    correct_family,
    draw_contrast,
    known_values,
    measure_spread,
    started_runs,
)
from analysis.conclusions.published import (
    PublishedConclusion,
    PublishedFinding,
    read_conclusions,
    read_findings,
)
from analysis.conclusions.runs import runs_by_system
from paper_tables.frame import Frame, Number, PrintedCell

CONTROL = "base"  # in the test of slopes, and for rows about which the text concludes nothing
NOT_ANSWERED, NOT_MEASURED = "cannot be answered", "not measured yet"


class PrintedContrast(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between two systems in the paper, in other publications (`elsewhere`), and as we
    measured it.

    `conclusion` is None if the paper's text concludes nothing from the two cells. `printed_effect`
    is the paper's difference in our metric's unit, which is bits for a perplexity. `row` and
    `control` are None if the system is not run at this scale. `ours` is None unless the system and
    its control both have a value. `by_testset` has our difference, without a call, on further test
    sets and, in BLEU, with a different length penalty alpha. `answered` is None if the contrast is
    not primary or not measured, if a run did not start to learn, or if the control has a single
    seed. `is_moving` says whether our difference still changes at the end of training.
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
    answered: Answered | None = None
    is_moving: bool = False

    @property
    def statement(self) -> str:
        """The paper's statement about the two rows of its table, or the name of the contrast if the
        paper states nothing about them.
        """
        return self.name if self.conclusion is None else self.conclusion.statement

    @property
    def name(self) -> str:
        """The name of the contrast, such as `big minus base`, from our systems or, if they are not
        run, from the rows in the paper.
        """
        row = self.row_name if self.row is None else self.row.key.system
        control = self.control_name if self.control is None else self.control.key.system
        return f"{row} minus {control}"

    @property
    def numbers(self) -> tuple[Number, ...]:
        """Our numbers for the row of Table 3 and for its control. A system that is not run is left
        out.
        """
        return tuple(number for number in (self.row, self.control) if number is not None)

    @property
    def place(self) -> tuple[str, str] | None:
        """The test set and the metric of the contrast, or None if one of its systems is not run."""
        if self.row is None or self.control is None:
            return None
        return self.row.key.testset, self.metric

    @property
    def relation(self) -> Relation | None:
        """The relation that the paper states for the row (above, below or equivalent), or None if
        the paper concludes nothing from the row.
        """
        return None if self.conclusion is None else self.conclusion.relation

    @property
    def answer_words(self) -> str:
        """The answer for the contrast in words, or the reason why there is no answer."""
        if self.answered is not None:
            return str(self.answered.answer)
        return NOT_MEASURED if self.ours is None else NOT_ANSWERED

    @property
    def is_primary(self) -> bool:
        """Whether the contrast is counted. Counted contrasts are in bits, and the paper draws a
        conclusion from them.
        """
        return self.metric == BITS_METRIC and self.conclusion is not None


class Contrasts(msgspec.Struct, frozen=True, kw_only=True):
    """All contrasts of a scale (those in bits come first), and the pooled sds by test set and
    metric.
    """

    contrasts: tuple[PrintedContrast, ...]
    spread_by_place: dict[tuple[str, str], Spread]

    @property
    def primary(self) -> list[PrintedContrast]:
        """The contrasts that are counted: contrasts in bits from which the paper draws a
        conclusion.
        """
        return [contrast for contrast in self.contrasts if contrast.is_primary]


def draw_contrasts(frame: Frame) -> Contrasts:
    """Return every contrast of a scale with our difference, its call (decision 0009) and its answer
    (decision 0012).
    """
    # A place is a test set and a metric, such as dev in bits.
    printed = _printed_contrasts(frame)
    numbers_by_place: dict[tuple[str, str], list[Number]] = {}
    for contrast in printed:
        if contrast.place is not None:
            numbers_by_place.setdefault(contrast.place, []).extend(contrast.numbers)
    # The sd is pooled over all systems of a test set and metric, so it is measured once for each.
    runs_by_place, spread_by_place = {}, {}
    for place, numbers in numbers_by_place.items():
        runs_by_place[place] = runs_by_system(frame, numbers)
        spread_by_place[place] = measure_spread(runs_by_place[place])
    drawn = []
    for contrast in printed:
        # One of the two systems is not run here: the table shows the printed difference only.
        if contrast.place is None:
            drawn.append(contrast)
            continue
        runs = runs_by_place[contrast.place]
        ours = _our_contrast(contrast, contrast.relation, runs, spread_by_place[contrast.place])
        measured = msgspec.structs.replace(
            contrast,
            ours=ours,
            by_testset=_contrasts_by_testset(frame, contrast),
        )
        drawn.append(measured)
    answered = _answer(_correct(drawn), runs_by_place)
    return Contrasts(contrasts=tuple(answered), spread_by_place=spread_by_place)


def _correct(drawn: Sequence[PrintedContrast]) -> list[PrintedContrast]:
    """Return the given contrasts, the primary contrasts with a call after Holm's correction."""
    # Decision 0009: BLEU is secondary and is not corrected.
    family = [contrast.ours for contrast in drawn if contrast.is_primary and contrast.ours]
    # Holm's correction needs the whole family at once. Its results go back in the same order.
    corrected = iter(correct_family(family))
    contrasts = []
    for contrast in drawn:
        is_in_family = contrast.is_primary and contrast.ours is not None
        ours = next(corrected) if is_in_family else contrast.ours
        contrasts.append(msgspec.structs.replace(contrast, ours=ours))
    return contrasts


def _answer(
    drawn: Sequence[PrintedContrast],
    runs_by_place: Mapping[tuple[str, str], Mapping[str, list[SeedRun]]],
) -> list[PrintedContrast]:
    """Return the given contrasts. The primary contrasts have an answer, and say whether their
    difference still changes at the end of training.
    """
    # The key is the system. A system has only one primary contrast, because conclusions.csv has one
    # line in `ppl_dev` for each row.
    asked = {}
    runs_by_system: dict[str, list[SeedRun]] = {}
    for contrast in drawn:
        ours, relation = contrast.ours, contrast.relation
        # A row with a run that did not start, or without enough seeds of base, has no call. Such a
        # row has no answer, and does not enter Holm's correction.
        if not contrast.is_primary or ours is None or ours.call not in CALLED:
            continue
        if relation is not None and ours.estimate is not None and contrast.place is not None:
            asked[_system_of(contrast)] = (relation, contrast.printed_effect, ours.estimate)
            # This includes the systems without an answer, because their slopes add to the pooled
            # sd.
            runs_by_system |= runs_by_place[contrast.place]
    # Holm's correction needs all answers of the family at once.
    answers = answer_family(asked)
    moving = _moving_systems(runs_by_system, list(asked))
    answered = []
    for contrast in drawn:
        system = _system_of(contrast)
        if not contrast.is_primary or system not in answers:
            answered.append(contrast)
            continue
        with_answer = msgspec.structs.replace(
            contrast, answered=answers[system], is_moving=system in moving
        )
        answered.append(with_answer)
    return answered


def _moving_systems(
    runs_by_system: Mapping[str, Sequence[SeedRun]], systems: Sequence[str]
) -> set[str]:
    """Return the systems that learn faster or slower than base at the end of training (decision
    0012).

    The mean slope of a system's validations on dev is compared with base's. The t-test of the
    slopes uses the sd pooled over all systems, and Holm's correction over `systems`. A system is
    not tested if the slope of one of its seeds is unknown.
    """
    slopes_by_system = {}
    for system, runs in runs_by_system.items():
        slopes = known_values(started_runs(runs), lambda run: run.slope_at_end)
        if slopes:
            slopes_by_system[system] = slopes
    # Base may still improve at the end, too. The effect moves only if the slopes differ.
    control_slopes = slopes_by_system.get(CONTROL, [])
    pooled = pool_sd(slopes_by_system, with_bartlett=False)
    if pooled is None or len(control_slopes) < MIN_CONTROL_SEEDS:
        return set()
    p_values = {}
    for system in systems:
        slopes = slopes_by_system.get(system, [])
        if slopes:
            difference = statistics.mean(slopes) - statistics.mean(control_slopes)
            estimate = estimate_difference(difference, pooled, len(slopes), len(control_slopes))
            p_values[system] = estimate.p_difference
    adjusted = holm_adjusted(list(p_values.values()))
    return {system for system, p_value in zip(p_values, adjusted, strict=True) if p_value < ALPHA}


def _system_of(contrast: PrintedContrast) -> str:
    """Return the name of our system for the contrast's row of Table 3, or "" if it is not run."""
    return contrast.numbers[0].key.system if contrast.numbers else ""


def _contrasts_by_testset(frame: Frame, contrast: PrintedContrast) -> dict[str, Contrast]:
    """Return a row's differences to its control on further test sets, without calls. The result is
    empty for rows of Table 2.
    """
    contrasts: dict[str, Contrast] = {}
    if contrast.table != 3:
        return contrasts
    for testset in further_testsets(frame):
        # A test set may be scored with several averages. Only the average of the row's number on
        # dev is compared.
        numbers = []
        for number in contrast.numbers:
            cell = (number.key.corpus, number.key.system, number.key.average, testset)
            for key in frame.keys:
                if (key.corpus, key.system, key.average, key.testset) == cell:
                    numbers.append(frame.numbers[key, contrast.metric])
                    break
        # One of the two systems is not scored on this test set.
        if len(numbers) < 2:
            continue
        runs = runs_by_system(frame, numbers)
        on_testset = _our_contrast(contrast, None, runs, measure_spread(runs))
        if on_testset is not None:
            contrasts[testset] = on_testset
    return contrasts


def _our_contrast(
    contrast: PrintedContrast,
    relation: Relation | None,
    runs: Mapping[str, list[SeedRun]],
    spread: Spread,
) -> Contrast | None:
    """Return our contrast of two systems that are run at this scale, or None if one of them has no
    value.
    """
    row_runs, control_runs = (runs.get(number.key.system, []) for number in contrast.numbers)
    if not row_runs or not control_runs:
        return None
    is_in_bits = contrast.metric == BITS_METRIC
    return draw_contrast(relation, row_runs, control_runs, spread, is_in_bits=is_in_bits)


def _printed_contrasts(frame: Frame) -> list[PrintedContrast]:
    """Return the contrasts in bits, then the contrasts in BLEU. Among the contrasts in bits, and
    again among the contrasts in BLEU, the paper's conclusions come first, then the other rows of
    Table 3.
    """
    contrasts = []
    for metric in (PERPLEXITY_METRIC, METRIC_BY_PAIR["en-de"]):
        rows_of_table3 = set()
        for conclusion in read_conclusions():
            # En-Fr has a BLEU metric of its own, so only perplexity or not decides which part has
            # the contrast.
            row = _find_cell(frame, conclusion, conclusion.row)
            if (row.metric == PERPLEXITY_METRIC) != (metric == PERPLEXITY_METRIC):
                continue
            control = _find_cell(frame, conclusion, conclusion.reference)
            contrasts.append(_printed_contrast(frame, conclusion, row, control))
            # The rows of Table 3 that no conclusion covers follow below.
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
    """Return the cell of the paper's table in this row and in the column that a conclusion is
    about.
    """
    place = (str(conclusion.table), row, conclusion.column)
    for cell in frame.cells:
        # Where the two editions print different numbers, a conclusion is about one of them.
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
    # Our perplexities are on a different level than the paper's, and a difference of perplexities
    # grows with the level. A difference of bits is the logarithm of a ratio, so it can be compared.
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
    """Return the further test sets on which rows of Table 3 are scored, and dev with a different
    length penalty.
    """
    # The role `alpha` is dev, decoded again with the alpha that decision 0009 chose.
    testsets = [key.testset for key in frame.keys if key.role in ("further", "alpha")]
    return list(dict.fromkeys(testsets))
