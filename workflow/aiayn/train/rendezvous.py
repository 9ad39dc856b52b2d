"""Performs the rendezvous of a job's ranks: rank 0 opens a TCPStore, where each rank registers its
host.

The system chooses a free port for the store, and a file in the run's folder tells it to the other
ranks. torch has no such rendezvous, and does not name missing ranks; everything else between ranks
is torch's (`aiayn.train.ranks`).
"""

import contextlib
import datetime
import os
import platform
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from aiayn.errors import LaunchError
from aiayn.provenance import replace_on_success

# Minutes, because all ranks of a node import from a cold parallel file system at once, and nodes
# may boot late. After a rank has failed, a cluster's launcher ends the others earlier.
JOIN_SECONDS = 300.0
_PROBE_SECONDS = 3.0
_HOST_KEY = "aiayn/host"
# What gloo and NCCL print when another rank's process has ended; neither has an error type for it.
# NCCL's ncclSystemError is not among them: a missing interface, a small /dev/shm or too little
# locked memory also cause it.
_PEER_LOSS_WORDS = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Connection was likely closed",
    "Broken pipe",
    "ncclRemoteError",
)


class PeerLossError(RuntimeError):
    """Another rank's process has most likely ended; like the errors that gloo and NCCL raise
    then.
    """


def is_peer_loss(error: BaseException) -> bool:
    """Return whether an error only says that the process of another rank has ended."""
    if isinstance(error, PeerLossError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in _PEER_LOSS_WORDS)


def join(
    path: Path, rank: int, world_size: int, job: str, num_restarts: int = 0
) -> tuple[TCPStore, list[str]]:
    """Return the job's store and each rank's host, once all ranks have registered.

    `path` is a folder that all ranks see, where rank 0 writes its port.

    Raises:
        LaunchError: naming rank 0, or the ranks that are missing, after JOIN_SECONDS.
    """
    deadline = time.monotonic() + JOIN_SECONDS
    port_path = path / f"{job}_{num_restarts}_port"  # a restarted job has the same number
    if rank == 0:
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        with replace_on_success(port_path) as partial_path:
            partial_path.write_text(str(store.port), encoding="utf-8")
    else:
        store = _find_store(port_path, job, deadline)
    keys = [f"{_HOST_KEY}/{index}" for index in range(world_size)]
    try:
        store.set(keys[rank], platform.node())
        store.wait(keys, datetime.timedelta(seconds=max(1.0, deadline - time.monotonic())))
        return store, [store.get(key).decode() for key in keys]
    except RuntimeError as error:
        if is_peer_loss(error):  # rank 0 has ended, and with it the store
            raise
        raise LaunchError(_missing(store, keys, job)) from error
    finally:
        if rank == 0:
            port_path.unlink(missing_ok=True)


def _find_store(port_path: Path, job: str, deadline: float) -> TCPStore:
    """Return rank 0's store, as soon as its port is written and answers."""
    address = os.environ.get("MASTER_ADDR", "127.0.0.1")
    while time.monotonic() < deadline:
        # A listed folder is read again where a network file system caches absent names.
        if port_path.parent.is_dir() and port_path.name in os.listdir(port_path.parent):
            # The port may belong to a process that has ended. torch reports a refused connection
            # with a long trace; so a plain socket tries first.
            with contextlib.suppress(OSError, RuntimeError):
                port = int(port_path.read_text(encoding="utf-8"))
                socket.create_connection((address, port), timeout=_PROBE_SECONDS).close()
                timeout = datetime.timedelta(seconds=JOIN_SECONDS)
                return TCPStore(address, port, is_master=False, timeout=timeout)
        time.sleep(0.05)
    raise LaunchError(
        f"{platform.node()}: job {job}: no answer of rank 0 at {address} within"
        f" {JOIN_SECONDS:.0f} s; rank 0 has ended, or the network between the nodes blocks its"
        " port; look at the other ranks' logs"
    )


def _missing(store: TCPStore, keys: Sequence[str], job: str) -> str:
    host_by_rank = {
        rank: store.get(key).decode() for rank, key in enumerate(keys) if store.check([key])
    }
    missing = ", ".join(str(rank) for rank in range(len(keys)) if rank not in host_by_rank)
    registered = ", ".join(f"rank {rank} on {host}" for rank, host in host_by_rank.items())
    return (
        f"{platform.node()}: job {job}: {len(host_by_rank)} of {len(keys)} ranks registered within"
        f" {JOIN_SECONDS:.0f} s; missing ranks: {missing}; registered: {registered}; look at the"
        " job's other nodes, and at the ranks' logs in the run's folder `submitit`"
    )
