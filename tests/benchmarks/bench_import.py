"""What each process that trains or decodes pays before it begins: importing fairseq lean, and as fairseq would be.

python -m tests.benchmarks.bench_import [--repetitions 5]

CPU seconds of whole processes, alternating; medians. torch alone is the bound.
"""

import argparse
import resource
import subprocess
import sys
from statistics import median

from tests.benchmarks.table import ratios_of, tell

STATEMENTS = {
    "lean (ours)": "import aiayn.train.plugin",
    "all of fairseq": "import fairseq; import aiayn.train.plugin",
    "torch alone": "import torch",
}


def cpu_seconds(statement: str) -> float:
    """Return user and system seconds of a Python process that runs a statement."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print a line a way of importing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    repetitions = parser.parse_args().repetitions
    measured: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(repetitions):
        for name, statement in STATEMENTS.items():
            measured[name].append(cpu_seconds(statement))
    for name, seconds in measured.items():
        print(f"{name:14} {median(seconds):5.2f} CPU s (from {min(seconds):.2f} to {max(seconds):.2f})")
    ours, whole, bound = measured.values()
    what = "importing what trains and decodes, CPU seconds"
    tell(what, f"{median(ours):.2f}", f"all of fairseq: {median(whole):.2f}", ratios_of(whole, ours))
    tell(what, f"{median(ours):.2f}", f"torch alone (bound): {median(bound):.2f}", ratios_of(bound, ours))


if __name__ == "__main__":
    main()
