"""Makes the frame of a scale (all its results) from its records: the runs, our numbers over seeds,
the costs of trainings, and the verdicts on the paper's numbers.

`make_frame` is called once per scale. All tables and figures read the frame that this function
returns.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from aiayn.cost import SentenceLengths, model_flops, training_flops
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
from aiayn.records import BinarizedCorpus, Hardware
from aiayn.runs.log import read_validations
from aiayn.scoring.definitions import METRICS
from aiayn.scoring.scores import (
    BITS_LOST_METRIC,
    BITS_METRIC,
    ENTROPY_METRIC,
    WORD_BITS_METRIC,
    brevity_metric,
    values_by_number,
)
from aiayn.scoring.verdict import (
    Conditions,
    PooledSd,
    Verdict,
    find_condition_mismatch,
    judge,
    judge_family,
    not_comparable,
    pool_sd,
)
from aiayn.spec.hardware import HardwareSpec
from paper_tables.frame import (
    Frame,
    Line,
    Number,
    Numbers,
    PrintedCell,
    Run,
    group_runs,
    is_bleu,
)
from paper_tables.layout import MARK_BY_SCALE, SACRE_METRIC
from paper_tables.scale_results import TRAIN_SPLIT, ScaleResults

NOT_RUN = "This system is not run at scale {scale}"
NOT_BLEU = "The rule has a margin in BLEU, so it applies to BLEU only"
COMMIT_DIGITS = 12
SECONDS_PER_HOUR = 3600.0
# These metrics are not scores of translations. A score that a scored system lacks is shown as a
# dash, because its definition does not exist for the system. This is not so for these metrics.
MODEL_METRICS = (PERPLEXITY_METRIC, BITS_METRIC)
TRAINING_METRICS = (
    "num_parameters",
    "steps",
    "tokens",
    "wall_seconds",
    "wall_hours",
    "gpu_hours",
    "training_flops",
    "model_flops",
    "utilisation_percent",
    "dollars",
)
# Our row below a printed row of Table 3 has these columns. Some are not printed: the paper has no
# bits and no sacreBLEU.
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
    """Return the frame of a scale (all its results). If the scale does not run a system, the
    system's cells have no number of ours.
    """
    experiment = results.experiment
    scale = experiment.scale
    # Seeds that a decision added after the other results had been seen must not change a printed
    # row, so their numbers are computed separately.
    later_keys = experiment.later_trainings
    runs: list[Run] = []
    later_runs: list[Run] = []
    for key, status in results.status_by_key.items():
        corpus, system, seed = key
        run = Run(corpus=corpus, system=system, seed=seed, status=status)
        # Commit, hardware and curve are known only if the training has a record.
        train = results.train_by_key.get(key)
        if train is not None:
            run = msgspec.structs.replace(
                run,
                train=train,
                commit=commit_words(train.provenance),
                hardware=hardware_words(train.hardware),
                bits_by_update=read_validations(train.log_path),
            )
        (later_runs if key in later_keys else runs).append(run)
    frame = Frame(
        scale=scale.scale,
        hardware=results.hardware,
        numbers=_numbers(results, runs),
        runs=tuple(runs),
        later_numbers=_numbers(results, later_runs),
        later_runs=tuple(later_runs),
        system_by_name=experiment.system_by_name,
        corpora=experiment.corpora,
        # Without a corpus for a language pair, its printed cells still need a key.
        corpus_by_pair={"en-de": "", "en-fr": ""} | experiment.corpus_by_pair,
        vocabulary_sizes_by_corpus={
            name: record.vocabulary_size_by_language
            for name, record in results.binarized_by_corpus.items()
        },
        rows=tuple(experiment.rows),
        baselines=tuple(results.baseline_records),
        record_by_stage=results.record_by_stage,
        runs_folder=scale.runs_folder,
    )
    # The cells need the numbers of the whole frame, because the sd is pooled over its systems.
    cells = _printed_cells(frame)
    return msgspec.structs.replace(frame, cells=tuple(cells), lines=tuple(_lines(frame, cells)))


def hardware_words(hardware: Hardware) -> str:
    """Return the devices (GPUs or CPU) on which a training ran, in a few words."""
    if hardware.num_gpus:
        return f"{hardware.num_gpus} x {hardware.gpu}"
    return f"{hardware.cpu}, {hardware.num_ranks * hardware.threads_per_rank} thread(s)"


def commit_words(provenance: Provenance) -> str:
    """Return the abbreviated commit of the code that made a record. `+dirty` means that the code
    had uncommitted changes.
    """
    return provenance.commit[:COMMIT_DIGITS] + ("+dirty" if provenance.is_dirty else "")


def _numbers(results: ScaleResults, runs: Sequence[Run]) -> Numbers:
    """Return our numbers from the given runs: every metric of every cell, with or without
    values.
    """
    experiment, scores = results.experiment, values_by_number(results.scores)
    scale = experiment.scale.scale
    # The metrics that were measured, and all metrics that a table may show, each once. A number
    # without values shows the state of its trainings.
    metrics = dict.fromkeys(
        (
            *results.scores["metric"].unique(),
            *METRICS,
            *map(brevity_metric, METRICS),
            PERPLEXITY_METRIC,
            BITS_METRIC,
            WORD_BITS_METRIC,
            ENTROPY_METRIC,
            BITS_LOST_METRIC,
            *TRAINING_METRICS,
        )
    )
    # Cells with at least one score: there a missing definition does not exist, elsewhere it is
    # still to come.
    scored_cells = {cell for cell, _ in scores}
    runs_by_system = group_runs(runs)
    trainings = {(run.corpus, run.system, run.seed) for run in runs}
    keys: dict[CellKey, None] = {}
    for evaluation in experiment.evaluations:
        if evaluation.training in trainings:
            keys[evaluation.key] = None
    numbers: Numbers = {}
    for key in keys:
        system_runs = runs_by_system[key.corpus, key.system]
        binarized = results.binarized_by_corpus.get(key.corpus)
        # Once for each run, because every metric below reads from it.
        costs = {}
        for run in system_runs:
            if run.seed is not None:
                costs[run.seed] = training_values(run, results.hardware, binarized)
        ours = Conditions(scale=scale, corpus=key.corpus, testset=key.testset, metric="")
        # The metric is '' on both sides, because the mark does not depend on the definition.
        paper = _paper_conditions(key.language_pair, key.role, "")
        # A number that was measured under the paper's conditions may be compared with the printed
        # number, so it is not marked.
        mark = MARK_BY_SCALE[scale] if find_condition_mismatch(ours, paper) else ""
        cell = (key.corpus, key.system, key.average, key.testset)
        for metric in metrics:
            # A metric that was not scored does not have a signature either.
            values: Mapping[int, float]
            values, signatures = scores.get((cell, metric), ({}, ()))
            if metric in TRAINING_METRICS:
                values = {seed: cost[metric] for seed, cost in costs.items() if metric in cost}
            with_value, missing_words = [], []
            for run in system_runs:
                if run.seed in values:
                    with_value.append((run, values[run.seed]))
                else:
                    # If a finished training lacks a cost, the cost does not exist for it.
                    is_known = metric in TRAINING_METRICS and run.train is not None
                    missing_words.append("" if is_known else run.word)
            # The cell was scored, but not in this definition. Without values and without words of
            # missing runs, the number is shown as a dash: it does not exist.
            if (
                cell in scored_cells
                and not values
                and metric not in (*MODEL_METRICS, *TRAINING_METRICS)
            ):
                missing_words = []
            # Only scores depend on the test set and on the average of checkpoints. Costs are of the
            # training.
            suffix = f", {key.testset}, {key.average}" if signatures else ""
            numbers[key, metric] = Number(
                key=key,
                metric=metric,
                mark=mark,
                quantity=f"{metric} of {key.system}, {key.corpus}{suffix}",
                values=tuple(with_value),
                missing=tuple(missing_words),
                signatures=signatures,
            )
    return numbers


def training_values(
    run: Run, hardware: HardwareSpec, binarized: BinarizedCorpus | None
) -> dict[str, float]:
    """Return the time, size and cost of a finished training, by name of the metric. Values that are
    not known are left out.

    Some values are known only with a GPU, with its rate or price in `hardware`, with the spec of
    the training, or with the binarized corpus. `training_flops` is the cost as the paper estimates
    it in Table 2: GPU-seconds of all attempts x the sustained single-precision rate (footnote 5).
    `model_flops` are the operations that the model needed for all tokens, forward and backward
    (`aiayn.cost.model_flops`), at the mean lengths of the training sentences. `utilisation_percent`
    is the ratio of the operations in the GPU-seconds to the operations that the GPUs could have
    done in them: at the rate in footnote 5 in fp32, at the peak rate of the tensor cores in tf32 or
    bf16.
    """
    train, trained = run.train, run.trained_as
    if train is None:
        return {}
    values = {
        "num_parameters": float(train.num_parameters),
        "steps": float(train.updates),
        "tokens": float(train.tokens),
        "wall_seconds": train.wall_seconds,
        "wall_hours": train.wall_seconds / SECONDS_PER_HOUR,
    }
    # A training on a CPU has no GPU hours, which is not the same as 0 hours.
    if train.gpu_seconds:
        values["gpu_hours"] = train.gpu_seconds / SECONDS_PER_HOUR
    # The cost stays unknown if hardware.yaml does not list the GPU.
    gpu = hardware.find_gpu(train.hardware.gpu) if train.hardware.num_gpus else None
    if gpu is not None:
        rate = gpu.sustained_flops_per_second.value
        values["training_flops"] = training_flops(train.gpu_seconds, rate)
        if gpu.dollars_per_hour:
            hours = train.gpu_seconds / SECONDS_PER_HOUR
            values["dollars"] = hours * gpu.dollars_per_hour.value
    num_pairs = binarized.num_pairs_by_split.get(TRAIN_SPLIT, 0) if binarized else 0
    if binarized is None or not num_pairs:
        return values
    num_tokens = binarized.num_tokens_by_split_by_language[TRAIN_SPLIT]
    # Attention needs operations in proportion to the square of a sentence's length. The mean
    # lengths of the corpus are used, with the end of sentence.
    lengths = SentenceLengths(
        num_tokens[binarized.source_language] / num_pairs,
        num_tokens[binarized.target_language] / num_pairs,
    )
    # If this version cannot read the spec, the operations cannot be counted.
    if trained is not None:
        flops = values["model_flops"] = model_flops(
            trained,
            binarized.vocabulary_size_by_language[binarized.target_language],
            # `train.tokens` are target tokens. The record does not count source tokens.
            source_tokens=train.tokens * lengths.source / lengths.target,
            target_tokens=train.tokens,
            lengths=lengths,
        )
        # Only a GPU with a published rate for this precision has a utilisation.
        peak = gpu.rate_by_precision.get(trained.precision) if gpu else None
        if peak is not None and train.gpu_seconds > 0:
            # The tokens, and so `flops`, include a shorter training that this training continues.
            own_flops = flops * train.own_updates / train.updates
            values["utilisation_percent"] = 100 * (own_flops / (train.gpu_seconds * peak.value))
    return values


def _paper_conditions(language_pair: str, role: str, metric: str) -> Conditions:
    return Conditions(
        scale=PAPER_SCALE,
        corpus=PAPER_CORPUS_BY_LANGUAGE_PAIR.get(language_pair, ""),
        testset=PAPER_TESTSET_BY_ROLE.get(role, ""),
        metric=metric,
    )


def _printed_cells(frame: Frame) -> list[PrintedCell]:
    """Return every cell of the paper's tables with our number, its verdict (is it reproduced?), and
    its verdict after Holm's correction over all cells.
    """
    cells = []
    for join in read_cells():
        key = frame.find(join.language_pair, join.system, join.average, join.role)
        printed = find_printed(join, read_table(join.table)).value
        conditions = _paper_conditions(join.language_pair, join.role, join.metric)
        cells.append(
            PrintedCell(
                table=str(join.table),
                row=join.row,
                column=join.column,
                edition=str(join.edition),
                printed=printed,
                key=key,
                metric=join.metric,
                number=frame.number(key, join.metric),
                verdict=_verdict(frame, key, printed, conditions),
            )
        )
    # A replication is a number of other authors at a smaller scale. Our config repeats its
    # conditions.
    for replication in read_replications():
        conditions = Conditions(
            # A replication is judged at the scale that lists it.
            scale=frame.scale,
            corpus=replication.corpus,
            testset=replication.testset,
            metric=replication.metric,
        )
        cells.append(
            PrintedCell(
                table="replications",
                row=replication.row,
                column="value",
                edition="",
                printed=replication.value,
                key=replication.key,
                metric=replication.metric,
                number=frame.number(replication.key, replication.metric),
                verdict=_verdict(frame, replication.key, replication.value, conditions),
            )
        )
    return corrected(cells)


def _verdict(frame: Frame, key: CellKey, printed: str, conditions: Conditions) -> Verdict:
    """Return the verdict on our number of a cell against a published number (`printed`), which was
    measured under `conditions`.
    """
    number = frame.number(key, conditions.metric)
    # In this order: a perplexity is not judged, whether or not the system was run.
    if not is_bleu(conditions.metric):
        return not_comparable(NOT_BLEU, 0)
    if number is None:
        return not_comparable(NOT_RUN.format(scale=frame.scale), 0)
    # Only scale, corpus and test set can differ. The metric is the printed number's own.
    ours = msgspec.structs.replace(
        conditions, scale=frame.scale, corpus=key.corpus, testset=key.testset
    )
    mismatch = find_condition_mismatch(ours, conditions)
    values = number.seed_values
    if mismatch is not None:
        return not_comparable(mismatch, len(values))
    return judge(printed_number(printed), values, pooled_sd(frame.numbers.values(), number))


def pooled_sd(numbers: Iterable[Number], judged_number: Number) -> PooledSd | None:
    """Return the standard deviation over seeds, pooled over the systems of the scale that were
    scored in the same way.

    All pooled numbers have the same definition and test set. Scores on dev and on test are not
    pooled, because scores of the same trainings on the two sets are not independent. Scores of
    averaged models are not pooled with scores of last checkpoints, because they vary differently
    over seeds. Each system counts once: the judged system with the judged number, any other system
    with the first of its numbers.
    """
    values_by_system: dict[str, list[float]] = {}
    # The judged number comes first, and `setdefault` keeps it for its system.
    for number in (judged_number, *numbers):
        is_alike = (
            number.metric == judged_number.metric
            and number.key.testset == judged_number.key.testset
            and is_averaged(number.key.average) == is_averaged(judged_number.key.average)
        )
        if is_alike:
            system = f"{number.key.corpus} {number.key.system}"
            values_by_system.setdefault(system, number.seed_values)
    return pool_sd(values_by_system)


def corrected(cells: Sequence[PrintedCell]) -> list[PrintedCell]:
    """Return all cells of a scale, each with its verdict after Holm's correction over all cells."""
    # Holm's correction needs the p-values of all cells at once.
    by_holm = judge_family([cell.verdict for cell in cells]).corrected
    corrected_cells = []
    for cell, verdict in zip(cells, by_holm, strict=True):
        corrected_cells.append(msgspec.structs.replace(cell, corrected=verdict))
    return corrected_cells


