"""How far a training is and how long it still takes stands on standard error."""

import io
import sys

import pytest

import aiayn.progress
from aiayn.launch.driver import ProgressLine
from aiayn.runs.log import LogTail


def log(update: int | None) -> LogTail:
    """Return what a log's end tells of an update."""
    return LogTail(modified="", update=update, loss_bits=5.125, target_tokens_per_second=1234.4)


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> ProgressLine:
    """Return a run's progress, which is shown whenever there is any."""
    monkeypatch.setattr(aiayn.progress, "SECONDS_BETWEEN_LOGGED", 0.0)
    return ProgressLine("run", 1000)


def test_a_line_has_the_update_the_loss_and_the_speed(
    line: ProgressLine, capsys: pytest.CaptureFixture[str]
) -> None:
    line.show(log(200))
    line.show(log(300))
    last = capsys.readouterr().err.splitlines()[-1]
    for part in ("run:", "30%", "300/1000", "loss 5.12 bits", "1234 target tokens/s"):
        assert part in last


def test_lines_in_a_log_keep_their_distance(capsys: pytest.CaptureFixture[str]) -> None:
    line = ProgressLine("run", 1000)
    for update in range(1, 100):
        line.show(log(update))
    assert capsys.readouterr().err == ""
    line.show(log(100), is_last=True)
    assert "100/1000" in capsys.readouterr().err


def test_a_run_resumed_below_where_it_was_killed_is_counted_from_there(
    line: ProgressLine, capsys: pytest.CaptureFixture[str]
) -> None:
    line.show(log(500))  # the log's last line is of the killed attempt
    line.show(log(400))
    line.show(log(600))
    assert "600/1000" in capsys.readouterr().err.splitlines()[-1]


def test_without_statistics_there_is_no_line(
    line: ProgressLine, capsys: pytest.CaptureFixture[str]
) -> None:
    line.show(None)
    line.show(log(None), is_last=True)
    assert capsys.readouterr().err == ""


def test_a_closed_pipe_does_not_end_the_driver(
    line: ProgressLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Broken())
    line.show(log(1), is_last=True)
