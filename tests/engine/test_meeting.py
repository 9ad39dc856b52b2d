"""How the ranks of a job find each other, and nobody else."""

import errno
import fcntl
import os
import platform
import signal
import socket
import threading
from pathlib import Path
from unittest import mock

import msgspec
import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

import aiayn.engine.meeting
import aiayn.engine.rank_notes
import aiayn.engine.ranks
import aiayn.runs.life
from aiayn.engine.meeting import NUM_PORTS_TRIED, is_peer_loss, meet, ports_of
from aiayn.engine.rank_notes import BusyRunError, error_noted, rank_lock
from aiayn.engine.ranks import Rank, Start, StartLine
from aiayn.engine.train import train_rank
from aiayn.errors import LaunchError
from aiayn.launch.job import StopFlag
from aiayn.runs import attempts
from aiayn.runs.locks import is_locked
from aiayn.runs.rank_errors import forget_noted_errors, noted_errors
from tests.unit.test_launch import make_request


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test's meeting leave no trace in the environment."""
    for name in ("MASTER_ADDR", "MASTER_PORT", "SLURM_RESTART_COUNT", "SUBMITIT_FOLDER"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture
def free_ports(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a job try these two ports, both free."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1], other.getsockname()[1]]
    monkeypatch.setattr(aiayn.engine.meeting, "ports_of", lambda job: ports)
    return ports


def test_a_job_and_its_neighbour_and_its_restart_begin_at_other_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    first, neighbour = ports_of("100"), ports_of("101")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    restarted = ports_of("100")
    assert (first[0], neighbour[0], restarted[0]) == (20100, 20101, 21109)
    assert len(set(first)) == NUM_PORTS_TRIED
    assert not {*first} & {*neighbour, *restarted}
    assert all(20000 <= port < 32000 for port in ports_of("11999"))
    monkeypatch.setenv("MASTER_PORT", "5")
    assert ports_of("100") == [5]


def meet_with_a_child() -> TCPStore:
    """Be rank 0, let a child be rank 1, and return rank 0's store when the child is gone."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            meet(1, 2, "7").set("from rank 1", os.environ["MASTER_PORT"])
            status = 0
        finally:
            os._exit(status)
    store = meet(0, 2, "7")
    assert os.waitpid(child, 0)[1] == 0
    return store


def test_ranks_meet_at_the_first_port_that_nobody_has(free_ports: list[int]) -> None:
    with socket.socket() as stranger:
        stranger.bind(("0.0.0.0", free_ports[0]))
        stranger.listen()
        assert meet_with_a_child().get("from rank 1") == str(free_ports[1]).encode()


def test_a_rank_does_not_join_another_jobs_training(free_ports: list[int]) -> None:
    """Another cluster on the same machine has a job of the same number, whose rank 0 was first."""
    other = TCPStore("127.0.0.1", free_ports[0], is_master=True, wait_for_workers=False)
    other.set("aiayn/job", "7 0 /the/other/runs/submitit")
    assert meet_with_a_child().get("from rank 1") == str(free_ports[1]).encode()
    assert not other.check(["aiayn/here/1"])


def test_a_rank_without_a_rank_0_gives_up(free_ports: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiayn.engine.meeting, "JOIN_SECONDS", 0.3)
    with pytest.raises(LaunchError, match=r"no rank 0 at 127.0.0.1, ports \[\d+, \d+\], within 0 s"):
        meet(1, 2, "7")


def test_rank_0_names_the_ranks_that_are_missing(free_ports: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiayn.engine.meeting, "JOIN_SECONDS", 0.3)
    with pytest.raises(
        LaunchError, match=r"job 7: not all 3 ranks met within 0 s; missing: 1, 2; here: 0 on \S+; look"
    ):
        meet(0, 3, "7")


def test_a_rank_that_is_missing_is_noted_for_the_driver(
    tmp_path: Path, free_ports: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any attempt has begun there is nobody else to tell it."""
    monkeypatch.setattr(aiayn.engine.meeting, "JOIN_SECONDS", 0.3)
    rank = Rank(index=0, num_ranks=2, job="7", local_index=0)
    with pytest.raises(LaunchError):
        train_rank(make_request(tmp_path, num_ranks=2), rank, StopFlag())
    (noted,) = noted_errors(tmp_path)
    assert f"job 7: not all 2 ranks met within 0 s; missing: 1; here: 0 on {platform.node()}; look at" in noted


def test_rank_0s_lock_is_held_and_beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "HEARTBEAT_SECONDS", 0.02)
    assert attempts.heartbeat(tmp_path) is None
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with rank_lock(tmp_path):
            os.write(writer, b"!")
            signal.pause()
    os.read(reader, 1)
    first = attempts.heartbeat(tmp_path)
    assert is_locked(tmp_path / attempts.RANK_LOCK_NAME)
    assert (tmp_path / attempts.RANK_LOCK_NAME).read_text(encoding="utf-8") == str(child)
    while attempts.heartbeat(tmp_path) == first:  # else this test does not end
        pass
    with pytest.raises(LaunchError, match="another process is training this run"), rank_lock(tmp_path):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert not is_locked(tmp_path / attempts.RANK_LOCK_NAME)


ELSEWHERE = attempts.Started(
    attempt=1, time="2026-01-01T12:00:00+00:00", job="7", host="n2", device="cpu", num_gpus=0, threads_per_rank=1,
    commit="", update=0,
)  # fmt: skip


@pytest.fixture(params=["free", "held", "impossible"])
def lock_on_n2(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return how the lock is found, after an attempt began on the host n2; heartbeats are looked at for a moment."""
    attempts.append_event(tmp_path, ELSEWHERE)
    (tmp_path / attempts.RANK_LOCK_NAME).touch()
    monkeypatch.setattr(aiayn.engine.rank_notes, "SILENT_SECONDS", 0.4)
    monkeypatch.setattr(aiayn.runs.life, "_POLL_SECONDS", 0.01)
    error_number = {"free": 0, "held": errno.EAGAIN, "impossible": errno.ENOLCK}[request.param]
    refuse = mock.Mock(side_effect=OSError(error_number, os.strerror(error_number)))
    if error_number:
        monkeypatch.setattr(fcntl, "lockf", refuse)
    return str(request.param)


@pytest.mark.usefixtures("lock_on_n2")
def test_an_attempt_that_beats_on_another_host_is_not_joined_by_a_second(tmp_path: Path) -> None:
    """Slurm has lost sight of the node, and starts the job elsewhere; it must go on, so that no error is noted."""
    path, rank = tmp_path / attempts.RANK_LOCK_NAME, Rank(index=0, num_ranks=1, job="8", local_index=0)
    beat = threading.Timer(0.05, os.utime, [path])
    beat.start()
    with (
        pytest.raises(BusyRunError, match=r"another process is training this run \(n2, job 7\); wait for it"),
        error_noted(tmp_path, rank),
        rank_lock(tmp_path),
    ):
        pytest.fail("trained")
    beat.join()
    assert noted_errors(tmp_path) == []


def test_an_attempt_that_stands_still_on_another_host_is_dead(
    lock_on_n2: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A host that crashed may keep its lock on an NFS server until it is back."""
    with rank_lock(tmp_path):
        assert (tmp_path / attempts.RANK_LOCK_NAME).read_text(encoding="utf-8") == str(os.getpid())
    assert "the heartbeat of the training on n2, job 7 has stood still for 0 s" in caplog.text
    assert ("though its lock is still held" in caplog.text) == (lock_on_n2 == "held")


def test_an_attempt_that_has_ended_or_was_here_is_not_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiayn.engine.rank_notes, "is_beating", lambda *_: pytest.fail("watched"))
    attempts.append_event(tmp_path, ELSEWHERE)
    attempts.end_attempt(tmp_path, update=0, outcome="stopped", reason="asked by SIGTERM")
    with rank_lock(tmp_path):
        pass
    attempts.append_event(tmp_path, msgspec.structs.replace(ELSEWHERE, host=platform.node()))
    with rank_lock(tmp_path):
        pass
    monkeypatch.setattr(fcntl, "lockf", mock.Mock(side_effect=OSError(errno.EAGAIN, "held")))
    with pytest.raises(BusyRunError, match="another process is training this run"), rank_lock(tmp_path):
        pass


def test_ranks_hear_from_rank_0_where_to_begin_by_the_store_alone(free_ports: list[int]) -> None:
    store = TCPStore("127.0.0.1", free_ports[0], is_master=True, wait_for_workers=False)
    ranks = [Rank(index=index, num_ranks=2, job="7", local_index=index) for index in (0, 1)]
    first, second = (StartLine(rank, store) for rank in ranks)
    for start in (Start(is_needed=True), Start(is_needed=True, full_path="full_00000010.pt")):
        assert first.agree(start) is start
        assert second.agree(None) == start


def test_rank_0_holds_the_store_until_the_others_have_heard_that_nothing_is_left(free_ports: list[int]) -> None:
    store = TCPStore("127.0.0.1", free_ports[0], is_master=True, wait_for_workers=False)
    ranks = [Rank(index=index, num_ranks=2, job="7", local_index=index) for index in (0, 1)]
    heard: list[Start] = []
    late = threading.Timer(0.3, lambda: heard.append(StartLine(ranks[1], store).agree(None)))
    late.start()
    StartLine(ranks[0], store).agree(Start(is_needed=False))
    late.join(1.0)
    assert heard == [Start(is_needed=False)]


def test_a_rank_0_that_says_nothing_is_named(free_ports: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiayn.engine.ranks, "START_SECONDS", 0.2)
    store = TCPStore("127.0.0.1", free_ports[0], is_master=True, wait_for_workers=False)
    with pytest.raises(LaunchError, match="job 7: no word of rank 0 within 0 s: it hangs"):
        StartLine(Rank(index=1, num_ranks=2, job="7", local_index=1), store).agree(None)


def test_a_system_error_of_nccl_is_of_this_node_unless_it_tells_of_another() -> None:
    """NCCL says it of a missing interface or a small /dev/shm, too; what it saw last stands behind it."""
    local = "ncclSystemError: System call failed.\nLast error:\nError while creating a segment in /dev/shm"
    assert not is_peer_loss(RuntimeError(local))
    remote = (
        "ncclSystemError: System call failed.\nLast error:\nCall to recv from 10.0.0.2 failed: Connection reset by peer"
    )
    assert is_peer_loss(RuntimeError(remote))
    assert is_peer_loss(RuntimeError("ncclRemoteError: A call failed possibly due to a network error"))


def test_a_rank_notes_its_own_error_and_not_that_another_is_gone(tmp_path: Path) -> None:
    rank = Rank(index=5, num_ranks=8, job="7", local_index=5)
    with pytest.raises(RuntimeError, match="closed"), error_noted(tmp_path, rank):
        raise RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4242")
    assert noted_errors(tmp_path) == []
    with pytest.raises(ValueError, match="nan"), error_noted(tmp_path, rank):
        raise ValueError("the loss is nan")
    (noted,) = noted_errors(tmp_path)
    assert noted.startswith("rank 5 on ")
    assert noted.endswith(": ValueError: the loss is nan")
    assert "Traceback" in (tmp_path / "rank5.error").read_text(encoding="utf-8")
    forget_noted_errors(tmp_path)
    assert noted_errors(tmp_path) == []
