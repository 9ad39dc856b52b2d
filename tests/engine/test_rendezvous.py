"""The ranks of a job register in its store and in no other's, and one rank 0 trains a run at a
time.
"""

import errno
import fcntl
import ipaddress
import os
import platform
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import msgspec
import pytest
from torch.distributed import FileStore  # type: ignore[attr-defined]

import aiayn.runs.run_folder
import aiayn.train.rank_lock
import aiayn.train.ranks
import aiayn.train.rendezvous
from aiayn.errors import LaunchError
from aiayn.runs import attempts
from aiayn.runs.locks import is_held, take_lock
from aiayn.runs.run_folder import RunFolder
from aiayn.train.rank_lock import BusyRunError, rank_error_recorded, rank_lock
from aiayn.train.ranks import Rank, joined_ranks
from aiayn.train.rendezvous import Invitation, is_peer_loss, joined_store
from aiayn.train.request import StopFlag, StopTraining
from aiayn.train.train import train_rank
from tests.forks import fork
from tests.run_folders import started
from tests.slurm.cluster_processes import wait_until
from tests.unit.test_launch import make_request

ADDRESSES = pytest.mark.parametrize("address", [None, "127.0.0.2"], ids=["one node", "two nodes"])


def join_with_a_child(folder: Path, address: str | None) -> list[str]:
    """Be rank 0, let a child be rank 1, and return the hosts that rank 0 knows."""

    def be_rank_1() -> None:
        with joined_store(folder, 1, 2, "7", address=address) as (store, hosts):
            store.set("from 1", hosts[1])

    child = fork(be_rank_1)
    with joined_store(folder, 0, 2, "7", address=address) as (store, hosts):
        assert exit_code(child) == 0
        assert store.get("from 1").decode() == hosts[1]
        return hosts


@ADDRESSES
def test_ranks_join_and_know_each_others_hosts(tmp_path: Path, address: str | None) -> None:
    assert join_with_a_child(tmp_path, address) == [platform.node()] * 2
    assert list(tmp_path.iterdir()) == []


def listening() -> set[tuple[str, int]]:
    """Return address and port of each TCP socket on which this process listens."""
    own = {os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text(encoding="utf-8").splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and f"socket:[{rest[5]}]" in own:
                number, port = local.split(":")
                groups = [
                    bytes.fromhex(number[at : at + 8])[::-1] for at in range(0, len(number), 8)
                ]
                addresses.add((str(ipaddress.ip_address(b"".join(groups))), int(port, 16)))
    return addresses


def test_on_one_node_no_port_is_open_and_only_the_user_enters_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Anybody on the node could connect to a port.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = listening()
    with joined_store(tmp_path / "run", 0, 1, "7"):
        (folder,) = tmp_path.glob("aiayn-*")
        assert folder.stat().st_mode & 0o777 == 0o700
        assert listening() == before
    assert not folder.exists()


def test_on_several_nodes_the_store_listens_at_the_address_of_its_node_only(tmp_path: Path) -> None:
    # At all addresses it would listen on the campus network, too.
    before = listening()
    with joined_store(tmp_path, 0, 1, "7", address="127.0.0.2"):
        ((address, port),) = listening() - before
        assert address == "127.0.0.2"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)


def read_invitation(folder: Path) -> Invitation:
    """Return the invitation of job 7 as soon as it is there. Only the user can read it."""
    path = folder / "7_0_store"
    while not path.exists():  # else this test does not end
        time.sleep(0.01)
    assert path.stat().st_mode & 0o777 == 0o600
    return msgspec.json.decode(path.read_bytes(), type=Invitation)


