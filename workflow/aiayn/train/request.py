"""What a job is asked to train, and the signals that ask it to end early. Torch is not imported here.

Pickled with the job, and read from the copy of the code that was taken when the job was submitted.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Self

import msgspec

from aiayn.runs.attempts import CHECKPOINTS_NAME
from aiayn.spec.system import TrainingSpec
from aiayn.train.fairseq_args import TrainingData


class TrainingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """All that a job needs to train a run.

    What decides its tensors is in `training`, `seed` and the data-bin. On Slurm `num_earlier_jobs` of this training
    ran before this one, and with `max_num_jobs` the last has run; each of its nodes was promised `gpus_per_node`, and
    it is to run the code in `code_folder`, if that is told.
    """

    run: str
    run_folder: str
    corpus: str
    system: str
    seed: int
    training: TrainingSpec
    data: TrainingData
    binarized_path: str
    num_models: int
    num_ranks: int
    threads_per_rank: int
    commit: str
    command: str
    num_earlier_jobs: int = 0
    max_num_jobs: int | None = None
    gpus_per_node: int = 0
    code_folder: str | None = None

    @property
    def folder(self) -> Path:
        """The run's own folder."""
        return Path(self.run_folder)

    @property
    def checkpoint_folder(self) -> Path:
        """The folder of its checkpoints."""
        return self.folder / CHECKPOINTS_NAME


class NotedSignal:
    """The first of its signals that this process got, between two byte codes."""

    numbers: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.signal_number: signal.Signals | None = None

    @contextlib.contextmanager
    def installed(self) -> Iterator[Self]:
        """Take over the signals for the length of the block."""
        previous = {number: signal.signal(number, self._note) for number in self.numbers}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = self.signal_number or signal.Signals(number)


class StopFlag(NotedSignal):
    """Set by TERM, INT, USR2 or HUP, in place of submitit's handlers; the training loop looks at it after each update.

    USR2 is Slurm's word that the time is nearly up, after which another job is to go on; the others are a wish to end,
    and are not taken back by a USR2. `agreed` is what the ranks have agreed to stop by.
    """

    numbers = (*NotedSignal.numbers, signal.SIGUSR2)
    agreed: signal.Signals | None = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal_number is None or number != signal.SIGUSR2:
            self.signal_number = signal.Signals(number)


def num_restarts() -> int:
    """Return how often Slurm has started this job again; 0 outside Slurm."""
    return int(os.environ.get("SLURM_RESTART_COUNT", "0"))
