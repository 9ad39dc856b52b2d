"""Performs the rendezvous of a job's ranks: rank 0 opens a TCPStore, where each rank registers its
host.

Two jobs of one machine may choose the same port (two clusters count their jobs from 1). Then the
second takes the next port of its list; a rank that finds the store of another job continues to
search. torch has no such fallback, and does not name missing ranks; everything else between ranks
is torch's (`aiayn.train.ranks`).
"""

import contextlib
import datetime
import os
import platform
import queue
import socket
import threading
import time
from collections.abc import Sequence

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from aiayn.errors import LaunchError

NUM_PORTS_TRIED = 8
# Minutes, because all ranks of a node import from a cold parallel file system at once, and nodes
# may boot late. After a rank has failed, a cluster's launcher ends the others earlier.
JOIN_SECONDS = 300.0
_LOWEST_PORT, _NUM_PORTS = 20000, 12000  # below those that Linux gives to outgoing connections
# Primes, so that the next job's number neither equals a restart's number nor is in its list.
_STEP_OF_RESTART, _STEP_OF_LIST = 1009, 1511
_PROBE_SECONDS = 3.0
_JOB_KEY, _HOST_KEY = "aiayn/job", "aiayn/host"
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


def ports_of(job: str, num_restarts: int = 0) -> list[int]:
    """Return the ports that a job tries, in order; only MASTER_PORT, where it is set.

    A restarted job, which has the same number, begins with another port: the earlier ranks may
    still be running.
    """
    if "MASTER_PORT" in os.environ:
        return [int(os.environ["MASTER_PORT"])]
    offset = int(job.partition("_")[0]) + _STEP_OF_RESTART * num_restarts
    return [
        _LOWEST_PORT + (offset + _STEP_OF_LIST * turn) % _NUM_PORTS
        for turn in range(NUM_PORTS_TRIED)
    ]


def join(rank: int, world_size: int, job: str, num_restarts: int = 0) -> tuple[TCPStore, list[str]]:
    """Return the job's store and each rank's host, once all ranks have registered; sets MASTER_ADDR
    and MASTER_PORT.

    Raises:
        LaunchError: naming the ports, or the ranks that are missing, after JOIN_SECONDS.
    """
    address = os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    deadline = time.monotonic() + JOIN_SECONDS
    ports, identity = (
        ports_of(job, num_restarts),
        f"{job} {num_restarts} {os.environ.get('SUBMITIT_FOLDER', '')}",
    )
    store = (
        _open_store(ports, identity, job)
        if rank == 0
        else _find_store(address, ports, identity, deadline)
    )
    os.environ["MASTER_PORT"] = str(store.port)
    store.set(f"{_HOST_KEY}/{rank}", platform.node())
    keys = [f"{_HOST_KEY}/{index}" for index in range(world_size)]
    try:
        store.wait(keys, datetime.timedelta(seconds=max(1.0, deadline - time.monotonic())))
    except RuntimeError as error:
        if is_peer_loss(error):  # rank 0 has ended, and with it the store
            raise
        raise LaunchError(_missing(store, keys, job)) from error
    return store, [store.get(key).decode() for key in keys]


def _open_store(ports: Sequence[int], identity: str, job: str) -> TCPStore:
    """Open the store at the first port that is free."""
    for port in ports:
        with contextlib.suppress(RuntimeError):  # the port is taken
            store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
            store.set(_JOB_KEY, identity)
            return store
    raise LaunchError(
        f"{platform.node()}: job {job}: every port of {list(ports)} is taken; start the training"
        " again"
    )


def _find_store(address: str, ports: Sequence[int], identity: str, deadline: float) -> TCPStore:
    """Look for the job's store at all ports, each in a thread, because a foreign server may never
    answer.
    """
    stores: queue.Queue[TCPStore] = queue.Queue()

    def probe(port: int) -> None:
        while stores.empty() and time.monotonic() < deadline:
            with contextlib.suppress(
                RuntimeError, OSError
            ):  # torch has no narrower error for a failed connection
                # torch reports a refused connection with a long trace; so a plain socket tries
                # first.
                socket.create_connection((address, port), timeout=_PROBE_SECONDS).close()
                store = TCPStore(
                    address,
                    port,
                    is_master=False,
                    timeout=datetime.timedelta(seconds=_PROBE_SECONDS),
                )
                if store.check([_JOB_KEY]) and store.get(_JOB_KEY).decode() == identity:
                    store.set_timeout(datetime.timedelta(seconds=JOIN_SECONDS))
                    stores.put(store)
            time.sleep(0.05)

    for port in ports:
        threading.Thread(target=probe, args=(port,), daemon=True).start()
    try:
        return stores.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        raise LaunchError(
            f"{platform.node()}: rank 0 has no store at {address}, ports {list(ports)}, after"
            f" {JOIN_SECONDS:.0f} s; rank 0 has ended, or the network between the nodes blocks"
            " these ports; look at the other ranks' logs"
        ) from None


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
