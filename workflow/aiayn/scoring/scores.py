"""Turns the records of score and perplexity into one tidy frame, scores.tsv: a line a number.

A record of perplexity gives bits a subword, too (log2 of it), bits a word and, for a model with
attention over the source, the lowest entropy of any of its heads and the bits lost without that
attention. A BLEU gives its brevity penalty, too.

A number enters only together with the training that it belongs to: a score of an earlier run of the
same name, left on disk while the system is trained again, is not shown as the new one's.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import pandas as pd

from aiayn.errors import RecordError, ScoreError
from aiayn.paths import Evaluation, evaluation_record, split_alpha, train_record
from aiayn.printed import PERPLEXITY_METRIC
from aiayn.records import (
    PerplexityRecord,
    Record,
    ScoreRecords,
    TrainRecord,
    read_record,
    read_train_record,
)
from aiayn.scoring.seeds import summarise_seeds

SCORE_COLUMNS = (
    "corpus",
    "system",
    "seed",
    "average",
    "testset",
    "metric",
    "value",
    "signature",
    "hypotheses_sha256",
    "run",
    "commit",
)
SUMMARY_COLUMNS = (
    "corpus",
    "system",
    "average",
    "testset",
    "metric",
    "num_seeds",
    "mean",
    "sd",
    "ci_low",
    "ci_high",
)
BITS_METRIC, WORD_BITS_METRIC = "bits_per_subword", "bits_per_word"
ENTROPY_METRIC, BITS_LOST_METRIC = (
    "lowest_cross_attention_entropy",
    "bits_lost_uniform",
)  # of `PerplexityRecord`
TrainingKey = tuple[str, str, int]  # corpus, system, seed
_AnyRecord = TypeVar("_AnyRecord", bound=Record)
_Line = tuple[str | int | float, ...]


def training_key(evaluation: Evaluation) -> TrainingKey:
    """Return (corpus, system, seed): the training that an evaluation is of."""
    return (evaluation.corpus, evaluation.system, evaluation.seed)


def read_trainings(
    keys: Iterable[TrainingKey],
    results_folder: Path,
    scale: str,
    *,
    runs_folder: Path,
    so_far: bool,
) -> dict[TrainingKey, TrainRecord]:
    """Return the records of finished trainings, as `read_train_record`; `so_far` leaves out those
    that are not there.

    Raises:
        RecordError: if a record is missing (unless `so_far`), torn, or of another training.
    """
    train_by_key: dict[TrainingKey, TrainRecord] = {}
    for key in keys:
        corpus, system, seed = key
        path = train_record(results_folder, scale, corpus, system, seed)
        if so_far and not path.exists():
            continue
        train = read_train_record(path, runs_folder)
        found = (train.corpus, train.system, train.seed)
        if found != key:
            raise RecordError(
                f"{path}: is of {found}, expected {key}; delete it and rerun `snakemake`"
            )
        train_by_key[key] = train
    return train_by_key


def collect_scores(
    evaluations: Iterable[Evaluation],
    train_by_key: Mapping[TrainingKey, TrainRecord],
    folder_by_key: Mapping[TrainingKey, Path],
    scale: str,
    *,
    so_far: bool,
    is_trusted: Callable[[Evaluation, ScoreRecords], bool] = lambda evaluation, scores: True,
) -> pd.DataFrame:
    """Return the frame of all numbers, columns SCORE_COLUMNS, in the order of evaluations.

    The records of a training lie in its folder of `folder_by_key`. `so_far` leaves out what is
    missing or stale. Scores that are not `is_trusted` are left out.

    Raises:
        RecordError: if a record is missing or of another run (unless `so_far`), or torn.
        ScoreError: if one number occurs twice.
    """
    lines: list[_Line] = []
    for evaluation in evaluations:
        train = train_by_key.get(training_key(evaluation))
        if train is None and so_far:
            continue
        results_folder = folder_by_key[training_key(evaluation)]
        score_path = evaluation_record(results_folder, scale, "score", evaluation)
        scores = read_of_run(score_path, ScoreRecords, train, so_far=so_far)
        if scores is not None and is_trusted(evaluation, scores):
            lines += _lines(evaluation, scores, score_path)
        if evaluation.has_perplexity:
            path = evaluation_record(results_folder, scale, "perplexity", evaluation)
            perplexity = read_of_run(path, PerplexityRecord, train, so_far=so_far)
            if perplexity is not None:
                lines += _lines(evaluation, perplexity, path)
    return tidy_frame(lines)


def tidy_frame(lines: Iterable[_Line]) -> pd.DataFrame:
    """Return lines as a frame with exactly SCORE_COLUMNS.

    Raises:
        ScoreError: if one (corpus, system, seed, average, testset, metric) has two lines.
    """
    frame = pd.DataFrame(list(lines), columns=list(SCORE_COLUMNS))
    key_columns = ["corpus", "system", "seed", "average", "testset", "metric"]
    repeated = frame[frame.duplicated(key_columns)]
    if len(repeated):
        name = ", ".join(str(value) for value in repeated.iloc[0][key_columns])
        raise ScoreError(f"({name}): two scores in one record; expected one; rerun `score`")
    return frame


def values_by_number(
    scores: pd.DataFrame,
) -> dict[tuple[tuple[str, ...], str], tuple[dict[int, float], tuple[str, ...]]]:
    """Return by (corpus, system, average, test set) and metric: values by seed in rising order, and
    signatures.
    """
    numbers = {}
    for (*place, metric), group in scores.groupby(
        ["corpus", "system", "average", "testset", "metric"], sort=False
    ):
        pairs = sorted(zip(group["seed"], group["value"], strict=True))
        values = {int(seed): float(value) for seed, value in pairs}
        numbers[tuple(map(str, place)), str(metric)] = (
            values,
            tuple(sorted(set(group["signature"]))),
        )
    return numbers


def read_of_run(
    path: Path, record_type: type[_AnyRecord], train: TrainRecord | None, *, so_far: bool
) -> _AnyRecord | None:
    """Return the record if it is of this training's run; `so_far` None if it is missing or of
    another run.

    Raises:
        RecordError: without `so_far`, if it is missing or of another run; if it is torn.
    """
    if so_far and (train is None or not path.exists()):
        return None
    record = read_record(path, record_type)
    run = getattr(record, "run", "")
    if train is not None and run == train.run:
        return record
    if so_far:
        return None
    expected = "no training record" if train is None else f"the training record is of {train.run!r}"
    raise RecordError(f"{path}: is of run {run!r}, but {expected}; rerun `snakemake`")


def _lines(
    evaluation: Evaluation, record: ScoreRecords | PerplexityRecord, path: Path
) -> list[_Line]:
    """Return a line for each number of a record, columns SCORE_COLUMNS."""
    expected, _ = split_alpha(evaluation.testset)
    if record.testset != expected:
        raise RecordError(
            f"{path}: is of test set {record.testset!r}, expected {expected!r}; rerun `snakemake`"
        )
    made = record.provenance
    commit = f"{made.commit}+dirty" if made.is_dirty else made.commit
    key = (
        evaluation.corpus,
        evaluation.system,
        evaluation.seed,
        evaluation.average,
        evaluation.testset,
    )
    if isinstance(record, PerplexityRecord):
        bits, entropies = math.log2(record.value), record.cross_attention_entropy
        value_by_metric = {
            PERPLEXITY_METRIC: record.value,
            BITS_METRIC: bits,
            WORD_BITS_METRIC: bits * record.num_tokens / record.num_words
            if record.num_words
            else None,
            ENTROPY_METRIC: min(map(min, entropies)) if entropies else None,
            BITS_LOST_METRIC: record.bits_lost_uniform,
        }
        return [
            (*key, metric, value, record.signature, "", record.run, commit)
            for metric, value in value_by_metric.items()
            if value is not None
        ]
    return [
        (*key, metric, value, score.signature, score.hypotheses_sha256, record.run, commit)
        for score in record.scores
        for metric, value in (
            (score.metric, score.value),
            (brevity_metric(score.metric), score.brevity_penalty),
        )
        if value is not None
    ]


def brevity_metric(metric: str) -> str:
    """Return what the brevity penalty in a BLEU is called among the metrics."""
    return f"brevity_penalty_of_{metric}"


def summarise_frame(scores: pd.DataFrame) -> pd.DataFrame:
    """Return summary.tsv's frame, columns SUMMARY_COLUMNS: a line for each evaluation and metric,
    over its seeds.
    """
    keys = list(SUMMARY_COLUMNS[:5])
    lines = []
    for key, group in scores.groupby(keys, sort=False):
        summary = summarise_seeds([float(value) for value in group["value"]])
        mean, half_width = summary.mean, summary.half_width
        bounds = (None, None) if half_width is None else (mean - half_width, mean + half_width)
        lines.append((*key, summary.num_seeds, mean, summary.sd, *bounds))
    return pd.DataFrame(lines, columns=list(SUMMARY_COLUMNS))
