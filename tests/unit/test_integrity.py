"""Damaged records, and records of other inputs, are refused. What `aiayn check` says of files and
of scores is in the transcripts `check` and `check_scores`.
"""

import errno
import os
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.errors import CorpusError, RecordError
from aiayn.integrity import check_folder
from aiayn.records import (
    Hypotheses,
    ScoreRecord,
    read_record,
    recorded_files,
    require_fitting,
)
from tests.records_factory import BINARIZED, HYPOTHESES, write_sealed


def test_a_folder_that_cannot_be_read_is_named_and_the_rest_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").symlink_to("nowhere")
    (tmp_path / "closed").mkdir()
    listdir = os.listdir

    def refuse(folder: str | Path) -> Any:
        if Path(folder).name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return listdir(folder)

    monkeypatch.setattr(os, "listdir", refuse)  # root may read everything
    closed, broken = check_folder(tmp_path, Counter())
    assert closed.startswith(f"{tmp_path}/closed: this folder cannot be read (Permission denied)")
    assert broken.startswith(f"{tmp_path}/a.json: cannot be read (No such file or directory)")


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


@pytest.mark.parametrize("value", [-0.1, 101, 1e300])
def test_a_score_out_of_range_is_refused(value: float) -> None:
    score = {"metric": "bleu", "signature": "", "hypotheses_sha256": ""}
    assert msgspec.convert(score | {"value": 100}, ScoreRecord).value == 100
    with pytest.raises(msgspec.ValidationError, match=r">= 0|<= 100"):
        msgspec.convert(score | {"value": value}, ScoreRecord)


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
