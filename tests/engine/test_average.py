"""The average of a training's last checkpoints is their mean, tensor by tensor."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import torch

from aiayn.errors import CheckpointError
from aiayn.records import SavedModel, TrainRecord
from aiayn.train.average import average_checkpoints, average_tensors
from aiayn.train.checkpoints import DICTIONARIES_KEY, load_checkpoint, save_whole


def test_sums_are_made_in_double_precision() -> None:
    """In float32 1e8 + 1 is 1e8, and the mean of (1e8, 1, -1e8) would be 0."""
    models = [{"w": torch.tensor([value])} for value in (1e8, 1.0, -1e8)]
    mean = average_tensors(models)["w"]
    assert mean.dtype == torch.float32
    assert mean.item() == pytest.approx(1 / 3, rel=1e-7)


def test_tied_matrices_stay_tied_and_equal_ones_stay_apart() -> None:
    # A lost tie would enlarge the file, and an invented one would change the model.
    first, second = (
        {"encoder": tied, "decoder": tied, "other": tied.clone()}
        for tied in (torch.ones(2), torch.full((2,), 3.0))
    )
    means = average_tensors([first, second])
    assert means["encoder"].data_ptr() == means["decoder"].data_ptr() != means["other"].data_ptr()
    assert means["encoder"].tolist() == means["other"].tolist() == [2.0, 2.0]


def test_different_models_are_refused() -> None:
    for tensors in (
        {"w": torch.zeros(3)},
        {"v": torch.zeros(2)},
        {"w": torch.zeros(2), "v": torch.zeros(1)},
    ):
        with pytest.raises(CheckpointError, match="the checkpoints belong to different models"):
            average_tensors([{"w": torch.zeros(2)}, tensors])


def test_averaging_one_checkpoint_changes_nothing(finished: TrainRecord, tmp_path: Path) -> None:
    # The development set is measured on `last1`, a single checkpoint.
    record = average_checkpoints(finished, last=1, record_path=tmp_path / "last1.json")
    assert record.tensors_sha256 == finished.tensors_sha256
    assert (record.average, record.averaged_updates, record.run) == ("last1", [40], finished.run)


def test_the_last_three_are_averaged(finished: TrainRecord, tmp_path: Path) -> None:
    record = average_checkpoints(finished, last=3, record_path=tmp_path / "last3.json")
    assert record.averaged_updates == [20, 30, 40]
    models = [load_checkpoint(Path(model.path)) for model in finished.models]
    average = load_checkpoint(tmp_path / "last3.pt")
    name = "decoder.layers.0.fc1.weight"
    expected = torch.stack([model["model"][name].double() for model in models]).mean(dim=0).float()
    assert torch.equal(average["model"][name], expected)
    assert record.tensors_sha256 != finished.tensors_sha256
    # One matrix serves source, target and output, in the average's file as in the training's.
    tied = [
        f"{side}.weight"
        for side in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")
    ]
    assert len({average["model"][name].data_ptr() for name in tied}) == 1
    assert average["extra_state"] == models[-1]["extra_state"]
    assert average["extra_state"][DICTIONARIES_KEY].keys() == {"source", "target"}


@pytest.mark.parametrize("last", [0, 4])
def test_more_than_were_kept_are_refused(last: int, finished: TrainRecord, tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError,
        match=rf"the last {last} checkpoints are to be averaged, the run kept 3 \(\[20, 30, 40\]\)",
    ):
        average_checkpoints(finished, last=last, record_path=tmp_path / "average.json")
    assert list(tmp_path.iterdir()) == []


def with_damaged_model(finished: TrainRecord, tmp_path: Path, content: bytes) -> TrainRecord:
    """Return the record with a model of other bytes in the middle."""
    path = tmp_path / "model_00000030.pt"
    path.write_bytes(content)
    models = [finished.models[0], SavedModel(update=30, path=path), finished.models[2]]
    return msgspec.structs.replace(finished, models=models)


def test_a_torn_checkpoint_is_named_and_nothing_is_written(
    finished: TrainRecord, tmp_path: Path
) -> None:
    content = Path(finished.models[1].path).read_bytes()
    flipped = bytearray(content)
    flipped[len(flipped) // 2] ^= 1
    for damaged in (content[: len(content) // 2], b"", bytes(flipped)):
        with pytest.raises(CheckpointError, match=r"model_00000030\.pt: torn"):
            average_checkpoints(
                with_damaged_model(finished, tmp_path, damaged),
                last=3,
                record_path=tmp_path / "last3.json",
            )
    assert [path.name for path in tmp_path.iterdir()] == ["model_00000030.pt"]


def test_averaging_does_not_import_fairseq(tmp_path: Path) -> None:
    """Each average of a benchmark would need seconds for it."""
    save_whole({"model": {"w": torch.ones(1)}}, tmp_path / "model.pt")
    program = (
        "import sys; from pathlib import Path; import aiayn.train.average as average; "
        "average.load_checkpoint(Path(sys.argv[1])); print('fairseq' in sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "model.pt")], capture_output=True, check=True
    )
    assert answer.stdout == b"False\n"
