"""Verbs of the core print what tests/golden/transcripts says (`tests/support/transcripts.py`)."""

from pathlib import Path

import pytest

from aiayn.terminal import wrapped
from tests.golden_files import GOLDEN_FOLDER
from tests.support.transcripts import (
    check_transcript,
    read_commands,
    refuse_to_wrap,
    run_commands,
    transcripts,
)


@pytest.mark.parametrize(
    "path", transcripts(GOLDEN_FOLDER / "transcripts"), ids=lambda path: path.stem
)
def test_a_transcript_is_the_golden_one(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    check_transcript(path, tmp_path, monkeypatch, capfd)


def test_an_absolute_path_in_a_wrapped_text_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_wrap(monkeypatch, tmp_path)
    assert wrapped("runs/demo") == ["runs/demo"]
    with pytest.raises(AssertionError, match="an absolute path is wrapped"):
        wrapped(f"{tmp_path}/runs/demo")


def test_a_failing_command_shows_its_errors_and_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    commands = ["cat > text <<'END'\n1\nEND", "cat text", "aiayn score --records nowhere"]
    assert (
        list(read_commands("".join(f"$ {command}\nprinted\n" for command in commands))) == commands
    )
    monkeypatch.chdir(tmp_path)
    text = run_commands(commands, tmp_path, monkeypatch, capfd)
    assert text.startswith(
        "$ cat > text <<'END'\n1\nEND\n$ cat text\n1\n$ aiayn score --records nowhere\n"
    )
    assert text.endswith("\n[exit code 2]\n")
