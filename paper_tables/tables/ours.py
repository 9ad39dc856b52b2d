"""Makes cells and notes of our own numbers: the value over seeds, the mark of its scale, or its trainings' states."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from aiayn.paths import Evaluation
from aiayn.printed import PAPER_PRECISION, PERPLEXITY_METRIC
from aiayn.provenance import Provenance
from aiayn.records import Hardware, TrainRecord
from analysis.scoring.scores import BITS_METRIC
from paper_tables.cell_verdicts import has_condition_mismatch
from paper_tables.layout import (
    DASH,
    MARK_BY_SCALE,
    Cell,
    CellProvenance,
    Note,
    Source,
    Table,
    format_seeds,
    format_value,
    text_cell,
)
from paper_tables.scale_results import ScaleResults

COMMIT_DIGITS = 12


def mark_of(results: ScaleResults, evaluation: Evaluation | None) -> tuple[str, ...]:
    """Return the mark of the scale if the evaluation's conditions are not the paper's, else nothing."""
    is_marked = evaluation is not None and has_condition_mismatch(results, evaluation)
    return (MARK_BY_SCALE[results.scale.scale],) if is_marked else ()


def complete(
    results: ScaleResults,
    table: Table,
    *,
    mark_text: str = "",
    has_precisions: bool = True,
    has_states: bool = True,
    has_signatures: bool = True,
) -> Table:
    """Return a table with what follows from the evaluations that its cells show.

    Before its own notes are the legend of the scale's mark, or `mark_text`, and precisions that are not the paper's;
    after them the unfinished trainings. The signatures of the numbers are added to its own.
    """
    shown = list(dict.fromkeys(one for row in table.rows for cell in row.cells for one in cell.shows))
    evaluations = list(dict.fromkeys(evaluation for evaluation, _ in shown))
    signatures = {
        (metric, f"{evaluation.testset} ({evaluation.corpus})", signature)
        for evaluation, metric in shown
        for signature in results.signatures_of(evaluation, metric)
        if has_signatures
    }
    return replace(
        table,
        notes=(
            *_mark_note(results, evaluations, mark_text),
            *(_precision_notes(results, evaluations) if has_precisions else ()),
            *table.notes,
            *(state_notes(results, evaluations) if has_states else ()),
        ),
        signatures=tuple(sorted({*table.signatures, *signatures})),
    )


def _mark_note(results: ScaleResults, evaluations: Sequence[Evaluation], text: str) -> list[Note]:
    """Return the legend of the scale's mark, if any of the evaluations carries it."""
    marked = [evaluation for evaluation in evaluations if mark_of(results, evaluation)]
    if not marked:
        return []
    measured = "; ".join(sorted({f"corpus {e.corpus}, test set {e.testset}" for e in marked}))
    scale = results.scale.scale
    text = text or (
        f"Ours, of scale {scale} ({measured}): another corpus or scale than the paper's, no reproduction of its "
        "number, so no difference is taken. Where this holds of all of ours in a row, the mark stands once."
    )
    return [Note(MARK_BY_SCALE[scale], text)]


def _precision_notes(results: ScaleResults, evaluations: Iterable[Evaluation]) -> list[Note]:
    """Return a note for each precision that is not the paper's, with the systems that are trained in it."""
    systems_by_precision: dict[str, list[str]] = {}
    for system in dict.fromkeys(evaluation.system for evaluation in evaluations):
        precision = results.system_by_name[system].training.precision
        if precision != PAPER_PRECISION:
            systems_by_precision.setdefault(precision, []).append(system)
    return [
        Note(
            "",
            f"Trained in {precision}, unlike the paper's: {', '.join(systems)}. Products of matrices are computed "
            "in it; weights, Adam's moments and what is saved are fp32.",
        )
        for precision, systems in systems_by_precision.items()
    ]


def state_notes(results: ScaleResults, evaluations: Iterable[Evaluation]) -> list[Note]:
    """Return a note for each training of these systems that is not finished: which, its state, and why."""
    systems = {(evaluation.corpus, evaluation.system) for evaluation in evaluations}
    return [
        Note("", f"{corpus} {system} seed {seed}: {state.status} at update {state.update:,} of {state.updates:,}; "
                 f"{state.reason}.")
        for (corpus, system, seed), state in results.state_by_key.items()
        if (corpus, system) in systems and state.status != "missing" and state.reason
    ]  # fmt: skip


def state_words(results: ScaleResults, evaluation: Evaluation, missing_seeds: Sequence[int]) -> dict[int, str]:
    """Return, by seed, in a word or two, why an evaluation has no value."""
    words: dict[int, str] = {}
    for seed in missing_seeds:
        key = (evaluation.corpus, evaluation.system, seed)
        words[seed] = results.state_by_key[key].status
        if words[seed] == "finished":
            words[seed] = "not scored" if key in results.train_by_key else "not recorded"
    return words


