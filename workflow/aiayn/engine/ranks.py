"""The ranks of one job: who they are, how they agree on where to begin, and on when to stop.

Rank 0 keeps the run's folder. The others do what it tells them: had each looked for itself, one could resume where
another begins anew.
"""

import contextlib
import datetime
import os
import platform
import signal
from collections.abc import Iterator

import msgspec
import torch
import torch.distributed
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from aiayn.engine.meeting import init_process_group, is_peer_loss, meet, part_from_others
from aiayn.errors import LaunchError
from aiayn.launch.job import StopFlag

# For rank 0 to say where to begin: it may watch another's heartbeat for a minute, and then reads a whole checkpoint, of
# gigabytes, from a file system that may be slow; twice, if the newest is torn.
START_SECONDS = 600.0
GATHER_SECONDS = 30.0
_HEARD_SECONDS = 5.0


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


class StartLine:
    """Where the other ranks wait for rank 0's word: the store by which they joined, which needs no device that works.

    So that a device, or what joins them, fails in the job's first check, and not before it.
    """

    def __init__(self, rank: Rank, store: TCPStore | None) -> None:
        self._rank = rank
        self._store = store
        self._num_calls = 0

    def agree(self, start: Start | None) -> Start:
        """Return rank 0's `start` on every rank; the others give none. Every rank calls equally often.

        Raises:
            LaunchError: if rank 0 says nothing within START_SECONDS.
            RuntimeError: one of `is_peer_loss`, if rank 0's process is gone.
        """
        self._num_calls += 1
        key = f"aiayn/start/{self._num_calls}"
        if start is None:
            start = self._heard(key)
        elif self._store is not None:
            self._store.set(key, msgspec.json.encode(start).decode())
        if self._store is not None and not start.is_needed:
            part_from_others(self._store, key, self._rank.index, self._rank.num_ranks, within_seconds=_HEARD_SECONDS)
        return start

    def gather(self, text: str) -> list[str]:
        """Return on rank 0 what every rank gives, in their order; less that of ranks that are gone, or late.

        For what is told after training, when a rank may end as it likes: nothing waits longer than GATHER_SECONDS.
        """
        if self._store is None:
            return [text]
        keys = [f"aiayn/gathered/{index}" for index in range(self._rank.num_ranks)]
        with contextlib.suppress(RuntimeError):
            self._store.set(keys[self._rank.index], text)
            if self._rank.index == 0:
                self._store.wait(keys, datetime.timedelta(seconds=GATHER_SECONDS))
        if self._rank.index:
            return []
        return [self._store.get(key).decode() for key in keys if self._store.check([key])]

    def _heard(self, key: str) -> Start:
        assert self._store is not None, "rank 0 alone gives a start, and is never without one"
        try:
            self._store.wait([key], datetime.timedelta(seconds=START_SECONDS))
        except RuntimeError as error:
            if is_peer_loss(error):
                raise
            raise LaunchError(
                f"{platform.node()}: job {self._rank.job}: no word of rank 0 within {START_SECONDS:.0f} s: it hangs, "
                "or the file system that it reads checkpoints from; look at its log in the run's folder `submitit`"
            ) from error
        return msgspec.json.decode(self._store.get(key), type=Start)


@contextlib.contextmanager
def joined_ranks(rank: Rank, device: str) -> Iterator[StartLine]:
    """Join the job's ranks in one process group; a rank that dies in the block ends the others."""
    if rank.num_ranks == 1:
        yield StartLine(rank, None)
        return
    os.environ.update(RANK=str(rank.index), WORLD_SIZE=str(rank.num_ranks), LOCAL_RANK=str(rank.local_index))
    if device == "cuda":
        torch.cuda.set_device(rank.local_index)
    store = meet(rank.index, rank.num_ranks, rank.job)
    init_process_group(_backend(device), store, rank.index, rank.num_ranks)
    yield StartLine(rank, store)
    torch.distributed.destroy_process_group()  # not after an error: other ranks may hang in the middle of a reduction


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
    """Return the flags by which fairseq finds its place among the ranks.

    A rank that is alone must say so: fairseq would start a process for every GPU that it sees, each with a whole batch.
    """
    if rank.num_ranks == 1:
        return ["--distributed-world-size", "1"]
    return [
        "--distributed-init-method", "env://", "--distributed-no-spawn",
        "--distributed-world-size", str(rank.num_ranks), "--distributed-rank", str(rank.index),
        "--distributed-backend", _backend(device), "--ddp-backend", "legacy_ddp",
        "--device-id", str(rank.local_index), "--load-checkpoint-on-all-dp-ranks",
    ]  # fmt: skip


def _backend(device: str) -> str:
    return "nccl" if device == "cuda" else "gloo"
