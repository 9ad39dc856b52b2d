"""After a snakemake was killed: say what it left in this directory and in Slurm, and clean up what nobody owns.

Slurm jobs of its CPU rules are cancelled and its locks removed only if it is dead for certain: it was on this machine,
and its process is gone. Trainings are left alone: the next start attaches to them. Exit code 1: something was left as
it is, and the message says why and what to do.
"""

import argparse
from pathlib import Path

EXAMPLE = "aiayn unlock --dry-run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn unlock`."""
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, do nothing")
    parser.add_argument(
        "--directory", type=Path, default=Path(), metavar="FOLDER", help="where snakemake was at work (default: here)"
    )
    parser.add_argument(
        "--runs-folder", type=Path, default=Path("runs"), help="where runs lie, below the directory (default: runs)"
    )


def run(args: argparse.Namespace) -> None:
    """Print what there is; clean up."""
    from aiayn.errors import StateError
    from aiayn.runs.status import list_run_folders, read_statuses
    from aiayn.runs.unlock import clean_up, find_leftovers, planned, refusals
    from aiayn.runs.unlock_text import render_leftovers

    runs_folder = args.directory / args.runs_folder
    statuses = read_statuses(list_run_folders(runs_folder)) if runs_folder.is_dir() else []
    found = find_leftovers(args.directory)
    print(render_leftovers(found, statuses), end="")
    for line in planned(found) if args.dry_run else clean_up(found):
        print(line)
    reasons = refusals(found if args.dry_run else find_leftovers(args.directory))
    if reasons:
        raise StateError("\n  ".join(["left as it is:", *reasons]))
