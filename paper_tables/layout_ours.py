"""Cells and notes of our own numbers: the value over seeds, the mark of its scale, or how its trainings stand."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from aiayn.paths import Evaluation
from aiayn.provenance import Provenance
from aiayn.records import Hardware, TrainRecord
from paper_tables.conditions import PAPER_PRECISION
from paper_tables.findings import Findings
from paper_tables.judged import unlike_paper
from paper_tables.layout import (
    DASH,
    MARK_BY_SCALE,
    Cell,
    CellProvenance,
    Note,
    Source,
    format_seeds,
    format_value,
    text_cell,
)

COMMIT_DIGITS = 12


def mark_of(findings: Findings, evaluation: Evaluation) -> tuple[str, ...]:
    """Return the mark of the scale if the evaluation is unlike the paper's, else nothing."""
    return (MARK_BY_SCALE[findings.scale.scale],) if unlike_paper(findings, evaluation) else ()


def mark_note(findings: Findings, evaluations: Sequence[Evaluation]) -> list[Note]:
    """Return the legend of the scale's mark, if any of the evaluations carries it."""
    marked = [evaluation for evaluation in evaluations if mark_of(findings, evaluation)]
    if not marked:
        return []
    measured = "; ".join(sorted({f"corpus {e.corpus}, test set {e.testset}" for e in marked}))
    scale = findings.scale.scale
    return [
        Note(
            MARK_BY_SCALE[scale],
            f"Ours, of scale {scale} ({measured}): another corpus or scale than the paper's, no reproduction of its "
            "number, so no difference is taken. Where this holds of all of ours in a row, the mark stands once.",
        )
    ]


def precision_note(findings: Findings, evaluations: Iterable[Evaluation]) -> list[Note]:
    """Return a note for each precision that is not the paper's, with the systems that are trained in it."""
    systems_by_precision: dict[str, list[str]] = {}
    for system in dict.fromkeys(evaluation.system for evaluation in evaluations):
        precision = findings.system_by_name[system].training.precision
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


def state_words(findings: Findings, evaluation: Evaluation, missing_seeds: Sequence[int]) -> dict[int, str]:
    """Return in a word or two, by seed, why an evaluation has no value."""
    words: dict[int, str] = {}
    for seed in missing_seeds:
        key = (evaluation.corpus, evaluation.system, seed)
        words[seed] = findings.state_by_key[key].status
        if words[seed] == "finished":
            words[seed] = "not scored" if key in findings.train_by_key else "not recorded"
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
    findings: Findings, evaluation: Evaluation, metric: str, value_by_seed: Mapping[int, float] | None = None
) -> CellProvenance | None:
    """Return the trainings behind a number over seeds, what each adds, and the signature that it was scored under.

    Without `value_by_seed` the values are those of the evaluation in `metric`; None if there are none.
    """
    values = findings.values_of(evaluation, metric) if value_by_seed is None else value_by_seed
    sources = []
    for seed, value in values.items():
        train = findings.train_by_key.get((evaluation.corpus, evaluation.system, seed))
        if train is not None:
            sources.append(source_of(train, format_value(value, metric)))
    if not sources:
        return None
    place = f"{metric} of {evaluation.system}, {evaluation.corpus}"
    signatures = [signature for _, _, signature in signatures_of(findings, [(evaluation, metric)])]
    if signatures:
        place += f", {evaluation.testset}, {evaluation.average}"
    return CellProvenance(of=place, sources=tuple(sources), signature=" ".join(signatures))


def difference_provenance(
    findings: Findings, evaluation: Evaluation, reference: Evaluation, metric: str, seeds: Collection[int] | None = None
) -> CellProvenance | None:
    """Return the trainings behind a difference of two systems, those of the reference last; of `seeds` if given."""
    both = []
    for one in (evaluation, reference):
        values = findings.values_of(one, metric)
        kept = {seed: value for seed, value in values.items() if seeds is None or seed in seeds}
        both.append(provenance_of(findings, one, metric, kept))
    ours, other = both
    if ours is None or other is None:
        return ours
    return replace(ours, of=f"{ours.of}; minus {reference.system}", sources=ours.sources + other.sources)


def seeds_cell(
    findings: Findings, evaluation: Evaluation, value_by_seed: Mapping[int, float], metric: str, *further_marks: str
) -> Cell:
    """Return our cell: what stands over the seeds, or how they stand; always with the mark of the scale."""
    asked = findings.seeds_of(evaluation.corpus, evaluation.system)
    words = state_words(findings, evaluation, [seed for seed in asked if seed not in value_by_seed])
    marks = (*mark_of(findings, evaluation), *further_marks)
    counts = Counter(words.values())
    counted_words = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    if not value_by_seed:
        return text_cell(counted_words if len(counts) > 1 else next(iter(counts), "missing"), "state", *marks)
    text = format_seeds(list(value_by_seed.values()), metric, len(asked))
    if words:
        text = f"{text.removesuffix(')')}: {counted_words})"
    cell = text_cell(text, "ours", *marks)
    return replace(cell, provenance=provenance_of(findings, evaluation, metric, value_by_seed))


def metric_cell(findings: Findings, evaluation: Evaluation, metric: str) -> Cell:
    """Return our cell of a metric; a dash where the evaluations are scored, but not in this definition."""
    values = findings.values_of(evaluation, metric)
    wanted = (evaluation.corpus, evaluation.system, evaluation.average, evaluation.testset)
    keys = findings.scores[["corpus", "system", "average", "testset"]]
    is_scored = any(tuple(row) == wanted for row in keys.itertuples(index=False))
    if not values and is_scored and metric != "ppl_per_subword":
        return text_cell(DASH, "state", *mark_of(findings, evaluation))
    return seeds_cell(findings, evaluation, values, metric)


def signatures_of(findings: Findings, measured: Iterable[tuple[Evaluation, str]]) -> tuple[tuple[str, str, str], ...]:
    """Return the different (metric, test set, signature) of all numbers of these evaluations, each in a metric."""
    wanted = {(e.corpus, e.system, e.average, e.testset, metric) for e, metric in measured}
    found: dict[tuple[str, str, str], None] = {}
    columns = ["corpus", "system", "average", "testset", "metric", "signature"]
    for corpus, system, average, testset, metric, signature in findings.scores[columns].itertuples(index=False):
        if (corpus, system, average, testset, metric) in wanted:
            found[(str(metric), f"{testset} ({corpus})", str(signature))] = None
    return tuple(sorted(found))


def state_notes(findings: Findings, evaluations: Sequence[Evaluation]) -> list[Note]:
    """Return a note for each training of these systems that is not finished: which, how it stands, and why."""
    systems = dict.fromkeys((evaluation.corpus, evaluation.system) for evaluation in evaluations)
    notes = []
    for corpus, system, seed in findings.state_by_key:
        state = findings.state_by_key[(corpus, system, seed)]
        if (corpus, system) in systems and state.status != "missing" and state.reason:
            text = f"{corpus} {system} seed {seed}: {state.status} at update {state.update:,} of {state.updates:,}"
            notes.append(Note("", f"{text}; {state.reason}."))
    return notes
