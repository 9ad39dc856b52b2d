"""Checkpoints are whole or absent, and no fault of a disk is trained on."""

import errno
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from omegaconf import OmegaConf

from aiayn.errors import CheckpointError, RunError
from aiayn.provenance import partial_path_of
from aiayn.records import BinarizedCorpus, TrainRecord
from aiayn.runs.checkpoint_names import checkpoint_path, list_checkpoints
from aiayn.train.checkpoints import (
    CheckpointKeeper,
    StateCopier,
    count_parameters,
    is_whole,
    load_checkpoint,
    newest_whole_full,
    save_whole,
    tensors_sha256,
)
from tests.engine.hooked_job import Hook, Signal, hooked
from tests.engine.tiny_training import (
    log_text,
    make_request,
    outcomes,
    record_path_of,
    starts,
    state_sha256,
    train,
    updates_kept,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a checkpoint of 256 numbers."""
    save_whole(
        {"model": {"w": torch.arange(256.0)}, "cfg": {"name": "x"}}, tmp_path / "model_00000010.pt"
    )
    return tmp_path / "model_00000010.pt"


def test_checkpoints_are_listed_by_update_and_nothing_else_is(tmp_path: Path) -> None:
    # A torn file, fairseq's crash file and names of another form must not be resumed from.
    for name in (
        "full_00000100.pt",
        "full_00000020.pt",
        "model_00000003.pt",
        "full_00000200.torn",
        "full_7.pt",
        "crash.pt",
    ):
        (tmp_path / name).touch()
    assert [path.name for path in list_checkpoints(tmp_path, "full")] == [
        "full_00000020.pt",
        "full_00000100.pt",
    ]


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.99])
def test_a_truncated_checkpoint_is_noticed(path: Path, fraction: float) -> None:
    assert is_whole(path)
    os.truncate(path, int(fraction * path.stat().st_size))
    assert not is_whole(path)
    with pytest.raises(
        CheckpointError,
        match=r"model_00000010\.pt: torn or not a checkpoint \(.*delete it, then rerun",
    ):
        load_checkpoint(path)


def test_any_flipped_byte_is_noticed_or_harmless(path: Path) -> None:
    """Wherever it is, looking raises nothing. And what passes for whole has the same tensors."""
    content = path.read_bytes()
    expected = tensors_sha256(load_checkpoint(path)["model"])
    rng = random.Random(1)
    num_noticed = 0
    for position in [
        *range(200),
        *range(len(content) - 400, len(content)),
        *rng.sample(range(len(content)), 100),
    ]:
        flipped = bytearray(content)
        flipped[position] ^= rng.randrange(1, 256)
        path.write_bytes(flipped)
        if is_whole(path):
            assert tensors_sha256(load_checkpoint(path)["model"]) == expected, position
        else:
            num_noticed += 1
    assert num_noticed > 100


def test_an_absent_checkpoint_and_a_foreign_file_are_named(tmp_path: Path, path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"none\.pt: no such checkpoint; rerun"):
        load_checkpoint(tmp_path / "none.pt")
    torch.save({"weights": 1}, path)
    with pytest.raises(CheckpointError, match="holds no 'model'; expected a fairseq checkpoint"):
        load_checkpoint(path)


def test_the_newest_whole_one_is_found_and_torn_ones_are_set_aside(tmp_path: Path) -> None:
    for update in (10, 20, 30, 40):
        save_whole({"model": {}}, checkpoint_path(tmp_path, "full", update))
    for update in (30, 40):
        os.truncate(checkpoint_path(tmp_path, "full", update), 100)
    newest, torn = newest_whole_full(tmp_path)
    assert newest == checkpoint_path(tmp_path, "full", 20)
    assert [path.name for path in torn] == ["full_00000040.torn", "full_00000030.torn"]
    assert newest_whole_full(tmp_path) == (newest, [])
    assert newest_whole_full(tmp_path / "none") == (None, [])


def test_the_digest_is_of_names_shapes_and_bytes() -> None:
    # Records promise equal tensors by it, so order and layout in memory must not count.
    tensors = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([[3.0]])}
    digest = tensors_sha256(tensors)
    assert tensors_sha256(dict(reversed(tensors.items()))) == digest
    assert (
        tensors_sha256({"a": torch.tensor([[9.0, 1.0, 2.0]])[0, 1:], "b": tensors["b"]}) == digest
    )
    changed = [
        {"a": torch.tensor([1.0, 2.0000002]), "b": tensors["b"]},
        {"a": torch.tensor([[1.0, 2.0]]), "b": tensors["b"]},
        {"a": torch.tensor([1.0, 2.0]), "c": tensors["b"]},
        {"a": torch.tensor([1.0, 2.0])},
    ]
    assert digest not in {tensors_sha256(other) for other in changed}


def test_the_digest_takes_scalars_and_bfloat16() -> None:
    # Adam's step is a scalar, and NumPy has no bfloat16.
    assert tensors_sha256({"step": torch.tensor(3.0)}) != tensors_sha256(
        {"step": torch.tensor(4.0)}
    )
    assert tensors_sha256({"w": torch.ones(2, dtype=torch.bfloat16)}) != tensors_sha256(
        {"w": torch.ones(2)}
    )


def test_tied_matrices_count_once_and_buffers_not_at_all() -> None:
    # The paper's 65 million for base count the shared matrix once.
    shared = torch.zeros(3, 4)
    tensors = {
        "encoder.embed": shared,
        "decoder.embed": shared,
        "decoder.out": torch.zeros(5),
        "decoder.version": torch.ones(1),
    }
    assert count_parameters(tensors) == 12 + 5


def test_models_are_due_counted_back_from_the_last_update() -> None:
    # The average needs evenly spaced models of which the last is the last update's.
    keeper = CheckpointKeeper(Path(), num_models=1, updates=100, save_interval_updates=30)
    assert [update for update in range(1, 101) if keeper.is_due(update)] == [10, 40, 70, 100]
    by_epoch = CheckpointKeeper(Path(), num_models=1, updates=100, save_interval_updates=None)
    assert [update for update in range(1, 101) if by_epoch.is_due(update)] == []


def test_before_the_averaged_models_one_is_due_after_some_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 10, 20, ..., 100 the last three are averaged. The clock shows a second an update."""
    now = 0
    monkeypatch.setattr("aiayn.train.checkpoints.time.monotonic", lambda: now)
    keeper = CheckpointKeeper(
        Path(), num_models=3, updates=100, save_interval_updates=10, resume_seconds=25.0
    )
    due = []
    for now in range(1, 101):
        if keeper.is_due(now):
            due.append(now)
            keeper.saved_at = now
    assert due == [30, 60, 80, 90, 100]


def test_checkpoints_that_are_left_out_change_nothing(
    run_folder: Path, data: BinarizedCorpus, finished: TrainRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 10, 20, 30 and 40, update 10 is not averaged, and comes within the hour."""
    monkeypatch.setattr("aiayn.train.train.RESUME_SECONDS", 3600.0)
    saved = []
    save = CheckpointKeeper.save

    def count(keeper: CheckpointKeeper, trainer: Any, *arguments: Any) -> None:
        saved.append(trainer.get_num_updates())
        save(keeper, trainer, *arguments)

    monkeypatch.setattr(CheckpointKeeper, "save", count)
    record = train(make_request(run_folder, data))
    assert saved == [20, 30, 40]
    assert [model.update for model in record.models] == [20, 30, 40]
    assert record.tensors_sha256 == finished.tensors_sha256
    assert state_sha256(run_folder) == state_sha256(Path(finished.run_folder))


def test_a_finished_run_keeps_n_models_and_one_full_checkpoint(finished: TrainRecord) -> None:
    """The last three of 10, 20, 30 and 40: evenly spaced, with the last update."""
    run_folder = Path(finished.run_folder)
    assert updates_kept(run_folder, "model") == [20, 30, 40]
    assert updates_kept(run_folder, "full") == [40]
    assert [(model.update, model.path) for model in finished.models] == [
        (update, run_folder / "checkpoints" / f"model_000000{update}.pt") for update in (20, 30, 40)
    ]
    assert sorted(path.name for path in (run_folder / "checkpoints").iterdir()) == [
        "full_00000040.pt",
        "model_00000020.pt",
        "model_00000030.pt",
        "model_00000040.pt",
    ]


def test_a_model_only_checkpoint_is_a_third_of_a_full_one(finished: TrainRecord) -> None:
    # Adam's two moments are the other two thirds, which decoding does not need.
    folder = Path(finished.run_folder) / "checkpoints"
    model, full = (load_checkpoint(checkpoint_path(folder, kind, 40)) for kind in ("model", "full"))
    assert (
        tensors_sha256(model["model"]) == tensors_sha256(full["model"]) == finished.tensors_sha256
    )
    moments = full["last_optimizer_state"]["state"].values()
    num_moments = sum(entry["exp_avg"].numel() + entry["exp_avg_sq"].numel() for entry in moments)
    assert num_moments == 2 * count_parameters(model["model"]) == 2 * finished.num_parameters
    assert "last_optimizer_state" not in model


def test_by_epochs_the_last_update_is_kept_too(run_folder: Path, data: BinarizedCorpus) -> None:
    """13 updates an epoch: of 13, 26 and the cut third epoch's 30 the last two."""
    record = train(
        make_request(run_folder, data, updates=30, save_interval_updates=None, num_models=2)
    )
    assert [model.update for model in record.models] == [26, 30]
    assert updates_kept(run_folder, "full") == [30]


def stopped_run(run_folder: Path, data: BinarizedCorpus, update: int) -> Path:
    """Train until a stop at this update, and return the full checkpoint that it left."""
    with hooked(Signal(update=update, number=signal.SIGTERM)), pytest.raises(RunError):
        train(make_request(run_folder, data))
    return checkpoint_path(run_folder / "checkpoints", "full", update)


def test_after_a_flipped_byte_it_goes_back_to_the_checkpoint_before(
    run_folder: Path, data: BinarizedCorpus, finished: TrainRecord
) -> None:
    newest_path = stopped_run(run_folder, data, 23)
    assert updates_kept(run_folder, "full") == [20, 23]
    content = bytearray(newest_path.read_bytes())
    content[len(content) // 2] ^= 255
    newest_path.write_bytes(content)
    record = train(make_request(run_folder, data))
    assert starts(run_folder) == [0, 20]
    assert "full_00000023.torn: torn; resuming from update 20 instead" in log_text(run_folder)
    assert record.tensors_sha256 == finished.tensors_sha256
    assert state_sha256(run_folder) == state_sha256(Path(finished.run_folder))


class FillDisk(Hook, frozen=True, kw_only=True):
    """From this update on, the disk takes no byte of the checkpoint of the given name: it would be
    /dev/full.
    """

    name: str

    def act(self) -> None:
        """Put /dev/full where the checkpoint will be written."""
        partial_path_of(Path(self.name)).symlink_to("/dev/full")


def test_no_space_left_fails_the_attempt_and_the_next_start_resumes(
    run_folder: Path, data: BinarizedCorpus, finished: TrainRecord
) -> None:
    request = make_request(run_folder, data)
    name = str(checkpoint_path(run_folder / "checkpoints", "model", 30))
    with (
        hooked(FillDisk(update=25, name=name)),
        pytest.raises(RunError, match="No space left on device") as raised,
    ):
        train(request)
    assert "model_00000030.pt" in str(raised.value).split("\n")[0]
    assert raised.value.exit_code == 3
    assert outcomes(run_folder) == ["failed"]
    assert not record_path_of(request).exists()
    assert updates_kept(run_folder, "full") == [10, 20]
    assert list((run_folder / "checkpoints").glob(".*")) == []
    assert is_whole(checkpoint_path(run_folder / "checkpoints", "full", 20))
    record = train(request)
    assert starts(run_folder) == [0, 20]
    assert record.tensors_sha256 == finished.tensors_sha256


def test_a_copy_is_made_where_the_one_before_was() -> None:
    """Even if the log has come to hold one number more in between."""
    copier, weights = StateCopier(), {"a": torch.zeros(4000), "b": torch.zeros(3000)}
    addresses = [
        [
            tensor.data_ptr()
            for tensor in copier.copy({"logged": logged, "model": weights})["model"].values()
        ]
        for logged in ([], [torch.zeros(1)])
    ]
    assert addresses[0] == addresses[1]


class WriteSlowly:
    """Stands for `save_whole`: notes what is written, and waits before the full checkpoint of an
    update.
    """

    def __init__(self, update: int, until: threading.Event, error: Exception | None = None) -> None:
        self.update, self.until, self.error = update, until, error
        self.names: list[str] = []
        self.model_sha256s: list[str] = []

    def __call__(self, state: dict[str, Any], path: Path) -> None:
        if path.name == f"full_{self.update:08d}.pt":
            assert self.until.wait(60.0)
            if self.error is not None:
                raise self.error
        save_whole(state, path)
        self.names.append(path.name)
        self.model_sha256s.append(tensors_sha256(state["model"]))


def set_after(update: int, event: threading.Event) -> Any:
    """Let an event be set after an update, without waiting for what is being written."""
    import fairseq.trainer

    original = fairseq.trainer.Trainer.train_step

    def train_step(trainer: Any, *arguments: Any, **named: Any) -> Any:
        logged = original(trainer, *arguments, **named)
        if trainer.get_num_updates() == update:
            event.set()
        return logged

    return mock.patch.object(fairseq.trainer.Trainer, "train_step", train_step)


def test_updates_go_on_while_a_checkpoint_is_written_and_change_nothing_in_it(
    run_folder: Path, data: BinarizedCorpus, finished: TrainRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Update 19 is made before 10's full checkpoint is."""
    went_on = threading.Event()
    write = WriteSlowly(10, went_on)
    monkeypatch.setattr("aiayn.train.checkpoints.save_whole", write)
    with set_after(19, went_on):
        record = train(make_request(run_folder, data))
    assert went_on.is_set()
    kinds = [
        name
        for update in (10, 20, 30, 40)
        for name in (f"model_{update:08d}.pt", f"full_{update:08d}.pt")
    ]
    assert write.names == kinds
    assert write.model_sha256s[0] == write.model_sha256s[1] != write.model_sha256s[2], (
        "of update 10, whenever written"
    )
    assert record.tensors_sha256 == finished.tensors_sha256
    assert state_sha256(run_folder) == state_sha256(Path(finished.run_folder))


def test_a_stop_whose_checkpoint_cannot_be_written_is_a_failure(
    run_folder: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Noted as stopped, the lost updates would be trained again without a word.
    at_once = threading.Event()
    at_once.set()
    error = OSError(errno.EIO, "Input/output error", "full_00000023.pt")
    monkeypatch.setattr("aiayn.train.checkpoints.save_whole", WriteSlowly(23, at_once, error))
    with (
        hooked(Signal(update=23, number=signal.SIGTERM)),
        pytest.raises(RunError, match=r"Input/output error"),
    ):
        train(make_request(run_folder, data))
    assert outcomes(run_folder) == ["failed"]
    assert updates_kept(run_folder, "full") == [10, 20]


def test_a_checkpoint_with_a_config_object_is_named_and_its_conversion_loads(
    tmp_path: Path,
) -> None:
    path = tmp_path / "checkpoint_best.pt"
    torch.save(
        {
            "model": {"w": torch.zeros(1)},
            "cfg": OmegaConf.create({"model": {"arch": "transformer"}}),
        },
        path,
    )
    with pytest.raises(
        CheckpointError, match=r"holds a omegaconf\.\S+, which is not loaded"
    ) as caught:
        load_checkpoint(path)
    message = str(caught.value)
    assert "delete" not in message
    command = message[message.index("python -c") :].replace("python", sys.executable, 1)
    subprocess.run(command, shell=True, check=True)
    assert load_checkpoint(tmp_path / "checkpoint_best_converted.pt")["cfg"] == {
        "model": {"arch": "transformer"}
    }


def test_nobody_is_told_to_remove_a_file_that_is_not_ours(tmp_path: Path) -> None:
    # It may be the only copy of somebody's model.
    path = tmp_path / "checkpoint_best.pt"
    path.write_bytes(b"no checkpoint")
    with pytest.raises(CheckpointError, match="torn or not a checkpoint") as caught:
        load_checkpoint(path)
    assert "delete" not in str(caught.value)
