"""Records are read back as they were written, also after a move. Other files are refused."""

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from aiayn.errors import CorpusError
from aiayn.provenance import file_sha256, gather_provenance
from aiayn.records import (
    CheckpointRecord,
    SavedModel,
    TrainRecord,
    read_record,
    read_train_record,
    write_record,
)
from tests.records_factory import BINARIZED, PROVENANCE, TRAINED, write_sealed

CHECKPOINT = CheckpointRecord(
    provenance=PROVENANCE,
    run="run",
    average="last5",
    path=Path("/scratch/last5.pt"),
    averaged_updates=[80, 100],
    tensors_sha256="00",
)


def test_a_data_bin_knows_its_test_sets() -> None:
    data = msgspec.structs.replace(
        BINARIZED, fairseq_split_by_testset={"val": "valid", "flickr": "test"}
    )
    assert data.split_of("flickr") == "test"
    with pytest.raises(
        CorpusError, match="data-bin: no test set 'coco'; demo_en_de has val, flickr"
    ):
        data.split_of("coco")


def write_checkpoint(path: Path) -> CheckpointRecord:
    """Write a checkpoint and its record, of an input in another folder, as the stage of average
    does.
    """
    train_path = path.parents[1] / "train" / "seed1.json"
    for file in (train_path, path.with_suffix(".pt")):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("content", encoding="utf-8")
    record = msgspec.structs.replace(
        CHECKPOINT, path=path.with_suffix(".pt"), provenance=gather_provenance([train_path])
    )
    write_record(record, path)
    return record


def test_files_are_named_from_the_records_folder_on(tmp_path: Path) -> None:
    path = tmp_path / "results" / "average" / "last5.json"
    record = write_checkpoint(path)
    written = json.loads(path.read_bytes())
    assert written["path"] == "./last5.pt"
    assert list(written["provenance"]["input_sha256_by_path"]) == ["../train/seed1.json"]
    assert read_record(path, CheckpointRecord) == record


def test_a_record_that_moved_names_the_files_that_moved_with_it(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "first" / "results" / "average" / "last5.json")
    (tmp_path / "first").rename(tmp_path / "second")
    results = tmp_path / "second" / "results"
    moved = read_record(results / "average" / "last5.json", CheckpointRecord)
    assert moved.path == results / "average" / "last5.pt"
    assert moved.provenance.input_sha256_by_path == {
        results / "train" / "seed1.json": file_sha256(results / "train" / "seed1.json")
    }


def test_a_relative_path_of_a_record_gives_paths_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record = write_checkpoint(Path("results/average/last5.json"))
    assert record.path == Path("results/average/last5.pt")
    assert read_record(Path("results/average/last5.json"), CheckpointRecord) == record


def test_what_lies_outside_of_the_working_directory_does_not_move_with_a_record_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a runs folder on a scratch disk: `../../scratch/...` would be another place from where the
    record is next.
    """
    (tmp_path / "home" / "checkout").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "home" / "checkout")
    outside = tmp_path / "scratch" / "runs" / "x.pt"
    path = Path("results/last5.json")
    write_record(msgspec.structs.replace(CHECKPOINT, path=outside), path)
    assert json.loads(path.read_bytes())["path"] == str(outside)
    assert read_record(path, CheckpointRecord).path == outside
    beside = outside.with_name("last5.json")  # a record out there, seen from here
    write_record(msgspec.structs.replace(CHECKPOINT, path=outside), beside)
    assert json.loads(beside.read_bytes())["path"] == "./x.pt"


def test_a_linked_folder_counts_as_lying_where_its_link_does(tmp_path: Path) -> None:
    """A copy that follows the link has a folder in its place."""
    for name in ("scratch/results", "checkout", "copy"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "checkout" / "results").symlink_to(tmp_path / "scratch" / "results")
    model_path = tmp_path / "checkout" / "runs" / "x.pt"
    write_record(
        msgspec.structs.replace(CHECKPOINT, path=model_path),
        tmp_path / "checkout" / "results" / "last5.json",
    )
    assert (
        read_record(tmp_path / "checkout" / "results" / "last5.json", CheckpointRecord).path
        == model_path
    )
    shutil.copytree(tmp_path / "checkout" / "results", tmp_path / "copy" / "results")
    moved = read_record(tmp_path / "copy" / "results" / "last5.json", CheckpointRecord)
    assert moved.path == tmp_path / "copy" / "runs" / "x.pt"


RUN = "demo_en_de-base-seed1-0a1b2c3d"


def write_training(folder: Path, *, is_absolute: bool) -> Path:
    """Write a finished run and its record below a folder. Its paths are relative, or absolute as on
    a scratch disk.
    """
    run_folder = folder / "runs" / RUN
    (run_folder / "checkpoints").mkdir(parents=True)
    path = folder / "results" / "demo" / "train" / "demo_en_de" / "base" / "seed1.json"
    record = msgspec.structs.replace(
        TRAINED,
        run=RUN,
        run_folder=run_folder,
        log_path=run_folder / "train.log",
        models=[SavedModel(update=20, path=run_folder / "checkpoints" / "x.pt")],
    )
    write_record(record, path)
    if is_absolute:
        text = path.read_text(encoding="utf-8").replace('"../../../../../', f'"{folder}/')
        assert text.count(str(run_folder)) == 3
        write_sealed(text, path)
    return path


def is_of(train: TrainRecord, run_folder: Path) -> bool:
    """Tell whether everything of a run is where its folder is."""
    paths = (train.run_folder, train.log_path, train.models[0].path)
    return paths == (run_folder, run_folder / "train.log", run_folder / "checkpoints" / "x.pt")


@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_run_is_found_where_its_record_has_it_and_when_both_moved(
    tmp_path: Path, is_absolute: bool
) -> None:
    path = write_training(tmp_path / "first", is_absolute=is_absolute)
    assert is_of(read_train_record(path, Path("runs")), tmp_path / "first" / "runs" / RUN)
    (tmp_path / "first").rename(tmp_path / "second")
    path = tmp_path / "second" / path.relative_to(tmp_path / "first")
    assert is_of(read_train_record(path, Path("runs")), tmp_path / "second" / "runs" / RUN)


@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_run_that_moved_alone_is_sought_by_its_name_below_the_runs_folder(
    tmp_path: Path, is_absolute: bool
) -> None:
    path = write_training(tmp_path, is_absolute=is_absolute)
    (tmp_path / "runs").rename(tmp_path / "scratch")
    assert is_of(read_train_record(path, tmp_path / "scratch"), tmp_path / "scratch" / RUN)
    assert is_of(
        read_train_record(path, tmp_path / "nowhere"), tmp_path / "runs" / RUN
    )  # as recorded
