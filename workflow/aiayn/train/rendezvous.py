"""Lets the ranks (processes) of a job find each other: rank 0 opens a key-value store of torch, and
each rank registers its host in this store.

Ranks on one node share a FileStore. The FileStore is in a folder that rank 0 creates and that only
its user can enter, so no network port is open. Ranks on several nodes share a TCPStore, which
listens only at the address of rank 0's node. Rank 0 also writes a file, the invitation, into the
run's folder. Only the user of the job can read the invitation. The invitation says where the store
is and contains a key. The registration of a rank counts only if it is signed with this key.

torch does not have a rendezvous with a secret key, and its errors do not list missing ranks. All
other communication between ranks uses torch (`aiayn.train.ranks`).
"""

import contextlib
import hashlib
import hmac
import os
import platform
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from torch.distributed import FileStore, Store, TCPStore  # type: ignore[attr-defined]

from aiayn.errors import LaunchError
from aiayn.provenance import replace_on_success
from aiayn.runs.locks import is_held, take_lock
from aiayn.train.request import StopFlag

# Minutes, because all ranks of a node import from a cold parallel file system at once, and nodes
# may boot late. After a rank has failed, a cluster's launcher ends the others earlier.
JOIN_SECONDS = 300.0
_POLL_SECONDS = 0.05
_PROBE_SECONDS = 3.0
_HOST_KEY = "aiayn/host"
# What gloo and NCCL print when the process of a different rank has ended. They do not have an error
# type for it. NCCL's ncclSystemError is not in the list, because a missing interface, a small
# /dev/shm or too little locked memory also cause it.
_PEER_LOSS_WORDS = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Connection was likely closed",
    "Broken pipe",
    "ncclRemoteError",
)


class PeerLossError(RuntimeError):
    """Raised if the process of a different rank has most likely ended. `is_peer_loss` recognises a
    PeerLossError, and also the errors that gloo and NCCL raise if the process of a different rank
    has ended.
    """


class Invitation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Says where the store of a job is, and contains the key that a rank must know to register.

    If all ranks are on one node, the store is a FileStore in `folder`. If there are several nodes,
    the store is a TCPStore at `address` and `port`, and `folder` is ''.
    """

    key: str
    folder: str = ""
    address: str = ""
    port: int = 0

    def open(self) -> Store | None:
        """Open and return the store of the job, or return None if the process of rank 0 has ended
        and only its invitation is left.
        """
        if self.folder:
            return FileStore(_store_path(self.folder)) if self.is_rank_zero_alive() else None
        # torch reports a refused connection with a long trace, so a plain socket tries first.
        with contextlib.suppress(OSError, RuntimeError):
            socket.create_connection((self.address, self.port), timeout=_PROBE_SECONDS).close()
            return TCPStore(self.address, self.port, is_master=False)
        return None

    def is_rank_zero_alive(self) -> bool:
        """Return whether the process of rank 0 still holds its lock in `folder`. For a TCPStore the
        result is always True, because a TCPStore itself notices if its server has ended.
        """
        return not self.folder or is_held(_lock_path(self.folder)) is not False

    def sign(self, rank: int, host: str) -> str:
        """Return the signature of a rank's registration, in hexadecimal digits."""
        # The rank is part of the message, so a signature cannot be used again for another rank.
        message = f"{rank} {host}".encode()
        return hmac.new(self.key.encode(), message, hashlib.sha256).hexdigest()

    def register(self, store: Store, rank: int) -> None:
        """Write the name of this host into the store, with a signature."""
        host = platform.node()
        store.set(f"{_HOST_KEY}/{rank}", f"{host} {self.sign(rank, host)}")

    def registered_host(self, store: Store, rank: int) -> str | None:
        """Return the host of a rank, or None if the rank has not registered or has registered
        without the key.
        """
        name = f"{_HOST_KEY}/{rank}"
        if not store.check([name]):
            return None
        host, _, signature = store.get(name).decode(errors="replace").partition(" ")
        # Compared in constant time, so that the time of a refusal does not help to guess it.
        is_signed = hmac.compare_digest(signature.encode(), self.sign(rank, host).encode())
        return host if is_signed else None


