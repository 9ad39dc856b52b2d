"""Make public_seeds.csv from the files that others published (for maintainers).

    git clone https://github.com/mlcommons/submissions_algorithms
    for name in public_runs public_run_evaluations; do
      git show a8c4d718:paper_tables/published/$name.csv > mlperf/$name.csv
    done
    python -m tests.collect_public_seeds submissions_algorithms mlperf

AlgoPerf's runs are read from the commit HEAD of a git repository, with or without a work tree.
MLPerf's runs are read from the two files that an earlier version of this project shipped and made
from the result files of mlcommons/training_results_v0.5 to v0.7. Means of several seeds that were
published without their runs are typed below. `paper_tables/published/README.md` describes the
output.
"""

import argparse
import csv
import io
import json
import math
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aiayn.errors import TableError
from aiayn.printed import PUBLISHED_FOLDER
from aiayn.provenance import replace_on_success

SEED_COLUMNS = (
    "source", "task", "system", "setting", "run", "seed", "num_seeds", "updates", "epoch", "bits_dev", "bleu_dev",
    "bleu_test", "bleu_sd", "definition", "averaged",
)  # fmt: skip
EVALUATIONS_NAME = "eval_measurements.csv"
EVALUATION_COLUMNS = ("global_step", "validation/loss", "validation/bleu", "test/bleu")
MLPERF_EVALUATION_COLUMNS = ("run", "epoch", "bleu", "seconds")
MLPERF_COLUMNS = (
    "run", "round", "submitter", "system", "accelerator", "num_accelerators", "seed", "batch", "batch_unit",
    "num_parameters", "seconds", "repository", "commit", "path",
)  # fmt: skip
# previous_leaderboards/VERSION/logs/TUNING/SUBMISSION/STUDY/WORKLOAD/TRIAL/eval_measurements.csv
PATH = re.compile(
    rf"previous_leaderboards/\w+/logs/\w+/\w+/study_\d/wmt\w*/trial_\d/{EVALUATIONS_NAME}"
)
# Submissions that evaluate an average of the weights: LAWA's queue and moving average, and the
# schedule-free family.
AVERAGING = ("lawa_", "schedule_free")
SUMMARIES = (
    *(
        {"source": "fairseq-apollo", "task": "wmt14_en_de", "system": "base", "setting": optimizer, "num_seeds": 5,
         "updates": 500_000, "bleu_test": mean, "bleu_sd": sd, "definition": "not_stated", "averaged": "not_stated"}
        for optimizer, mean, sd in (
            ("sgd", 26.59, 0.07), ("adam", 27.84, 0.12), ("radam", 28.15, 0.15), ("adabelief", 28.14, 0.11),
            ("apollo", 28.34, 0.10),
        )
    ),
    *(
        {"source": "reproduce-transformer", "task": "wmt14_en_de", "system": "base", "setting": precision,
         "num_seeds": 3, "updates": 112_760, "bleu_test": mean, "bleu_sd": sd, "definition": "huggingface_bleu",
         "averaged": "no"}
        for precision, mean, sd in (("fp32", 27.60, 0.13), ("amp", 27.58, 0.22))
    ),
)  # fmt: skip