@ADDRESSES
def test_a_rank_without_the_key_is_refused_and_the_right_one_still_counts(
    tmp_path: Path, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger may reach the port of the store, but cannot read the key."""

    def be_a_stranger() -> None:
        invitation = msgspec.structs.replace(read_invitation(tmp_path), key="0" * 64)
        store = invitation.open()
        assert store is not None
        invitation.register(store, 1)

    monkeypatch.setattr(aiayn.train.rendezvous, "JOIN_SECONDS", 1.0)
    child = fork(be_a_stranger)
    with (
        pytest.raises(LaunchError, match=r"missing ranks: 1 \(came without this job's key, and is"),
        joined_store(tmp_path, 0, 2, "7", address=address),
    ):
        pytest.fail("joined")
    assert exit_code(child) == 0
    monkeypatch.undo()

    def come_late() -> None:
        be_a_stranger()
        with joined_store(tmp_path, 1, 2, "7", address=address):
            pass

    child = fork(come_late)
    with joined_store(tmp_path, 0, 2, "7", address=address) as (_, hosts):
        assert exit_code(child) == 0
    assert hosts == [platform.node()] * 2


@ADDRESSES
def test_a_rank_does_not_join_another_job_or_a_job_that_has_ended(
    tmp_path: Path, address: str | None
) -> None:
    """A killed rank 0 leaves its invitation behind, and another job may have the same number."""

    def be_killed() -> None:
        with joined_store(tmp_path, 0, 2, "7", address=address):
            pass

    child = fork(be_killed)
    left = read_invitation(tmp_path)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert (tmp_path / "7_0_store").exists()
    assert left.open() is None
    with joined_store(tmp_path, 0, 1, "7", 1, address=address) as (other, _):  # restarted
        assert join_with_a_child(tmp_path, address) == [platform.node()] * 2
        assert not other.check(["aiayn/host/1"])


@ADDRESSES
def test_the_end_of_rank_0_is_noticed_before_all_have_registered(
    tmp_path: Path, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """submitit's local jobs do not end the other ranks."""
    monkeypatch.setattr(aiayn.train.rendezvous, "JOIN_SECONDS", 20.0)

    def be_rank_0() -> None:
        with joined_store(tmp_path, 0, 3, "7", address=address):
            pass

    child = fork(be_rank_0)
    read_invitation(tmp_path)
    threading.Timer(0.3, os.kill, [child, signal.SIGKILL]).start()
    with (
        pytest.raises(RuntimeError) as raised,
        joined_store(tmp_path, 1, 3, "7", address=address),
    ):
        pytest.fail("joined")
    os.waitpid(child, 0)
    assert is_peer_loss(raised.value)


def test_a_folder_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TMPDIR may be on a Lustre without `flock`."""

    def refuse(path: str) -> FileStore:
        raise RuntimeError("flock: No locks available")

    monkeypatch.setattr(aiayn.train.rendezvous, "FileStore", refuse)
    with (
        pytest.raises(LaunchError, match="No locks available; set TMPDIR to a folder on a disk"),
        joined_store(tmp_path, 0, 1, "7"),
    ):
        pytest.fail("joined")


def test_ranks_that_do_not_come_are_named_and_noted_for_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver cannot be told in another way before an attempt has begun."""
    monkeypatch.setattr(aiayn.train.rendezvous, "JOIN_SECONDS", 0.3)
    invitation_path = tmp_path / "7_0_store"

    def message() -> str:
        with pytest.raises(LaunchError) as raised, joined_store(tmp_path, 1, 2, "7"):
            pytest.fail("joined")
        return str(raised.value)

    assert "no answer of rank 0 within 0 s (it has not opened its store)" in message()
    left = Invitation(key="0", folder="/tmp/aiayn-gone")
    invitation_path.write_bytes(msgspec.json.encode(left))
    assert "its folder /tmp/aiayn-gone is gone or not visible here" in message()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    left = Invitation(key="0", address="127.0.0.1", port=port)
    invitation_path.write_bytes(msgspec.json.encode(left))
    assert f"its store was at 127.0.0.1 port {port}; it has ended, or the network" in message()
    rank = Rank(rank=0, world_size=3, job="7", local_rank=0)
    with pytest.raises(LaunchError):
        train_rank(make_request(tmp_path, num_ranks=3), rank, StopFlag())
    (noted,) = RunFolder(tmp_path).rank_errors()
    assert f"missing ranks: 1, 2; registered: rank 0 on {platform.node()};" in noted


def wait_for_rank_0(folder: Path, stop: StopFlag) -> None:
    """Be rank 1 of 2, whose rank 0 does not come."""
    with joined_store(folder, 1, 2, "7", stop=stop):
        pytest.fail("joined")


def wait_for_rank_1(folder: Path, stop: StopFlag) -> None:
    """Be rank 0 of 2, whose rank 1 does not come."""
    with joined_store(folder, 0, 2, "7", stop=stop):
        pytest.fail("joined")


def watch_a_heartbeat(folder: Path, stop: StopFlag) -> None:
    """Be rank 0 of a run that another host may be training."""
    RunFolder(folder).append_event(ELSEWHERE)
    with rank_lock(RunFolder(folder), stop):
        pytest.fail("trained")


@pytest.mark.parametrize("wait", [wait_for_rank_0, wait_for_rank_1, watch_a_heartbeat])
def test_a_wait_for_another_rank_ends_at_a_signal(
    wait: Callable[[Path, StopFlag], None], tmp_path: Path
) -> None:
    begin = time.monotonic()
    with StopFlag().installed() as stop:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
        timer.start()
        with pytest.raises(StopTraining):
            wait(tmp_path, stop)
    assert time.monotonic() - begin < 10
    assert RunFolder(tmp_path).rank_errors() == []


def test_a_rank_that_gets_a_signal_before_the_others_join_ends_without_an_error(
    tmp_path: Path,
) -> None:
    stop = StopFlag()
    stop.signal_number = signal.SIGTERM
    rank = Rank(rank=1, world_size=2, job="7", local_rank=1)
    train_rank(make_request(tmp_path, num_ranks=2), rank, stop)
    assert RunFolder(tmp_path).rank_errors() == []


def test_rank_0_holds_its_lock_and_updates_the_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aiayn.train.rank_lock, "HEARTBEAT_SECONDS", 0.02)
    assert RunFolder(tmp_path).heartbeat_ns() is None
    reader, writer = os.pipe()

    def hold() -> None:
        with rank_lock(RunFolder(tmp_path)):
            os.write(writer, b"!")
            signal.pause()

    child = fork(hold)
    os.read(reader, 1)
    first = RunFolder(tmp_path).heartbeat_ns()
    assert is_held(tmp_path / attempts.RANK_LOCK_NAME)
    assert (tmp_path / attempts.RANK_LOCK_NAME).read_text(encoding="utf-8") == str(child)
    while RunFolder(tmp_path).heartbeat_ns() == first:  # else this test does not end
        pass
    with (
        pytest.raises(LaunchError, match="another process is training this run"),
        rank_lock(RunFolder(tmp_path)),
    ):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert not is_held(tmp_path / attempts.RANK_LOCK_NAME)


