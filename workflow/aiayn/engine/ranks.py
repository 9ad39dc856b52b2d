"""The ranks of one job: who they are, how they agree on where to begin, and on when to stop.

Rank 0 keeps the run's folder. The others do what it tells them: had each looked for itself, one could resume where
another begins anew.
"""

import contextlib
import os
from collections.abc import Iterator

import msgspec
import torch
import torch.distributed

from aiayn.launch import StopFlag

UPDATES_BETWEEN_STOP_CHECKS = 10  # with several ranks, which must agree by an all-reduce
_LOWEST_PORT, _NUM_PORTS = 20000, 12000  # below those that Linux gives to outgoing connections


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """A process among those of the job."""

    index: int
    num_ranks: int
    job: str
    local_index: int


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Where all ranks begin: at a full checkpoint or from nothing; not `is_needed` if nothing is left to train."""

    is_needed: bool
    full_path: str | None = None


@contextlib.contextmanager
def joined_ranks(rank: Rank, device: str) -> Iterator[None]:
    """Join the job's ranks in one process group, by `env://`; a rank that dies in the block ends the others."""
    if rank.num_ranks == 1:
        yield
        return
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(_LOWEST_PORT + int(rank.job) % _NUM_PORTS))
    os.environ.update(RANK=str(rank.index), WORLD_SIZE=str(rank.num_ranks), LOCAL_RANK=str(rank.local_index))
    if device == "cuda":
        torch.cuda.set_device(rank.local_index)
    torch.distributed.init_process_group(_backend(device), init_method="env://")
    yield
    torch.distributed.destroy_process_group()  # not after an error: other ranks may hang in the middle of a reduction


def agree_on_start(rank: Rank, start: Start | None) -> Start:
    """Return rank 0's `start` on every rank; the others give none."""
    told = [msgspec.json.encode(start) if start else b""]
    if rank.num_ranks > 1:
        torch.distributed.broadcast_object_list(told, src=0)
    return msgspec.json.decode(told[0], type=Start)


class StopVote:
    """Asks whether any rank was signalled; all ranks get the same answer after the same update."""

    def __init__(self, stop: StopFlag, rank: Rank) -> None:
        self._stop = stop
        self._num_ranks = rank.num_ranks
        self._num_updates = 0

    def is_carried(self) -> bool:
        """Return whether to stop after this update; several ranks look every few updates only."""
        is_signalled = self._stop.signal_number is not None
        if self._num_ranks == 1:
            return is_signalled
        self._num_updates += 1
        if self._num_updates % UPDATES_BETWEEN_STOP_CHECKS:
            return False
        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        flag = torch.tensor([int(is_signalled)], device=device)
        torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX)
        return bool(flag.item())


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
