"""Defines the request of a job, with everything that the job needs to train, and records the
signals that end a job early. This module does not import torch.

The driver (the process that submits jobs and waits for them) pickles the request. The job unpickles
the request with the copy of the code that was made when the job was submitted.
"""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Self

import msgspec

from aiayn.records import Beginning
from aiayn.runs.run_folder import RunFolder
from aiayn.spec.system import TrainingSpec


class TrainingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a job: everything that the job needs to train a run.

    `training`, `seed` and the binarized text in `data_folder` determine the trained tensors. If
    `is_joint` is True, both languages share a dictionary. On a cluster, `num_earlier_jobs` jobs
    have already worked on this training, and at most `max_num_jobs` jobs may do so. Each node must
    have `gpus_per_node` GPUs. If `code_folder` is not None, the job must run the code in this
    folder.

    If the training continues a shorter training of the system `begins_from`, it begins from the
    checkpoint at `beginning_path`, and `beginning` is copied into the record of the training. For
    all other trainings, these three fields are None.

    `work` is the function that each rank (process) of the job calls, as `module:name`. Its
    arguments are this request, the rank and the stop flag.
    """

    run: str
    run_folder: str
    corpus: str
    system: str
    seed: int
    training: TrainingSpec
    data_folder: str
    source_language: str
    target_language: str
    is_joint: bool
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
    begins_from: str | None = None
    beginning: Beginning | None = None
    beginning_path: str | None = None
    work: str = "aiayn.train.train:train_rank"

    @property
    def folder(self) -> RunFolder:
        """The folder of the run."""
        return RunFolder(Path(self.run_folder))


class NotedSignal:
    """Stores the first signal that this process received. Only the signals in `numbers` count."""

    numbers: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.signal_number: signal.Signals | None = None

    @contextlib.contextmanager
    def installed(self) -> Iterator[Self]:
        """Handle the signals in `numbers` during the `with` block."""
        # Handlers are given back, because the launcher `debug` trains in the driver's process.
        previous = {number: signal.signal(number, self._note) for number in self.numbers}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        # A handler may interrupt any line of Python, so it only stores a number.
        self.signal_number = self.signal_number or signal.Signals(number)


class StopTraining(BaseException):
    """Raised to end a training, or a wait for a different rank (process), because of a signal.
    StopTraining is not a subclass of `Exception`, so that fairseq does not catch it.
    """


class StopFlag(NotedSignal):
    """A flag that is set by the signals TERM, INT, USR2 and HUP. The handlers of this class replace
    submitit's signal handlers. The training loop reads the flag after each update.

    A cluster sends USR2 to a job shortly before the job's time limit, and a later job resumes the
    run. TERM, INT and HUP end the run, even if a USR2 follows. `agreed` is the signal on which all
    ranks (processes) have agreed to stop.
    """

    # USR2 is what the launcher asks Slurm to send before the time limit.
    numbers = (*NotedSignal.numbers, signal.SIGUSR2)
    agreed: signal.Signals | None = None

    def raise_if_any(self) -> None:
        """Raise StopTraining if a signal has come. Code that waits for a different rank calls this
        often.

        Raises:
            StopTraining: if this process got a signal.
        """
        if self.signal_number is not None:
            raise StopTraining

    def _note(self, number: int, frame: FrameType | None) -> None:
        # A request to end the run replaces a USR2. A USR2 never replaces a request to end it.
        if self.signal_number is None or number != signal.SIGUSR2:
            self.signal_number = signal.Signals(number)
