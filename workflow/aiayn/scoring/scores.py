"""Collects the records of scores and perplexities of a scale in the table scores.tsv, with a line
for each number.

The record of a perplexity yields several numbers: the perplexity, bits per subword (log2 of the
perplexity), bits per word and, for a model with cross-attention, the lowest entropy of any
cross-attention head, and how many more bits the model needs if all its cross-attention weights are
equal. The record of a BLEU also yields the brevity penalty.

A score is read together with the record of its training. While a system is trained again, its old
score may still be on the disk. The old score is not used for the new training.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import pandas as pd

from aiayn.errors import RecordError, ScoreError
from aiayn.packed import exists
from aiayn.paths import Evaluation, evaluation_record, split_alpha, train_record
from aiayn.printed import PERPLEXITY_METRIC
from aiayn.records import (
    PerplexityRecord,
    ScoreRecords,
    TrainRecord,
    read_record,
    read_train_record,
)
from aiayn.scoring.seeds import summarise_seeds
from aiayn.spec.sheet import TrainingKey

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
# From a `PerplexityRecord`.
BITS_METRIC, WORD_BITS_METRIC = "bits_per_subword", "bits_per_word"
ENTROPY_METRIC, BITS_LOST_METRIC = "lowest_cross_attention_entropy", "bits_lost_uniform"
_AnyRecord = TypeVar("_AnyRecord", ScoreRecords, PerplexityRecord)
_Line = tuple[str | int | float, ...]


def read_trainings(
    keys: Iterable[TrainingKey], results_folder: Path, scale: str, runs_folder: Path
) -> dict[TrainingKey, TrainRecord]:
    """Read the records of finished trainings, by the trainings' keys. A training without a record
    has not finished and is left out.

    Raises:
        RecordError: if a record is incomplete, or if the training in the record is not the training
            in the record's path.
    """
    train_by_key: dict[TrainingKey, TrainRecord] = {}
    for key in keys:
        path = train_record(results_folder, scale, *key)
        if not exists(path):
            continue
        train = read_train_record(path, runs_folder)
        # A record that somebody copied to another path would give its numbers to another system.
        recorded_key = TrainingKey(train.corpus, train.system, train.seed)
        if recorded_key != key:
            raise RecordError(
                f"{path}: record of {recorded_key}, expected {key}; delete it and rerun `snakemake`"
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
    """Return a pandas DataFrame of all scores and perplexities with the columns SCORE_COLUMNS, in
    the order of the evaluations.

    The argument `folder_by_key` has the results folder of each training. If the workflow may still
    be running (`so_far`), records that are missing or were written by an earlier run are left out.
    The function `is_trusted` decides which scores are included.

    Raises:
        RecordError: if a record is incomplete. Unless the workflow may still be running (`so_far`),
            also if a record is missing or was written by a different run.
        ScoreError: if two records contain the same number, for example the same metric of the same
            training on the same test set.
    """
    lines: list[_Line] = []
    for evaluation in evaluations:
        train = train_by_key.get(evaluation.training)
        # With `so_far` the workflow may still be running, so a training without a record is normal.
        if train is None and so_far:
            continue
        results_folder = folder_by_key[evaluation.training]
        score_path = evaluation_record(results_folder, scale, "score", evaluation)
        # A stale score, of an earlier training of this system, is not a score of the new model.
        scores = _read_of_run(score_path, ScoreRecords, train, so_far=so_far)
        if scores is not None and is_trusted(evaluation, scores):
            lines += _lines(evaluation, scores, score_path)
        if evaluation.has_perplexity:
            path = evaluation_record(results_folder, scale, "perplexity", evaluation)
            perplexity = _read_of_run(path, PerplexityRecord, train, so_far=so_far)
            if perplexity is not None:
                lines += _lines(evaluation, perplexity, path)
    return tidy_frame(lines)


def tidy_frame(lines: Iterable[_Line]) -> pd.DataFrame:
    """Return the lines of the table of scores as a pandas DataFrame with exactly the columns
    SCORE_COLUMNS.

    Raises:
        ScoreError: if two lines have the same corpus, system, seed, average, testset and metric.
    """
    frame = pd.DataFrame(list(lines), columns=list(SCORE_COLUMNS))
    key_columns = ["corpus", "system", "seed", "average", "testset", "metric"]
    repeated = frame[frame.duplicated(key_columns)]
    if len(repeated):
        name = ", ".join(str(value) for value in repeated.iloc[0][key_columns])
        raise ScoreError(
            f"({name}): two scores in a record; expected a single score; rerun `score`"
        )
    return frame


def values_by_number(
    scores: pd.DataFrame,
) -> dict[tuple[tuple[str, ...], str], tuple[dict[int, float], tuple[str, ...]]]:
    """Return for each cell and metric the values by seed, in the order of the seeds, and the
    signatures of the metric.

    A cell is a combination of corpus, system, average of checkpoints, and test set.
    """
    numbers = {}
    # `sort=False` keeps the order of the sheet. pandas would sort cells by name.
    for (*cell, metric), group in scores.groupby(list(SUMMARY_COLUMNS[:5]), sort=False):
        pairs = sorted(zip(group["seed"], group["value"], strict=True))
        values = {int(seed): float(value) for seed, value in pairs}
        signatures = tuple(sorted(set(group["signature"])))
        numbers[tuple(map(str, cell)), str(metric)] = (values, signatures)
    return numbers


def _read_of_run(
    path: Path, record_type: type[_AnyRecord], train: TrainRecord | None, *, so_far: bool
) -> _AnyRecord | None:
    """Read a record of scores or perplexity, which must have been written by the same run as the
    training's record.

    If the workflow may still be running (`so_far`), return None for a record that is missing or was
    written by a different run.

    Raises:
        RecordError: if the record is incomplete. Unless the workflow may still be running
            (`so_far`), also if the record is missing or was written by a different run.
    """
    if so_far and (train is None or not exists(path)):
        return None
    record = read_record(path, record_type)
    if train is not None and record.run == train.run:
        return record
    if so_far:
        return None
    # Without `so_far` each record must exist and fit: the tables are complete, or there is an
    # error.
    expected = "no training record" if train is None else f"run {train.run!r}, as its training"
    raise RecordError(
        f"{path}: record of run {record.run!r}, expected {expected}; rerun `snakemake`"
    )


def _lines(
    evaluation: Evaluation, record: ScoreRecords | PerplexityRecord, path: Path
) -> list[_Line]:
    """Return the lines of the table of scores, with the columns SCORE_COLUMNS, for the numbers in a
    record.
    """
    # An evaluation may add a length penalty to the name of its test set. The record does not.
    expected, _ = split_alpha(evaluation.testset)
    if record.testset != expected:
        raise RecordError(
            f"{path}: record of test set {record.testset!r}, expected {expected!r}; rerun"
            " `snakemake`"
        )
    provenance = record.provenance
    commit = f"{provenance.commit}+dirty" if provenance.is_dirty else provenance.commit
    lines: list[_Line] = []

    def add(metric: str, value: float | None, signature: str, sha256: str) -> None:
        if value is not None:
            key = (*evaluation.training, evaluation.average, evaluation.testset)
            lines.append((*key, metric, value, signature, sha256, record.run, commit))

    if isinstance(record, PerplexityRecord):
        # The perplexity is exp of the loss in nats, so its log2 is the loss in bits. Bits per word
        # can be compared between models with different subword vocabularies.
        bits = math.log2(record.value)
        entropies = record.cross_attention_entropy
        word_bits = bits * record.num_tokens / record.num_words if record.num_words else None
        lowest_entropy = min(map(min, entropies)) if entropies else None
        for metric, value in (
            (PERPLEXITY_METRIC, record.value),
            (BITS_METRIC, bits),
            (WORD_BITS_METRIC, word_bits),
            (ENTROPY_METRIC, lowest_entropy),
            (BITS_LOST_METRIC, record.bits_lost_uniform),
        ):
            add(metric, value, record.signature, "")
        return lines
    for score in record.scores:
        sha256 = score.hypotheses_sha256
        add(score.metric, score.value, score.signature, sha256)
        add(brevity_metric(score.metric), score.brevity_penalty, score.signature, sha256)
    return lines


def brevity_metric(metric: str) -> str:
    """Return the name of the metric for the brevity penalty of a BLEU."""
    return f"brevity_penalty_of_{metric}"


def summarise_frame(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the content of summary.tsv as a pandas DataFrame, with the columns SUMMARY_COLUMNS and
    a line for each cell (corpus, system, average, test set) and metric.
    """
    keys = list(SUMMARY_COLUMNS[:5])
    lines = []
    for key, group in scores.groupby(keys, sort=False):
        summary = summarise_seeds([float(value) for value in group["value"]])
        mean, half_width = summary.mean, summary.half_width
        bounds = (None, None) if half_width is None else (mean - half_width, mean + half_width)
        lines.append((*key, summary.num_seeds, mean, summary.sd, *bounds))
    return pd.DataFrame(lines, columns=list(SUMMARY_COLUMNS))
