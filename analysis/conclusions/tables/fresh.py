"""Lays out the three tables of decision 0013: `recurrence`, `heads` and `model_readings`.

A contrast is a system minus its control, usually base. The contrasts of one question are a family,
and `analysis.conclusions.fresh` has the rule for their answers. Each table has a line for each
contrast of a family. If the difference of a contrast cannot be computed, its cell contains a
sentence that says why. A note below the table lists the missing trainings.
"""

import statistics
from collections.abc import Mapping

import msgspec

from aiayn.printed import COMPARED_AVERAGE, METRIC_BY_PAIR, REFERENCE_SYSTEM
from aiayn.scoring.scores import BITS_METRIC
from aiayn.scoring.verdict import ALPHA, pool_sd
from aiayn.spec.system import read_system
from analysis.conclusions.answers import MARGIN_OF_ABSENCE, estimate_difference
from analysis.conclusions.contrasts import SeedRun, started_runs
from analysis.conclusions.fresh import (
    DEV,
    FIRST_FRESH_SEED,
    H4,
    HEADS,
    MODEL_READINGS,
    RECURRENCE,
    TIMED_AS,
    ComparedContrast,
    FreshContrast,
    FreshFamily,
    FreshNumbers,
    RunsBySystem,
    better_rate_sentence,
    compare_family,
    final_bits,
    fresh_numbers,
    fresh_runs,
    heads_sentence,
    missing_trainings,
    read_seconds_an_update,
    runs_of_family,
    updates_until,
)
from analysis.conclusions.rates import read_rate_probes
from analysis.conclusions.runs import seed_runs
from paper_tables.frame import Frame, Number
from paper_tables.layout import (
    Cell,
    Field,
    Note,
    Table,
    columns_of,
    label_field,
    our_field,
    rows_of,
    words_field,
)
from paper_tables.rounding import BITS, over_seeds, rounded, with_reach
from paper_tables.tables.ours import complete, our_cell

SCALE = "multi30k"  # of decision 0013
BLEU_METRIC = METRIC_BY_PAIR["en-de"]
SECONDS_DECIMALS = 4
BETTER_RATE_WORDS = "(base is better at another rate)"  # next to each answer, a note has the number
# Rows (A) and (B) of Table 3 that were not trained with fresh seeds. `dk16` and `dk32` are the
# names of the paper's rows. At this scale all sizes are smaller: base has 8 heads with d_k 16.
EARLIER_ROWS = ("table3_a_h16", "table3_a_h32", "table3_b_dk16", "table3_b_dk32")
RULE_NOTE = (
    "Rule (decision 0013, fixed before the first of these trainings): fresh seeds on both sides;"
    " bits a subword on dev, mean of the last three validations; two variances, base's own and that"
    " pooled over the other systems of the family (a contrast without base has the pooled one on"
    f" both sides). Higher, lower: the two-sided test passes Holm's correction at {ALPHA} within"
    f" the family. Equal within {MARGIN_OF_ABSENCE}: the two one-sided tests pass it, and the test"
    " of difference does not. Intervals are at 95 %, without correction."
)
RATES_NOTE = (
    "Each has the rate at which one probe (seed 101, 4,000 updates) needed the fewest bits, in"
    " times of equation (3)'s: base 1, the LSTM 4, the convolutional model 8, the highest of five."
    " Base was probed at the same rates. Layers, warm-up and clipping were not probed."
)
SPEED_NOTE = (
    "Updates until base's final bits: the update at which a run first has the mean of base's last"
    " validations, by straight lines between validations. CPU seconds were measured apart from the"
    " trainings, in interleaved rounds on one thread. One thread shows the arithmetic of an update"
    " and the cost of its many small steps. It does not show parallelism: the steps of an LSTM wait"
    " for each other, and only a machine that could do them at once loses time by this."
)
HEADS_NOTE = (
    "Rows (A) of Table 3 change the number of heads and d_k together, rows (B) change d_k alone."
    " The two crossing systems are the cases that both lack. Seeds below"
    f" {FIRST_FRESH_SEED} were looked at before decision 0013: their columns are exploratory, in"
    " bits at the last update, by the sd pooled over all systems of the test set."
    f" {H4} was chosen as the best of rows (A) after a look."
)


