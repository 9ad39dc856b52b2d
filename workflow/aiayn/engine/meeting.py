"""Where the ranks of a job meet: a store that rank 0 opens at a port of the machine, and knows by a word for its own.

Two jobs of one machine may want the same port (two clusters count their jobs from 1). Then the second takes another one
of its row; and a rank that finds a strange store goes on looking, instead of joining another job's training.
"""

import contextlib
import datetime
import os
import platform
import socket
import threading
import time
from collections.abc import Sequence

import torch.distributed
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

from aiayn.errors import LaunchError
from aiayn.launch.job import num_restarts

NUM_PORTS_TRIED = 8
# Minutes, for imports from a cold parallel file system by all ranks of a node at once, and for nodes that boot late. A
# rank that died is seldom waited for so long: srun ends the others with it (--kill-on-bad-exit).
JOIN_SECONDS = 300.0
_LOWEST_PORT, _NUM_PORTS = 20000, 12000  # below those that Linux gives to outgoing connections
# Primes, so that the next job is neither a restart of this one nor in its row.
_STEP_OF_RESTART, _STEP_OF_ROW = 1009, 1511
_LOOK_SECONDS = 3.0
_WORD_KEY, _HERE_KEY = "aiayn/job", "aiayn/here"
# What gloo and NCCL say when another rank's process is gone; neither has a type of error for it. NCCL's ncclSystemError
# is none: it is also said of a missing interface, a small /dev/shm or too little locked memory of this very node.
_PEER_LOSS_WORDS = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Connection was likely closed",
    "Broken pipe",
    "ncclRemoteError",
)


def ports_of(job: str) -> list[int]:
    """Return the ports that a job tries, in order; MASTER_PORT alone, where somebody has set it.

    A restarted job, which has the same number, begins with another port: the earlier ranks may not be gone.
    """
    if "MASTER_PORT" in os.environ:
        return [int(os.environ["MASTER_PORT"])]
    offset = int(job.partition("_")[0]) + _STEP_OF_RESTART * num_restarts()
    return [_LOWEST_PORT + (offset + _STEP_OF_ROW * turn) % _NUM_PORTS for turn in range(NUM_PORTS_TRIED)]


def meet(index: int, num_ranks: int, job: str) -> TCPStore:
    """Return the store of this job, once all ranks are there; MASTER_ADDR and MASTER_PORT say then where it is.

    Raises:
        LaunchError: naming the port or the ranks that are missing, after JOIN_SECONDS.
    """
    address = os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    ports, word = ports_of(job), f"{job} {num_restarts()} {os.environ.get('SUBMITIT_FOLDER', '')}"
    deadline = time.monotonic() + JOIN_SECONDS
    store, port = _opened(ports, word, job) if index == 0 else _found(address, ports, word, deadline)
    os.environ["MASTER_PORT"] = str(port)
    store.set(f"{_HERE_KEY}/{index}", platform.node())
    _wait_for_all(store, num_ranks, job, deadline)
    return store


def _opened(ports: Sequence[int], word: str, job: str) -> tuple[TCPStore, int]:
    """Open the store at the first port that nobody has."""
    for port in ports:
        with contextlib.suppress(RuntimeError):  # the port is taken
            store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
            store.set(_WORD_KEY, word)
            return store, port
    raise LaunchError(f"{platform.node()}: job {job}: every port of {list(ports)} is taken; start the training again")


class _Look:
    """A look for this job's store at one port, in a thread: what is there may be no store, and never answer.

    `store` is what was found; `is_over` without one, if nobody is there yet, or it is another job's.
    """

    def __init__(self, address: str, port: int, word: str) -> None:
        self.store: TCPStore | None = None
        self._place, self._word = (address, port), word
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether it has come to an end."""
        return not self._thread.is_alive()

    def _look(self) -> None:
        with contextlib.suppress(RuntimeError, OSError):  # torch has no narrower error for a connection that fails
            # Is anybody there at all? Of a port where nobody is, torch would say so on a page of its own.
            socket.create_connection(self._place, timeout=_LOOK_SECONDS).close()
            store = TCPStore(*self._place, is_master=False, timeout=datetime.timedelta(seconds=_LOOK_SECONDS))
            if store.check([_WORD_KEY]) and store.get(_WORD_KEY).decode() == self._word:
                store.set_timeout(datetime.timedelta(seconds=JOIN_SECONDS))
                self.store = store


def _found(address: str, ports: Sequence[int], word: str, deadline: float) -> tuple[TCPStore, int]:
    """Look for the store at all ports, again and again, until rank 0 has opened it."""
    look_by_port = {port: _Look(address, port, word) for port in ports}
    while time.monotonic() < deadline:
        for port, look in look_by_port.items():
            if look.is_over and look.store is not None:
                return look.store, port
            if look.is_over:
                look_by_port[port] = _Look(address, port, word)
        time.sleep(0.05)
    raise LaunchError(
        f"{platform.node()}: no rank 0 at {address}, ports {list(ports)}, within {JOIN_SECONDS:.0f} s; it died before "
        "that, or the network between the nodes hides it; the other ranks' logs may say more"
    )


def _wait_for_all(store: TCPStore, num_ranks: int, job: str, deadline: float) -> None:
    keys = [f"{_HERE_KEY}/{index}" for index in range(num_ranks)]
    try:
        store.wait(keys, datetime.timedelta(seconds=max(1.0, deadline - time.monotonic())))
    except RuntimeError as error:
        if is_peer_loss(error):  # rank 0 is gone with the store
            raise
        here = [index for index, key in enumerate(keys) if store.check([key])]
        missing = ", ".join(str(index) for index in range(num_ranks) if index not in here)
        hosts = ", ".join(f"{index} on {store.get(keys[index]).decode()}" for index in here)
        raise LaunchError(
            f"{platform.node()}: job {job}: not all {num_ranks} ranks met within {JOIN_SECONDS:.0f} s; missing: "
            f"{missing}; here: {hosts}; look at the other nodes of the job, and at the ranks' logs in the run's folder "
            "`submitit`"
        ) from error


def is_peer_loss(error: BaseException) -> bool:
    """Return whether an error says no more than that the process of another rank is gone."""
    return isinstance(error, RuntimeError) and any(word in str(error) for word in _PEER_LOSS_WORDS)


def init_process_group(backend: str, store: TCPStore, index: int, num_ranks: int) -> None:
    """Make all ranks one group over the store."""
    torch.distributed.init_process_group(
        backend, store=PrefixStore("aiayn/group", store), rank=index, world_size=num_ranks
    )


def part_from_others(store: TCPStore, key: str, index: int, num_ranks: int, *, within_seconds: float) -> None:
    """Let rank 0, whose process holds the store, not end before the others have heard what stands at `key`."""
    with contextlib.suppress(RuntimeError):
        num_heard = store.add(f"{key}/num_heard", 1)
        deadline = time.monotonic() + within_seconds
        while index == 0 and num_heard < num_ranks and time.monotonic() < deadline:
            time.sleep(0.01)
            num_heard = store.add(f"{key}/num_heard", 0)
