"""`aiayn check` names each file that differs from its record, and the command that makes it again."""

import errno
import json
import os
from pathlib import Path, PurePath
from typing import Any

import msgspec
import pytest

from aiayn.__main__ import main
from aiayn.errors import CorpusError, RecordError
from aiayn.provenance import file_sha256
from aiayn.records import (
    Hypotheses,
    ScoreRecords,
    read_record,
    recorded_files,
    require_fitting,
    seal,
    write_record,
)
from tests.records_factory import (
    BINARIZED,
    HYPOTHESES,
    PERPLEXITY,
    Site,
    make_site,
    write_left,
    write_sealed,
)

DECODED = "demo/decode/demo_en_de/base/seed1/last5/demo_test"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return the results of a small demo, with translations and their records."""
    monkeypatch.chdir(tmp_path)  # the records of pieces name a file of the working directory
    site = make_site(tmp_path)
    write_left(site)
    for path in site.results_folder.rglob("*.json"):
        if "/decode/" not in str(path):
            path.unlink()
    return site


def check(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[str]]:
    """Return exit code and lines of the verb."""
    code = main(["check", str(folder), *more])
    return code, capsys.readouterr().out.splitlines()


def test_what_is_as_it_was_written_is_counted(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in site.results_folder.rglob("*.json"):
        record = read_record(path, Hypotheses)
        record.pieces_path.parent.mkdir(parents=True, exist_ok=True)
        record.pieces_path.write_text("", encoding="utf-8")
    code, lines = check(site.results_folder, capsys)
    assert code == 0
    assert " 0 differ or are gone; compared: " in lines[-1]


@pytest.mark.parametrize(
    ("content", "problem"), [(b"other\n", "its record says"), (None, "no such file")]
)
def test_a_file_that_differs_or_is_gone_is_named_with_its_command(
    content: bytes | None, problem: str, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    path = site.results_folder / f"{DECODED}.txt"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    code, lines = check(site.results_folder, capsys)
    assert code == 1
    (line,) = (line for line in lines if line.startswith(f"{path}: "))
    assert problem in line
    assert "make it again: `aiayn" in line


def test_a_folder_above_the_working_directory_is_compared(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = site.results_folder / f"{DECODED}.txt"
    path.unlink()
    below = site.results_folder.parent / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    code, lines = check(Path("..") / site.results_folder.name, capsys)
    assert code == 1
    assert any(line.startswith(f"{path}: no such file") for line in lines)


def test_an_edited_record_is_named_and_one_without_a_checksum_is_counted(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    path = site.results_folder / f"{DECODED}.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"beam_size": 4', '"beam_size": 5'), encoding="utf-8")
    with pytest.raises(RecordError, match="changed since it was written"):
        read_record(path, Hypotheses)
    code, lines = check(site.results_folder, capsys)
    assert code == 1
    assert any(line.startswith(f"{path}: changed") for line in lines)
    values = json.loads(text)
    del values["checksum"]
    path.write_text(json.dumps(values), encoding="utf-8")
    assert read_record(path, Hypotheses).beam_size == 4
    _, lines = check(site.results_folder, capsys)
    assert "1 records of earlier versions, without a checksum" in lines[-1]


def test_an_older_record_that_changed_after_another_was_made_from_it_is_named(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    path = site.results_folder / f"{DECODED}.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    del values["checksum"]
    path.write_text(json.dumps(values), encoding="utf-8")
    inputs: dict[PurePath, str] = {path: file_sha256(path)}
    provenance = msgspec.structs.replace(PERPLEXITY.provenance, input_sha256_by_path=inputs)
    reader_path = site.results_folder / "demo" / "perplexity.json"
    write_record(msgspec.structs.replace(PERPLEXITY, provenance=provenance), reader_path)
    expected = f"{path}: changed since {reader_path} was made from it; restore it from a copy"
    assert not any(line.startswith(expected) for line in check(site.results_folder, capsys)[1])
    values["beam_size"] = 5
    path.write_text(json.dumps(values), encoding="utf-8")
    assert any(line.startswith(expected) for line in check(site.results_folder, capsys)[1])


def test_what_cannot_be_read_is_named_and_the_rest_is_compared(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.results_folder / "a.json").symlink_to("nowhere")
    (site.results_folder / "b.json").symlink_to("b.json")
    (site.results_folder / "closed").mkdir()
    listdir = os.listdir

    def refuse(folder: str | Path) -> Any:
        if Path(folder).name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return listdir(folder)

    monkeypatch.setattr(os, "listdir", refuse)  # root may read everything
    path = site.results_folder / f"{DECODED}.txt"
    path.write_text("other\n", encoding="utf-8")
    code, lines = check(site.results_folder, capsys)
    assert code == 1
    for start in (
        f"{site.results_folder}/closed: this folder cannot be read (Permission denied)",
        f"{site.results_folder}/a.json: cannot be read (No such file or directory)",
        f"{site.results_folder}/b.json: cannot be read (Too many levels of symbolic links)",
        f"{path}: ",
    ):
        assert any(line.startswith(start) for line in lines), start


def test_every_flipped_bit_of_a_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_sealed(msgspec.json.encode({"record": "Hypotheses", "run": "x"}).decode(), path)
    content = path.read_bytes()
    for bit in range(len(content) * 8):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(RecordError):
            read_record(path, Hypotheses)


def test_a_score_out_of_range_is_refused(tmp_path: Path) -> None:
    record = {
        "record": "ScoreRecords",
        "provenance": msgspec.to_builtins(HYPOTHESES.provenance, str_keys=True, enc_hook=str),
        "run": "x",
        "testset": "x",
    }
    for value, is_right in ((-0.1, False), (0, True), (100, True), (101, False), (1e300, False)):
        score = {"metric": "bleu", "value": value, "signature": "", "hypotheses_sha256": ""}
        path = tmp_path / "record.json"
        path.write_bytes(seal(msgspec.json.encode(record | {"scores": [score]})))
        if is_right:
            assert read_record(path, ScoreRecords).scores[0].value == value
        else:
            with pytest.raises(RecordError, match=r"value|>= 0|<= 100"):
                read_record(path, ScoreRecords)


def test_records_of_two_corpora_or_versions_do_not_fit() -> None:
    decoded = msgspec.structs.replace(HYPOTHESES, run="demo_en_fr-base-seed1-0a1b2c3d")
    with pytest.raises(CorpusError, match="--decoded has demo_en_fr, --binarized has demo_en_de"):
        require_fitting({"--decoded": decoded, "--binarized": BINARIZED})
    with pytest.raises(CorpusError, match="--corpus has other, --binarized has demo_en_de"):
        require_fitting({"--binarized": BINARIZED}, "other")
    fitting = msgspec.structs.replace(HYPOTHESES, run="demo_en_de-base-seed1-0a1b2c3d")
    require_fitting({"--decoded": fitting, "--binarized": BINARIZED})
    (path, sha256), *_ = recorded_files(BINARIZED).items()
    provenance = msgspec.structs.replace(
        fitting.provenance, input_sha256_by_path={path: f"not {sha256}"}
    )
    made_from_other = msgspec.structs.replace(fitting, provenance=provenance)
    with pytest.raises(CorpusError, match="--decoded: made from another version of"):
        require_fitting({"--decoded": made_from_other, "--binarized": BINARIZED})


def test_a_record_has_a_name_that_no_output_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["average", "--train", "x.json", "--last", "1", "--record"]
    assert main([*arguments, str(tmp_path / "last1.pt")]) == 2
    assert "expected a name that ends in .json" in capsys.readouterr().err
