"""Shows the progress of a snakemake workflow: its running jobs, the updates of each training, and
the time left.

Only the process of snakemake prints progress, for all of its jobs: one line after 30 seconds, and
then a line whenever a training has made a further tenth of its updates, or any other job has run
for a further half minute. The shortest time between two lines grows with the time since the start.
"""

import contextlib
import logging
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any, TextIO

import msgspec

from aiayn.runs.log import last_lines, read_log_tail, read_max_update
from aiayn.runs.names import folders_of_training
from aiayn.runs.run_folder import RunFolder
from aiayn.runs.status_text import format_duration, saved_words
from aiayn.spec.sheet import TrainingKey

TRAINING_RULE = "train"
LOOK_SECONDS = 1.0
FIRST_LINE_SECONDS = 30.0
# After a line, the next line waits for a tenth of the time since the start, but at most for this
# time.
MAX_GAP_SECONDS = 600.0
# Words in Snakemake's messages about events without a name of their own.
INTERRUPTED = "Terminating processes on user request"
LOCKED = "Directory cannot be locked"
# A bar of tqdm in a log: `decode:  45%|####  | 450/1000 [00:12<00:14, ...]`
_BAR = re.compile(r"(\d+%)\|.*\[[^<]*<([\d:]+)")


class _RunningJob(msgspec.Struct, kw_only=True):
    """A job of snakemake that has begun and not ended."""

    rule: str
    wildcards: dict[str, str]
    log: str
    began: float

    @property
    def label(self) -> str:
        """The corpus, system and seed on which the job works: `demo_en_de big, seed 1`."""
        texts = [
            f"seed {text}" if name == "seed" else text for name, text in self.wildcards.items()
        ]
        # Corpus and system are separated by a blank, everything after them by commas.
        return ", ".join(texts).replace(", ", " ", 1)


