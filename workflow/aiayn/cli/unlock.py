"""After snakemake was killed: show what it left in this directory and in Slurm, and clean up.

Its locks are removed, and the Slurm jobs of its CPU rules cancelled, only if it has certainly ended: it ran on
this machine, and its process is gone. Trainings continue; the next snakemake attaches to them.

Exit code 1: something was not cleaned up; the message says what, why and what to do.
"""

from pathlib import Path

from aiayn.cli.flags import flag
from aiayn.errors import StateError
from aiayn.launch import slurm_queue
from aiayn.runs.status import list_run_folders, read_statuses
from aiayn.runs.unlock import clean_up, find_leftovers, reasons_against_unlocking, render_leftovers

EXAMPLE = "aiayn unlock --dry-run"


class Flags:
    dry_run: bool = flag("only show what would be done")
    directory: Path = flag("its working directory (default: this one)", "FOLDER", default=Path("."))
    runs_folder: Path = flag("folder of runs, in that directory (default: runs)", "FOLDER", default=Path("runs"))


def run(args: Flags) -> None:
    """Print what there is; clean up."""
    runs_folder = args.directory / args.runs_folder
    statuses = read_statuses(list_run_folders(runs_folder), slurm_queue) if runs_folder.is_dir() else []
    found = find_leftovers(args.directory, slurm_queue)
    print(render_leftovers(found, statuses), end="")
    for line in clean_up(found, slurm_queue, is_dry_run=args.dry_run):
        print(line)
    reasons = reasons_against_unlocking(found if args.dry_run else find_leftovers(args.directory, slurm_queue))
    if reasons:
        raise StateError("\n  ".join(["not cleaned up:", *reasons]))