def is_peer_loss(error: BaseException) -> bool:
    """Return whether an error only means that the process of a different rank has ended."""
    if isinstance(error, PeerLossError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in _PEER_LOSS_WORDS)


@contextlib.contextmanager
def joined_store(
    path: Path,
    rank: int,
    world_size: int,
    job: str,
    num_restarts: int = 0,
    *,
    address: str | None = None,
    stop: StopFlag | None = None,
) -> Iterator[tuple[Store, list[str]]]:
    """Yield the key-value store of a job and the host of each rank, after all ranks have
    registered.

    `path` is a folder that all ranks see, where rank 0 writes its invitation. `address` is the IP
    address of this node, or None if all ranks are on one node. While this function waits for ranks,
    it checks whether `stop` has received a signal.

    Raises:
        StopTraining: if this process gets a signal while it waits for other ranks.
        LaunchError: if rank 0 or other ranks are still missing after JOIN_SECONDS. The message
            lists the missing ranks.
        RuntimeError: if the process of rank 0 ends before all ranks have registered. `is_peer_loss`
            is True for this RuntimeError.
    """
    stop = stop or StopFlag()
    deadline = time.monotonic() + JOIN_SECONDS
    # A job that Slurm starts again has the same number, so its invitation needs a different name.
    invitation_path = path / f"{job}_{num_restarts}_store"
    # Other ranks wait for the invitation. They never create anything in the run's folder.
    if rank != 0:
        store, invitation = _find_store(invitation_path, job, deadline, stop)
        yield store, _await_all(store, invitation, rank, world_size, job, deadline, stop)
        return
    with _opened_store(address) as (store, invitation):
        try:
            with replace_on_success(invitation_path) as partial_path:
                # Made unreadable for other users before the key is in it.
                partial_path.touch(mode=0o600)
                partial_path.write_bytes(msgspec.json.encode(invitation))
            hosts = _await_all(store, invitation, rank, world_size, job, deadline, stop)
        finally:
            invitation_path.unlink(missing_ok=True)
        yield store, hosts


@contextlib.contextmanager
def _opened_store(address: str | None) -> Iterator[tuple[Store, Invitation]]:
    """Open the store on rank 0: at the IP address of this node, or in a new folder if all ranks are
    on one node.

    The folder is on a disk of this node, because the file system of the run may not support locks.
    The folder is removed at the end of the `with` block.
    """
    # Whoever reaches the port could register as a rank. The key is only in the run's folder.
    key = secrets.token_hex(32)
    if address is not None:
        # torch would listen at all addresses of the node, whatever host it is given.
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        # Port 0: the system chooses a free one. The queue of connections is long, because all ranks
        # of a large job may come in the same moment.
        listener = socket.create_server((address, 0), family=family, backlog=1024)
        port = listener.getsockname()[1]
        tcp_store = TCPStore(
            address,
            port,
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )
        yield tcp_store, Invitation(key=key, address=address, port=port)
        return
    with (
        tempfile.TemporaryDirectory(prefix="aiayn-", ignore_cleanup_errors=True) as folder,
        _lock_path(folder).open("w") as lock,
    ):
        try:
            # Held as long as this process lives, so that the other ranks notice its end at once.
            take_lock(lock, "a rank from joining a job that has ended")
            store = FileStore(_store_path(folder))
            # A trial, which fails on a file system without locks: better one error here, with
            # advice, than an error in every rank.
            store.set("aiayn/key", "")
        except (OSError, RuntimeError) as error:
            raise LaunchError(
                f"{platform.node()}: {folder}: ranks cannot meet in this folder: {error}; set"
                " TMPDIR to a folder on a disk of the node"
            ) from error
        yield store, Invitation(key=key, folder=folder)


