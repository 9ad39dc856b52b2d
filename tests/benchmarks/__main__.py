"""Runs every benchmark and prints their results as a table in the form of RESULTS.md.

    python -m tests.benchmarks

The output of a benchmark is in build/bench/NAME.log. A benchmark that fails becomes a row of the
table, and the others go on. bench_decode needs a finished run in results/.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from aiayn.machine import cpu_name
from aiayn.provenance import commit_label
from tests.benchmarks.table import ROWS_VARIABLE, Result

HEADER = ("what", "ours", "peer or bound", "ratio", "spread", "date", "commit")
FOLDER = Path(__file__).parent


def main() -> int:
    """Run the benchmarks, print the table, and return 1 if any failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))
    parser.add_argument(
        "names",
        nargs="*",
        choices=known,
        default=known,
        metavar="NAME",
        help=f"of {', '.join(known)}",
    )
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    lines, num_failed = [], 0
    for name in arguments.names:
        results, code = run(name, arguments.out)
        num_failed += code != 0
        lines += [as_line(result) for result in results]
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    num_threads = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    )
    print(f"\n{cpu_name()}, {num_threads} hardware threads, {device}, torch {torch.__version__}\n")
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))
    print("\n".join(lines))
    return int(num_failed > 0)


def run(name: str, out: Path) -> tuple[list[Result], int]:
    """Run a benchmark and return its rows; if it fails or has no rows, return a row that says so."""
    rows_path, log_path = out / f"{name}.jsonl", out / f"{name}.log"
    rows_path.unlink(missing_ok=True)
    command = [sys.executable, "-m", f"tests.benchmarks.bench_{name}"]
    print(f"{name} ...", flush=True)
    with log_path.open("w", encoding="utf-8") as log:
        environment = {**os.environ, ROWS_VARIABLE: str(rows_path.absolute())}
        code = subprocess.run(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False
        ).returncode
    lines = rows_path.read_text(encoding="utf-8").splitlines() if rows_path.exists() else []
    results = [Result(*json.loads(line)) for line in lines]
    if code != 0:
        last = [line for line in log_path.read_text(encoding="utf-8").split("\n") if line.strip()][
            -1:
        ]
        results.append(
            Result(f"`bench_{name}.py`", f"**failed**, exit code {code}", " ".join(last)[:200])
        )
    elif not results:
        results.append(Result(f"`bench_{name}.py`", f"no row; see {log_path}", ""))
    return results, code


def as_line(result: Result) -> str:
    """Return a row of the table."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return (
        "| "
        + " | ".join(
            [*(cell.replace("|", "/") for cell in result.cells), today, commit_label()[:12]]
        )
        + " |"
    )


if __name__ == "__main__":
    sys.exit(main())
