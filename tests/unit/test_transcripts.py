"""Verbs of the core print what tests/golden/transcripts says (`tests/support/transcripts.py`)."""

from pathlib import Path

import pytest

from tests.golden_files import GOLDEN_FOLDER
from tests.support.transcripts import (
    check_transcript,
    transcripts,
)


@pytest.mark.parametrize(
    "path", transcripts(GOLDEN_FOLDER / "transcripts"), ids=lambda path: path.stem
)
def test_a_transcript_is_the_golden_one(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    check_transcript(path, tmp_path, monkeypatch, capfd)
