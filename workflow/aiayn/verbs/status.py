"""List the runs: state, update, loss, speed, time left, cost, job and node; or, with RUN, all that is known of one.

States: queued (with the reason), running, stopped (saved, the same command resumes it), failed, lost (ended without a
word), cancelled, done, unknown (squeue does not answer, or has forgotten a job that may live), damaged (its files
cannot be read).
"""

import argparse
from pathlib import Path

EXAMPLE = "aiayn status"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn status`."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run's name, or any unique beginning of it")
    parser.add_argument(
        "--runs-folder", type=Path, default=Path("runs"), metavar="FOLDER", help="where runs lie (default: runs)"
    )
    parser.add_argument("--json", action="store_true", help="print a list of objects; one object for RUN")


def run(args: argparse.Namespace) -> None:
    """Print how runs stand."""
    import msgspec

    from aiayn.runs.status import RunStatus, find_run_folder, list_run_folders, read_statuses
    from aiayn.runs.status_text import render_status, render_statuses

    answer: RunStatus | list[RunStatus]
    if args.run is None:
        answer = statuses = read_statuses(list_run_folders(args.runs_folder))
        text = render_statuses(statuses, args.runs_folder)
    else:
        (status,) = read_statuses([find_run_folder(args.runs_folder, args.run)])
        answer, text = status, render_status(status)
    if args.json:
        text = msgspec.json.format(msgspec.json.encode(answer), indent=1).decode("utf-8") + "\n"
    print(text, end="")
