"""Reads and writes `attempts.jsonl`, the log of a run's attempts, and sums the seconds of the
attempts.

An attempt is one start of the training by a job. Each line of `attempts.jsonl` is an event: an
attempt has started, or an attempt has ended. If the end of an attempt is missing, the next attempt
writes this end with the outcome `lost`, at the time of the run's last log line. If a crash cut the
last line of the file, readers ignore this line and the next writer removes it.
"""

import datetime
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from aiayn.errors import RecordError
from aiayn.packed import exists, read_bytes

ATTEMPTS_NAME = "attempts.jsonl"
DONE_NAME = "done.json"
LOG_NAME = "train.log"
CHECKPOINTS_NAME = "checkpoints"
CODE_FOLDER_NAME = "code"  # next to the runs: copies of the code that their jobs run
DRIVER_LOCK_NAME = "driver.lock"  # held by the only driver that may submit for the run
RANK_LOCK_NAME = "rank0.lock"
LOST_REASON = "ended without a record: killed, or its machine went down"
# What a rank prints before NCCL's watchdog aborts its process. A Python exception does not follow.
WATCHDOG_WORDS = "Watchdog caught collective operation timeout"
WATCHDOG_REASON = (
    "aborted by NCCL's watchdog: a reduction of all ranks took longer than 30 minutes; another rank"
    " or the network hangs, or the disk of the checkpoints: look at the ranks' logs in the run's"
    " folder `submitit`"
)
# `stopped`: a signal ended the training, normally after it had saved a checkpoint. `cancelled`: the
# queue ended the job at the user's request, before rank 0 recorded an end. `lost`: a process was
# killed, or its machine went down.
AttemptOutcome = Literal["done", "failed", "stopped", "cancelled", "lost"]


_Value = TypeVar("_Value")


class _Event(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="event"
):
    """The start or end of an attempt, at `time` (UTC)."""

    attempt: int
    time: str


class Started(_Event, frozen=True, kw_only=True, tag="started"):
    """An attempt began, with `update` optimiser steps already done."""

    job: str
    host: str
    device: str
    num_gpus: int
    threads_per_rank: int
    commit: str
    update: int


class Ended(_Event, frozen=True, kw_only=True, tag="ended"):
    """An attempt ended. `update` is the number of updates in the newest complete checkpoint, from
    which the next attempt resumes.
    """

    update: int
    outcome: AttemptOutcome
    reason: str
    log_tail: list[str]
    # Not used. Attempts of earlier versions have it, and `forbid_unknown_fields` would refuse them.
    energy: Any = msgspec.UNSET


Event = Started | Ended


def read_events(run_folder: Path) -> list[Event]:
    """Return all events of `attempts.jsonl` in order. The list is empty if the run never began.

    Raises:
        RecordError: if a line is not an event. An incomplete last line is ignored.
    """
    return read_json_lines(run_folder / ATTEMPTS_NAME, Event, "an event")


def attempt_seconds(
    events: Sequence[Event], *, until: str | None = None
) -> list[tuple[Started, float]]:
    """Return the start event of each attempt, and how many seconds the attempt took. An attempt
    that has not ended counts until `until` (UTC), or 0 seconds if `until` is None.

    The number of seconds is negative if the machine's clock was set back during the attempt.
    """
    attempts = []
    # In pairs of neighbours: a recorded end follows its start directly.
    for event, following in zip(events, [*events[1:], None], strict=False):
        if isinstance(event, Started):
            # If the next event is a start, too, the end was never recorded. The length is unknown.
            end = until if following is None else None
            if isinstance(following, Ended):
                end = following.time
            attempts.append((event, seconds_between(event.time, end) if end else 0.0))
    return attempts


def sum_seconds(events: Sequence[Event], *, until: str | None = None) -> tuple[float, float]:
    """Return the sum of the wall seconds and the sum of the GPU-seconds of all attempts. Attempts
    with a negative number of seconds count as 0.
    """
    wall_seconds = 0.0
    gpu_seconds = 0.0
    for started, seconds in attempt_seconds(events, until=until):
        # A clock that was set back must not make the sum smaller.
        wall_seconds += max(0.0, seconds)
        gpu_seconds += max(0.0, seconds) * started.num_gpus
    return wall_seconds, gpu_seconds


def seconds_between(begin: str, end: str) -> float:
    """Return the seconds from `begin` to `end`, both in ISO 8601."""
    return (
        datetime.datetime.fromisoformat(end) - datetime.datetime.fromisoformat(begin)
    ).total_seconds()


def read_json_lines(path: Path, type_: type[_Value] | Any, noun: str) -> list[_Value]:
    """Return the JSON value of each line of a file, checked against a type. The result is empty if
    the file is absent.

    Raises:
        RecordError: if a line is not JSON of this type. The message contains the file and the line,
            and calls the expected value `noun`. An incomplete last line is ignored.
    """
    if not exists(path):
        return []
    # After the last LF there is nothing, or a line that a crash cut.
    *whole_lines, _ = read_bytes(path).split(b"\n")
    values = []
    for number, line in enumerate(whole_lines, start=1):
        try:
            values.append(msgspec.json.decode(line, type=type_))
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise RecordError(
                f"{path}:{number}: not {noun}: {error}; rename the file to start a new one"
            ) from error
    return values


def append_json_line(path: Path, value: object) -> None:
    """Append a value as one line of JSON, and flush the line to the disk. If a crash has cut the
    last line of the file, this incomplete line is removed first. Only one process may write to the
    file at a time.
    """
    with path.open("a+b") as lines:
        lines.seek(0)
        text = lines.read()
        if text and not text.endswith(b"\n"):
            # A crash cut this line. If the new event were appended to it, both would be unreadable.
            lines.truncate(text.rfind(b"\n") + 1)
        lines.write(msgspec.json.encode(value) + b"\n")
        lines.flush()
        os.fsync(lines.fileno())