class WorkflowProgress:
    """Reads snakemake's log messages, decides which of these messages the terminal shows, and shows
    progress.

    `runs_folder` contains the runs of the trainings. Before `start` is called, and always with
    `shows_all`, the terminal shows every log message, as snakemake does.
    """

    def __init__(self, runs_folder: Path, *, stream: TextIO = sys.stderr) -> None:
        self._runs_folder = runs_folder
        self._stream = stream
        self._shows_all = True
        self._job_by_number: dict[int, _RunningJob] = {}
        self._steps = "no step done yet"
        self._begin = self._last_line = time.monotonic()
        self._last_tenths: list[int] = []
        self._is_interrupted = False
        self._ended = threading.Event()

    def filter(self, record: logging.LogRecord) -> bool:
        """Note which jobs have begun or ended according to a log message of snakemake, and return
        whether the terminal shows this message.

        The terminal shows warnings and errors, and the number of finished jobs after each tenth of
        all jobs. This object is a filter of snakemake's log handler, which calls this method.
        """
        # Every record is read, also the records that the terminal does not show.
        self._note(vars(record))
        # After Ctrl-C snakemake reports the jobs that it ended as errors. They are hidden, and
        # `stop` says what was saved.
        return self._shows_all or (not self._is_interrupted and _is_for_terminal(record))

    def start(self, *, shows_all: bool) -> None:
        """Begin to show progress, until `stop` is called. With `shows_all` the terminal also shows
        the whole log of snakemake.
        """
        self._shows_all = shows_all
        # A daemon, so that an error elsewhere does not leave snakemake waiting for this thread.
        threading.Thread(target=self._show_until_the_end, daemon=True).start()

    def stop(self) -> None:
        """Stop showing progress. After Ctrl-C, print which update of each training was saved,
        unless the terminal shows the whole log.
        """
        self._ended.set()
        if self._is_interrupted:
            for job in self._job_by_number.values():
                if job.rule == TRAINING_RULE and (folder := self._run_folder(job)):
                    updates = read_max_update(folder.log_path)
                    self._write(f"{job.label}: {saved_words(folder.newest_update(), updates)}\n")
            self._write("interrupted; the same command resumes it\n")

    def look(self, now: float) -> tuple[list[str], list[int]]:
        """Return two lists with an entry for each running job: a line of text, and the progress of
        the job as a whole number. The progress of a training is how many tenths of its updates are
        done. The progress of any other job is how many half minutes the job has run. The lines of
        text are printed again only if the progress of a job has changed.
        """
        lines, tenths = [], []
        # A copy, because the thread that logs adds and removes jobs meanwhile.
        for job in list(self._job_by_number.values()):
            if job.rule == TRAINING_RULE:
                line, tenth = self._look_at_training(job, now)
            else:
                line = f"{job.rule} {job.label}".strip()
                tenth = int(now - job.began) // 30
                line += f": {format_duration(now - job.began)}"
                if bar := _BAR.search("".join(last_lines(Path(job.log), 1))):
                    line += f", {bar[1]} done, {bar[2]} left"
            lines.append(line)
            tenths.append(tenth)
        return lines, tenths

    def _look_at_training(self, job: _RunningJob, now: float) -> tuple[str, int]:
        folder = self._run_folder(job)
        tail = read_log_tail(folder.log_path) if folder else None
        updates = read_max_update(folder.log_path) if folder else None
        if tail is None or tail.update is None or not updates:
            # -1 differs from every tenth, so the first statistics are news.
            return f"{job.label}: starts, {format_duration(now - job.began)}", -1
        line = f"{job.label}: {tail.update} of {updates}, loss {tail.loss_bits:.1f} bits"
        return (
            f"{line}, {format_duration(tail.seconds_left(updates))} left",
            tail.update * 10 // updates,
        )

    def is_due(self, now: float, tenths: list[int]) -> bool:
        """Return whether the progress must be printed again: the numbers that `look` returns have
        changed, and progress was not printed a short time ago.
        """
        # The gap grows with the time since the start: 30 seconds in the first five minutes, ten
        # minutes after the first 100 minutes.
        gap = min(MAX_GAP_SECONDS, max(FIRST_LINE_SECONDS, (now - self._begin) / 10))
        return tenths != self._last_tenths and now - self._last_line >= gap

    def _note(self, values: dict[str, Any]) -> None:
        event = values.get("event")
        text = str(values["msg"])
        # The rule `all` has no work of its own.
        if event == "job_info" and values["rule_name"] != "all":
            self._job_by_number[values["jobid"]] = _RunningJob(
                rule=values["rule_name"],
                wildcards=dict(values["wildcards"] or {}),
                log=str(next(iter(values["log"] or []), "")),
                began=time.monotonic(),
            )
        elif event == "progress":
            self._steps = f"{values['done']} of {values['total']} steps done"
        # After Ctrl-C the jobs stay listed, because `stop` says what each has saved. The events
        # call the number of a job `job_id` or `jobid`.
        elif event in ("job_finished", "job_error") and not self._is_interrupted:
            self._job_by_number.pop(int(values.get("job_id", values.get("jobid", 0))), None)
        # Snakemake has no event for the next two cases, only the words of its messages. Trainings
        # on a cluster do not save at Ctrl-C. There the whole log is shown, with the messages of the
        # drivers.
        elif text.startswith(INTERRUPTED) and not self._shows_all:
            self._is_interrupted = True
            self._write("interrupted: trainings save, which takes some seconds\n")
        elif LOCKED in text:
            # `values` is the record itself, so this replaces the text that snakemake prints.
            values["msg"] = (
                f"{Path.cwd()}: another snakemake makes the same files here; `aiayn status` shows"
                " its trainings: wait for its end. If no snakemake is at work (its machine was"
                " restarted), docs/faults.md says how to go on: 'After a killed snakemake'"
            )

    def _show_until_the_end(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            if self._is_interrupted or not self._job_by_number:
                continue
            # A file may vanish while it is read, and the reader of a pipe may have ended.
            with contextlib.suppress(OSError, ValueError):
                now = time.monotonic()
                lines, tenths = self.look(now)
                if self.is_due(now, tenths):
                    self._write("; ".join([self._steps, *lines]) + "\n")
                    self._last_line, self._last_tenths = now, tenths

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()

    def _run_folder(self, job: _RunningJob) -> RunFolder | None:
        """Return the newest run with the corpus, system and seed of a training job."""
        # The newest run of the training is the run of this job.
        names = job.wildcards
        key = TrainingKey(names["corpus"], names["system"], int(names["seed"]))
        folders = folders_of_training(self._runs_folder, key)
        newest = max(folders, key=lambda path: path.stat().st_mtime, default=None)
        return RunFolder(newest) if newest else None


def _is_for_terminal(record: logging.LogRecord) -> bool:
    if getattr(record, "event", None) == "progress":
        num_done, num_steps = vars(record)["done"], vars(record)["total"]
        # A line at each tenth of the steps, not after each of hundreds of steps.
        if num_done < num_steps:
            return bool(num_done * 10 // num_steps > (num_done - 1) * 10 // num_steps)
    # Snakemake logs jobs, their reasons and commands as INFO.
    return record.levelno != logging.INFO