def _lines(frame: Frame, cells: Iterable[PrintedCell]) -> list[Line]:
    """Return the lines with our numbers: a line for each row of Table 2, and a line below each row
    of Table 3 that the scale runs.
    """
    lines = []
    numbers_by_row: dict[str, dict[str, tuple[Number | None, ...]]] = {}
    for cell in cells:
        key, number = cell.key, cell.number
        if cell.table == "2":
            numbers = numbers_by_row.setdefault(cell.row, {})
            numbers[f"{cell.column}_ours"] = (number,)
            # Next to a BLEU in the paper's definition is sacreBLEU's score of the same
            # translations. Next to the estimate of the cost are the operations that the model
            # needed.
            if number is not None and is_bleu(cell.metric):
                numbers[f"{cell.column}_ours_sacre"] = (frame.number(key, SACRE_METRIC),)
            elif number is not None:
                numbers[f"model_{cell.column}_ours"] = (frame.number(key, "model_flops"),)
        # A row of Table 3 has several printed cells, and one line of ours. The line is made at the
        # BLEU cell.
        elif cell.table == "3" and cell.metric == METRIC_BY_PAIR["en-de"] and number is not None:
            line = Line(
                table=3,
                row=cell.row,
                label=f"{key.system}, ours",
                marks=number.marks,
                settings=msgspec.structs.asdict(frame.system_by_name[key.system].training),
                numbers={},
            )
            for column, metric in METRIC_BY_COLUMN_OF_TABLE_3.items():
                line.numbers[column] = (frame.number(key, metric),)
            lines.append(line)
    for row, row_numbers in numbers_by_row.items():
        lines.append(Line(table=2, row=row, numbers=row_numbers))
    return lines
