"""TERM to every process of a training, as scancel and preemption send it, stops the training, never
fails it.

Only a GPU's batches are made by processes of their own; here a CPU's are, too.
"""

import contextlib
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import aiayn.train.train as train_module
from aiayn.records import BinarizedCorpus, TrainRecord
from aiayn.train.ranks import Rank
from aiayn.train.request import StopFlag, TrainingRequest
from tests.engine.hooked_job import Hook
from tests.engine.tiny_training import make_request, outcomes, state_sha256, train
from tests.forks import fork

NUM_LOADERS = 2
ALONE = Rank(rank=0, world_size=1, job="1", local_rank=0)


class TermToAll(Hook, frozen=True, kw_only=True):
    """Every process of this process group gets TERM."""

    def act(self) -> None:
        """Send it."""
        os.killpg(0, signal.SIGTERM)


@contextlib.contextmanager
def term_when_loaders_start(delay_seconds: float) -> Iterator[None]:
    """Send TERM to this process group a moment after the first loader was started, about the first
    update.
    """

    def send() -> None:
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        while not children.read_text(encoding="utf-8").split():
            time.sleep(0.001)
        time.sleep(delay_seconds)
        os.killpg(0, signal.SIGTERM)

    threading.Thread(target=send, daemon=True).start()
    yield


def train_in_group(request: TrainingRequest, hook: contextlib.AbstractContextManager[None]) -> None:
    """Train with loaders, in a process group of its own."""
    os.setsid()
    original = train_module.train_flags

    def with_loaders(*args: Any, **named: Any) -> list[str]:
        return [*original(*args, **named), "--num-workers", str(NUM_LOADERS)]

    with (
        mock.patch.object(train_module, "train_flags", with_loaders),
        StopFlag().installed() as stop,
        hook,
    ):
        train_module.train_rank(request, ALONE, stop)


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(10))
@pytest.mark.parametrize("is_early", [True, False])
def test_term_to_a_training_with_loaders_stops_it(
    is_early: bool, turn: int, run_folder: Path, data: BinarizedCorpus, finished: TrainRecord
) -> None:
    run_folder.mkdir()
    request = make_request(run_folder, data)
    hook = (
        term_when_loaders_start(0.02 * turn)
        if is_early
        else TermToAll(update=10 + turn).installed()
    )
    _, status = os.waitpid(fork(partial(train_in_group, request, hook)), 0)
    log = (run_folder / "train.log").read_text(encoding="utf-8")[-3000:]
    assert os.waitstatus_to_exitcode(status) == 0, log
    assert outcomes(run_folder) == ["stopped"], log
    if turn == 0:
        train(request)
        assert state_sha256(run_folder) == state_sha256(Path(finished.run_folder))


def accept_and_close(maker: socket.socket) -> None:
    """Answer a call as a process does that ends at this moment."""
    connection, _ = maker.accept()
    connection.close()


def ask_a_maker(*, is_ending: bool) -> BaseException:
    """Return the error of asking the maker of a batch for it, as its process ends or has ended."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as maker:
        address = f"{folder}/maker"
        if is_ending:
            maker.bind(address)
            maker.listen()
            threading.Thread(target=accept_and_close, args=(maker,)).start()
        try:
            Client(address, authkey=b"key")
        except (OSError, EOFError) as error:
            return error
    raise AssertionError("nobody answers this call")


LOST = [
    RuntimeError("DataLoader worker (pid 7) is killed by signal: Terminated. "),
    ask_a_maker(is_ending=True),
    ask_a_maker(is_ending=False),
]


def test_a_file_that_is_missing_is_no_lost_loader(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        (tmp_path / "train.bin").read_bytes()
    assert not train_module.is_lost_loader(caught.value)


def test_an_end_of_a_loader_does_not_disturb_the_record_of_a_stop() -> None:
    def fail(number: int, frame: object) -> None:
        raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Terminated. ")

    before = signal.signal(signal.SIGCHLD, fail)
    try:
        train_module._ignore_ended_loaders()
        signal.raise_signal(signal.SIGCHLD)
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("error", LOST, ids=["found dead", "ending", "ended"])
def test_a_lost_loader_is_a_stop_after_a_signal_alone(
    error: BaseException, run_folder: Path, data: BinarizedCorpus
) -> None:
    stop = StopFlag()
    rank_zero = train_module.RankZero(
        make_request(run_folder, data), ALONE, mock.Mock(), stop, "cpu"
    )
    with mock.patch.object(train_module, "SIGNAL_SECONDS", 0.05):
        assert rank_zero._classify_failure(error)[0] == "failed"
        stop.signal_number = signal.SIGTERM
        outcome, reason = rank_zero._classify_failure(error)
    assert outcome == "stopped"
    assert (
        reason == "asked by SIGTERM, which also ended a data loader before the training could save"
    )
