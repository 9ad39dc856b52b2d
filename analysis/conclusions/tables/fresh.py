"""Lays out decision 0013's tables: `recurrence`, `heads` and `model_readings`.

`analysis.conclusions.fresh` has the rule. Each table has a line for each contrast of a family. If a
contrast cannot have a number, its cell contains a sentence that says why. A note lists the missing
trainings.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from aiayn.printed import COMPARED_AVERAGE, METRIC_BY_PAIR, REFERENCE_SYSTEM
from aiayn.scoring.scores import BITS_METRIC
from aiayn.scoring.verdict import ALPHA, PooledSd, pool_sd
from aiayn.spec.system import read_system
from analysis.conclusions.answers import MARGIN_OF_ABSENCE, Estimate, estimate_difference
from analysis.conclusions.contrasts import SeedRun, started_runs
from analysis.conclusions.fresh import (
    FIRST_FRESH_SEED,
    H4,
    HEADS,
    MODEL_READINGS,
    RECURRENCE,
    TIMED_AS,
    ComparedContrast,
    FreshContrast,
    FreshFamily,
    RunsBySystem,
    better_rate_sentence,
    compare_family,
    final_bits,
    fresh_runs,
    heads_sentence,
    missing_trainings,
    read_seconds_an_update,
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
BETTER_RATE_WORDS = "(base is better at another rate)"  # next to each answer; a note has the number
# Rows (A) and (B) of Table 3 without fresh seeds; 8 heads with d_k 16 are base's.
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


class ContrastLine(NamedTuple):
    """A contrast, and the fresh runs of its system. The line of base itself does not have a
    contrast.
    """

    frame: Frame
    system: str
    compared: ComparedContrast | None
    runs: Sequence[SeedRun]


def lay_out_recurrence(frame: Frame) -> Table | None:
    """Return the table of base, recurrence and convolution in quality and speed, or None without a
    fresh run of recurrence or convolution.
    """
    runs = _runs_of(frame, RECURRENCE)
    if not runs:
        return None
    base_runs = runs.get(REFERENCE_SYSTEM, [])
    target = final_bits(base_runs) if base_runs else None
    seconds_by_system = read_seconds_an_update()

    def seconds_of(line: ContrastLine) -> list[float]:
        """Return the CPU seconds of an update, one value for each round."""
        return seconds_by_system.get(TIMED_AS[line.system], [])

    def updates_of(line: ContrastLine) -> list[float]:
        """Return the update at which each run reaches base's final bits, if it does."""
        if target is None:
            return []
        reached = [updates_until(run.bits_by_update, target) for run in line.runs]
        return [update for update in reached if update is not None]

    def until_words(line: ContrastLine) -> str:
        updates = updates_of(line)
        if line.runs and len(updates) == len(line.runs):
            return over_seeds(updates, 0)
        return f"reached by {len(updates)} of {len(line.runs)}" if target is not None else ""

    def seconds_until_words(line: ContrastLine) -> str:
        updates, seconds = updates_of(line), seconds_of(line)
        if not seconds or not updates or len(updates) < len(line.runs):
            return ""
        return rounded(statistics.mean(updates) * statistics.mean(seconds), 0)

    fields: list[Field[ContrastLine]] = [
        label_field("system", "system", lambda line: line.system),
        _number_field("params", "params x10^6", "num_parameters"),
        *_contrast_fields(),
        *_further_bleu_fields(frame),
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
    better_rate = better_rate_sentence(read_rate_probes(SCALE))
    lines = [ContrastLine(frame, REFERENCE_SYSTEM, None, base_runs)]
    for line in _lines(frame, RECURRENCE, runs):
        compared = line.compared
        if better_rate and compared is not None and compared.answer:
            answer = f"{compared.answer} {BETTER_RATE_WORDS}"
            compared = msgspec.structs.replace(compared, answer=answer)
        lines.append(line._replace(compared=compared))
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
    """Return the table of other interpretations of the paper's model, each against base, or None
    without a fresh run.
    """
    runs = _runs_of(frame, MODEL_READINGS)
    if not runs:
        return None
    fields: list[Field[ContrastLine]] = [
        label_field("system", "system minus base", lambda line: line.system),
        *_contrast_fields(),
    ]
    table = Table(
        name="model_readings",
        title="Other readings of the paper's model",
        caption="The paper's model as others read it, each against base.",
        columns=columns_of(fields),
        cells=rows_of(fields, _lines(frame, MODEL_READINGS, runs), "ours"),
        notes=_notes(MODEL_READINGS, runs),
    )
    return complete(frame, table, has_states=False)


def lay_out_heads(frame: Frame) -> Table | None:
    """Return the table of the number of heads against d_k, with the predicted and the measured
    effects.

    Return None if neither earlier nor fresh seeds of these systems were trained.
    """
    runs = _runs_of(frame, HEADS)
    earlier = _Earlier.of(frame)
    lines = _lines(frame, HEADS, runs)
    for contrast in map(FreshContrast, EARLIER_ROWS):
        if earlier.estimate(contrast, earlier.dev) is not None:
            lines.append(
                ContrastLine(frame, contrast.system, ComparedContrast(contrast=contrast), [])
            )
    if not runs and not any(earlier.cell(line, earlier.dev) for line in lines):
        return None

    def sizes(line: ContrastLine) -> str:
        training = read_system(line.system, SCALE).training
        return f"{training.num_heads}, {training.d_k}, {training.d_v}"

    fields: list[Field[ContrastLine]] = [
        label_field("contrast", "contrast", _contrast_name),
        label_field("sizes", "h, d_k, d_v", sizes),
        *(earlier.field(testset) for testset in earlier.testsets),
        label_field(
            "predicted",
            "predicted",
            lambda line: line.compared.contrast.predicted if line.compared else "",
        ),
        *_contrast_fields(),
    ]
    compared = [line.compared for line in lines if line.compared is not None]
    table = Table(
        name="heads",
        title="Heads or d_k",
        caption="Whether the effect of rows (A) of Table 3 follows the number of heads or d_k.",
        columns=columns_of(fields),
        cells=rows_of(fields, lines, "ours"),
        notes=_notes(HEADS, runs, HEADS_NOTE, heads_sentence(compared)),
    )
    return complete(frame, table, has_states=False)


class _Earlier(NamedTuple):
    """The bits per subword of seeds that were known before decision 0013, by test set and system,
    with the `Number` that contains each.
    """

    testsets: tuple[str, ...]
    values: Mapping[str, Mapping[str, Sequence[float]]]
    numbers: Mapping[tuple[str, str], Number]
    pooled: Mapping[str, PooledSd | None]

    @classmethod
    def of(cls, frame: Frame) -> "_Earlier":
        """Return the earlier seeds of a scale, without runs that did not start."""
        values: dict[str, dict[str, list[float]]] = {}
        numbers: dict[tuple[str, str], Number] = {}
        for key in frame.keys:
            is_last = (key.corpus, key.average) == (_corpus(frame), COMPARED_AVERAGE)
            if not is_last or key.role not in ("dev", "further"):
                continue
            number = frame.numbers[key, BITS_METRIC]
            runs = started_runs(seed_runs(frame, number))
            bits = [run.value for run in runs if run.seed < FIRST_FRESH_SEED]
            values.setdefault(key.testset, {})[key.system] = bits
            numbers[key.testset, key.system] = number
        pooled = {name: pool_sd(some, with_bartlett=False) for name, some in values.items()}
        return cls(tuple(values), values, numbers, pooled)

    @property
    def dev(self) -> str:
        """The first test set, or '' if there are none."""
        return next(iter(self.testsets), "")

    def estimate(self, contrast: FreshContrast, testset: str) -> Estimate | None:
        """Return a contrast on a test set by decision 0009's sd, or None without a value or an
        sd.
        """
        values, pooled = self.values.get(testset, {}), self.pooled.get(testset)
        row, control = values.get(contrast.system), values.get(contrast.control)
        if not row or not control or pooled is None:
            return None
        difference = statistics.mean(row) - statistics.mean(control)
        return estimate_difference(difference, pooled, len(row), len(control))

    def field(self, testset: str) -> Field[ContrastLine]:
        """Return the column of a test set."""
        heading = f"seeds below {FIRST_FRESH_SEED}, {testset} (exploratory)"
        return our_field(f"earlier_{testset}", heading, lambda line: self.cell(line, testset))

    def cell(self, line: ContrastLine, testset: str) -> Cell | None:
        """Return a line's contrast on a test set, with the numbers of seeds. The cell is blank
        without a value.
        """
        contrast = FreshContrast("") if line.compared is None else line.compared.contrast
        estimate = self.estimate(contrast, testset)
        if estimate is None:
            return None
        sides = [self.numbers[testset, name] for name in (contrast.system, contrast.control)]
        counts = [len(self.values[testset][number.key.system]) for number in sides]
        difference = with_reach(estimate.difference, estimate.reach, BITS)
        text = f"{difference} (n={counts[0]} and {counts[1]})"
        return Cell(text, "ours", sides[0].marks, numbers=tuple(sides))


def _corpus(frame: Frame) -> str:
    return frame.corpus_by_pair["en-de"]


def _runs_of(frame: Frame, family: FreshFamily) -> dict[str, list[SeedRun]]:
    """Return the fresh runs by system. The result is empty if no system of the family has a fresh
    run.
    """
    if frame.scale != SCALE:
        return {}
    runs = fresh_runs(frame)
    return runs if any(runs.get(system) for system in family.systems) else {}


def _lines(frame: Frame, family: FreshFamily, runs: RunsBySystem) -> list[ContrastLine]:
    """Return a line for each contrast of a family."""
    lines = []
    for compared in compare_family(family, runs):
        system = compared.contrast.system
        lines.append(ContrastLine(frame, system, compared, runs.get(system, [])))
    return lines


def _notes(family: FreshFamily, runs: RunsBySystem, *texts: str) -> tuple[Note, ...]:
    """Return the notes of a table: the rule, further texts, and the missing trainings."""
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


def _contrast_name(line: ContrastLine) -> str:
    return line.system if line.compared is None else line.compared.contrast.name


def _contrast_fields() -> list[Field[ContrastLine]]:
    """Return the columns that all three tables have."""
    return [
        words_field("seeds", "seeds", lambda line: ", ".join(str(run.seed) for run in line.runs)),
        _number_field("bleu_dev", "BLEU (dev)", BLEU_METRIC),
        words_field(
            "bits",
            "bits, mean of the last three validations",
            lambda line: over_seeds([run.value for run in line.runs], BITS),
        ),
        our_field("difference", "difference in bits", _difference_cell),
        words_field("answer", "answer", _answer_words),
        words_field("holm", "p by Holm: difference; within the margin", _holm_words),
    ]


def _further_bleu_fields(frame: Frame) -> list[Field[ContrastLine]]:
    """Return the columns of BLEU on the further test sets of the sheet."""
    keys = [*frame.keys, *(key for key, _ in frame.later_numbers)]
    testsets = dict.fromkeys(key.testset for key in keys if key.role == "further")
    return [
        _number_field(f"bleu_{testset}", f"BLEU, {testset}", BLEU_METRIC, testset)
        for testset in testsets
    ]


def _number_field(name: str, heading: str, metric: str, testset: str = "") -> Field[ContrastLine]:
    """Return the field of a metric over the fresh seeds. A cell is blank without a fresh run."""

    def cell(line: ContrastLine) -> Cell | None:
        number = _number(line.frame, line.system, metric, testset)
        return None if number is None else our_cell(number)

    return our_field(name, heading, cell)


def _number(frame: Frame, system: str, metric: str, testset: str = "") -> Number | None:
    """Return the number of a system with its fresh seeds only, on dev or on a further test set, or
    None without a fresh run.
    """
    place = (_corpus(frame), system, COMPARED_AVERAGE)
    for numbers in (frame.later_numbers, frame.numbers):
        for (key, name), number in numbers.items():
            is_asked = key.testset == testset if testset else key.role == "dev"
            if (key.corpus, key.system, key.average) != place or name != metric or not is_asked:
                continue
            values = [
                (run, value)
                for run, value in number.values
                if run.seed is not None and run.seed >= FIRST_FRESH_SEED
            ]
            if values:
                return msgspec.structs.replace(number, values=tuple(values), missing=())
    return None


def _difference_cell(line: ContrastLine) -> Cell | None:
    """Return the difference with its interval, or the sentence that says why it is missing."""
    if line.compared is None:
        return None
    estimate = line.compared.estimate
    if estimate is None:
        problem = line.compared.problem if line.runs else ""
        return Cell(problem, "state") if problem else None
    contrast = line.compared.contrast
    row = _number(line.frame, contrast.system, BITS_METRIC)
    control = _number(line.frame, contrast.control, BITS_METRIC)
    if row is None or control is None:
        return None
    text = with_reach(estimate.difference, estimate.reach, BITS)
    return Cell(text, "ours", row.marks, numbers=(row, control))


def _answer_words(line: ContrastLine) -> str:
    return "" if line.compared is None else line.compared.answer


def _holm_words(line: ContrastLine) -> str:
    compared = line.compared
    if compared is None or compared.holm_difference is None or compared.holm_within is None:
        return ""
    return "; ".join(
        rounded(p_value, "p") for p_value in (compared.holm_difference, compared.holm_within)
    )
