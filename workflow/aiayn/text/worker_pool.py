"""Run tasks in processes that end with their parent, the first error ending all; and a line of how far they are."""

import contextlib
import datetime
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from aiayn.errors import CorpusError

SECONDS_BETWEEN_LINES = 30.0
SECONDS_BETWEEN_REWRITES = 1.0
_KILLED = (
    "{what}: one of {num_processes} processes was killed (by the system, if memory ran out); what is whole is kept; "
    "start again, with a smaller --num-processes if memory is short"
)

Task = TypeVar("Task")


def run_tasks(
    run: Callable[[Task], None],
    tasks: Sequence[Task],
    *,
    num_processes: int,
    what: str,
    after_each: Callable[[Task], None],
) -> None:
    """Call `run` once for each task, and here `after_each` when one is done.

    Tasks are begun in their order. With one process or one task, all is done here; else processes are spawned, and
    `run` and tasks pickled.

    Raises:
        CorpusError: if a process was killed.
        Exception: what `run` raised first, as itself; the other processes are ended.
    """
    if min(num_processes, len(tasks)) <= 1:
        for task in tasks:
            run(task)
            after_each(task)
        return
    others = set(multiprocessing.active_children())
    spawning = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(min(num_processes, len(tasks)), spawning, _end_with_parent)
    try:
        task_by_future = {executor.submit(run, task): task for task in tasks}
        for future in as_completed(task_by_future):
            future.result()
            after_each(task_by_future[future])
    except BrokenProcessPool as error:
        raise CorpusError(_KILLED.format(what=what, num_processes=num_processes)) from error
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Set up a process that leaves Ctrl-C to its parent and ends when that does, even by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None  # it was spawned
    threading.Thread(target=_exit_after, args=(parent.sentinel,), daemon=True).start()


def _exit_after(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


class TaskProgress:
    """How much is done, how fast, how long it still takes, on standard error; rewritten on a terminal, else spaced out.

    Rate and time left are of this start's own work, not of what was there when it began.
    """

    def __init__(self, what: str, total: int, unit: str, num_tasks: int) -> None:
        """Begin with nothing done of `total` units in `num_tasks` tasks."""
        self._what, self._total, self._unit, self._num_tasks = what, total, unit, num_tasks
        self._done = self._done_at_begin = self._num_tasks_done = self._num_tasks_at_begin = 0
        self._begun_at = self._shown_at = time.monotonic()
        self._is_terminal = sys.stderr.isatty()

    def begin(self, done: int, num_tasks_done: int) -> None:
        """Say how much was there already, if anything was."""
        self._done = self._done_at_begin = done
        self._num_tasks_done = self._num_tasks_at_begin = num_tasks_done
        if num_tasks_done:
            text = f"{self._what}: {num_tasks_done} of {self._num_tasks} shards are there from an earlier start"
            self._print(text, "\n")

    def add(self, done: int) -> None:
        """Note a task of so many units as done, and show the line if it is time to."""
        self._done += done
        self._num_tasks_done += 1
        now = time.monotonic()
        if now - self._shown_at >= (SECONDS_BETWEEN_REWRITES if self._is_terminal else SECONDS_BETWEEN_LINES):
            self._shown_at = now
            self._print(self.text(now), "\r" if self._is_terminal else "\n")

    def finish(self) -> None:
        """Show the last line, if anything was done."""
        if self._num_tasks_done > self._num_tasks_at_begin:
            self._print(self.text(time.monotonic()), "\n")

    def text(self, now: float) -> str:
        """Return the line."""
        seconds = now - self._begun_at
        rate = (self._done - self._done_at_begin) / seconds if seconds > 0 else 0.0
        left = datetime.timedelta(seconds=round((self._total - self._done) / rate)) if rate > 0 else "unknown"
        return (
            f"{self._what}: {self._done:,}/{self._total:,} {self._unit}, {self._num_tasks_done}/{self._num_tasks} "
            f"shards, {rate:,.0f} {self._unit}/s, ETA {left}"
        )

    def _print(self, text: str, ending: str) -> None:
        with contextlib.suppress(OSError):  # the reader of standard error may be gone
            print(text, end=ending, file=sys.stderr, flush=True)
