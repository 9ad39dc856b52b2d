"""Formats our numbers as cells and footnotes of tables: values over seeds, footnote marks, states
of trainings.
"""

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import msgspec

from aiayn.paths import CellKey
from aiayn.printed import PAPER_PRECISION
from aiayn.scoring.scores import brevity_metric
from paper_tables.frame import Frame, Number
from paper_tables.layout import (
    DASH,
    MARK_BY_SCALE,
    Cell,
    Note,
    Table,
)
from paper_tables.rounding import shown_over_seeds

# A number of a smaller scale may be close to a printed number by chance. The mark says that it is
# not a reproduction.
MARK_TEXT = (
    "Ours, of scale {scale} ({measured}): another corpus or scale than the paper's, no reproduction"
    " of its number, so no difference is taken. If this applies to all of ours in a row, the row"
    " has the mark once."
)


def our_cell(number: Number | None) -> Cell:
    """Return the table cell for a number of ours. The cell has the mean over seeds, such as `27.31`
    with `+- 0.42 (n=3)`, or the states of the trainings.

    A dash in the cell means that the quantity does not exist, for example a BLEU in a definition in
    which the system was not scored. If the number is None, the cell says that this scale does not
    run the system.
    """
    if number is None:
        return Cell("not run", "state")
    # An empty word means that the quantity does not exist. It is not a state of a training.
    counts = Counter(filter(None, number.missing))
    states_text = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    if not number.values:
        # All in one state: the word is enough, without its count.
        state = states_text if len(counts) > 1 else next(iter(counts), DASH)
        return Cell(state, "state", number.marks, numbers=(number,))
    values = number.seed_values
    # `n=2 of 3` shows that the mean may still change.
    num_asked = len(values) + len(number.missing)
    # For example `n=3`, or `n=2 of 3: 1 running`.
    seeds = f"n={len(values)}" if len(values) == num_asked else f"n={len(values)} of {num_asked}"
    # The mean in full precision is kept, because the best value of a column is found without
    # rounding.
    text, interval = shown_over_seeds(values, number.metric)
    spread = f"{interval} ({seeds}{': ' if states_text else ''}{states_text})".strip()
    return Cell(text, "ours", number.marks, statistics.fmean(values), spread, (number,))


def of_seeds(number: Number, seeds: Collection[int]) -> Number:
    """Return a number of ours, restricted to the given seeds."""
    values = [(run, value) for run, value in number.values if run.seed in seeds]
    return msgspec.structs.replace(number, values=tuple(values))


def complete(
    frame: Frame,
    table: Table,
    *,
    mark_text: str = "",
    has_precisions: bool = True,
    has_states: bool = True,
    has_signatures: bool = True,
) -> Table:
    """Return a table with the notes and signatures that the numbers in its cells need.

    The notes of the table are, in this order: the explanation of the scale's footnote mark (or
    `mark_text`), precisions other than the paper's, the table's own notes, and the unfinished
    trainings.
    """
    number_by_cell: dict[tuple[CellKey, str], Number] = {}
    for numbers in table.cells.numbers:
        for number in numbers:
            number_by_cell[number.key, number.metric] = number
    # A number may be in several cells, for example as a value and in a difference.
    shown = list(number_by_cell.values())
    signatures = set(table.signatures)
    for number in shown if has_signatures else ():
        testset = f"{number.key.testset} ({number.key.corpus})"
        # A brevity penalty has the signature of its BLEU.
        for text in () if number.metric.startswith(brevity_metric("")) else number.signatures:
            signatures.add((number.metric, testset, text))
    # A reader needs the legend of the marks first.
    notes = _mark_notes(shown, mark_text)
    if has_precisions:
        notes += _precision_notes(frame, shown)
    notes += table.notes
    if has_states:
        notes += state_notes(frame, {(number.key.corpus, number.key.system) for number in shown})
    return replace(table, notes=tuple(notes), signatures=tuple(sorted(signatures)))


def _mark_notes(shown: Sequence[Number], text: str) -> list[Note]:
    """Return the note that explains each scale's footnote mark in the table, with the test sets of
    the marked numbers.
    """
    notes = []
    for scale, mark in MARK_BY_SCALE.items():
        measured = set()
        for number in shown:
            if number.mark == mark:
                measured.add(f"corpus {number.key.corpus}, test set {number.key.testset}")
        if measured:
            conditions_text = "; ".join(sorted(measured))
            notes.append(
                Note((text or MARK_TEXT).format(scale=scale, measured=conditions_text), mark)
            )
    return notes


def _precision_notes(frame: Frame, shown: Iterable[Number]) -> list[Note]:
    """Return a note for each numeric precision other than the paper's, with the systems that were
    trained in it.
    """
    # Precision is a setting of the training, so one note covers all numbers of a system.
    systems_by_precision: dict[str, list[str]] = {}
    for system in dict.fromkeys(number.key.system for number in shown):
        # A log does not have a spec.
        spec = frame.system_by_name.get(system)
        if spec and spec.training.precision != PAPER_PRECISION:
            systems_by_precision.setdefault(spec.training.precision, []).append(system)
    notes = []
    for precision, systems in systems_by_precision.items():
        text = f"Trained in {precision}, unlike in the paper: {', '.join(systems)}. Products of"
        text += " matrices are computed in it; weights, Adam's moments and checkpoints are fp32."
        notes.append(Note(text))
    return notes


def state_notes(frame: Frame, systems: Collection[tuple[str, str]]) -> list[Note]:
    """Return a note for each unfinished training of these systems, with the state of the training
    and the reason.
    """
    notes = []
    for run in frame.runs:
        status = run.status
        # A training that was never started is left out: its cells already say `missing`.
        if (run.corpus, run.system) in systems and status.state != "missing" and status.reason:
            name = f"{run.corpus} {run.system} seed {run.seed}"
            progress = f"{status.state} at update {status.update or 0:,} of {status.updates:,}"
            notes.append(Note(f"{name}: {progress}; {status.reason}."))
    return notes
