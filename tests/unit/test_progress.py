"""One line says where a training is and how long it still takes."""

import io
import sys

import pytest

from aiayn.launch.progress import SECONDS_BETWEEN_LINES, ProgressLine
from aiayn.runs.attempts import Progress


def progress(update: int) -> Progress:
    """Return the statistics of an update."""
    return Progress(update=update, loss_bits=5.125, updates_per_second=4.0, target_tokens_per_second=1234.4)


def at(line: ProgressLine, now: float, update: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Show progress at a time of the monotonic clock."""
    monkeypatch.setattr("aiayn.launch.progress.time.monotonic", lambda: now)
    line.show(progress(update))


def test_the_time_left_is_from_the_pace_since_the_first_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """100 updates in 50 s: 2 a second; 700 are left, 350 s."""
    line = ProgressLine("run", 1000)
    at(line, 1000.0, 200, monkeypatch)
    at(line, 1050.0, 300, monkeypatch)
    first, second = capsys.readouterr().err.split("\n")[:2]
    # of the first line the log's own pace is all there is: 800 updates at 4 a second
    assert first == "run: update 200/1000, loss 5.12 bits, 4.00 updates/s, 1234 target tokens/s, ETA 0:03:20"
    assert second == "run: update 300/1000, loss 5.12 bits, 2.00 updates/s, 1234 target tokens/s, ETA 0:05:50"


def test_lines_in_a_log_keep_their_distance(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ProgressLine("run", 1000)
    for seconds in range(100):
        at(line, 1000.0 + seconds, seconds, monkeypatch)
    assert capsys.readouterr().err.count("\n") == 1 + 99 // SECONDS_BETWEEN_LINES


def test_a_run_resumed_below_where_it_was_killed_starts_its_clock_anew(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ProgressLine("run", 1000)
    at(line, 1000.0, 500, monkeypatch)  # the log's last line is of the killed attempt
    at(line, 1100.0, 400, monkeypatch)
    at(line, 1200.0, 600, monkeypatch)
    assert capsys.readouterr().err.split("\n")[2].endswith("2.00 updates/s, 1234 target tokens/s, ETA 0:03:20")


def test_nothing_to_tell_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    line = ProgressLine("run", 1000)
    line.show(None)
    line.finish(None)
    assert capsys.readouterr().err == ""


def test_an_unknown_pace_is_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    ProgressLine("run", 10).finish(
        Progress(update=1, loss_bits=5.0, updates_per_second=0.0, target_tokens_per_second=0.0)
    )
    assert capsys.readouterr().err.endswith("ETA unknown\n")


def test_a_reader_that_went_away_does_not_end_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Broken())
    ProgressLine("run", 10).finish(progress(1))
