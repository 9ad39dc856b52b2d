"""The ranks of one job: who they are, how they agree on where to begin, and on when to stop.

Rank 0 keeps the run's folder. The others do what it tells them: had each looked for itself, one could resume where
another begins anew.
"""

import contextlib
import os
import signal
from collections.abc import Iterator

import msgspec
import torch
import torch.distributed

from aiayn.engine.meeting import init_process_group, meet
from aiayn.launch.job import StopFlag


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """A process among those of a job, the `job_number`-th that trains the run, as far as its driver knows."""

    index: int
    num_ranks: int
    job: str
    local_index: int
    job_number: int = 1


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Where all ranks begin: at a full checkpoint or from nothing; not `is_needed` if nothing is left to train."""

    is_needed: bool
    full_path: str | None = None


@contextlib.contextmanager
def joined_ranks(rank: Rank, device: str) -> Iterator[None]:
    """Join the job's ranks in one process group; a rank that dies in the block ends the others."""
    if rank.num_ranks == 1:
        yield
        return
    os.environ.update(RANK=str(rank.index), WORLD_SIZE=str(rank.num_ranks), LOCAL_RANK=str(rank.local_index))
    if device == "cuda":
        torch.cuda.set_device(rank.local_index)
    init_process_group(_backend(device), meet(rank.index, rank.num_ranks, rank.job), rank.index, rank.num_ranks)
    yield
    torch.distributed.destroy_process_group()  # not after an error: other ranks may hang in the middle of a reduction


def agree_on_start(rank: Rank, start: Start | None) -> Start:
    """Return rank 0's `start` on every rank; the others give none."""
    told = [msgspec.json.encode(start) if start else b""]
    if rank.num_ranks > 1:
        torch.distributed.broadcast_object_list(told, src=0)
    return msgspec.json.decode(told[0], type=Start)


class StopVote:
    """Asks whether any rank was signalled, and by what; all ranks get the same answer after the same update.

    With several ranks by an all-reduce of one number after each update: tests/benchmarks/bench_vote.py prints its cost.
    """

    def __init__(self, stop: StopFlag, rank: Rank) -> None:
        self._stop = stop
        self._num_ranks = rank.num_ranks

    def is_carried(self) -> bool:
        """Return whether to stop after this update; then `agreed` of the flag is the weightiest signal of any rank."""
        own = self._stop.signal_number
        if self._num_ranks == 1:
            self._stop.agreed = own
            return own is not None
        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        weight = torch.tensor([_weight(own)], device=device)
        torch.distributed.all_reduce(weight, op=torch.distributed.ReduceOp.MAX)
        self._stop.agreed = _of_weight(int(weight.item()))
        return self._stop.agreed is not None


def _weight(number: signal.Signals | None) -> int:
    """Return how much a signal counts: a wish to end outweighs USR2, after which another job is to go on."""
    if number is None:
        return 0
    return 1 if number == signal.SIGUSR2 else 1 + int(number)


def _of_weight(weight: int) -> signal.Signals | None:
    if weight == 0:
        return None
    return signal.SIGUSR2 if weight == 1 else signal.Signals(weight - 1)


def rank_flags(rank: Rank, device: str) -> list[str]:
    """Return the flags by which fairseq finds its place among the ranks."""
    if rank.num_ranks == 1:
        return []
    return [
        "--distributed-init-method", "env://", "--distributed-no-spawn",
        "--distributed-world-size", str(rank.num_ranks), "--distributed-rank", str(rank.index),
        "--distributed-backend", _backend(device), "--ddp-backend", "legacy_ddp",
        "--device-id", str(rank.local_index), "--load-checkpoint-on-all-dp-ranks",
    ]  # fmt: skip


def _backend(device: str) -> str:
    return "nccl" if device == "cuda" else "gloo"