def lay_out_recurrence(frame: Frame) -> Table | None:
    """Return the table that compares base, recurrence and convolution in quality and speed.

    Return None if no system of recurrence or convolution was trained with a fresh seed.
    """
    runs = _runs_of(frame, RECURRENCE)
    if not runs:
        return None
    numbers = fresh_numbers(frame)
    base_runs = runs.get(REFERENCE_SYSTEM, [])
    # The target is base's quality at its end. Decision 0013 counts the updates until a system
    # reaches it.
    target = final_bits(base_runs) if base_runs else None
    seconds_by_system = read_seconds_an_update()

    def seconds_of(line: ComparedContrast) -> list[float]:
        """Return the CPU seconds that an update of the contrast's system takes, one value for each
        round of the benchmark.
        """
        return seconds_by_system.get(TIMED_AS[line.contrast.system], [])

    def updates_of(line: ComparedContrast) -> list[float]:
        """Return for each run the update at which it reaches base's final bits. Runs that never
        reach base's final bits are left out.
        """
        if target is None:
            return []
        reached = [updates_until(run.bits_by_update, target) for run in line.runs]
        return [update for update in reached if update is not None]

    def until_words(line: ComparedContrast) -> str:
        updates = updates_of(line)
        # A mean over only those seeds that reach the target would be too low. Then the cell has
        # their number instead.
        if line.runs and len(updates) == len(line.runs):
            return over_seeds(updates, 0)
        return f"reached by {len(updates)} of {len(line.runs)}" if target is not None else ""

    def seconds_until_words(line: ComparedContrast) -> str:
        updates, seconds = updates_of(line), seconds_of(line)
        if not seconds or not updates or len(updates) < len(line.runs):
            return ""
        return rounded(statistics.mean(updates) * statistics.mean(seconds), 0)

    fields: list[Field[ComparedContrast]] = [
        label_field("system", "system", lambda line: line.contrast.system),
        _number_field(numbers, "params", "params x10^6", "num_parameters"),
        *_contrast_fields(numbers),
        *_further_bleu_fields(frame, numbers),
        words_field("updates", "updates until base's final bits", until_words),
        words_field(
            "cpu_seconds",
            "CPU seconds an update",
            lambda line: over_seeds(seconds_of(line), SECONDS_DECIMALS),
        ),
        words_field(
            "cpu_seconds_until", "CPU seconds until base's final bits", seconds_until_words
        ),
    ]
    # LSTM and convolution got the best of several learning rates, but base keeps equation (3)'s. If
    # base is better at a different rate, the comparison is unfair to base, and the table says so.
    better_rate = better_rate_sentence(read_rate_probes(SCALE))
    # Base minus base is not a contrast. The row shows base's quality and speed.
    lines = [ComparedContrast(contrast=FreshContrast(REFERENCE_SYSTEM), runs=base_runs)]
    for line in compare_family(RECURRENCE, runs):
        # Decision 0013 requires the remark in every answer of the family, not only in a note.
        words = BETTER_RATE_WORDS if better_rate and line.answer else ""
        lines.append(msgspec.structs.replace(line, answer=f"{line.answer} {words}".strip()))
    table = Table(
        name="recurrence",
        title="Attention, recurrence, convolution",
        caption=(
            "Base, fairseq's LSTM and its convolutional model, of nearly one size, on the same"
            " batches for as many updates: quality and speed."
        ),
        columns=columns_of(fields),
        cells=rows_of(fields, lines, "ours"),
        notes=_notes(RECURRENCE, runs, RATES_NOTE, SPEED_NOTE, better_rate),
    )
    return complete(frame, table, has_states=False)


def lay_out_model_readings(frame: Frame) -> Table | None:
    """Return the table that compares other interpretations of the paper's model with base. Return
    None if none of the interpretations was trained with a fresh seed (a seed that was not used
    before decision 0013).
    """
    runs = _runs_of(frame, MODEL_READINGS)
    if not runs:
        return None
    fields: list[Field[ComparedContrast]] = [
        label_field("system", "system minus base", lambda line: line.contrast.system),
        *_contrast_fields(fresh_numbers(frame)),
    ]
    table = Table(
        name="model_readings",
        title="Other readings of the paper's model",
        caption="The paper's model as others read it, each against base.",
        columns=columns_of(fields),
        cells=rows_of(fields, compare_family(MODEL_READINGS, runs), "ours"),
        notes=_notes(MODEL_READINGS, runs, spread_sentence(MODEL_READINGS, runs)),
    )
    return complete(frame, table, has_states=False)


