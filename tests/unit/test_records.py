"""Records are read back as they were written, and nothing else is taken for one."""

from pathlib import Path

import msgspec
import pytest

from aiayn.errors import CorpusError, RecordError
from aiayn.records import SCHEMA_VERSION, BinarizedCorpus, CheckpointRecord, PerplexityRecord, read_record, write_record
from tests.records_factory import PROVENANCE

CHECKPOINT = CheckpointRecord(
    provenance=PROVENANCE, run="run", average="last5", path="last5.pt", averaged_updates=[80, 100], tensors_sha256="00"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the place of a record that was written."""
    write_record(CHECKPOINT, tmp_path / "new folder" / "last5.json")
    return tmp_path / "new folder" / "last5.json"


def test_a_record_comes_back_as_it_was(path: Path) -> None:
    assert read_record(path, CheckpointRecord) == CHECKPOINT


def test_a_record_is_text_that_people_can_read(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith('{\n "record": "CheckpointRecord",\n "provenance": {\n')
    assert text.endswith("}\n")
    assert f'\n "schema_version": {SCHEMA_VERSION},\n' in text


def test_an_absent_record_names_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none\.json: no such record; expected a CheckpointRecord; run the stage"):
        read_record(tmp_path / "none.json", CheckpointRecord)


@pytest.mark.parametrize("num_bytes", [0, 1, 100])
def test_a_torn_record_is_refused(path: Path, num_bytes: int) -> None:
    path.write_bytes(path.read_bytes()[:num_bytes])
    with pytest.raises(RecordError, match=r"last5\.json: not a CheckpointRecord: .*; delete it and rerun"):
        read_record(path, CheckpointRecord)


def test_a_record_of_another_type_is_refused(path: Path) -> None:
    with pytest.raises(RecordError, match=r"not a PerplexityRecord: Invalid value 'CheckpointRecord'"):
        read_record(path, PerplexityRecord)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"run": "run"', '"run": 7', r"Expected `str`, got `int` - at `\$.run`"),
        ('"run": "run"', '"runn": "run"', "Object contains unknown field `runn`"),
        ('"run": "run",', "", "Object missing required field `run`"),
        ("[\n  80", "[\n  80.5", r"Expected `int`, got `float` - at `\$.averaged_updates\[0\]`"),
    ],
)
def test_a_wrong_field_is_named(path: Path, old: str, new: str, message: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(RecordError, match=message):
        read_record(path, CheckpointRecord)


def test_another_schema_version_is_refused(path: Path) -> None:
    write_record(msgspec.structs.replace(CHECKPOINT, schema_version=SCHEMA_VERSION + 1), path)
    expected = f"schema_version {SCHEMA_VERSION + 1}, expected {SCHEMA_VERSION}; rerun the stage that writes it"
    with pytest.raises(RecordError, match=expected):
        read_record(path, CheckpointRecord)


def test_a_record_that_cannot_be_written_leaves_the_earlier_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_half(partial_path: Path, content: bytes) -> None:
        with partial_path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device", str(partial_path))

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(OSError, match="No space left on device"):
        write_record(msgspec.structs.replace(CHECKPOINT, run="other"), path)
    assert read_record(path, CheckpointRecord) == CHECKPOINT
    assert [entry.name for entry in path.parent.iterdir()] == ["last5.json"]


def test_a_data_bin_knows_its_test_sets() -> None:
    data = BinarizedCorpus(
        provenance=PROVENANCE, corpus="corpus", folder="data-bin", source_language="en", target_language="de",
        dictionary_sha256_by_language={}, digest="", vocabulary_size_by_language={}, num_pairs_by_split={},
        num_tokens_by_split_by_language={}, fairseq_split_by_testset={"val": "valid", "flickr": "test"},
    )  # fmt: skip
    assert data.split_of("flickr") == "test"
    with pytest.raises(CorpusError, match="data-bin: no test set 'coco'; corpus has val, flickr"):
        data.split_of("coco")