ELSEWHERE = started(1, 0, job="7", host="n2")


@pytest.fixture(params=["free", "held", "impossible"])
def lock_on_n2(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Return how the lock is found, after an attempt began on the host n2. Heartbeats are looked at
    for a moment.
    """
    RunFolder(tmp_path).append_event(ELSEWHERE)
    (tmp_path / attempts.RANK_LOCK_NAME).touch()
    monkeypatch.setattr(aiayn.train.rank_lock, "HEARTBEAT_TIMEOUT_SECONDS", 0.4)
    monkeypatch.setattr(aiayn.runs.run_folder, "HEARTBEAT_POLL_SECONDS", 0.01)
    error_number = {"free": 0, "held": errno.EAGAIN, "impossible": errno.ENOLCK}[request.param]
    refuse = mock.Mock(side_effect=OSError(error_number, os.strerror(error_number)))
    if error_number:
        monkeypatch.setattr(fcntl, "lockf", refuse)
    return str(request.param)


@pytest.mark.usefixtures("lock_on_n2")
def test_a_second_attempt_is_refused_while_the_heartbeat_on_another_host_advances(
    tmp_path: Path,
) -> None:
    """Slurm has lost sight of the node, and starts the job elsewhere. It must go on, so that no
    error is noted.
    """
    path, rank = (
        tmp_path / attempts.RANK_LOCK_NAME,
        Rank(rank=0, world_size=1, job="8", local_rank=0),
    )
    beat = threading.Timer(0.05, os.utime, [path])
    beat.start()
    with (
        pytest.raises(
            BusyRunError, match=r"another process is training this run \(n2, job 7\); wait for it"
        ),
        rank_error_recorded(RunFolder(tmp_path), rank),
        rank_lock(RunFolder(tmp_path)),
    ):
        pytest.fail("trained")
    beat.join()
    assert RunFolder(tmp_path).rank_errors() == []


def test_an_attempt_on_another_host_without_a_heartbeat_counts_as_ended(
    lock_on_n2: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A host that crashed may keep its lock on an NFS server until it is back."""
    with rank_lock(RunFolder(tmp_path)):
        assert (tmp_path / attempts.RANK_LOCK_NAME).read_text(encoding="utf-8") == str(os.getpid())
    assert "no heartbeat of the training on n2, job 7 for 0 s" in caplog.text
    assert ("though its lock is still held" in caplog.text) == (lock_on_n2 == "held")


def test_rank_0_holds_its_lock_also_after_it_watched_a_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watching opens and closes the file of the lock, which releases the lock of the process."""
    monkeypatch.setattr(aiayn.train.rank_lock, "HEARTBEAT_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(aiayn.runs.run_folder, "HEARTBEAT_POLL_SECONDS", 0.01)
    RunFolder(tmp_path).append_event(ELSEWHERE)
    (tmp_path / attempts.RANK_LOCK_NAME).touch()
    with rank_lock(RunFolder(tmp_path)):
        child = fork(lambda: 7 if is_held(tmp_path / attempts.RANK_LOCK_NAME) else 8)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_process_that_took_the_lock_during_the_watch_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RunFolder(tmp_path).append_event(ELSEWHERE)
    reader, writer = os.pipe()

    def hold() -> None:
        with (tmp_path / attempts.RANK_LOCK_NAME).open("a") as lock:
            take_lock(lock, "")
            os.write(writer, b"!")
            signal.pause()

    def watch(folder: RunFolder, *_: object, **__: object) -> bool:
        folder.heartbeat_ns()
        children.append(fork(hold))
        os.read(reader, 1)
        return False

    children: list[int] = []
    monkeypatch.setattr(RunFolder, "is_heartbeat_advancing", watch)
    busy = r"another process is training this run \(it began at the same time\)"
    try:
        with pytest.raises(BusyRunError, match=busy), rank_lock(RunFolder(tmp_path)):
            pytest.fail("trained")
    finally:
        os.kill(children[0], signal.SIGKILL)
        os.waitpid(children[0], 0)


def test_an_attempt_that_has_ended_or_was_here_is_not_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunFolder, "is_heartbeat_advancing", lambda *_: pytest.fail("watched"))
    RunFolder(tmp_path).append_event(ELSEWHERE)
    RunFolder(tmp_path).end_attempt(update=0, outcome="stopped", reason="asked by SIGTERM")
    with rank_lock(RunFolder(tmp_path)):
        pass
    RunFolder(tmp_path).append_event(msgspec.structs.replace(ELSEWHERE, host=platform.node()))
    with rank_lock(RunFolder(tmp_path)):
        pass
    monkeypatch.setattr(fcntl, "lockf", mock.Mock(side_effect=OSError(errno.EAGAIN, "held")))
    with (
        pytest.raises(BusyRunError, match="another process is training this run"),
        rank_lock(RunFolder(tmp_path)),
    ):
        pass


def test_a_heartbeat_that_fails_once_is_followed_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system may refuse one write. Without a heartbeat another job would take over."""
    path, touch = tmp_path / attempts.RANK_LOCK_NAME, os.utime
    has_failed = threading.Event()

    def touch_or_fail(touched: Path) -> None:
        if has_failed.is_set():
            touch(touched)
            return
        has_failed.set()
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(touched))

    monkeypatch.setattr(aiayn.train.rank_lock, "HEARTBEAT_SECONDS", 0.01)
    monkeypatch.setattr(os, "utime", touch_or_fail)
    with rank_lock(RunFolder(tmp_path)):
        assert has_failed.wait(5)
        touch(path, (0, 0))
        wait_until(lambda: path.stat().st_mtime > 0, 5, "another heartbeat")


