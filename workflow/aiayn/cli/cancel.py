"""End a run that is training or queued: the run saves a checkpoint, ends, and does not start again
by itself.

A job that still runs although its queue no longer lists it can be ended only on the machine on
which it runs. On any other machine `aiayn cancel` prints the host and the process number of the
job. A driver (the process that submits a run's jobs and waits for them) ends with exit code 3 if
its run is cancelled.

Exit code 0: the run has ended. Exit code 1: the run is not running, or cannot be ended from this
machine. Exit code 3: the run did not end.
"""

from pathlib import Path

from aiayn.cli.flags import RUN, RUNS_FOLDER, flag
from aiayn.launch.launcher import QUEUES
from aiayn.runs.cancel import DEFAULT_TIMEOUT_SECONDS, cancel_run
from aiayn.runs.status import find_run_folder

EXAMPLE = "aiayn cancel demo_en_de-base-seed1"


class Flags:
    run: str = RUN
    runs_folder: Path = RUNS_FOLDER
    timeout_seconds: float = flag(
        f"how long to wait for its end (default: {DEFAULT_TIMEOUT_SECONDS:g})",
        "S",
        default=DEFAULT_TIMEOUT_SECONDS,
    )


def run(args: Flags) -> None:
    """End the run, and print which update was saved."""
    # The queues are an argument below, because `aiayn.runs` must not import the launchers.
    run_folder = find_run_folder(args.runs_folder, args.run)
    print(cancel_run(run_folder, QUEUES, timeout_seconds=args.timeout_seconds))
