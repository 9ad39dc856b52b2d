"""TERM to every process of a training, as scancel and preemption send it, stops the training after
it has saved.

Only a GPU's batches are made by processes of their own. Here a CPU's are, too.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import aiayn.train.train as train_module
from aiayn.records import BinarizedCorpus, TrainRecord
from aiayn.train.ranks import Rank
from aiayn.train.request import StopFlag, TrainingRequest
from tests.engine.hooked_job import Hook
from tests.engine.tiny_training import ends, make_request, outcomes, state_sha256, train
from tests.forks import fork
from tests.slurm.cluster_processes import wait_until
from tests.slurm.fault_scene import LOGGED_UPDATE
from tests.slurm.slow_job import with_loaders

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
    with (
        with_loaders(NUM_LOADERS),
        StopFlag().installed() as stop,
        hook,
    ):
        train_module.train_rank(request, ALONE, stop)


def processes_of(group: int) -> list[str]:
    """Return the processes that a process leads and that have not ended."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, leader, *_ = path.read_text().rpartition(")")[2].split()
            if int(leader) == group and state != "Z":
                processes.append(path.parent.name)
    return processes


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
    group = fork(partial(train_in_group, request, hook))
    _, status = os.waitpid(group, 0)
    wait_until(lambda: not processes_of(group), 2, "the end of the loaders")
    log = (run_folder / "train.log").read_text(encoding="utf-8")[-3000:]
    assert os.waitstatus_to_exitcode(status) == 0, log
    assert outcomes(run_folder) == ["stopped"], log
    (end,) = ends(run_folder)
    updates = [int(update) for update in LOGGED_UPDATE.findall(log)]
    assert (end.reason, end.update) == ("asked by SIGTERM", updates[-1])
    if turn == 0:
        train(request)
        assert state_sha256(run_folder) == state_sha256(Path(finished.run_folder))
