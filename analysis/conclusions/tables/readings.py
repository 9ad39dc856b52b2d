"""Lays out table `readings`: decision 0012's readings, a row a reading and a column a contrast."""

from dataclasses import replace

import msgspec

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
    drawn = frame.once(draw_contrasts)
    if drawn.readings is None:
        return None
    answered = [contrast for contrast in drawn.primary if contrast.answered]
    all_readings = drawn.readings
    readings = list(all_readings.readings)
    if all_readings.training_bits.estimate_by_row:
        readings.append(all_readings.training_bits)

    def num_other(reading: Reading) -> str:
        if reading is all_readings.training_bits:
            return "not counted"
        return str(sum(reading.name in contrast.differing for contrast in answered))

    fields: list[Field[Reading]] = [
        label_field("kind", "what is changed", lambda reading: KIND_WORDS[reading.kind]),
        label_field("reading", "reading", lambda reading: reading.name),
        label_field("num_other", "with another direction", num_other),
    ]
    fields += [_contrast_field(frame, contrast, all_readings) for contrast in answered]
    notes = list(NOTES)
    if any(ADDED_AFTER_A_LOOK in reading.name for reading in readings):
        notes.append(ADDED_NOTE)
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
        notes=tuple(map(Note, notes)),
    )
    return complete(frame, table, has_states=False)


def _contrast_field(frame: Frame, contrast: PrintedContrast, readings: Readings) -> Field[Reading]:
    """Return the column of a contrast: the difference and its reach; a star where the reading gives
    another direction.
    """
    system = contrast.numbers[0].key.system

    def cell(reading: Reading) -> Cell:
        estimate = reading.estimate_by_row.get(system)
        if estimate is None:
            return blank_cell()
        decimals = BITS_DECIMALS if reading.less_is_better else BLEU_DECIMALS
        difference, reach = f"{estimate.difference:+.{decimals}f}", f"{estimate.reach:.{decimals}f}"
        star = f" {OTHER}" if reading.name in contrast.differing else ""
        row, control = _numbers_of(frame, contrast, readings, reading.name)
        return replace(
            text_cell(
                f"{difference} {PLUS_MINUS} {reach}{star}", "ours", *contrast.numbers[0].marks
            ),
            provenance=difference_provenance(row, control),
            shows=(row, control),
        )

    return our_field(system, contrast.statement, cell)


def _numbers_of(
    frame: Frame, contrast: PrintedContrast, readings: Readings, name: str
) -> tuple[Number, ...]:
    """Return the numbers behind a reading, row and control: bits on dev, or the same runs on
    another test set or in BLEU.
    """
    if name not in readings.place_by_name:
        return contrast.numbers
    testset, metric = readings.place_by_name[name]
    numbers = []
    for number in contrast.numbers:
        role = number.key.role if number.key.testset == testset else "further"
        key = msgspec.structs.replace(number.key, testset=testset, role=role)
        numbers.append(frame.numbers[key, metric])
    return tuple(numbers)


def _missing_notes(readings: list[Reading]) -> list[str]:
    """Return a sentence for each reading that lacks a contrast."""
    notes = []
    for reading in readings:
        if reading.missing:
            problems = "; ".join(dict.fromkeys(reading.missing.values()))
            notes.append(f"Without a value in reading {reading.name!r}: {problems}.")
    return notes


def _dirty_notes(frame: Frame) -> list[str]:
    """Return a sentence on evaluations from a changed working tree: the trainings, and how far
    record and log differ.
    """
    trainings = frame.dirty_trainings
    if not trainings:
        return []
    differences = []
    for (key, metric), number in frame.numbers.items():
        if metric != BITS_METRIC or key.role != "dev":
            continue
        for run in seed_runs(frame, number):
            if (key.system, run.seed) in trainings and run.updates in run.bits_by_update:
                differences.append(abs(run.value - run.bits_by_update[run.updates]))
    text = "Evaluated from a changed working tree (`is_dirty` in the records): "
    text += ", ".join(f"{system} seed {seed}" for system, seed in trainings)
    if differences:
        text += f"; on dev record and log differ by at most {max(differences):.4f} bits"
    return [f"{text}."]
