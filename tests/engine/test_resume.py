"""An interrupted training ends with the tensors of an undisturbed training, bit for bit."""

import shutil
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import msgspec
import pytest

from aiayn.errors import RunError
from aiayn.records import BinarizedCorpus, TrainRecord
from aiayn.runs.attempts import DONE_NAME
from aiayn.train.request import TrainingRequest
from tests.engine.hooked_job import Fault, KillAtEnd, KillInSave, Signal, hooked
from tests.engine.tiny_spec import TWO_BATCHES
from tests.engine.tiny_training import (
    in_child,
    log_text,
    make_request,
    outcomes,
    record_path_of,
    starts,
    state_sha256,
    train,
    updates_kept,
)


def stop_at(update: int, request: TrainingRequest) -> None:
    """Train until a TERM after this update."""
    with (
        hooked(Signal(update=update, number=signal.SIGTERM)),
        pytest.raises(RunError, match=f"at update {update} of"),
    ):
        train(request)


@pytest.mark.slow
def test_killed_three_times_once_inside_a_write_it_ends_with_the_same_tensors(
    run_folder: Path, data: BinarizedCorpus, finished: TrainRecord
) -> None:
    """Killed at 7 before any checkpoint, at 25 (in epoch 2), and while 30's is written. 13 updates
    are an epoch.

    First driver and job die together, in one process; the last time only a local job, which its
    driver resumes.
    """
    request = make_request(run_folder, data)

    def train_to_the_kill(update: int) -> None:
        with hooked(Signal(update=update, number=signal.SIGKILL)):
            train(request)

    for update in (7, 25):
        assert in_child(partial(train_to_the_kill, update)) == signal.SIGKILL
    with hooked(KillInSave(update=30)):
        record = train(request, launcher="local")
    assert starts(run_folder) == [0, 0, 20, 20]
    assert outcomes(run_folder) == ["lost", "lost", "lost", "done"]
    assert record.tensors_sha256 == finished.tensors_sha256
    assert state_sha256(run_folder) == state_sha256(Path(finished.run_folder))
    assert (record.tokens, record.num_attempts, record.updates) == (finished.tokens, 4, 40)
    assert [path.name for path in (run_folder / "checkpoints").glob(".*")] == []


def test_stopped_in_mid_epoch_it_ends_with_the_same_tensors(
    run_folder: Path, data: BinarizedCorpus, finished_by_two_batches: TrainRecord
) -> None:
    """In epoch 2, by TERM. Each update has two batches."""
    request = make_request(run_folder, data, **TWO_BATCHES)
    stop_at(23, request)
    assert updates_kept(run_folder, "full") == [20, 23]
    assert updates_kept(run_folder, "model") == [10, 20]  # 23 is not an evenly spaced update
    assert not record_path_of(request).exists()
    record = train(request)
    assert starts(run_folder) == [0, 23]
    assert outcomes(run_folder) == ["stopped", "done"]
    assert record.tensors_sha256 == finished_by_two_batches.tensors_sha256
    assert state_sha256(run_folder) == state_sha256(Path(finished_by_two_batches.run_folder))
    assert record.tokens == finished_by_two_batches.tokens


def test_killed_after_the_last_save_it_makes_no_further_update(
    run_folder: Path, data: BinarizedCorpus, finished: TrainRecord
) -> None:
    # A further update would change the tensors of a run that is complete.
    request = make_request(run_folder, data)

    def train_to_the_kill() -> None:
        with hooked(KillAtEnd(update=40)):
            train(request)

    assert in_child(train_to_the_kill) == signal.SIGKILL
    assert updates_kept(run_folder, "full") == [40]
    assert not (run_folder / DONE_NAME).exists()
    with hooked(Fault(update=41, message="trained on")):
        record = train(request)
    assert starts(run_folder) == [0, 40]
    assert (record.updates, record.tensors_sha256) == (40, finished.tensors_sha256)


# An epoch is six or seven updates.
BY_EPOCHS = {
    "max_tokens_per_batch": 4000,
    "batches_per_update": 1,
    "save_interval_updates": None,
    "patience_epochs": 2,
}


@pytest.fixture(scope="module")
def _worse_every_epoch() -> Iterator[None]:
    """Let validation say that the loss of epoch n is n: with a patience of two, the third epoch is
    the last.
    """
    with mock.patch(
        "fairseq_cli.train.validate",
        lambda cfg, trainer, task, epoch_itr, subsets: [epoch_itr.epoch],
    ):
        yield


@pytest.fixture(scope="module")
def impatient(
    tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus, _worse_every_epoch: None
) -> TrainRecord:
    """Return the record of an uninterrupted training that stops early."""
    return train(make_request(tmp_path_factory.mktemp("runs") / "impatient", data, **BY_EPOCHS))


def test_early_stopping_goes_on_counting_after_a_restart(
    run_folder: Path, data: BinarizedCorpus, impatient: TrainRecord
) -> None:
    # A restart that forgot the count would train longer than an undisturbed run.
    request = make_request(run_folder, data, **BY_EPOCHS)
    stop_at(impatient.updates - 2, request)
    record = train(request)
    assert (record.updates, record.tensors_sha256) == (impatient.updates, impatient.tensors_sha256)
    kept = [model.update for model in record.models]
    assert kept == [model.update for model in impatient.models]
    assert kept == [impatient.updates // 3, 2 * impatient.updates // 3, impatient.updates]


def test_stopped_early_and_killed_it_makes_no_further_update(
    run_folder: Path, data: BinarizedCorpus, impatient: TrainRecord
) -> None:
    request = make_request(run_folder, data, **BY_EPOCHS)
    shutil.copytree(impatient.run_folder, run_folder)
    (run_folder / DONE_NAME).unlink()
    with hooked(Fault(update=impatient.updates + 1, message="trained on")):
        record = train(request)
    assert starts(run_folder) == [0, impatient.updates]
    assert record.tensors_sha256 == impatient.tensors_sha256


def test_resuming_on_another_kind_of_device_is_refused(
    run_folder: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its sums and random numbers differ, so the run would be of neither device.
    request = make_request(run_folder, data, updates=4)
    stop_at(2, request)
    events_path = run_folder / "attempts.jsonl"
    events = events_path.read_text(encoding="utf-8")
    events_path.write_text(events.replace('"device":"cpu"', '"device":"cuda"'), encoding="utf-8")
    with pytest.raises(RunError, match="began on cuda, this is cpu; resume it where it began"):
        train(request)
    assert outcomes(run_folder)[-1] == "failed"
    assert updates_kept(run_folder, "full") == [2]


def test_resuming_with_another_number_of_threads_is_logged(
    run_folder: Path, data: BinarizedCorpus
) -> None:
    request = make_request(run_folder, data, updates=4)
    stop_at(2, request)
    train(msgspec.structs.replace(request, threads_per_rank=2))
    assert "resumed with another number of threads" in log_text(run_folder)