def algoperf_rows(repository: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each WMT run of AlgoPerf that has an evaluation: its values at the last one."""
    listed = _git(repository, "ls-tree", "-r", "--name-only", "HEAD", "previous_leaderboards")
    for path in sorted(filter(PATH.fullmatch, listed.splitlines())):
        _, version, _, tuning, submission, study, workload, trial, _ = path.split("/")
        flags = json.loads(
            _git(repository, "show", f"HEAD:{path.removesuffix(EVALUATIONS_NAME)}flags_0.json")
        )
        last = _last_line(path, _git(repository, "show", f"HEAD:{path}"))
        yield {
            "source": version,
            "task": "wmt17_de_en",
            "system": submission,
            "setting": f"{tuning}/{workload}/{trial}",
            "run": study,
            "seed": flags["rng_seed"],
            "num_seeds": 1,
            "updates": int(float(last["global_step"])),
            "bits_dev": _rounded(last["validation/loss"], 5, unit=math.log(2)),
            "bleu_dev": _rounded(last["validation/bleu"], 4),
            "bleu_test": _rounded(last["test/bleu"], 4),
            "definition": "bleu_sacre_13a",
            "averaged": "yes" if submission.startswith(AVERAGING) else "no",
        }


def _last_line(path: str, text: str) -> dict[str, str]:
    """Return the last evaluation of a run.

    Raises:
        TableError: the file has no evaluation, or a column is missing.
    """
    lines = list(csv.DictReader(io.StringIO(text)))
    if not lines:
        raise TableError(
            f"{path}: no evaluation; expected one or more lines; fetch the repository again"
        )
    _require_columns(path, lines[-1], EVALUATION_COLUMNS)
    return lines[-1]


def _require_columns(path: str | Path, line: Mapping[str, str], columns: Iterable[str]) -> None:
    """Refuse a file that lacks a column."""
    for column in columns:
        if column not in line:
            raise TableError(
                f"{path}: no column {column!r}; expected it in {', '.join(line)}; compare with its"
                " source"
            )


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


def _rounded(text: str, decimals: int, unit: float = 1.0) -> str:
    """Return a printed number in a unit, rounded; '' for a diverged run, whose loss is blank,
    infinite or no number.
    """
    value = float(text or "nan") / unit
    return f"{value:.{decimals}f}" if math.isfinite(value) else ""


def read_mlperf(folder: Path) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """Return MLPerf's runs by round, submitter and system, each with its evaluations as (epoch,
    BLEU, seconds).
    """
    evaluations_by_run: dict[str, list[tuple[int, float, float]]] = {}
    for line in _lines(folder / "public_run_evaluations.csv", MLPERF_EVALUATION_COLUMNS):
        values = (int(line["epoch"]), float(line["bleu"]), float(line["seconds"]))
        evaluations_by_run.setdefault(line["run"], []).append(values)
    runs_by_system: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for run in _lines(folder / "public_runs.csv", MLPERF_COLUMNS):
        key = (run["round"], run["submitter"], run["system"])
        runs_by_system.setdefault(key, []).append(
            {**run, "evaluations": evaluations_by_run[run["run"]]}
        )
    return dict(sorted(runs_by_system.items()))


def _lines(path: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    _require_columns(path, lines[0] if lines else {}, columns)
    return lines


def mlperf_rows(
    runs_by_system: Mapping[tuple[str, str, str], Sequence[Mapping[str, Any]]],
) -> Iterator[dict[str, Any]]:
    """Yield a row for each run: its BLEU at the last epoch that all runs of its system have.

    A run stops at the first evaluation of 25.0 or above, so its own last BLEU is selected by the
    stop.
    """
    for (round_name, submitter, system), runs in runs_by_system.items():
        bleu_by_epoch = []
        for run in runs:
            bleu_by_epoch.append({epoch: bleu for epoch, bleu, _ in run["evaluations"]})
        epoch = max(set.intersection(*map(set, bleu_by_epoch)))
        for run, values in zip(runs, bleu_by_epoch, strict=True):
            yield {
                "source": f"mlperf_{round_name}",
                "task": "wmt17_en_de",
                "system": f"{submitter}/{system}",
                "setting": f"{run['batch']} {run['batch_unit']}",
                "run": run["run"].rpartition("/")[2],
                "seed": run["seed"],
                "num_seeds": 1,
                "epoch": epoch,
                "bleu_test": f"{values[epoch]:.4f}",
                "definition": "mlperf_uncased",
                "averaged": "no",
            }


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows as a CSV file, blank where a row has no value; return their number."""
    lines = list(rows)
    with (
        replace_on_success(path) as partial_path,
        partial_path.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    return len(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file, print its number of lines; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.collect_public_seeds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("algoperf", type=Path, help="a clone of mlcommons/submissions_algorithms")
    parser.add_argument(
        "mlperf", type=Path, help="a folder with public_runs.csv and public_run_evaluations.csv"
    )
    parser.add_argument(
        "--output", type=Path, default=PUBLISHED_FOLDER, help="default: paper_tables/published"
    )
    args = parser.parse_args(arguments)
    try:
        mlperf = read_mlperf(args.mlperf)
        seeds = [*algoperf_rows(args.algoperf), *mlperf_rows(mlperf), *SUMMARIES]
    except (TableError, OSError, subprocess.CalledProcessError) as error:
        print(f"collect: {error}", file=sys.stderr)
        return 1
    num_seeds = write_rows(args.output / "public_seeds.csv", SEED_COLUMNS, seeds)
    print(f"public_seeds.csv: {num_seeds} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
