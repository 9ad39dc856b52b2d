"""`aiayn doctor` answers whether a speed is normal: one note, with the ratio and where to look."""

from pathlib import Path
from typing import Any

import pytest

from aiayn.__main__ import main
from tests.known_good.test_speed import REPORTS, log_of
from tests.logs.factory import write


def notes_of(
    report: dict[str, Any], speed: float, folder: Path, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """Return the doctor's notes on the speed of a report's log."""
    write(folder, {"train.log": log_of(report, speed)})
    main(["doctor", str(folder), "--system", report["system"], "--corpus", "wmt14_en_de"])
    text = " ".join(capsys.readouterr().out.split())
    return [note for note in text.split("Note: ")[1:] if ": speed " in note]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report["source"])
def test_the_doctor_says_how_slow_a_reported_training_is_and_where_to_look(
    report: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = report["num_gpus"] * report["slowest"]
    (note,) = notes_of(report, report["speed"], tmp_path, capsys)
    assert f"({report['speed'] / published:.2g} times the slowest: " in note
    where = "data loading, validation, update-freq, precision, power and network"
    assert f"if slower look at {where})" in note


def test_the_doctor_says_nothing_of_a_normal_speed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    normal = REPORTS[0]["num_gpus"] * 20_000.0
    assert notes_of(REPORTS[0], normal, tmp_path, capsys) == []