def hardware_words(hardware: Hardware) -> str:
    """Return what a training ran on in a few words."""
    if hardware.num_gpus:
        return f"{hardware.num_gpus} x {hardware.gpu}"
    return f"{hardware.cpu}, {hardware.num_ranks * hardware.threads_per_rank} thread(s)"


def commit_words(provenance: Provenance) -> str:
    """Return the commit that a record was made at, in short, and whether files were changed since."""
    return provenance.commit[:COMMIT_DIGITS] + ("+dirty" if provenance.is_dirty else "")


def source_of(train: TrainRecord, value: str) -> Source:
    """Return a training as the source of a value."""
    return Source(
        run=train.run,
        seed=train.seed,
        value=value,
        commit=commit_words(train.provenance),
        hardware=hardware_words(train.hardware),
    )


def provenance_of(
    results: ScaleResults, evaluation: Evaluation, metric: str, value_by_seed: Mapping[int, float] | None = None
) -> CellProvenance | None:
    """Return the trainings behind a number over seeds, what each adds, and the signature that it was scored under.

    Without `value_by_seed` the values are those of the evaluation in `metric`; None if there are none.
    """
    values = results.values_of(evaluation, metric) if value_by_seed is None else value_by_seed
    sources = []
    for seed, value in values.items():
        train = results.train_by_key.get((evaluation.corpus, evaluation.system, seed))
        if train is not None:
            sources.append(source_of(train, format_value(value, metric)))
    if not sources:
        return None
    place = f"{metric} of {evaluation.system}, {evaluation.corpus}"
    signatures = results.signatures_of(evaluation, metric)
    if signatures:
        place += f", {evaluation.testset}, {evaluation.average}"
    return CellProvenance(of=place, sources=tuple(sources), signature=" ".join(signatures))


def difference_provenance(
    results: ScaleResults,
    evaluation: Evaluation,
    reference: Evaluation,
    metric: str,
    seeds: Collection[int] | None = None,
) -> CellProvenance | None:
    """Return the trainings behind a difference of two systems, those of the reference last; of `seeds` if given."""
    both = []
    for one in (evaluation, reference):
        values = results.values_of(one, metric)
        kept = {seed: value for seed, value in values.items() if seeds is None or seed in seeds}
        both.append(provenance_of(results, one, metric, kept))
    ours, other = both
    if ours is None or other is None:
        return ours
    return replace(ours, of=f"{ours.of}; minus {reference.system}", sources=ours.sources + other.sources)


def seeds_cell(
    results: ScaleResults, evaluation: Evaluation, value_by_seed: Mapping[int, float], metric: str, *further_marks: str
) -> Cell:
    """Return our cell: the value over the seeds, or their states; always with the mark of the scale."""
    seeds = results.seeds_of(evaluation.corpus, evaluation.system)
    words = state_words(results, evaluation, [seed for seed in seeds if seed not in value_by_seed])
    marks = (*mark_of(results, evaluation), *further_marks)
    counts = Counter(words.values())
    counted_words = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    shows = ((evaluation, metric),)
    if not value_by_seed:
        text = counted_words if len(counts) > 1 else next(iter(counts), "missing")
        return replace(text_cell(text, "state", *marks), shows=shows)
    text = format_seeds(list(value_by_seed.values()), metric, len(seeds))
    if words:
        text = f"{text.removesuffix(')')}: {counted_words})"
    cell = text_cell(text, "ours", *marks)
    return replace(cell, provenance=provenance_of(results, evaluation, metric, value_by_seed), shows=shows)


def metric_cell(results: ScaleResults, evaluation: Evaluation | None, metric: str) -> Cell:
    """Return our cell of a metric; a dash where the evaluations are scored, but not in this definition."""
    if evaluation is None:
        return text_cell("not run", "state")
    values = results.values_of(evaluation, metric)
    if not values and results.is_scored(evaluation) and metric not in (PERPLEXITY_METRIC, BITS_METRIC):
        return replace(text_cell(DASH, "state", *mark_of(results, evaluation)), shows=((evaluation, metric),))
    return seeds_cell(results, evaluation, values, metric)


def training_cell(
    results: ScaleResults, evaluation: Evaluation, value_of: Callable[[TrainRecord], float | None], metric: str
) -> Cell:
    """Return our cell of a number of the trainings themselves, those left out that have none."""
    trains = results.trainings_of(evaluation.corpus, evaluation.system)
    values = {seed: float(value) for seed, train in trains.items() if (value := value_of(train)) is not None}
    return seeds_cell(results, evaluation, values, metric)
