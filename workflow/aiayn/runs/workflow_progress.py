"""Shows how far a workflow is: its running jobs, the updates of each training, and the time left.

The process of snakemake writes for all jobs, so that there is one writer. On a terminal it is one
block that is rewritten. In a pipe it is a line after 30 seconds, and then a line whenever a
training has made a further tenth of its updates.
"""

import contextlib
import logging
import re
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

import msgspec

from aiayn.runs.log import last_lines, read_log_tail, read_max_update
from aiayn.runs.run_folder import RunFolder
from aiayn.runs.status_text import format_duration

TRAINING_RULE = "train"
PRINTING_RULE = "tables"  # prints Table 2 itself, where a block would be overwritten
REDRAW_SECONDS = 1.0
FIRST_LINE_SECONDS = 30.0
MAX_GAP_SECONDS = 600.0  # between lines in a pipe; before, a tenth of the time since the start
MAX_BLOCK_LINES = 12
NUM_TENTHS = 10
INTERRUPTED = "Terminating processes on user request"
LOCKED = "Directory cannot be locked"
# A bar of tqdm in a log: `decode:  45%|####  | 450/1000 [00:12<00:14, ...]`
_BAR = re.compile(r"(\d+%)\|.*\[[^<]*<([\d:]+)")


class RunningJob(msgspec.Struct, kw_only=True):
    """A job of snakemake that has begun.

    `tenth` is how far its training was in the last line; `first` is the first update that was seen,
    and when.
    """

    rule: str
    label: str
    wildcards: Mapping[str, str]
    log_path: Path | None
    began: float
    tenth: int = -1
    first: tuple[int, float] | None = None


