"""attempts.jsonl tells what happened to a run, through crashes, and its sums are right."""

import errno
import os
from pathlib import Path

import pytest

from aiayn.errors import RecordError
from aiayn.runs.attempts import (
    ATTEMPTS_NAME,
    DONE_NAME,
    LOST_REASON,
    WATCHDOG_REASON,
    WATCHDOG_WORDS,
    Ended,
    Event,
    read_events,
    seconds_between,
    sum_seconds,
)
from aiayn.runs.run_folder import RunFolder
from tests.run_folders import NOON, at, ended, started, write_log


def test_events_come_back_in_order(tmp_path: Path) -> None:
    assert read_events(tmp_path) == []  # it never began
    events: list[Event] = [started(1, 0), ended(1, 0, "stopped"), started(2, 0)]
    open_attempts = []
    for event in events:
        RunFolder(tmp_path).append_event(event)
        open_attempts.append(RunFolder(tmp_path).open_attempt())
    assert read_events(tmp_path) == events
    assert open_attempts == [events[0], None, events[2]]
    assert (
        (tmp_path / ATTEMPTS_NAME)
        .read_text(encoding="utf-8")
        .startswith('{"event":"started","attempt":1,')
    )


@pytest.mark.parametrize("num_bytes_lost", [1, 2, 40])
def test_a_torn_last_line_is_left_out_and_then_dropped(tmp_path: Path, num_bytes_lost: int) -> None:
    """Also when nothing but its line feed is missing: what was read before must be what is read
    after.
    """
    for event in (started(1, 0), ended(1, 0, "stopped")):
        RunFolder(tmp_path).append_event(event)
    path = tmp_path / ATTEMPTS_NAME
    os.truncate(path, path.stat().st_size - num_bytes_lost)
    assert read_events(tmp_path) == [started(1, 0)]
    RunFolder(tmp_path).append_event(started(2, 0))
    assert read_events(tmp_path) == [started(1, 0), started(2, 0)]


def test_a_line_that_is_no_event_is_named(tmp_path: Path) -> None:
    RunFolder(tmp_path).append_event(started(1, 0))
    with (tmp_path / ATTEMPTS_NAME).open("a", encoding="utf-8") as lines:
        lines.write('{"event":"paused"}\n')
    with pytest.raises(RecordError, match=r"attempts\.jsonl:2: not an event: .*paused"):
        read_events(tmp_path)


def test_a_lost_attempt_ends_at_the_time_of_its_last_log_line(tmp_path: Path) -> None:
    RunFolder(tmp_path).append_event(started(1, 0))
    write_log(tmp_path, ["one", "two"], 1.5)
    RunFolder(tmp_path).close_lost_attempt(update=20)
    closed = read_events(tmp_path)[-1]
    assert isinstance(closed, Ended)
    assert (closed.time, closed.outcome, closed.update) == ("2026-01-01T12:01:30+00:00", "lost", 20)
    assert closed.log_tail == ["one", "two"]
    RunFolder(tmp_path).close_lost_attempt(update=20)  # nothing is open
    assert len(read_events(tmp_path)) == 2


def test_an_attempt_that_nccls_watchdog_aborted_says_so(tmp_path: Path) -> None:
    """The words of torch's watchdog are in the log of any rank. SIGABRT leaves no other record."""
    folder = RunFolder(tmp_path)
    folder.job_files_path.mkdir()
    for attempt, line in enumerate(
        ["an ordinary line", f"[rank3]:[E1] {WATCHDOG_WORDS}: WorkNCCL(SeqNum=7)"], start=1
    ):
        event = started(attempt, attempt, job=str(attempt))
        folder.append_event(event)
        (folder.job_files_path / f"{event.job}_3_log.out").write_text(
            f"{line}\nabort\n", encoding="utf-8"
        )
        folder.close_lost_attempt(update=0)
    ends = [event for event in read_events(tmp_path) if isinstance(event, Ended)]
    assert [(event.outcome, event.reason) for event in ends] == [
        ("lost", LOST_REASON),
        ("lost", WATCHDOG_REASON),
    ]


def test_a_lost_attempt_never_ends_before_it_began(tmp_path: Path) -> None:
    """The log is of an earlier attempt, or there is none: it died before it wrote a line."""
    RunFolder(tmp_path).append_event(started(1, 0))
    RunFolder(tmp_path).close_lost_attempt(update=0)
    write_log(tmp_path, ["earlier"], -60)
    RunFolder(tmp_path).append_event(started(2, 0))
    RunFolder(tmp_path).close_lost_attempt(update=0)
    assert [event.time for event in read_events(tmp_path)] == [NOON] * 4


def test_an_error_that_is_removed_while_it_is_read_is_left_out(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    (tmp_path / "rank3.error").symlink_to("removed")
    folder.record_rank_error(0, RecordError("no space"))
    (error,) = folder.rank_errors()
    assert error.endswith(": no space")


def test_an_end_keeps_forty_lines_of_the_log(tmp_path: Path) -> None:
    RunFolder(tmp_path).append_event(started(1, 0))
    write_log(tmp_path, [*(f"line {number}" for number in range(100)), "x" * 1000])
    RunFolder(tmp_path).end_attempt(update=5, outcome="failed", reason="boom", time=NOON)
    last = read_events(tmp_path)[-1]
    assert isinstance(last, Ended)
    assert (last.outcome, last.reason, last.time) == ("failed", "boom", NOON)
    assert [last.log_tail[0], last.log_tail[-1], len(last.log_tail)] == ["line 61", "x" * 500, 40]


def test_seconds_are_summed_over_attempts() -> None:
    """60 s on 8 GPUs and 30 s on 4: 90 s of wall, 600 GPU seconds. The hour between them counts for
    nothing.
    """
    events: list[Event] = [
        started(1, 0, num_gpus=8),
        ended(1, 1, "stopped"),
        started(2, 60, num_gpus=4),
        ended(2, 60.5, "stopped"),
    ]
    assert seconds_between(NOON, "2026-01-01T13:00:01+01:00") == 1
    assert sum_seconds(events) == (90, 600)
    still_open = [*events[:2], events[2]]
    assert sum_seconds(still_open) == (60, 480)
    assert sum_seconds(still_open, until=at(60 + 1 / 6)) == (70, 520)
    assert sum_seconds([]) == (0, 0)


def test_a_run_is_done_once_its_folder_holds_its_record_though_a_network_file_system_still_calls_that_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client remembers that a path was not there. The folder it reads anew."""
    assert not RunFolder(tmp_path / "no such run").is_done()
    assert not RunFolder(tmp_path).is_done()
    (tmp_path / DONE_NAME).touch()

    def remember(path: object, **_: object) -> os.stat_result:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    monkeypatch.setattr(os, "stat", remember)
    assert not (tmp_path / DONE_NAME).exists()
    assert RunFolder(tmp_path).is_done()