def start_in_child(folder: Path, starts: list[str | None], late_seconds: float = 0.0) -> int:
    """Be rank 1 of a job in a fork. Its exit code is 0 if it gets these starts, 2 on a LaunchError
    naming rank 0.
    """

    def be_rank_1() -> int:
        try:
            rank = Rank(rank=1, world_size=2, job="7", local_rank=1)
            with joined_ranks(RunFolder(folder), rank, "cpu") as group:
                time.sleep(late_seconds)
                return 0 if [group.broadcast_start() for _ in starts] == starts else 1
        except LaunchError as error:
            return 2 if f"rank 0 of 2 on {platform.node()}" in str(error) else 1

    return fork(be_rank_1)


def exit_code(child: int) -> int:
    """Return a fork's exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


RANK_0 = Rank(rank=0, world_size=2, job="7", local_rank=0)


def test_rank_0_does_not_end_before_the_others_know_that_nothing_is_left(tmp_path: Path) -> None:
    # The store ends with rank 0, and a rank that still asks it would fail.
    child = start_in_child(tmp_path, [None], late_seconds=0.5)
    with joined_ranks(RunFolder(tmp_path), RANK_0, "cpu") as group:
        began = time.monotonic()
        group.broadcast_start(None)
        assert time.monotonic() - began > 0.2
        assert exit_code(child) == 0


def test_rank_0_invites_the_ranks_of_other_nodes_to_its_own_nodes_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is 127.0.0.2 here. 127.0.0.1 would lead each node to itself."""
    monkeypatch.setattr(aiayn.train.rendezvous, "JOIN_SECONDS", 5.0)
    folder = RunFolder(tmp_path)
    rank = Rank(rank=0, world_size=2, job="7", local_rank=0, node_address="127.0.0.2")
    stop, invitations = StopFlag(), []

    def read_and_stop() -> None:
        invitations.append(read_invitation(folder.job_files_path))
        stop.signal_number = signal.SIGTERM

    reader = threading.Thread(target=read_and_stop, daemon=True)
    reader.start()
    with pytest.raises(StopTraining), joined_ranks(folder, rank, "cpu", stop):
        pytest.fail("joined")
    assert [invitation.address for invitation in invitations] == ["127.0.0.2"]