def _store_path(folder: str) -> str:
    return f"{folder}/store"


def _lock_path(folder: str) -> Path:
    return Path(folder) / "lock"


def _find_store(
    invitation_path: Path, job: str, deadline: float, stop: StopFlag
) -> tuple[Store, Invitation]:
    """Wait until rank 0 has opened its store. Return the store and the invitation to it."""
    invitation: Invitation | None = None
    while time.monotonic() < deadline:
        # The folder is listed, because a network file system may remember that a name did not
        # exist. Listing makes it look again.
        folder = invitation_path.parent
        if folder.is_dir() and invitation_path.name in os.listdir(folder):
            # Rank 0 removes its invitation when all ranks are there, or when it fails.
            with contextlib.suppress(FileNotFoundError):
                invitation = msgspec.json.decode(invitation_path.read_bytes(), type=Invitation)
                if (store := invitation.open()) is not None:
                    return store, invitation
        stop.raise_if_any()
        time.sleep(_POLL_SECONDS)
    raise LaunchError(
        f"{platform.node()}: job {job}: no answer of rank 0 within {JOIN_SECONDS:.0f} s"
        f" ({_describe(invitation)}); look at the other ranks' logs"
    )


def _describe(invitation: Invitation | None) -> str:
    """Return what is known about the store of rank 0, for the error message of a rank that could
    not reach the store.
    """
    if invitation is None:
        return "it has not opened its store"
    if invitation.folder:
        return (
            f"its folder {invitation.folder} is gone or not visible here; containers of one node"
            " must share TMPDIR"
        )
    return (
        f"its store was at {invitation.address} port {invitation.port}; it has ended, or the"
        " network between the nodes blocks the port"
    )


def _await_all(
    store: Store,
    invitation: Invitation,
    rank: int,
    world_size: int,
    job: str,
    deadline: float,
    stop: StopFlag,
) -> list[str]:
    """Register this rank. Wait until all ranks have registered with the key. Return the ranks'
    hosts.
    """
    invitation.register(store, rank)
    # A registration without this job's key does not count, though its name is there.
    keys = [f"{_HOST_KEY}/{index}" for index in range(world_size)]
    while True:
        # One request to the store for all ranks. Only then is each rank's signature looked at.
        if store.check(keys):
            hosts = [invitation.registered_host(store, index) for index in range(world_size)]
            known_hosts = [host for host in hosts if host is not None]
            if len(known_hosts) == world_size:
                return known_hosts
        # Rank 0 must not test its own lock: with POSIX locks, closing any handle of a file frees
        # the process's lock on it.
        if rank != 0 and not invitation.is_rank_zero_alive():
            raise PeerLossError("rank 0 has ended before all ranks had registered")
        if time.monotonic() > deadline:
            raise LaunchError(_missing(store, invitation, world_size, job))
        stop.raise_if_any()
        time.sleep(_POLL_SECONDS)


def _missing(store: Store, invitation: Invitation, world_size: int, job: str) -> str:
    host_by_rank: dict[int, str] = {}
    missing: list[str] = []
    for rank in range(world_size):
        host = invitation.registered_host(store, rank)
        if host is not None:
            host_by_rank[rank] = host
        elif store.check([f"{_HOST_KEY}/{rank}"]):
            missing.append(f"{rank} (came without this job's key, and is refused)")
        else:
            missing.append(str(rank))
    registered = ", ".join(f"rank {rank} on {host}" for rank, host in host_by_rank.items())
    return (
        f"{platform.node()}: job {job}: {len(host_by_rank)} of {world_size} ranks registered within"
        f" {JOIN_SECONDS:.0f} s; missing ranks: {', '.join(missing)}; registered: {registered};"
        " look at the job's other nodes, and at the ranks' logs in the run's folder `submitit`"
    )