def lay_out_heads(frame: Frame) -> Table | None:
    """Return the table that separates the effect of the number of heads from the effect of d_k.
    Each contrast has decision 0013's prediction and the measured difference.

    Return None if the systems with other numbers of heads were trained neither with earlier nor
    with fresh seeds.
    """
    runs = _runs_of(frame, HEADS)
    earlier_fields = _earlier_fields(frame)
    lines = compare_family(HEADS, runs)
    if earlier_fields:
        # Rows (A) and (B) without fresh seeds are shown for their earlier seeds only.
        on_dev = earlier_fields[0]
        further = [ComparedContrast(contrast=FreshContrast(row)) for row in EARLIER_ROWS]
        lines += [line for line in further if on_dev.cell(line)]
        if not runs and not any(map(on_dev.cell, lines)):
            return None
    elif not runs:
        return None

    def sizes(line: ComparedContrast) -> str:
        # The sizes come from the system's file, because a system without a training also has a
        # line.
        training = read_system(line.contrast.system, SCALE).training
        return f"{training.num_heads}, {training.d_k}, {training.d_v}"

    fields: list[Field[ComparedContrast]] = [
        label_field("contrast", "contrast", lambda line: line.contrast.name),
        label_field("sizes", "h, d_k, d_v", sizes),
        *earlier_fields,
        label_field("predicted", "predicted", lambda line: line.contrast.predicted),
        *_contrast_fields(fresh_numbers(frame)),
    ]
    table = Table(
        name="heads",
        title="Heads or d_k",
        caption="Whether the effect of rows (A) of Table 3 follows the number of heads or d_k.",
        columns=columns_of(fields),
        cells=rows_of(fields, lines, "ours"),
        notes=_notes(HEADS, runs, HEADS_NOTE, heads_sentence(lines)),
    )
    return complete(frame, table, has_states=False)


def _earlier_fields(frame: Frame) -> list[Field[ComparedContrast]]:
    """Return a column for each test set, dev first, with the differences over earlier seeds. The
    results of the earlier seeds were known before decision 0013.
    """
    place = (frame.corpus_by_pair["en-de"], COMPARED_AVERAGE)
    numbers_by_testset: dict[str, dict[str, Number]] = {}
    for key in frame.keys:
        if (key.corpus, key.average) == place and key.role in ("dev", "further"):
            number = frame.numbers[key, BITS_METRIC]
            numbers_by_testset.setdefault(key.testset, {})[key.system] = number
    fields = []
    for testset, number_by_system in numbers_by_testset.items():
        fields.append(_earlier_field(frame, testset, number_by_system))
    return fields


def _earlier_field(
    frame: Frame, testset: str, number_by_system: Mapping[str, Number]
) -> Field[ComparedContrast]:
    """Return the column of a test set with the differences over the earlier seeds. Runs that did
    not start to learn are left out.

    The interval is computed as in decision 0009, with one sd that is pooled over all systems of the
    test set.
    """
    values = {}
    for system, number in number_by_system.items():
        runs = started_runs(seed_runs(frame, number))
        values[system] = [run.value for run in runs if run.seed < FIRST_FRESH_SEED]
    pooled = pool_sd(values, with_bartlett=False)

    def cell(line: ComparedContrast) -> Cell | None:
        """Return the cell with the difference, half of its 95 % interval and the numbers of
        seeds.
        """
        sides = (line.contrast.system, line.contrast.control)
        row, control = (values.get(system, []) for system in sides)
        if not row or not control or pooled is None:
            return None
        difference = statistics.mean(row) - statistics.mean(control)
        estimate = estimate_difference(difference, pooled, len(row), len(control))
        text = f"{with_reach(difference, estimate.reach, BITS)} (n={len(row)} and {len(control)})"
        numbers = tuple(number_by_system[system] for system in sides)
        return Cell(text, "ours", numbers[0].marks, numbers=numbers)

    heading = f"seeds below {FIRST_FRESH_SEED}, {testset} (exploratory)"
    return our_field(f"earlier_{testset}", heading, cell)


def _runs_of(frame: Frame, family: FreshFamily) -> dict[str, list[SeedRun]]:
    """Return the runs with fresh seeds of all systems. The result is empty if no system of the
    family, apart from base, has a run with a fresh seed.
    """
    # All systems in this decision are of scale multi30k. A different scale has none of the tables.
    if frame.scale != SCALE:
        return {}
    runs = fresh_runs(frame)
    return runs if any(runs.get(system) for system in family.systems) else {}


