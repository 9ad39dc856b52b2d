"""Prints a run's log: its end, or each new line, also of a next attempt; unchanged or in words."""

import contextlib
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from aiayn.data.text.lines import open_bytes
from aiayn.errors import RecordError
from aiayn.packed import find_packed
from aiayn.runs.attempts import Event, Started
from aiayn.runs.log import read_end, read_statistics, split_line
from aiayn.runs.run_folder import RunFolder, job_without_attempt

POLL_SECONDS = 1.0
SECONDS_AFTER_DONE = 1.0  # rank 0 writes its record before its last lines
MAX_MESSAGE_CHARACTERS = 300  # fairseq prints all its settings in one line of 8,000


def show_end(folder: RunFolder, *, num_lines: int, note: Callable[[str], None]) -> Iterator[str]:
    """Yield the last lines of a run's log, packed or not; until its training has a log, yield the
    last lines that the newest job printed.

    `note` gets the name of any file but the log. A later job without an attempt, whose prologue or
    import failed, has written nothing to the log: `note` gets the last lines of its output.

    Raises:
        RecordError: if there is nothing to print, or jobs.jsonl or attempts.jsonl is damaged.
        CorpusError: if a packed log is torn.
    """
    log_path, jobs = find_packed(folder.log_path), folder.jobs()
    has_log = log_path is not None
    path = log_path or folder.output_path(jobs[-1].job if jobs else "")
    if not path.exists():
        raise RecordError(f"{folder}: no log yet; `aiayn status {folder.run}` shows why it waits")
    if not has_log:
        note(f"== no {folder.log_path.name} yet; its newest job printed, in {path}:")
    with open_bytes(path) as lines:
        for written in deque(lines, num_lines):
            yield written.decode("utf-8", errors="replace").rstrip("\n")
    job = job_without_attempt(folder.events(), jobs)
    if job is None or folder.is_done():
        return
    path = folder.output_path(job.job)
    if has_log and path.exists():
        note(f"== job {job.job} has begun no attempt; it printed, in {path}:")
        for line in read_end(path, num_lines).lines:
            note(line)
    for error in folder.rank_errors():
        note(f"== {error}")


def in_words(line: str) -> str:
    """Return a line of the log as words: the time of day, and fairseq's statistics as a
    sentence.
    """
    parts = split_line(line)
    if not parts.time:
        return line
    clock, sentence = parts.time[11:], _SENTENCE_BY_LOGGER.get(parts.logger, "")
    values = read_statistics(parts) if sentence else None
    if values is not None:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            return f"{clock}  " + sentence.format(
                **{name: float(values[name]) for name in _NAMES.findall(sentence)}
            )
    cut = parts.message[:MAX_MESSAGE_CHARACTERS]
    cut += (
        f"... (and {len(parts.message) - len(cut):,} characters)"
        if len(cut) < len(parts.message)
        else ""
    )
    return f"{clock}  {cut}" if parts.level == "INFO" else f"{clock}  {parts.level}: {cut}"


_SENTENCE_BY_LOGGER = {  # of fairseq's statistics
    "train_inner": (
        "update {num_updates:>7,.0f}  loss {loss:6.3f}  nll {nll_loss:6.3f} bits  {wps:>9,.0f}"
        " target tokens/s  {ups:5.2f} updates/s  lr {lr:.2e}  gnorm {gnorm:.2f}"
    ),
    "valid": (
        "valid  {valid_num_updates:>7,.0f}  loss {valid_loss:6.3f}  nll {valid_nll_loss:6.3f} bits "
        " ppl a subword {valid_ppl:.2f}"
    ),
    "train": (
        "epoch  {epoch:>7,.0f}  ended at update {train_num_updates:,.0f}  mean loss"
        " {train_loss:6.3f}  nll {train_nll_loss:6.3f} bits"
    ),
}
_NAMES = re.compile(r"\{(\w+)")


def describe_event(event: Event) -> str:
    """Return what happened to a run as one line."""
    if isinstance(event, Started):
        return (
            f"attempt {event.attempt} began {event.time} on {event.host}, job {event.job}, at"
            f" update {event.update}"
        )
    reason = f": {event.reason}" if event.reason else ""
    return f"attempt {event.attempt} {event.outcome} {event.time}, at update {event.update}{reason}"


def follow(folder: RunFolder, *, num_lines: int, note: Callable[[str], None]) -> Iterator[str]:
    """Yield the last lines of a run's log, then each new line, until the run is done.

    `note` gets each new event of attempts.jsonl, and where a new job prints until its attempt
    begins. A missing log is awaited; a replaced or cut log is read from its new beginning.

    Raises:
        RecordError: if attempts.jsonl or jobs.jsonl is damaged.
    """
    growing, num_events = _GrowingFile(folder.log_path, num_lines), len(folder.events())
    announced_job = ""
    while True:
        has_ended = folder.is_done()
        if has_ended:
            time.sleep(SECONDS_AFTER_DONE)
        yield from growing.new_lines()
        events = folder.events()
        for event in events[num_events if num_events <= len(events) else 0 :]:
            note(f"== {describe_event(event)}")
        num_events = len(events)
        if has_ended:
            return
        job = job_without_attempt(events, folder.jobs())
        if job is not None and job.job != announced_job:
            announced_job = job.job
            note(
                f"== job {job.job} has begun no attempt yet; it prints into"
                f" {folder.output_path(job.job)}"
            )
        time.sleep(POLL_SECONDS)


class _GrowingFile:
    """A file by its path, which may not exist yet, be cut, or be replaced by another."""

    def __init__(self, path: Path, num_lines: int) -> None:
        self.path = path
        self._first: list[str] = []
        self._read_until, self._file_number = 0, 0
        if path.exists():
            end = read_end(path, num_lines)
            self._first, self._read_until, self._file_number = (
                end.lines,
                end.torn_at,
                path.stat().st_ino,
            )

    def new_lines(self) -> list[str]:
        """Return the lines that were completed since the last call."""
        lines, self._first = self._first, []
        if self.path.exists():
            with self.path.open("rb") as file:
                now = os.fstat(file.fileno())
                if now.st_ino != self._file_number or now.st_size < self._read_until:
                    self._file_number, self._read_until = now.st_ino, 0
                file.seek(self._read_until)
                *whole, torn = file.read().split(b"\n")
                self._read_until = file.tell() - len(torn)
            lines += [line.decode("utf-8", errors="replace") for line in whole]
        return lines
