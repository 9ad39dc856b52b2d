"""List the runs with their state, update, loss, speed, time left, cost, job and node. With the
argument RUN, print everything that is known about one run.

A run has one of these states: queued (with the reason), running, stopped (the run saved a
checkpoint, and the same command resumes it), failed, lost (the run ended without a message),
cancelled, done, unknown (the queue of the run's job does not answer, or no longer lists a job that
may still run), damaged (the run's files cannot be read).
"""

from pathlib import Path

from aiayn.cli.flags import RUN, RUNS_FOLDER, flag
from aiayn.launch.launcher import QUEUES
from aiayn.runs.status import find_run_folder, list_run_folders, read_statuses
from aiayn.runs.status_text import render_status, render_statuses
from aiayn.terminal import json_text, visible

EXAMPLE = "aiayn status"


class Flags:
    run: str | None = RUN
    runs_folder: Path = RUNS_FOLDER
    json: bool = flag("print a JSON list of objects; with RUN one object")


def run(args: Flags) -> None:
    """Print the states of all runs, or all about one run."""
    # A reason may quote a log or Slurm. Control characters in it must not reach the terminal.
    if args.run is None:
        statuses = read_statuses(list_run_folders(args.runs_folder), QUEUES)
        print(
            json_text(statuses)
            if args.json
            else visible(render_statuses(statuses, args.runs_folder)),
            end="",
        )
    else:
        (status,) = read_statuses([find_run_folder(args.runs_folder, args.run)], QUEUES)
        print(json_text(status) if args.json else visible(render_status(status)), end="")
