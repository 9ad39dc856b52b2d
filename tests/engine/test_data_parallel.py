"""Two ranks that share each update: they train, stop together, resume, and die together."""

import os
import re
import signal
from pathlib import Path

import pytest

from aiayn import attempts
from aiayn.errors import RunError
from aiayn.launch import TrainingRequest
from aiayn.records import BinarizedCorpus, TrainRecord, read_record
from tests.engine.hooked_job import Fault, Signal, SignalRank0, hooked
from tests.engine.tiny_spec import TWO_BATCHES
from tests.engine.tiny_training import (
    log_text,
    make_request,
    outcomes,
    starts,
    state_sha256,
    train,
    train_ranks,
    updates_kept,
)

KILLED = signal.SIGKILL


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus) -> TrainingRequest:
    """Return the request of a training that two ranks have finished undisturbed."""
    request = make_request(tmp_path_factory.mktemp("runs") / "two_ranks", data, num_ranks=2, **TWO_BATCHES)
    assert train_ranks(request) == [0, 0]
    return request


@pytest.fixture(scope="module")
def undisturbed(two_ranks: TrainingRequest) -> TrainRecord:
    """Return its record."""
    return read_record(Path(two_ranks.run_folder) / attempts.DONE_NAME, TrainRecord)


def batches(run_folder: Path) -> list[tuple[str, ...]]:
    """Return tokens, sentences and learning rate of each update, as logged."""
    pattern = r'train_inner \| .*"wpb": "(\d+)", "bsz": "(\d+)", "num_updates": "\d+", "lr": "([^"]+)"'
    return [found.groups() for found in re.finditer(pattern, log_text(run_folder))]


def test_two_ranks_make_the_updates_of_one(undisturbed: TrainRecord, finished_by_two_batches: TrainRecord) -> None:
    """The same sentences in each update; dropout is drawn otherwise, so that the tensors differ."""
    assert undisturbed.hardware.num_ranks == 2
    assert finished_by_two_batches.hardware.num_ranks == 1
    assert (undisturbed.tokens, undisturbed.updates) == (finished_by_two_batches.tokens, 40)
    ours, theirs = batches(Path(undisturbed.run_folder)), batches(Path(finished_by_two_batches.run_folder))
    assert len(ours) == 40
    assert ours == theirs
    assert undisturbed.tensors_sha256 != finished_by_two_batches.tensors_sha256


def test_without_dropout_two_ranks_lose_what_one_does(tmp_path: Path, data: BinarizedCorpus) -> None:
    requests = [
        make_request(tmp_path / f"ranks{num_ranks}", data, num_ranks=num_ranks, **TWO_BATCHES, p_drop=0.0, updates=4)
        for num_ranks in (1, 2)
    ]
    losses = []
    for request in requests:
        assert set(train_ranks(request)) == {0}
        losses.append(re.findall(r'train_inner \| .*"loss": "([\d.]+)"', log_text(Path(request.run_folder))))
    assert len(losses[0]) == 4
    assert losses[0] == losses[1]


def test_stopped_in_a_local_job_and_resumed_they_end_with_the_same_tensors(
    run_folder: Path, data: BinarizedCorpus, undisturbed: TrainRecord
) -> None:
    """The signal comes to rank 0 alone, at 13; the ranks look every 10 updates, so that both end at 20."""
    request = make_request(run_folder, data, num_ranks=2, **TWO_BATCHES)
    with hooked(SignalRank0(update=13)), pytest.raises(RunError, match="stopped at update 20 of 40, asked by SIGTERM"):
        train(request, launcher="local")
    assert updates_kept(run_folder, "full") == [20]
    assert train_ranks(request) == [0, 0]
    record = read_record(run_folder / attempts.DONE_NAME, TrainRecord)
    assert starts(run_folder) == [0, 20]
    assert outcomes(run_folder) == ["stopped", "done"]
    assert (record.tensors_sha256, record.tokens) == (undisturbed.tensors_sha256, undisturbed.tokens)
    assert state_sha256(run_folder) == state_sha256(Path(undisturbed.run_folder))
    assert record.hardware.num_ranks == 2


def test_a_rank_that_is_killed_ends_the_others_and_the_next_start_resumes(
    run_folder: Path, data: BinarizedCorpus, undisturbed: TrainRecord
) -> None:
    """From what rank 0 found whole: the newest checkpoint is torn, and a rank that looked for itself would take it."""
    request = make_request(run_folder, data, num_ranks=2, **TWO_BATCHES)
    status_0, status_1 = train_ranks(request, {1: Signal(update=23, number=KILLED)})
    assert (os.waitstatus_to_exitcode(status_0), status_1) == (1, KILLED)
    assert outcomes(run_folder) == ["failed"]
    (run_folder / "checkpoints" / "full_00000030.pt").write_bytes(b"torn")
    assert train_ranks(request) == [0, 0]
    assert starts(run_folder) == [0, 20]
    record = read_record(run_folder / attempts.DONE_NAME, TrainRecord)
    assert record.tensors_sha256 == undisturbed.tensors_sha256


def test_rank_0_killed_ends_the_others_too(run_folder: Path, data: BinarizedCorpus) -> None:
    request = make_request(run_folder, data, num_ranks=2, **TWO_BATCHES)
    status_0, status_1 = train_ranks(request, {0: Signal(update=3, number=KILLED)})
    assert (status_0, os.waitstatus_to_exitcode(status_1)) == (KILLED, 1)
    assert outcomes(run_folder) == []


def test_no_rank_trains_a_run_that_is_done(two_ranks: TrainingRequest, undisturbed: TrainRecord) -> None:
    hooks = {index: Fault(update=41, message="trained on") for index in range(2)}
    assert train_ranks(two_ranks, hooks) == [0, 0]
    assert starts(Path(two_ranks.run_folder)) == [0]


def test_no_rank_trains_when_only_the_record_is_missing(run_folder: Path, data: BinarizedCorpus) -> None:
    request = make_request(run_folder, data, num_ranks=2, **TWO_BATCHES, updates=2, save_interval_updates=1)
    assert train_ranks(request) == [0, 0]
    (run_folder / attempts.DONE_NAME).unlink()
    assert train_ranks(request, {index: Fault(update=3, message="trained on") for index in range(2)}) == [0, 0]
    assert starts(run_folder) == [0, 2]
    assert (run_folder / attempts.DONE_NAME).exists()
