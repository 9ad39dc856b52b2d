"""Lays out the readings of decision 0012, a row a reading and a column a contrast: table
`readings`.
"""

from collections.abc import Mapping
from dataclasses import replace

from aiayn.scoring.scores import BITS_METRIC
from analysis.conclusions.readings import Kind, Reading
from analysis.conclusions.runs import seed_runs
from analysis.conclusions.scale_contrasts import PrintedContrast, draw_contrasts
from analysis.conclusions.scale_readings import ADDED_AFTER_A_LOOK, Readings
from paper_tables.frame import Frame, Number
from paper_tables.layout import (
    BITS_DECIMALS,
    BLEU_DECIMALS,
    PLUS_MINUS,
    Cell,
    Field,
    Note,
    Table,
    blank_cell,
    columns_of,
    label_field,
    our_field,
    rows_of,
    text_cell,
)
from paper_tables.tables.ours import complete, difference_provenance

OTHER = "*"  # marks a reading that gives another direction
KIND_WORDS: dict[Kind, str] = {
    "variance": "variance",
    "seeds": "seeds of base",
    "text": "another text",
    "metric": "another metric",
    "horizon": "updates",
}
NOTES = (
    (
        f"A reading repeats the question of difference with one change. {OTHER}: it gives a"
        " contrast another direction (better, worse, no difference) than the answer has. No"
        " reading changes an answer. All readings were chosen after a look at the runs of decision"
        " 0009: they are exploratory."
    ),
    (
        "Holm: Holm's correction over the contrasts. Welch: two variances, base's own and that"
        " pooled over all other systems. Each other reading has an sd of its own, pooled over the"
        " systems as in decision 0009."
    ),
    (
        "Bits on training batches, from the logs: the mean over the last fifth of the updates, with"
        " dropout. They are shown for rows whose dropout and smoothing are base's, and are neither"
        " tested nor counted. A row that fits its training text worse, but not dev, is consistent"
        " with over-fitting."
    ),
)
ADDED_NOTE = (
    f"All seeds ({ADDED_AFTER_A_LOOK}): the seeds of decision 0009 and the later seeds of decision"
    " 0012."
)


def lay_out_readings(frame: Frame) -> Table | None:
    """Return a row for each reading; None unless a primary contrast is answered."""
    drawn = draw_contrasts(frame)
    if drawn.readings is None:
        return None
    answered = {
        contrast.numbers[0].key.system: contrast for contrast in drawn.primary if contrast.answered
    }
    all_readings = drawn.readings
    readings = list(all_readings.readings)
    if all_readings.training_bits.estimate_by_row:
        readings.append(all_readings.training_bits)
    fields: list[Field[Reading]] = [
        label_field("kind", "what is changed", lambda reading: KIND_WORDS[reading.kind]),
        label_field("reading", "reading", lambda reading: reading.name),
        label_field(
            "num_other",
            "with another direction",
            lambda reading: _num_other(reading, all_readings, answered),
        ),
    ]
    fields += [
        _contrast_field(frame, system, contrast, all_readings)
        for system, contrast in answered.items()
    ]
    has_later = any(ADDED_AFTER_A_LOOK in reading.name for reading in readings)
    notes = [*NOTES, *([ADDED_NOTE] if has_later else [])]
    notes += [*_missing_notes(readings), *_dirty_notes(frame)]
    table = Table(
        name="readings",
        title="Readings",
        caption=(
            "The contrasts of table `conclusions` in bits a subword, read otherwise: the difference"
            " to base with half of its 95 % interval, in bits or in BLEU."
        ),
        columns=columns_of(fields),
        rows=rows_of(fields, readings, "ours"),
        notes=tuple(Note("", text) for text in notes),
    )
    return complete(frame, table, has_states=False)


def _contrast_field(
    frame: Frame, system: str, contrast: PrintedContrast, readings: Readings
) -> Field[Reading]:
    def cell(reading: Reading) -> Cell:
        return _estimate_cell(
            reading, system, contrast, _numbers_of(frame, contrast, readings, reading.name)
        )

    return our_field(system, contrast.statement, cell)


def _numbers_of(
    frame: Frame, contrast: PrintedContrast, readings: Readings, name: str
) -> tuple[Number, ...]:
    """Return the numbers behind a reading, row and control: bits on dev, or the same runs on
    another set or in BLEU.
    """
    if name not in readings.place_by_name:
        return contrast.numbers
    testset, metric = readings.place_by_name[name]
    number_by_system = {
        (key.corpus, key.system, key.average): number
        for (key, number_metric), number in frame.numbers.items()
        if (key.testset, number_metric) == (testset, metric)
    }
    keys = [
        (number.key.corpus, number.key.system, number.key.average) for number in contrast.numbers
    ]
    return tuple(number_by_system[key] for key in keys)


def _estimate_cell(
    reading: Reading, system: str, contrast: PrintedContrast, numbers: tuple[Number, ...]
) -> Cell:
    """Return the difference and its reach; a star where the reading gives another direction."""
    estimate = reading.estimate_by_row.get(system)
    if estimate is None:
        return blank_cell()
    decimals = BITS_DECIMALS if reading.less_is_better else BLEU_DECIMALS
    star = f" {OTHER}" if reading.name in contrast.differing else ""
    text = f"{estimate.difference:+.{decimals}f} {PLUS_MINUS} {estimate.reach:.{decimals}f}{star}"
    marks = contrast.row.marks if contrast.row else ()
    return replace(
        text_cell(text, "ours", *marks),
        provenance=difference_provenance(numbers[0], numbers[1]),
        shows=numbers,
    )


def _num_other(
    reading: Reading, readings: Readings, answered: Mapping[str, PrintedContrast]
) -> str:
    """Return how many contrasts a reading gives another direction; training bits are not
    counted.
    """
    if reading is readings.training_bits:
        return "not counted"
    return str(sum(reading.name in contrast.differing for contrast in answered.values()))


def _missing_notes(readings: list[Reading]) -> list[str]:
    """Return a sentence for each reading that lacks a contrast."""
    notes = []
    for reading in readings:
        if reading.missing:
            problems = "; ".join(dict.fromkeys(reading.missing.values()))
            notes.append(f"Without a value in reading {reading.name!r}: {problems}.")
    return notes


def _dirty_notes(frame: Frame) -> list[str]:
    """Return a sentence on evaluations from a changed working tree: whose, and how far record and
    log differ.
    """
    trainings = list(dict.fromkeys((key.system, seed) for key, seed in frame.dirty_evaluations))
    if not trainings:
        return []
    differences = []
    for (key, metric), number in frame.numbers.items():
        if metric == BITS_METRIC and key.role == "dev":
            differences += [
                abs(run.value - run.bits_by_update[run.updates])
                for run in seed_runs(frame, number)
                if (key.system, run.seed) in trainings and run.updates in run.bits_by_update
            ]
    agreement = (
        f"; on dev record and log differ by at most {max(differences):.4f} bits"
        if differences
        else ""
    )
    names = ", ".join(f"{system} seed {seed}" for system, seed in trainings)
    return [
        f"Evaluated from a changed working tree (`is_dirty` in the records): {names}{agreement}."
    ]
