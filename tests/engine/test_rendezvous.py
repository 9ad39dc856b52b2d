"""The ranks of a job register in its store and in no other's, and one rank 0 trains a run at a
time.
"""

import errno
import fcntl
import os
import platform
import signal
import socket
import threading
import time
from pathlib import Path
from unittest import mock

import msgspec
import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

import aiayn.runs.run_folder
import aiayn.train.rank_lock
import aiayn.train.ranks
import aiayn.train.rendezvous
from aiayn.errors import LaunchError
from aiayn.runs import attempts
from aiayn.runs.locks import is_held
from aiayn.runs.run_folder import RunFolder
from aiayn.train.rank_lock import BusyRunError, rank_error_recorded, rank_lock
from aiayn.train.ranks import Rank, Start, joined_ranks
from aiayn.train.rendezvous import is_peer_loss, join
from aiayn.train.request import StopFlag
from aiayn.train.train import train_rank
from tests.forks import fork
from tests.run_folders import started
from tests.unit.test_launch import make_request


def join_with_a_child(folder: Path, job: str) -> list[str]:
    """Be rank 0, let a child be rank 1, and return the hosts that rank 0 knows."""
    child = fork(lambda: join(folder, 1, 2, job))
    store, hosts = join(folder, 0, 2, job)
    assert exit_code(child) == 0
    assert store.get("aiayn/host/1").decode() == hosts[1]
    return hosts


def test_ranks_join_and_know_each_others_hosts(tmp_path: Path) -> None:
    assert join_with_a_child(tmp_path, "7") == [platform.node()] * 2
    assert list(tmp_path.iterdir()) == []


def test_a_rank_does_not_join_another_job_or_a_job_that_has_ended(tmp_path: Path) -> None:
    """A killed rank 0 leaves its port behind, and another job may have the same number."""
    other = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    (tmp_path / "7_1_port").write_text(str(other.port), encoding="utf-8")  # the job, restarted
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        (tmp_path / "7_0_port").write_text(str(closed.getsockname()[1]), encoding="utf-8")
    assert join_with_a_child(tmp_path, "7") == [platform.node()] * 2
    assert not other.check(["aiayn/host/1"])


def test_ranks_that_do_not_come_are_named_and_noted_for_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver cannot be told in another way before an attempt has begun."""
    monkeypatch.setattr(aiayn.train.rendezvous, "JOIN_SECONDS", 0.3)
    with pytest.raises(LaunchError, match=r"job 7: no answer of rank 0 at 127\.0\.0\.1 within 0 s"):
        join(tmp_path, 1, 2, "7")
    rank = Rank(rank=0, world_size=3, job="7", local_rank=0)
    with pytest.raises(LaunchError):
        train_rank(make_request(tmp_path, num_ranks=3), rank, StopFlag())
    (noted,) = RunFolder(tmp_path).rank_errors()
    assert f"missing ranks: 1, 2; registered: rank 0 on {platform.node()};" in noted


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
    """Return how the lock is found, after an attempt began on the host n2; heartbeats are looked at
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
    """Slurm has lost sight of the node, and starts the job elsewhere; it must go on, so that no
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


def start_in_child(folder: Path, starts: list[Start | None], late_seconds: float = 0.0) -> int:
    """Be rank 1 of a job in a fork; its exit code is 0 if it gets these starts, 2 on a LaunchError
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
    child = start_in_child(tmp_path, [Start(is_needed=False)], late_seconds=0.5)
    with joined_ranks(RunFolder(tmp_path), RANK_0, "cpu") as group:
        began = time.monotonic()
        group.broadcast_start(Start(is_needed=False))
        assert time.monotonic() - began > 0.2
        assert exit_code(child) == 0


def test_a_rank_0_that_broadcasts_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aiayn.train.ranks, "START_SECONDS", 0.5)
    child = start_in_child(tmp_path, [None])
    with joined_ranks(RunFolder(tmp_path), RANK_0, "cpu"):
        assert exit_code(child) == 2


def test_a_system_error_of_nccl_is_of_this_node_unless_it_names_a_peer() -> None:
    """NCCL says it of a missing interface or a small /dev/shm, too; the last connection error
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