class WorkflowProgress:
    """Reads snakemake's log records, decides which of them a terminal shows, and shows progress.

    `runs_folder` has the trainings. If `shows_all`, every record is shown, as by snakemake itself;
    so it is before `start`.
    """

    def __init__(self, runs_folder: Path, *, shows_all: bool, stream: TextIO | None = None) -> None:
        self._runs_folder, self._shows_all = runs_folder, shows_all
        self._stream = stream or sys.stderr
        self._job_by_number: dict[int, RunningJob] = {}
        self._steps = ""
        self._begin = self._last_line = time.monotonic()
        self._is_started = False
        self._ended = threading.Event()
        self._interrupted: list[RunningJob] | None = None
        self._has_block = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Note what a record says of jobs, and return whether the terminal shows it.

        It shows warnings and errors, and how many steps are done at each tenth of them. Called by
        snakemake's handler, to which this object is a filter.
        """
        self._note(record)
        is_shown = self._shows_all or not self._is_started or _is_for_terminal(record)
        if self._interrupted is not None:
            is_shown = False  # the user's wish is no failure: `stop` says what was saved
        if is_shown:
            self._clear()
        return is_shown

    def start(self) -> None:
        """Begin to show progress, until `stop`."""
        self._is_started = True
        self._begin = self._last_line = time.monotonic()
        threading.Thread(target=self._show_until_the_end, daemon=True).start()

    def stop(self) -> None:
        """End the progress; after Ctrl-C, say what was saved."""
        self._ended.set()
        self._clear()
        for job in self._interrupted or []:
            if job.rule == TRAINING_RULE and (folder := self._run_folder(job)):
                updates = read_max_update(folder.log_path)
                saved = f"saved at update {folder.newest_update()} of {updates or '?'}"
                self._write(f"{job.label}: {saved}\n")
        if self._interrupted is not None:
            self._write("interrupted; the same command resumes it\n")

    def lines(self, now: float) -> list[str]:
        """Return a line for each running job, trainings first."""
        jobs = list(self._job_by_number.values())  # another thread adds and removes some
        jobs.sort(key=lambda job: job.rule != TRAINING_RULE)
        return [self._describe(job, now) for job in jobs]

    def is_due(self, now: float) -> bool:
        """Return whether a pipe gets a line: a training has passed a tenth, or another job is long
        at work.
        """
        gap = (now - self._begin) / NUM_TENTHS
        if now - self._last_line < min(MAX_GAP_SECONDS, max(FIRST_LINE_SECONDS, gap)):
            return False
        is_due = False
        for job in list(self._job_by_number.values()):
            tenth = self._tenth(job)
            is_long = job.rule != TRAINING_RULE and now - job.began >= FIRST_LINE_SECONDS
            is_due = is_due or is_long or tenth != job.tenth or self._last_line == self._begin
        return is_due

    def _note(self, record: logging.LogRecord) -> None:
        event, values = getattr(record, "event", None), vars(record)
        if event == "job_info" and values["rule_name"] != "all":
            wildcards = {name: str(text) for name, text in (values["wildcards"] or {}).items()}
            self._job_by_number[values["jobid"]] = RunningJob(
                rule=values["rule_name"],
                label=_label(wildcards),
                wildcards=wildcards,
                log_path=Path(str(values["log"][0])) if values["log"] else None,
                began=time.monotonic(),
            )
        elif event == "job_finished":
            self._job_by_number.pop(values["job_id"], None)
        elif event == "job_error" and self._interrupted is None:
            self._job_by_number.pop(values["jobid"], None)
        elif event == "progress":
            self._steps = f"{values['done']} of {values['total']} steps done"
        elif str(record.msg).startswith(INTERRUPTED):
            self._interrupted = list(self._job_by_number.values())
            self._clear()
            self._write("interrupted: trainings save, which takes some seconds\n")
        elif LOCKED in str(record.msg):
            record.msg = (
                f"{Path.cwd()}: another snakemake makes the same files here; `aiayn status` shows"
                " its trainings: wait for its end. If no snakemake is at work (its machine was"
                " restarted), docs/faults.md says how to go on: 'After a killed snakemake'"
            )

    def _show_until_the_end(self) -> None:
        is_terminal = self._stream.isatty()
        while not self._ended.wait(REDRAW_SECONDS):
            now = time.monotonic()
            jobs = list(self._job_by_number.values())
            if self._interrupted is not None or not jobs:
                continue
            # Files may vanish while they are read, and a reader of the pipe may leave.
            with contextlib.suppress(OSError, ValueError):
                if is_terminal:
                    self._draw(now)
                elif self.is_due(now):
                    parts = [self._steps, *self.lines(now)]
                    self._write("; ".join(filter(None, parts)) + "\n")
                    self._last_line = now
                    for job in jobs:
                        job.tenth = self._tenth(job)

    def _draw(self, now: float) -> None:
        """Draw the block below the cursor, which stays on an empty line above it.

        So a line that another process prints takes the empty line, and the next block follows it.
        """
        if any(job.rule == PRINTING_RULE for job in list(self._job_by_number.values())):
            self._clear()
            return
        columns, rows = shutil.get_terminal_size()
        lines = [*([self._steps] if self._steps else []), *self.lines(now)]
        num_shown = max(1, min(MAX_BLOCK_LINES, rows - 3))
        if len(lines) > num_shown:
            lines = [*lines[: num_shown - 1], f"and {len(lines) - num_shown + 1} more"]
        text = "\n".join(line[: columns - 1] for line in lines)
        self._write(f"\r\x1b[J\n{text}\r\x1b[{len(lines)}A")
        self._has_block = True

    def _clear(self) -> None:
        if self._has_block:
            self._write("\r\x1b[J")
            self._has_block = False

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()

    def _run_folder(self, job: RunningJob) -> RunFolder | None:
        """Return the newest run of a training's corpus, system and seed."""
        corpus, system, seed = (job.wildcards[name] for name in ("corpus", "system", "seed"))
        paths = list(self._runs_folder.glob(f"{corpus}-{system}-seed{seed}-*"))
        newest = max(paths, key=lambda path: path.stat().st_mtime, default=None)
        return RunFolder(newest) if newest else None

    def _progress(self, job: RunningJob) -> tuple[int, int, float | None]:
        """Return a training's updates so far, all its updates, and its loss, None before it has
        one.
        """
        folder = self._run_folder(job)
        tail = read_log_tail(folder.log_path) if folder else None
        updates = read_max_update(folder.log_path) if folder else None
        if tail is None or tail.update is None or not updates:
            return 0, updates or 0, None
        job.first = job.first or (tail.update, time.monotonic())
        return tail.update, updates, tail.loss_bits

    def _tenth(self, job: RunningJob) -> int:
        if job.rule != TRAINING_RULE:
            return job.tenth
        done, updates, _ = self._progress(job)
        return done * NUM_TENTHS // updates if updates else 0

    def _describe(self, job: RunningJob, now: float) -> str:
        seconds = now - job.began
        if job.rule == TRAINING_RULE:
            done, updates, loss_bits = self._progress(job)
            if loss_bits is None:
                return f"{job.label}: starts, {format_duration(seconds)}"
            first_update, first_time = job.first or (done, now)
            num_seen, seconds_seen = done - first_update, now - first_time
            left = (updates - done) * seconds_seen / num_seen if num_seen > 0 else None
            words = f"{job.label}: {done} of {updates}, loss {loss_bits:.1f} bits"
            return words if left is None else f"{words}, {format_duration(left)} left"
        text = f"{job.rule} {job.label}".strip() + f": {format_duration(seconds)}"
        newest = last_lines(job.log_path, 1) if job.log_path else []
        if newest and (bar := _BAR.search(newest[0])):
            text += f", {bar[1]} done, {bar[2]} left"
        return text


def _label(wildcards: Mapping[str, str]) -> str:
    """Return the values of a job's wildcards: `demo_en_de big, seed 1`."""
    parts = [f"seed {text}" if name == "seed" else text for name, text in wildcards.items()]
    return ", ".join(parts).replace(", ", " ", 1)


def _is_for_terminal(record: logging.LogRecord) -> bool:
    if getattr(record, "event", None) == "progress":
        num_done, num_steps = vars(record)["done"], vars(record)["total"]
        if num_done < num_steps:
            return bool(num_done * 10 // num_steps > (num_done - 1) * 10 // num_steps)
    return record.levelno != logging.INFO
