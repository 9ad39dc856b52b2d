"""End a run that trains or waits for its turn: it saves, ends, and is not started again by itself.

A job that Slurm has forgotten is ended too, on its own machine; on another one you are told its host and process. Its
driver, if one waits for it, ends with exit code 3. Exit codes: 0 it has ended, 1 nothing of it runs or it runs on
another machine, 3 it could not be ended.
"""

import argparse
from pathlib import Path

EXAMPLE = "aiayn cancel demo_en_de-base-seed1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn cancel`."""
    from aiayn.runs.cancel import DEFAULT_TIMEOUT_SECONDS

    parser.add_argument("run", metavar="RUN", help="a run's name, or any unique beginning of it")
    parser.add_argument(
        "--runs-folder", type=Path, default=Path("runs"), metavar="FOLDER", help="where runs lie (default: runs)"
    )
    parser.add_argument(
        "--timeout-seconds", type=float, default=DEFAULT_TIMEOUT_SECONDS, metavar="S",
        help=f"wait so long for its end (default: {DEFAULT_TIMEOUT_SECONDS:g})",
    )  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """End the run, and say what was saved."""
    from aiayn.runs.cancel import cancel_run
    from aiayn.runs.status import find_run_folder

    print(cancel_run(find_run_folder(args.runs_folder, args.run), timeout_seconds=args.timeout_seconds))