def test_a_rank_0_that_broadcasts_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aiayn.train.ranks, "START_SECONDS", 0.5)
    child = start_in_child(tmp_path, [None])
    with joined_ranks(RunFolder(tmp_path), RANK_0, "cpu"):
        assert exit_code(child) == 2


def test_a_system_error_of_nccl_is_of_this_node_unless_it_names_a_peer() -> None:
    """NCCL says it of a missing interface or a small /dev/shm, too. The last connection error
    follows.
    """
    local = (
        "ncclSystemError: System call failed.\nLast error:\nError while creating a segment in"
        " /dev/shm"
    )
    assert not is_peer_loss(RuntimeError(local))
    remote = (
        "ncclSystemError: System call failed.\nLast error:\nCall to recv from 10.0.0.2 failed:"
        " Connection reset by peer"
    )
    assert is_peer_loss(RuntimeError(remote))
    assert is_peer_loss(
        RuntimeError("ncclRemoteError: A call failed possibly due to a network error")
    )


def test_a_rank_records_its_own_error_and_not_the_loss_of_another(tmp_path: Path) -> None:
    # The first error is the cause, and the lost connections follow from it.
    rank = Rank(rank=5, world_size=8, job="7", local_rank=5)
    with (
        pytest.raises(RuntimeError, match="closed"),
        rank_error_recorded(RunFolder(tmp_path), rank),
    ):
        raise RuntimeError(
            "[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4242"
        )
    assert RunFolder(tmp_path).rank_errors() == []
    with pytest.raises(ValueError, match="nan"), rank_error_recorded(RunFolder(tmp_path), rank):
        raise ValueError("the loss is nan")
    (noted,) = RunFolder(tmp_path).rank_errors()
    assert noted.startswith("rank 5 on ")
    assert noted.endswith(": ValueError: the loss is nan")
    assert "Traceback" in (tmp_path / "rank5.error").read_text(encoding="utf-8")
    RunFolder(tmp_path).remove_rank_errors()
    assert RunFolder(tmp_path).rank_errors() == []
