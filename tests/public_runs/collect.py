"""Make public_runs.csv and public_run_evaluations.csv from checkouts of MLPerf's results (for maintainers).

Each FOLDER is a checkout of mlcommons/training_results_v0.5, v0.6 or v0.7, under that name. All result files of the
Transformer benchmark in it are read; a run's line has the repository, its commit and the file's path. A file that
cannot be read is named, and left out; the exit status is then 1.

Example:
  git clone https://github.com/mlcommons/training_results_v0.7
  python -m tests.public_runs.collect training_results_v0.5 training_results_v0.6 training_results_v0.7
"""

import argparse
import csv
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from aiayn.errors import AiaynError
from aiayn.printed import PUBLISHED_FOLDER
from aiayn.provenance import replace_on_success
from analysis.public_runs.mlperf import (
    BENCHMARK,
    PublicEvaluation,
    PublicRun,
    PublicRunError,
    PublicTraining,
    read_result,
)
from analysis.public_runs.shipped import EVALUATIONS_NAME, RUNS_NAME

_REPOSITORY = re.compile(r"training_results_v0\.[5-7]")


def collect_checkout(folder: Path) -> tuple[list[PublicTraining], list[str]]:
    """Return the runs of a checkout, named by round, system and file, and why any other file is not read.

    Raises:
        PublicRunError: if the folder has another name, no commit, or no result file.
    """
    name = folder.resolve().name
    if not _REPOSITORY.fullmatch(name):
        raise PublicRunError(f"{folder}: expected a checkout named training_results_v0.5, v0.6 or v0.7; clone it so")
    try:
        head = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise PublicRunError(f"{folder}: no commit ({error}); expected a git checkout; clone {name} again") from error
    paths = sorted(folder.glob(f"**/results/*/*{BENCHMARK}*/result_*.txt"))
    if not paths:
        raise PublicRunError(f"{folder}: no results/*/{BENCHMARK}/result_*.txt; expected some; check out all files")
    trainings, refused = [], []
    for path in paths:
        try:
            run, evaluations = read_result(path)
        except PublicRunError as error:
            refused.append(str(error))
            continue
        key = f"{run.round}/{run.submitter}/{run.system}/{path.stem}"
        origin = {"repository": f"mlcommons/{name}", "commit": head.stdout.strip()}
        run = msgspec.structs.replace(run, run=key, path=path.relative_to(folder).as_posix(), **origin)
        trainings.append(PublicTraining(run, tuple(msgspec.structs.replace(one, run=key) for one in evaluations)))
    return trainings, refused


def _write(rows: Iterable[msgspec.Struct], row_type: type[msgspec.Struct], path: Path) -> None:
    with replace_on_success(path) as partial_path, partial_path.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(row_type.__struct_fields__)
        writer.writerows(msgspec.structs.astuple(row) for row in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Collect, write both files, print the number of runs by submitter; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.public_runs.collect",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="checkouts of MLPerf's results")
    parser.add_argument(
        "--output", type=Path, default=PUBLISHED_FOLDER, metavar="FOLDER", help="default: paper_tables/published"
    )
    args = parser.parse_args(arguments)
    trainings: list[PublicTraining] = []
    refused: list[str] = []
    try:
        for folder in args.folders:
            collected, not_read = collect_checkout(folder)
            trainings += collected
            refused += not_read
    except AiaynError as error:
        print(f"collect: {error}", file=sys.stderr)
        return error.exit_code
    _write((one.run for one in trainings), PublicRun, args.output / RUNS_NAME)
    evaluations = (evaluation for one in trainings for evaluation in one.evaluations)
    _write(evaluations, PublicEvaluation, args.output / EVALUATIONS_NAME)
    for sentence in refused:
        print(f"collect: {sentence}", file=sys.stderr)
    for (round_name, submitter), number in Counter((one.run.round, one.run.submitter) for one in trainings).items():
        print(f"{round_name} {submitter}: {number} runs")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
