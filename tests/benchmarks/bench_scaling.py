"""Updates of 8 batches by 1, 2, 4 and 8 ranks over gloo: measured, and what as many cores of their own would give.

    python -m tests.benchmarks.bench_scaling [--system base --scale multi30k --updates 3]

Each rank has one thread and a model of its own; it makes 8 / n of the batches (the synthetic ones of bench_step.py),
and all add up their gradients, flattened into one tensor as `legacy_ddp` does. Ranks beyond the cores share these and
are no scaling: of them only CPU seconds and the sum of gradients are told. Predicted is t(n) = (8 / n) t_batch +
t_sum(n), with the CPU seconds of a batch on one rank, and t_sum(n) as measured here.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import torch
import torch.distributed
from torch import Tensor

from aiayn.spec.system import read_system
from tests.benchmarks import bench_step
from tests.benchmarks.table import tell

NUM_BATCHES = 8
RANKS = (1, 2, 4, 8)


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Medians of one rank's updates, in seconds: CPU seconds of its batches, and wall seconds."""

    batches_cpu: float
    batches_wall: float
    sum_wall: float
    update_wall: float
    num_parameters: int


def run_rank(index: int, num_ranks: int, store: Path, scale: str, system: str, num_updates: int) -> Measured:
    """Make updates as one rank of several."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store / 'store'}", rank=index, world_size=num_ranks
    )
    training = msgspec.structs.replace(read_system(system, scale).training, p_drop=0.0)
    model = bench_step.make_model(training, bench_step.VOCABULARY_SIZE[scale])
    source, moved, target = bench_step.make_batch(scale, "cpu")
    parameters = list(model.parameters())

    def compute() -> None:
        for _ in range(NUM_BATCHES // num_ranks):
            loss: Tensor = model(source, None, moved, target_BT=target, eps_ls=bench_step.EPS_LS)[0]
            loss.backward()

    def add_up() -> None:
        flat = torch.cat([parameter.grad.flatten() for parameter in parameters if parameter.grad is not None])
        torch.distributed.all_reduce(flat)

    rows: list[tuple[float, float, float, float]] = []
    for _ in range(num_updates + 1):
        model.zero_grad()
        torch.distributed.barrier()
        begin, cpu = time.perf_counter(), time.process_time()
        compute()
        computed, cpu = time.perf_counter(), time.process_time() - cpu
        torch.distributed.barrier()  # else the sum's time would have the wait for the slowest in it
        ready = time.perf_counter()
        add_up()
        end = time.perf_counter()
        rows.append((cpu, computed - begin, end - ready, end - begin))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    cpu, wall, summing, update = (median(column) for column in zip(*rows[1:], strict=True))
    return Measured(
        batches_cpu=cpu, batches_wall=wall, sum_wall=summing, update_wall=update,
        num_parameters=sum(parameter.numel() for parameter in parameters),
    )  # fmt: skip


def measure(num_ranks: int, **what: Any) -> list[Measured]:
    """Let so many forks of this process make updates, and return what each took."""
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for index in range(num_ranks):
            child = os.fork()
            if child == 0:
                _end_with(lambda index=index: run_rank(index, num_ranks, Path(folder), **what), Path(folder), index)
            children.append(child)
        failed = [child for child in children if os.waitpid(child, 0)[1]]
        if failed:
            raise SystemExit(f"{num_ranks} ranks: {len(failed)} failed, see above")
        return [
            msgspec.json.decode((Path(folder) / str(index)).read_bytes(), type=Measured) for index in range(num_ranks)
        ]


def _end_with(work: Callable[[], Measured], folder: Path, index: int) -> None:
    """Do a fork's work, write what it found, and end the fork."""
    status = 1
    try:
        (folder / str(index)).write_bytes(msgspec.json.encode(work()))
        status = 0
    finally:
        os._exit(status)


def main() -> None:
    """Print a line for each number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=bench_step.SYSTEMS, default="multi30k")
    parser.add_argument("--system", default="base")
    parser.add_argument("--updates", type=int, default=3)
    args = parser.parse_args()
    num_cores = len(os.sched_getaffinity(0))
    print(f"torch {torch.__version__}, gloo, {num_cores} hardware threads, {NUM_BATCHES} batches an update")
    alone = per_batch = 0.0
    for num_ranks in RANKS:
        ranks = measure(num_ranks, scale=args.scale, system=args.system, num_updates=args.updates)
        cpu = max(rank.batches_cpu for rank in ranks)
        summing = max(rank.sum_wall for rank in ranks)
        update = max(rank.update_wall for rank in ranks)
        if num_ranks == 1:
            alone, per_batch = update, cpu / NUM_BATCHES
        predicted = NUM_BATCHES / num_ranks * per_batch + (summing if num_ranks > 1 else 0.0)
        megabytes = 4 * ranks[0].num_parameters / 1e6
        if num_ranks > 1:
            cores = f"{num_ranks} ranks, {num_cores} hardware threads"
            ours = f"{alone / update:.2f} x" if num_ranks <= num_cores else "oversubscribed: no scaling"
            expected = f"predicted with a core each: {NUM_BATCHES * per_batch / predicted:.2f} x; bound {num_ranks} x"
            shares = [alone / update / num_ranks] if num_ranks <= num_cores else []
            tell(f"speed-up of an update of 8 batches, {args.scale}'s {args.system}, {cores}", ours, expected, shares)
            what = f"sum of gradients of {megabytes:.0f} MB by gloo, {cores}"
            tell(what, f"{summing * 1e3:.1f} ms", f"{summing / update:.1%} of the update")
        measured = f"{alone / update:4.2f} x" if num_ranks <= num_cores else "     -"
        print(
            f"{num_ranks} ranks: batches {cpu:6.2f} CPU-s a rank, sum of {megabytes:.0f} MB {summing * 1e3:7.1f} ms, "
            f"update {update:6.2f} s, measured {measured}, predicted {NUM_BATCHES * per_batch / predicted:4.2f} x"
            + ("" if num_ranks <= num_cores else f" (with {num_ranks} cores; here they share {num_cores})")
        )


if __name__ == "__main__":
    main()
