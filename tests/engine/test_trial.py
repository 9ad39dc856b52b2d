"""A trial on two gloo ranks: what is right passes, and planted faults are found."""

import os
from pathlib import Path
from unittest import mock

import msgspec
import pytest

from aiayn.errors import LaunchError
from aiayn.records import BinarizedCorpus, TrainRecord
from aiayn.runs.run_folder import RunFolder
from aiayn.train import trial
from aiayn.train.ranks import Rank
from aiayn.train.request import StopFlag, TrainingRequest
from aiayn.train.trial_result import RESULT_NAME, TrialResult
from tests.engine.tiny_spec import TWO_BATCHES
from tests.engine.tiny_training import make_request
from tests.forks import fork

NUM_RANKS, UPDATES = 2, 8


def tried(folder: Path, data: BinarizedCorpus) -> TrialResult:
    """Make a trial of two ranks, each a fork of this process, and return its result."""
    request = make_request(
        folder,
        data,
        **TWO_BATCHES,
        num_ranks=NUM_RANKS,
        updates=UPDATES,
        save_interval_updates=UPDATES,
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
    assert result.one_rank_difference < 1e-3
    assert 0.0 < result.seconds_per_update < 10.0


def test_trainings_with_other_batches_have_a_difference(
    finished: TrainRecord, finished_by_two_batches: TrainRecord
) -> None:
    ours, theirs = (RunFolder(Path(run.run_folder)) for run in (finished, finished_by_two_batches))
    assert trial._difference(ours, ours) == 0.0
    assert trial._difference(ours, theirs) > 1e-3


@pytest.mark.slow
def test_a_trial_finds_other_sentences_after_a_resume_and_on_one_rank(
    tmp_path: Path, data: BinarizedCorpus
) -> None:
    """Planted: the resumed training and that of one rank have another seed. The two quick tests
    above guard the trainings of a trial, and what it says of unequal ones.
    """
    train = trial._train_here

    def train_otherwise(request: TrainingRequest, rank: Rank, term_after: int) -> None:
        is_resumed = rank.job.endswith("stopped-0")
        seed = 2 if is_resumed or request.run == "one_rank" else 1
        train(msgspec.structs.replace(request, seed=seed), rank, term_after)

    with mock.patch.object(trial, "_train_here", train_otherwise):
        result = tried(tmp_path / "trial", data)
    assert result.resumed_difference > 1e-3
    assert result.one_rank_difference > 1e-3


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
