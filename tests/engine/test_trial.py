"""A trial on two gloo ranks: what is right passes, and planted faults are found."""

import os
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
import torch

from aiayn.errors import LaunchError
from aiayn.records import BinarizedCorpus, TrainRecord
from aiayn.runs.run_folder import RunFolder
from aiayn.train import trial
from aiayn.train.checkpoints import load_checkpoint
from aiayn.train.ranks import Rank
from aiayn.train.request import StopFlag, TrainingRequest
from aiayn.train.task import AiaynTranslationTask
from aiayn.train.trial_result import RESULT_NAME, SAME_UPDATES, TrialResult
from tests.engine.tiny_spec import TWO_BATCHES
from tests.engine.tiny_training import make_request
from tests.forks import fork

NUM_RANKS, UPDATES = 2, 8


def tried(folder: Path, data: BinarizedCorpus, **changes: Any) -> TrialResult:
    """Make a trial of two ranks, each a fork of this process, and return its result."""
    request = make_request(
        folder,
        data,
        **TWO_BATCHES,
        num_ranks=NUM_RANKS,
        updates=UPDATES,
        save_interval_updates=UPDATES,
        **changes,
    )

    def try_rank(index: int) -> None:
        rank = Rank(rank=index, world_size=NUM_RANKS, job="7", local_rank=index)
        with StopFlag().installed() as stop:
            trial.try_node(request, rank, stop)

    children = [fork(lambda index=index: try_rank(index)) for index in range(NUM_RANKS)]  # type: ignore[misc]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * NUM_RANKS
    return msgspec.json.decode((folder / RESULT_NAME).read_bytes(), type=TrialResult)


def test_two_ranks_stop_resume_and_make_the_updates_of_one(
    tmp_path: Path, data: BinarizedCorpus
) -> None:
    result = tried(tmp_path / "trial", data)
    assert (result.device, result.num_ranks, result.stopped_at) == ("cpu", 2, UPDATES // 2)
    assert result.resumed_difference == 0.0
    assert result.one_rank_difference < 1e-3 < SAME_UPDATES
    assert 0.0 < result.seconds_per_update < 10.0


def test_a_difference_is_relative_to_what_the_training_has_moved(
    finished: TrainRecord, finished_by_two_batches: TrainRecord, tmp_path: Path
) -> None:
    ours, theirs = (RunFolder(Path(run.run_folder)) for run in (finished, finished_by_two_batches))
    copy = RunFolder(Path(shutil.copytree(ours.path, tmp_path / "copy")))
    end = load_checkpoint(ours.full_path(ours.newest_update()))["model"]
    # Everything was moved by 0.01 or by 1: the same difference is a larger or a smaller part of it.
    differences = []
    for step in (0.01, 1.0):
        start = {name: tensor - step for name, tensor in end.items()}
        torch.save(start, copy.path / trial.START_NAME)
        assert trial._difference(copy, ours) == 0.0
        differences.append(trial._difference(copy, theirs))
    assert differences[1] > 0.0
    assert differences[0] == pytest.approx(100 * differences[1], rel=1e-3)


@pytest.mark.slow
def test_a_trial_finds_other_sentences_after_a_resume_and_on_one_rank(
    tmp_path: Path, data: BinarizedCorpus
) -> None:
    """Planted: the resumed training and the training of one rank read other sentences, from the
    same initial parameters. With the paper's warm-up the first updates move parameters very little.
    """
    train = trial._train_here
    batches = AiaynTranslationTask.get_batch_iterator

    def other_batches(task: Any, *arguments: Any, seed: int, **named: Any) -> Any:
        return batches(task, *arguments, seed=seed + 1, **named)

    def train_otherwise(request: TrainingRequest, rank: Rank, term_after: int) -> None:
        # This is a process of its own, so the change does not reach the other trainings.
        if rank.job.endswith("stopped-0") or request.run == "one_rank":
            AiaynTranslationTask.get_batch_iterator = other_batches  # type: ignore[method-assign]
        train(request, rank, term_after)

    with mock.patch.object(trial, "_train_here", train_otherwise):
        result = tried(tmp_path / "trial", data, warmup_steps=4000)
    assert result.resumed_difference > SAME_UPDATES
    assert result.one_rank_difference > SAME_UPDATES


def test_a_training_that_fails_ends_the_trial_with_its_log(
    tmp_path: Path, data: BinarizedCorpus
) -> None:
    request = make_request(tmp_path / "trial", data, updates=UPDATES)
    rank = Rank(rank=0, world_size=1, job="7", local_rank=0)
    with (
        mock.patch.object(trial, "train_rank", side_effect=RuntimeError("no such GPU")),
        StopFlag().installed() as stop,
        pytest.raises(
            LaunchError, match=r"training whole of the trial ended with exit code 1; .*train\.log"
        ),
    ):
        trial.try_node(request, rank, stop)
