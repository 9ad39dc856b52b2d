"""Makes the frame of a scale from its records, once: runs, numbers over seeds, what each costs, and
the verdicts.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from aiayn.cost import SentenceLengths, model_flops, training_flops
from aiayn.experiment import all_compared, shown_evaluations
from aiayn.paths import CellKey, is_averaged
from aiayn.printed import (
    METRIC_BY_PAIR,
    PAPER_CORPUS_BY_LANGUAGE_PAIR,
    PAPER_SCALE,
    PAPER_TESTSET_BY_ROLE,
    PERPLEXITY_METRIC,
    find_printed,
    printed_number,
    read_cells,
    read_replications,
    read_table,
)
from aiayn.provenance import Provenance
from aiayn.records import BinarizedCorpus, Hardware, TrainRecord
from aiayn.scoring.definitions import ALL_METRICS
from aiayn.scoring.scores import (
    BITS_LOST_METRIC,
    BITS_METRIC,
    ENTROPY_METRIC,
    WORD_BITS_METRIC,
    TrainingKey,
    brevity_metric,
    training_key,
    values_by_number,
)
from aiayn.scoring.verdict import (
    Conditions,
    PooledSd,
    find_condition_mismatch,
    judge,
    judge_family,
    not_comparable,
    pool_sd,
)
from aiayn.spec.hardware import HardwareSpec
from aiayn.spec.system import TrainingSpec
from paper_tables.frame import (
    Frame,
    Line,
    Number,
    Numbers,
    PrintedCell,
    Run,
    Translations,
    group_runs,
    is_bleu,
)
from paper_tables.layout import MARK_BY_SCALE, SACRE_METRIC
from paper_tables.scale_results import TRAIN_SPLIT, ScaleResults

NOT_RUN = "This system is not run at scale {scale}"
NOT_BLEU = "The rule, whose margin is in BLEU, is of BLEU alone"
COMMIT_DIGITS = 12
JOULES_PER_KILOWATT_HOUR = 3.6e6
SECONDS_PER_HOUR = 3600.0
OF_MODELS = (
    PERPLEXITY_METRIC,
    BITS_METRIC,
)  # no definition of a score: what is scored otherwise has no dash of them
OF_TRAININGS = (
    "num_parameters",
    "steps",
    "tokens",
    "source_tokens",
    "wall_seconds",
    "wall_hours",
    "gpu_hours",
    "training_flops",
    "model_flops",
    "utilisation_percent",
    "kilowatt_hours",
    "dollars",
)
METRIC_BY_COLUMN_OF_TABLE_3 = {
    "train_steps": "steps",
    "ppl_dev": PERPLEXITY_METRIC,
    "bits_dev": BITS_METRIC,
    "bits_per_word_dev": WORD_BITS_METRIC,
    "bleu_dev": METRIC_BY_PAIR["en-de"],
    "bleu_dev_sacre": SACRE_METRIC,
    "params": "num_parameters",
}


def make_frame(results: ScaleResults) -> Frame:
    """Return the frame of a scale; a system of the paper's that the scale does not run has cells
    without a number.
    """
    experiment, known = results.experiment, all_compared()
    scale = experiment.scale
    later_keys = {training.key for training in experiment.later_trainings}
    runs = tuple(_run(key, results) for key in results.state_by_key if key not in later_keys)
    later_runs = tuple(_run(key, results) for key in results.state_by_key if key in later_keys)
    numbers = _numbers(results, runs)
    corpus_by_pair = {"en-de": scale.en_de_corpus, "en-fr": scale.en_fr_corpus}
    translations: dict[CellKey, dict[int, Translations]] = {}
    for evaluation in shown_evaluations(experiment.evaluations):
        by_seed = translations.setdefault(evaluation.key, {})
        if evaluation in results.translations:
            by_seed[evaluation.seed] = results.translations[evaluation]
    frame = Frame(
        scale=scale.scale,
        hardware=results.hardware,
        numbers=numbers,
        runs=runs,
        dirty_evaluations=_dirty_evaluations(results),
        later_numbers=_numbers(results, later_runs),
        later_runs=later_runs,
        system_by_name=experiment.system_by_name,
        corpora=experiment.corpora,
        corpus_by_pair=corpus_by_pair,
        vocabulary_sizes_by_corpus={
            name: record.vocabulary_size_by_language
            for name, record in results.binarized_by_corpus.items()
        },
        variants=tuple(scale.variants),
        architectures=tuple(scale.architectures),
        known={"variants": tuple(known.variants), "architectures": tuple(known.architectures)},
        baselines=tuple(results.baseline_records),
        translations=translations,
        record_by_stage=results.record_by_stage,
        runs_folder=scale.runs_folder,
        num_row_seeds=len(scale.ablation_seeds),
        num_base_seeds=len(scale.seeds if scale.base_seeds is None else scale.base_seeds),
    )
    cells = []
    for join in read_cells():
        key = frame.find(join.language_pair, join.system, join.average, join.role)
        conditions = _paper_conditions(join.language_pair, join.role, join.metric)
        printed = find_printed(join, read_table(join.table)).value
        place = (str(join.table), join.row, join.column, str(join.edition))
        cells.append(_judged(frame, place, printed, key, conditions))
    for one in read_replications():
        # It is of our scale by being named in our config.
        conditions = Conditions(
            scale=scale.scale, corpus=one.corpus, testset=one.testset, metric=one.metric
        )
        place = ("replications", one.row, "value", "")
        cells.append(_judged(frame, place, one.value, one.key, conditions))
    return msgspec.structs.replace(
        frame, cells=tuple(corrected(cells)), lines=tuple(_lines(frame, cells))
    )


def hardware_words(hardware: Hardware) -> str:
    """Return what a training ran on in a few words."""
    if hardware.num_gpus:
        return f"{hardware.num_gpus} x {hardware.gpu}"
    return f"{hardware.cpu}, {hardware.num_ranks * hardware.threads_per_rank} thread(s)"


def commit_words(provenance: Provenance) -> str:
    """Return the commit that a record was made at, in short, and whether files were changed
    since.
    """
    return provenance.commit[:COMMIT_DIGITS] + ("+dirty" if provenance.is_dirty else "")


def _run(key: TrainingKey, results: ScaleResults) -> Run:
    (corpus, system, seed), train = key, results.train_by_key.get(key)
    return Run(
        corpus=corpus,
        system=system,
        seed=seed,
        state=results.state_by_key[key],
        train=train,
        commit="" if train is None else commit_words(train.provenance),
        hardware="" if train is None else hardware_words(train.hardware),
    )


def _numbers(results: ScaleResults, runs: Sequence[Run]) -> Numbers:
    """Return every number of these runs: each metric of each cell, also those that have no value
    yet.
    """
    experiment, scores = results.experiment, values_by_number(results.scores)
    scale = experiment.scale.scale
    metrics = dict.fromkeys(
        (
            *results.scores["metric"].unique(),
            *ALL_METRICS,
            *map(brevity_metric, ALL_METRICS),
            PERPLEXITY_METRIC,
            BITS_METRIC,
            WORD_BITS_METRIC,
            ENTROPY_METRIC,
            BITS_LOST_METRIC,
        )
    )
    scored = {key for key, _ in scores}
    runs_by_system = group_runs(runs)
    costs = {
        run.state.run: training_values(
            run.train, run.trained_as, results.hardware, results.binarized_by_corpus.get(run.corpus)
        )
        for run in runs
        if run.train is not None
    }
    numbers: Numbers = {}
    trainings = {(run.corpus, run.system, run.seed) for run in runs}
    evaluations = [one for one in experiment.evaluations if training_key(one) in trainings]
    for key in dict.fromkeys(evaluation.key for evaluation in evaluations):
        asked = runs_by_system[key.corpus, key.system]
        ours = Conditions(scale=scale, corpus=key.corpus, testset=key.testset, metric="")
        paper = _paper_conditions(key.language_pair, key.role, "")  # in whichever definition
        mark = MARK_BY_SCALE[scale] if find_condition_mismatch(ours, paper) else ""
        for metric in metrics:
            values, signatures = scores.get(
                ((key.corpus, key.system, key.average, key.testset), metric), ({}, ())
            )
            is_scored = (
                key.corpus,
                key.system,
                key.average,
                key.testset,
            ) in scored and metric not in OF_MODELS
            place = f", {key.testset}, {key.average}" if signatures else ""
            numbers[key, metric] = Number(
                key=key,
                metric=metric,
                mark=mark,
                quantity=f"{metric} of {key.system}, {key.corpus}{place}",
                values=tuple((run, values[run.seed]) for run in asked if run.seed in values),
                missing=(
                    ()
                    if is_scored and not values
                    else tuple(r.word for r in asked if r.seed not in values)
                ),
                signatures=signatures,
            )
        for metric in OF_TRAININGS:
            found = {
                run.state.run: costs[run.state.run].get(metric)
                for run in asked
                if run.train is not None
            }
            numbers[key, metric] = Number(
                key=key,
                metric=metric,
                mark=mark,
                quantity=f"{metric} of {key.system}, {key.corpus}",
                values=tuple(
                    (r, value) for r in asked if (value := found.get(r.state.run)) is not None
                ),
                missing=tuple(
                    "" if run.train else run.word
                    for run in asked
                    if found.get(run.state.run) is None
                ),
            )
    return numbers


def _dirty_evaluations(results: ScaleResults) -> tuple[tuple[CellKey, int], ...]:
    """Return the cell and the seed of every evaluation with a record from a changed working
    tree.
    """
    scores = results.scores
    dirty = scores[scores["commit"].str.endswith("+dirty")]
    columns = ("corpus", "system", "average", "testset", "seed")
    places = {
        (*map(str, place), int(seed))
        for *place, seed in dirty[list(columns)].itertuples(index=False)
    }
    return tuple(
        (one.key, one.seed)
        for one in results.experiment.evaluations
        if (one.corpus, one.system, one.average, one.testset, one.seed) in places
    )


def training_values(
    train: TrainRecord,
    trained: TrainingSpec | None,
    hardware: HardwareSpec,
    binarized: BinarizedCorpus | None,
) -> dict[str, float | None]:
    """Return what a training took and cost, by metric; None where a GPU, a rate, a price or the
    text is not known.

    It was `trained` as this spec; None if that is not known. `training_flops` is Table 2's
    estimate: GPU-seconds of all attempts x the sustained single-precision rate (footnote 5).
    `model_flops` are the operations that the model needed for all tokens, forward and backward
    (`aiayn.cost.model_flops`), at the mean lengths of the corpus's training sentences.
    `utilisation_percent` is of what the GPUs could have done: the rate of the estimate in fp32,
    their tensor cores' peak in tf32 or bf16.
    """
    gpu = hardware.find_gpu(train.hardware.gpu) if train.hardware.num_gpus else None
    lengths = _lengths_of(binarized)
    source_tokens = None if lengths is None else train.tokens * lengths.source / lengths.target
    flops = utilisation = None
    if (
        lengths is not None
        and source_tokens is not None
        and trained is not None
        and binarized is not None
    ):
        size = binarized.vocabulary_size_by_language[binarized.target_language]
        flops = model_flops(
            trained, size, source_tokens=source_tokens, target_tokens=train.tokens, lengths=lengths
        )
    rate = (
        gpu.rate_by_precision.get(trained.precision)
        if gpu is not None and trained is not None
        else None
    )
    if flops is not None and rate is not None and train.gpu_seconds > 0:
        utilisation = 100 * (flops / (train.gpu_seconds * rate.value))
    price = gpu.dollars_per_hour if gpu else None
    joules = train.energy.joules if train.energy else None
    return {
        "num_parameters": float(train.num_parameters),
        "steps": float(train.updates),
        "tokens": float(train.tokens),
        "source_tokens": source_tokens,
        "wall_seconds": train.wall_seconds,
        "wall_hours": train.wall_seconds / SECONDS_PER_HOUR,
        "gpu_hours": train.gpu_seconds / SECONDS_PER_HOUR or None,
        "training_flops": (
            training_flops(train.gpu_seconds, gpu.sustained_flops_per_second.value) if gpu else None
        ),
        "model_flops": flops,
        "utilisation_percent": utilisation,
        "kilowatt_hours": None if joules is None else joules / JOULES_PER_KILOWATT_HOUR,
        "dollars": train.gpu_seconds / SECONDS_PER_HOUR * price.value if price else None,
    }


def _lengths_of(record: BinarizedCorpus | None) -> SentenceLengths | None:
    """Return the mean lengths of the sentences that were trained on; None if not binarized, or
    empty.
    """
    num_pairs = record.num_pairs_by_split.get(TRAIN_SPLIT, 0) if record else 0
    if record is None or not num_pairs:
        return None
    num_tokens = record.num_tokens_by_split_by_language[TRAIN_SPLIT]
    return SentenceLengths(
        num_tokens[record.source_language] / num_pairs,
        num_tokens[record.target_language] / num_pairs,
    )


def _paper_conditions(language_pair: str, role: str, metric: str) -> Conditions:
    return Conditions(
        scale=PAPER_SCALE,
        corpus=PAPER_CORPUS_BY_LANGUAGE_PAIR.get(language_pair, ""),
        testset=PAPER_TESTSET_BY_ROLE.get(role, ""),
        metric=metric,
    )


def _judged(
    frame: Frame,
    place: tuple[str, str, str, str],
    printed: str,
    key: CellKey,
    conditions: Conditions,
) -> PrintedCell:
    """Return a printed number with ours and the verdict.

    `place` is its table, row, column and edition, `conditions` are those of the printed number.
    """
    metric = conditions.metric
    number = frame.number(key, metric)
    if not is_bleu(metric):
        verdict = not_comparable(NOT_BLEU, 0)
    elif number is None:
        verdict = not_comparable(NOT_RUN.format(scale=frame.scale), 0)
    else:
        ours = Conditions(scale=frame.scale, corpus=key.corpus, testset=key.testset, metric=metric)
        values, mismatch = (
            [value for _, value in number.values],
            find_condition_mismatch(ours, conditions),
        )
        verdict = (
            judge(printed_number(printed), values, pooled_sd(frame.numbers.values(), number))
            if mismatch is None
            else not_comparable(mismatch, len(values))
        )
    table, row, column, edition = place
    return PrintedCell(
        table=table,
        row=row,
        column=column,
        edition=edition,
        printed=printed,
        key=key,
        metric=metric,
        number=number,
        verdict=verdict,
    )


def pooled_sd(numbers: Iterable[Number], judged: Number) -> PooledSd | None:
    """Return the sd pooled over the scale's systems in this definition, on the test set of the
    judged number.

    Other test sets are left out: the same trainings on dev and on test are not independent. So is a
    second average
    of the same training: a judged system is represented by the judged number, any other system by
    the first of its evaluations of the same kind, averaged models or last checkpoints, as their
    seeds do not vary alike.
    """
    values_by_system: dict[str, list[float]] = {}
    for number in (judged, *numbers):
        is_same_kind = is_averaged(number.key.average) == is_averaged(judged.key.average)
        if is_same_kind and (number.metric, number.key.testset) == (
            judged.metric,
            judged.key.testset,
        ):
            place = f"{number.key.corpus} {number.key.system}"
            values_by_system.setdefault(place, [value for _, value in number.values])
    return pool_sd(values_by_system)


def corrected(cells: Sequence[PrintedCell]) -> list[PrintedCell]:
    """Return all cells of a scale, each with its verdict by Holm over them."""
    by_holm = judge_family([cell.verdict for cell in cells]).corrected
    return [
        msgspec.structs.replace(cell, corrected=one)
        for cell, one in zip(cells, by_holm, strict=True)
    ]


def _lines(frame: Frame, cells: Iterable[PrintedCell]) -> Iterator[Line]:
    """Yield what is ours of each row of Table 2, beside it, and of each row of Table 3 that is run,
    below it.
    """
    numbers_by_row: dict[str, dict[str, tuple[Number | None, ...]]] = {}
    for cell in cells:
        if cell.table == "2":
            numbers = numbers_by_row.setdefault(cell.row, {})
            numbers[f"{cell.column}_ours"] = (cell.number,)
            if cell.number is not None and is_bleu(cell.metric):
                numbers[f"{cell.column}_ours_sacre"] = (frame.number(cell.key, SACRE_METRIC),)
            elif cell.number is not None:
                numbers[f"model_{cell.column}_ours"] = (frame.number(cell.key, "model_flops"),)
        if (cell.table, cell.metric) == ("3", METRIC_BY_PAIR["en-de"]) and cell.number is not None:
            key, metrics = cell.key, METRIC_BY_COLUMN_OF_TABLE_3
            yield Line(
                table=3,
                row=cell.row,
                label=f"ours: {key.system}",
                marks=cell.number.marks,
                settings=msgspec.structs.asdict(frame.system_by_name[key.system].training),
                numbers={
                    column: (frame.number(key, metric),) for column, metric in metrics.items()
                },
            )
    for row, numbers in numbers_by_row.items():
        yield Line(table=2, row=row, numbers=numbers)
