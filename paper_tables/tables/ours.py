"""Makes cells and notes of numbers of ours: the value over seeds, the mark of its scale, or its
trainings' states.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import msgspec

from aiayn.printed import PAPER_PRECISION
from paper_tables.frame import Frame, Number, Run
from paper_tables.layout import (
    DASH,
    MARK_BY_SCALE,
    Cell,
    CellProvenance,
    Note,
    Part,
    Source,
    Table,
    format_seeds,
    format_value,
    text_cell,
)

MARK_TEXT = (
    "Ours, of scale {scale} ({measured}): another corpus or scale than the paper's, no reproduction"
    " of its number, so no difference is taken. Where this holds of all of ours in a row, the mark"
    " stands once."
)


def our_cell(*numbers: Number | None, marks: tuple[str, ...] = ()) -> Cell:
    """Return the cell of a number over its seeds, or its trainings' states; with `marks` beside
    that of the scale.

    Several numbers are of one quantity in several definitions. A dash is a quantity that does not
    exist, as another definition of what is scored; without any number the system is not run at this
    scale.
    """
    shown = [number for number in numbers if number is not None]
    if not shown:
        return text_cell("not run", "state")
    parts = tuple(Part(_text(number), (*number.marks, *marks)) for number in shown)
    sources = [
        source_of(run, format_value(value, number.metric))
        for number in shown
        for run, value in number.values
    ]
    signature = " ".join(signature for number in shown for signature in number.signatures)
    provenance = CellProvenance(shown[0].quantity, tuple(sources), signature) if sources else None
    return Cell(parts, "ours" if sources else "state", provenance=provenance, shows=tuple(shown))


def _text(number: Number) -> str:
    counts = Counter(filter(None, number.missing))
    words = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    if not number.values:
        return words if len(counts) > 1 else next(iter(counts), DASH)
    num_asked = len(number.values) + len(number.missing)
    text = format_seeds([value for _, value in number.values], number.metric, num_asked)
    return f"{text.removesuffix(')')}: {words})" if words else text


def source_of(run: Run, value: str) -> Source:
    """Return a training, or the log of one, as the source of a value."""
    return Source(
        run=run.state.run, seed=run.seed, value=value, commit=run.commit, hardware=run.hardware
    )


def difference_provenance(
    number: Number, reference: Number, seeds: Collection[int] | None = None
) -> CellProvenance | None:
    """Return the trainings behind a difference of two systems, those of the reference last; of
    `seeds` if given.
    """

    def kept(one: Number) -> Number:
        values = tuple(pair for pair in one.values if seeds is None or pair[0].seed in seeds)
        return msgspec.structs.replace(one, values=values)

    ours, other = our_cell(kept(number)).provenance, our_cell(kept(reference)).provenance
    if ours is None or other is None:
        return ours
    quantity = f"{ours.quantity}; minus {reference.key.system}"
    return replace(ours, quantity=quantity, sources=ours.sources + other.sources)


def complete(
    frame: Frame,
    table: Table,
    *,
    mark_text: str = "",
    has_precisions: bool = True,
    has_states: bool = True,
    has_signatures: bool = True,
) -> Table:
    """Return a table with what follows from the numbers that its cells show.

    Before its own notes are the legend of the scale's mark, or `mark_text`, and precisions that are
    not the paper's; after them the unfinished trainings. The signatures of the numbers are added to
    its own.
    """
    shown = list(
        {
            (n.key, n.metric): n for row in table.rows for cell in row.cells for n in cell.shows
        }.values()
    )
    signatures = {
        (number.metric, f"{number.key.testset} ({number.key.corpus})", signature)
        for number in shown
        for signature in number.signatures
        if has_signatures
    }
    return replace(
        table,
        notes=(
            *_mark_notes(shown, mark_text),
            *(_precision_notes(frame, shown) if has_precisions else ()),
            *table.notes,
            *(
                state_notes(frame, {(n.key.corpus, n.key.system) for n in shown})
                if has_states
                else ()
            ),
        ),
        signatures=tuple(sorted({*table.signatures, *signatures})),
    )


def _mark_notes(shown: Sequence[Number], text: str) -> list[Note]:
    """Return the legend of each scale's mark that any of the numbers carries."""
    notes = []
    for scale, mark in MARK_BY_SCALE.items():
        measured = sorted(
            {f"corpus {n.key.corpus}, test set {n.key.testset}" for n in shown if n.mark == mark}
        )
        if measured:
            notes.append(
                Note(mark, (text or MARK_TEXT).format(scale=scale, measured="; ".join(measured)))
            )
    return notes


def _precision_notes(frame: Frame, shown: Iterable[Number]) -> list[Note]:
    """Return a note for each precision that is not the paper's, with the systems that are trained
    in it.
    """
    systems_by_precision: dict[str, list[str]] = {}
    for system in dict.fromkeys(number.key.system for number in shown):
        spec = frame.system_by_name.get(system)  # logs have none
        if spec and (precision := spec.training.precision) != PAPER_PRECISION:
            systems_by_precision.setdefault(precision, []).append(system)
    return [
        Note(
            "",
            f"Trained in {precision}, unlike the paper's: {', '.join(systems)}. Products of"
            " matrices are computed in it; weights, Adam's moments and what is saved are fp32.",
        )
        for precision, systems in systems_by_precision.items()
    ]


def state_notes(frame: Frame, systems: Collection[tuple[str, str]]) -> list[Note]:
    """Return a note for each training of these systems that is not finished: which, its state, and
    why.
    """
    return [
        Note(
            "",
            f"{run.corpus} {run.system} seed {run.seed}: {run.state.status} at update"
            f" {run.state.update:,} of {run.state.updates:,}; {run.state.reason}.",
        )
        for run in frame.runs
        if (run.corpus, run.system) in systems
        and run.state.status != "missing"
        and run.state.reason
    ]
