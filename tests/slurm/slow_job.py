"""A training that takes its time between updates, so that something can happen to it. Its tensors
are the same.

It also tells in its output which interface its ranks have used.
"""

import contextlib
import functools
import os
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

from aiayn.launch.job import TrainingJob
from aiayn.train.request import StopFlag, TrainingRequest
from tests.slurm.no_locks import no_locks


class SlowJob(TrainingJob):
    """A job that sleeps after each update, maybe on a file system whose locks fail."""

    def __init__(
        self,
        request: TrainingRequest,
        seconds_per_update: float,
        *,
        has_locks: bool = True,
        num_loaders: int = 0,
    ) -> None:
        super().__init__(request)
        self.num_loaders = num_loaders
        self.seconds_per_update = seconds_per_update
        self.has_locks = has_locks

    def _train(self, stop: StopFlag) -> None:
        """Train slowly. The imports come after the signals are taken over, as in any job."""
        with (
            _slowed(self.seconds_per_update),
            with_loaders(self.num_loaders),
            contextlib.nullcontext() if self.has_locks else no_locks(),
        ):
            super()._train(stop)
        print(f"interface of the ranks: {os.environ.get('GLOO_SOCKET_IFNAME')}", flush=True)


@contextlib.contextmanager
def with_loaders(num_loaders: int) -> Iterator[None]:
    """Let processes of their own make the batches of a training on a CPU, as on a GPU."""
    import aiayn.train.train

    original = aiayn.train.train.train_flags

    def train_flags(*arguments: Any, **named: Any) -> list[str]:
        return [*original(*arguments, **named), "--num-workers", str(num_loaders)]

    with mock.patch.object(aiayn.train.train, "train_flags", train_flags):
        yield


@contextlib.contextmanager
def _slowed(seconds_per_update: float) -> Iterator[None]:
    import fairseq.trainer

    original = fairseq.trainer.Trainer.train_step

    @functools.wraps(original)
    def train_step(trainer: Any, *arguments: Any, **named: Any) -> Any:
        logged = original(trainer, *arguments, **named)
        time.sleep(seconds_per_update)
        return logged

    with mock.patch.object(fairseq.trainer.Trainer, "train_step", train_step):
        yield
