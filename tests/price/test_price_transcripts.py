"""Verbs and tables of the wing print what tests/price/transcripts says."""

from pathlib import Path

import pytest

from tests.support.transcripts import check_transcript, transcripts


@pytest.mark.parametrize(
    "path", transcripts(Path(__file__).parent / "transcripts"), ids=lambda path: path.stem
)
def test_a_transcript_is_the_golden_one(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    check_transcript(path, tmp_path, monkeypatch, capfd)