def _notes(family: FreshFamily, runs: RunsBySystem, *texts: str) -> tuple[Note, ...]:
    """Return the notes of a table: the rule for its answers, further texts, and the missing
    trainings.
    """
    notes = [RULE_NOTE, *filter(None, texts)]
    missing = missing_trainings(family, runs)
    if missing:
        names = []
        for system, seeds in missing.items():
            names.append(f"{system} {', '.join(map(str, seeds))}")
        notes.append(
            "No answers, as trainings of the family are not among these runs (seeds):"
            f" {'; '.join(names)}."
        )
    return tuple(map(Note, notes))


def spread_sentence(family: FreshFamily, runs: RunsBySystem) -> str:
    """Return a sentence on the system whose seeds differ most, because this system alone can widen
    the intervals of a whole family. Return '' if fewer than three systems have two seeds.
    """
    values = {}
    for system, system_runs in runs_of_family(family, runs).items():
        if system != REFERENCE_SYSTEM:
            values[system] = [run.value for run in started_runs(system_runs)]
    sds = {system: statistics.stdev(bits) for system, bits in values.items() if len(bits) > 1}
    if len(sds) < 3:
        return ""
    largest = max(sds, key=sds.__getitem__)
    pooled = pool_sd(values, with_bartlett=False)
    of_others = pool_sd(
        {system: bits for system, bits in values.items() if system != largest}, with_bartlett=False
    )
    if pooled is None or of_others is None:
        return ""
    return (
        f"The sd over seeds, pooled over the systems without base, is {rounded(pooled.sd, BITS)}"
        f" bits. The seeds of {largest} differ most (sd {rounded(sds[largest], BITS)}). Without"
        f" {largest} the pooled sd would be {rounded(of_others.sd, BITS)} bits. The rule does not"
        " leave a system out."
    )


def _contrast_fields(numbers: FreshNumbers) -> list[Field[ComparedContrast]]:
    """Return the columns that the tables `recurrence`, `heads` and `model_readings` have in
    common.
    """

    def difference(line: ComparedContrast) -> Cell | None:
        """Return the cell with the difference and its interval, or with the sentence that says why
        the difference is missing.
        """
        if line.estimate is None:
            # A contrast without any run is blank: the note on missing trainings lists it.
            return Cell(line.problem, "state") if line.problem and line.runs else None
        sides = (line.contrast.system, line.contrast.control)
        shown = tuple(numbers[system, DEV, BITS_METRIC] for system in sides)
        text = with_reach(line.estimate.difference, line.estimate.reach, BITS)
        return Cell(text, "ours", shown[0].marks, numbers=shown)

    return [
        words_field("seeds", "seeds", lambda line: ", ".join(str(run.seed) for run in line.runs)),
        _number_field(numbers, "bleu_dev", "BLEU (dev)", BLEU_METRIC),
        words_field(
            "bits",
            "bits, mean of the last three validations",
            lambda line: over_seeds([run.value for run in line.runs], BITS),
        ),
        our_field("difference", "difference in bits", difference),
        words_field("answer", "answer", lambda line: line.answer),
        words_field("holm", "p by Holm: difference; within the margin", _holm_words),
    ]


def _further_bleu_fields(frame: Frame, numbers: FreshNumbers) -> list[Field[ComparedContrast]]:
    """Return the columns of BLEU on the further test sets that the sheet (the list of trainings)
    asks for.
    """
    keys = [*frame.keys, *(key for key, _ in frame.later_numbers)]
    testsets = dict.fromkeys(key.testset for key in keys if key.role == "further")
    return [
        _number_field(numbers, f"bleu_{testset}", f"BLEU, {testset}", BLEU_METRIC, testset)
        for testset in testsets
    ]


def _number_field(
    numbers: FreshNumbers, name: str, heading: str, metric: str, testset: str = DEV
) -> Field[ComparedContrast]:
    """Return the column of a metric over the fresh seeds. The cell of a system without a fresh run
    is blank.
    """

    def cell(line: ComparedContrast) -> Cell | None:
        number = numbers.get((line.contrast.system, testset, metric))
        return None if number is None else our_cell(number)

    return our_field(name, heading, cell)


def _holm_words(line: ComparedContrast) -> str:
    if line.holm_difference is None or line.holm_within is None:
        return ""
    p_values = (line.holm_difference, line.holm_within)
    return "; ".join(rounded(p_value, "p") for p_value in p_values)
