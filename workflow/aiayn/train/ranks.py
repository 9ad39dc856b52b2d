"""Joins the ranks (processes) of a job in a process group of torch, broadcasts the path of the
checkpoint to begin from, and lets the ranks agree when to stop.

Only rank 0 looks for a checkpoint in the run's folder. If every rank looked for itself, one rank
could resume from a checkpoint while a second rank, which does not see the file yet, starts from
nothing.
"""

import contextlib
import datetime
import os
import platform
import re
import signal
import time
from collections.abc import Iterator

import msgspec
import torch
import torch.distributed
from torch.distributed import PrefixStore, ProcessGroup  # type: ignore[attr-defined]

from aiayn.errors import LaunchError
from aiayn.runs.run_folder import RunFolder
from aiayn.train.network import choose_interface
from aiayn.train.rendezvous import JOIN_SECONDS, PeerLossError, is_peer_loss, joined_store
from aiayn.train.request import StopFlag

# For rank 0's broadcast: it may watch a heartbeat for a minute, and then reads a checkpoint of
# gigabytes from a file system that may be slow, or two of them, if the newest is torn.
START_SECONDS = 600.0
# For each collective of a training. At NCCL's own 10 minutes its watchdog would abort all ranks
# while rank 0 waits for a slow disk to save.
COLLECTIVE_SECONDS = 1800.0
_FINAL_BARRIER_SECONDS = 5.0
# A request to end outweighs USR2, which only asks for a requeue.
SIGNALS_BY_WEIGHT = (None, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a job that trains a run. `num_restarts` says how often the cluster has started
    the job again.

    `node_address` is the IP address of the process's node on the network between the nodes, or None
    if all ranks are on one node.
    """

    rank: int
    world_size: int
    job: str
    local_rank: int
    num_restarts: int = 0
    node_address: str | None = None


class MissingRankError(RuntimeError):
    """Raised if some ranks did not take part in a collective operation in time. `missing` lists
    these ranks, such as `rank 1 of 8 on n1`.
    """

    def __init__(self, missing: list[str]) -> None:
        super().__init__(", ".join(missing))
        self.missing = missing


class RankGroup:
    """All ranks (processes) of a job. `hosts` has the host of each rank. `control` is a gloo group
    for messages between ranks, or None if there is only one rank.

    The group `control` does not use GPUs, so ranks can still report a bad GPU through it after the
    process group of the training has failed.
    """

    def __init__(self, rank: Rank, hosts: list[str], control: ProcessGroup | None) -> None:
        self.rank = rank
        self.hosts = hosts
        self._control = control

    def name(self, index: int) -> str:
        """Return the name of a rank for messages, such as `rank 1 of 8 on n1`."""
        return f"rank {index} of {self.rank.world_size} on {self.hosts[index]}"

    def broadcast_start(self, full_path: str | None = None) -> str | None:
        """Broadcast from rank 0 the path of the full checkpoint from which the training begins. On
        every rank, return the path that rank 0 passed.

        The path is '' if the training begins without a checkpoint, and None if the run is already
        complete. The arguments that other ranks pass are ignored. All ranks must call this method.

        Raises:
            LaunchError: if rank 0 does not broadcast within START_SECONDS.
            RuntimeError: if the process of rank 0 has ended. `is_peer_loss` is True for this
                RuntimeError.
        """
        if self._control is None:
            return full_path
        paths = [full_path]
        try:
            torch.distributed.broadcast_object_list(paths, src=0, group=self._control)
        except RuntimeError as error:
            if is_peer_loss(error):
                raise
            raise LaunchError(
                f"job {self.rank.job}: {self.name(self.rank.rank)}: no broadcast by"
                f" {self.name(0)} within {START_SECONDS:.0f} s; rank 0 hangs, or the file system of"
                " its checkpoints; look at its log in the run's folder `submitit`"
            ) from error
        if paths[0] is None:
            # All ranks end now. Rank 0, whose process holds the store, must not end first.
            with contextlib.suppress(RuntimeError):
                self._barrier(_FINAL_BARRIER_SECONDS)
        return paths[0]

    def gather(self, text: str, *, within_seconds: float) -> list[str]:
        """Return the argument `text` of every rank, in the order of ranks.

        Raises:
            MissingRankError: on rank 0, if some ranks did not take part in time.
            RuntimeError: if the process of a different rank has ended. `is_peer_loss` is True for
                this RuntimeError. All ranks except rank 0 also get a RuntimeError if the barrier
                failed on rank 0.
        """
        if self._control is None:
            return [text]
        # all_gather_object does not say who is missing. The barrier does.
        self.meet(within_seconds=within_seconds)
        texts = [""] * self.rank.world_size
        torch.distributed.all_gather_object(texts, text, group=self._control)
        return texts

    def meet(self, *, within_seconds: float) -> None:
        """Wait until all ranks have called this method.

        Raises:
            MissingRankError, RuntimeError: for the same reasons as in `gather`.
        """
        began = time.monotonic()
        try:
            self._barrier(within_seconds)
        except RuntimeError as error:
            # torch's message on rank 0: "[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in
            # 60000 ms".
            missing = re.search(r"Ranks ([\d, ]+) failed to pass", str(error))
            if missing is None:
                raise
            names = [self.name(int(index)) for index in missing[1].split(",")]
            # Well before the time-out, the message means that a connection was closed.
            if time.monotonic() - began < 0.9 * within_seconds:
                raise PeerLossError(f"lost {', '.join(names)}") from error
            raise MissingRankError(names) from error

    def _barrier(self, seconds: float) -> None:
        # `wait_all_ranks`: otherwise the error lists only the first missing rank.
        timeout = datetime.timedelta(seconds=max(0.01, seconds))
        torch.distributed.monitored_barrier(self._control, timeout, wait_all_ranks=True)


@contextlib.contextmanager
def joined_ranks(
    folder: RunFolder, rank: Rank, device: str, stop: StopFlag | None = None
) -> Iterator[RankGroup]:
    """Join all ranks (processes) of a job in one process group of torch during the `with` block. If
    a rank fails in the block, the other ranks end as well.

    Raises:
        StopTraining: if this process gets a signal before all ranks have joined.
    """
    if rank.world_size == 1:
        yield RankGroup(rank, [platform.node()], None)
        return
    os.environ.update(
        RANK=str(rank.rank), WORLD_SIZE=str(rank.world_size), LOCAL_RANK=str(rank.local_rank)
    )
    if device == "cuda":
        # Before any communication: NCCL takes the device that is current then.
        torch.cuda.set_device(rank.local_rank)
    choose_interface(rank.node_address)
    with joined_store(
        folder.job_files_path,
        rank.rank,
        rank.world_size,
        rank.job,
        rank.num_restarts,
        address=rank.node_address,
        stop=stop,
    ) as (store, hosts):
        # No `device_id`: with it NCCL would make its communicator here, before the node check that
        # names a bad rank.
        torch.distributed.init_process_group(
            _backend(device),
            store=PrefixStore("aiayn/group", store),
            rank=rank.rank,
            world_size=rank.world_size,
            timeout=datetime.timedelta(seconds=COLLECTIVE_SECONDS),
        )
        # On gloo even if the training uses NCCL: only gloo has a monitored barrier, and it works
        # when a GPU does not.
        control = torch.distributed.new_group(
            backend="gloo", timeout=datetime.timedelta(seconds=START_SECONDS)
        )
        group = RankGroup(rank, hosts, control)
        # Rank 0 removes the store when it ends. Without this barrier it could end while a different
        # rank still reads from the store. That rank would then wait for the file for five minutes.
        group.meet(within_seconds=JOIN_SECONDS)
        yield group
        # Not after an error, because other ranks may hang in the middle of a reduction.
        torch.distributed.destroy_process_group()


def new_training_group() -> ProcessGroup:
    """Return a process group of all ranks for the training's collective operations, with the
    time-out COLLECTIVE_SECONDS. A new process group does not inherit the time-out of the default
    group. All ranks must call this function.
    """
    timeout = datetime.timedelta(seconds=COLLECTIVE_SECONDS)
    group: ProcessGroup = torch.distributed.new_group(timeout=timeout)
    return group


def any_rank_stopped(stop: StopFlag, rank: Rank) -> bool:
    """Return whether the training must stop after this update, with the same result on all ranks.
    If the training must stop, set `stop.agreed` to the signal that stops it.

    If ranks have received different signals, the signal that comes last in SIGNALS_BY_WEIGHT
    counts. For this agreement, the ranks all-reduce one number after each update, which takes
    milliseconds (tests/benchmarks/RESULTS.md).
    """
    agreed = stop.signal_number
    if rank.world_size > 1:
        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        # A signal reaches the ranks at different updates. The maximum stops all after the same one.
        weight = torch.tensor([SIGNALS_BY_WEIGHT.index(agreed)], device=device)
        torch.distributed.all_reduce(weight, op=torch.distributed.ReduceOp.MAX)
        agreed = SIGNALS_BY_WEIGHT[int(weight.item())]
    stop.agreed = agreed
    return agreed is not None


def rank_flags(rank: Rank, device: str) -> list[str]:
    """Return the flags of fairseq for the rank (process) and the number of ranks.

    A single rank needs these flags, too. Without these flags, fairseq starts a process for every
    GPU that it sees, each with a whole batch.
    """
    if rank.world_size == 1:
        return ["--distributed-world-size", "1"]
    return [
        "--distributed-init-method",
        "env://",
        # The ranks exist already, so fairseq must not start processes of its own.
        "--distributed-no-spawn",
        "--distributed-world-size",
        str(rank.world_size),
        "--distributed-rank",
        str(rank.rank),
        "--distributed-backend",
        _backend(device),
        "--ddp-backend",
        # The wrapper that `compat.install_ranks` replaces by FlatGradients.
        "legacy_ddp",
        "--device-id",
        str(rank.local_rank),
        # Each rank reads the checkpoint. Otherwise fairseq's rank 0 sends it to the others.
        "--load-checkpoint-on-all-dp-ranks",
    ]


def _backend(device: str) -> str:
    return "nccl" if device == "cuda" else "gloo"
