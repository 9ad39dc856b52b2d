"""How long training stands still for a checkpoint, and what averaging 20 of them takes; of tensors in big's number.

    python -m tests.benchmarks.bench_checkpoint                     a quarter of big's size
    python -m tests.benchmarks.bench_checkpoint --fraction 1.0      all of it: 6 GB of memory, 24 GB of disk

Writing: what a step waited for before (both checkpoints written, brought to the disk and renamed), and what it waits
for now (a copy in memory; the first makes the memory, too), taking turns; then the products of matrices that a loop
makes a CPU-second, alone and beside the thread that writes. Averaging: bytes a second beside `cat` of the same files,
and the most memory that its process held; the files are dropped from the page cache first where the kernel lets us.
"""

import argparse
import contextlib
import multiprocessing
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import torch

from aiayn.cost import num_parameters
from aiayn.spec.system import read_system
from aiayn.train.average import _checked_models, average_tensors
from aiayn.train.checkpoints import StateCopier, save_whole
from tests.benchmarks.bench_step import VOCABULARY_SIZE
from tests.benchmarks.table import ratios_of, seconds, tell

INTERVAL_SECONDS = 600.0  # between checkpoints, in the paper
NUM_TENSORS = 200
NUM_AVERAGED = 20


def make_state(fraction: float) -> dict[str, Any]:
    """Return the state of a training of big's size: the model, and two moments of each parameter."""
    size = num_parameters(read_system("big", "paper").training, VOCABULARY_SIZE["paper"], joint=True)
    each = int(size * fraction) // NUM_TENSORS
    model = {f"tensor{index}": torch.randn(each) for index in range(NUM_TENSORS)}
    moments = {
        index: {"exp_avg": torch.zeros(each), "exp_avg_sq": torch.zeros(each), "step": torch.tensor(1.0)}
        for index in range(NUM_TENSORS)
    }
    return {"model": model, "last_optimizer_state": {"state": moments}}


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds that it takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def compare_writing(state: dict[str, Any], folder: Path, num_turns: int) -> None:
    """Print how long a step waits, and what the thread costs the steps beside it."""
    copier, before, now = StateCopier(), [], []

    def write(whole: dict[str, Any]) -> None:
        save_whole({"model": whole["model"]}, folder / "model.pt")
        save_whole(whole, folder / "full.pt")

    first = seconds_of(lambda: copier.copy(state))
    for _ in range(num_turns):
        before.append(seconds_of(lambda: write(state)))
        now.append(seconds_of(lambda: copier.copy(state)))
    gigabytes = (folder / "full.pt").stat().st_size / 1e9
    print(f"state of {gigabytes:.2f} GB; a step stands still for")
    for name, values in (("written in the step", before), ("copied", now)):
        print(
            f"  {name:20} median {median(values):6.2f} s ({min(values):.2f} to {max(values):.2f}), "
            f"{median(values) / INTERVAL_SECONDS:.2%} of {INTERVAL_SECONDS:.0f} s"
        )
    tell(
        f"a step stands still for a checkpoint of {gigabytes:.2f} GB",
        f"{seconds(now)}, {median(now) / INTERVAL_SECONDS:.2%} of 10 minutes",
        f"written in the step: {seconds(before)}, {median(before) / INTERVAL_SECONDS:.2%}", ratios_of(before, now),
    )  # fmt: skip
    print(f"  the first copy       {first:6.2f} s; ratio of medians {median(before) / median(now):.1f}")
    torch.set_num_threads(1)
    matrix = torch.randn(512, 512)
    with ThreadPoolExecutor(1) as writer:
        alone = _products(matrix, lambda: False)
        writing = writer.submit(write, copier.copy(state))
        beside = _products(matrix, lambda: not writing.done())
    print(f"  products of matrices a CPU-second of their thread, beside the write for alone: {beside / alone:.2f}")


def _products(matrix: torch.Tensor, goes_on: Callable[[], bool]) -> float:
    """Return how many products a CPU-second of this thread makes, of at least 100."""
    begin, count = time.thread_time(), 0
    while count < 100 or goes_on():
        matrix @ matrix
        count += 1
    return count / (time.thread_time() - begin)


def compare_averaging(state: dict[str, Any], folder: Path) -> None:
    """Print bytes a second and memory of an average of 20 models."""
    paths = [folder / f"model_{index:08d}.pt" for index in range(NUM_AVERAGED)]
    for path in paths:
        save_whole({"model": state["model"]}, path)
    state.clear()
    num_bytes = sum(path.stat().st_size for path in paths)
    rates: dict[str, list[float]] = {"cat": [], "average": []}
    for label, work in [("cat", _cat), ("average", _average)] * 3:
        for path in paths:
            _forget(path)
        begin = time.perf_counter()
        with multiprocessing.get_context("spawn").Pool(1) as pool:  # a process of its own: its memory is told by it
            taken, cpu, mebibytes = pool.apply(work, (paths,))
        whole = time.perf_counter() - begin
        rates[label].append(num_bytes / taken / 1e6)
        print(
            f"  {label:8} {num_bytes / taken / 1e6:7.0f} MB/s ({taken:.1f} s, {cpu:.1f} CPU-s, with its start "
            f"{whole:.1f} s), at most {mebibytes:.0f} MiB more memory; "
            f"a model is {num_bytes / NUM_AVERAGED / 2**20:.0f}"
        )

    model_mebibytes = num_bytes / NUM_AVERAGED / 2**20
    tell(
        f"average of {NUM_AVERAGED} models of {model_mebibytes:.0f} MiB",
        f"{median(rates['average']):.0f} MB/s, {mebibytes / model_mebibytes:.1f} models of memory",
        f"cat of the files: {median(rates['cat']):.0f} MB/s",
        [one / other for one, other in zip(rates["average"], rates["cat"], strict=True)],
    )


def _forget(path: Path) -> None:
    """Drop a file from the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    with contextlib.suppress(OSError):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def _cat(paths: list[Path]) -> tuple[float, float, float]:
    begin = time.perf_counter()
    with open(os.devnull, "wb") as nowhere:
        # Through a pipe: from file to /dev/null cat need not read.
        reader = subprocess.Popen(["cat", *map(str, paths)], stdout=subprocess.PIPE)
        subprocess.run(["dd", "bs=1M", "status=none"], stdin=reader.stdout, stdout=nowhere, check=True)
        reader.wait()
    return time.perf_counter() - begin, 0.0, 0.0


def _average(paths: list[Path]) -> tuple[float, float, float]:
    torch.set_num_threads(1)
    held = _most_mebibytes()
    begin, cpu = time.perf_counter(), time.process_time()
    means = average_tensors(_checked_models(paths))
    assert len(means) == NUM_TENSORS
    return time.perf_counter() - begin, time.process_time() - cpu, _most_mebibytes() - held


def _most_mebibytes() -> float:
    """Return the most memory that this process ever had, files that it mapped included."""
    (line,) = (line for line in Path("/proc/self/status").read_text().split("\n") if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fraction", type=float, default=0.25, help="of big's number of parameters")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write (default: the temporary folder)")
    parser.add_argument("--only", choices=("write", "average"))
    args = parser.parse_args()
    state = make_state(args.fraction)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        if args.only != "average":
            compare_writing(state, Path(folder), args.turns)
        if args.only != "write":
            compare_averaging(state, Path(folder))


if __name__ == "__main__":
    main()
