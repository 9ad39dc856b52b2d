"""What tests do to a training from inside its process: end it, signal it, or make it wait, at a
chosen update.
"""

import contextlib
import functools
import io
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from aiayn.launch.job import TrainingJob
from aiayn.train.request import TrainingRequest

LONGEST_WAIT_SECONDS = 60.0

CHECKOUT = Path(__file__).resolve().parents[2]


class Hook(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that happens once, at `update`."""

    update: int

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Let it happen after that update, before anything is saved. What was saved earlier is
        written by then.
        """
        import fairseq.trainer

        from aiayn.train.checkpoints import CheckpointKeeper

        original, keepers = fairseq.trainer.Trainer.train_step, list[CheckpointKeeper]()
        original_save = CheckpointKeeper.save

        def save(keeper: CheckpointKeeper, *arguments: Any) -> None:
            keepers[:] = [keeper]
            original_save(keeper, *arguments)

        @functools.wraps(original)
        def train_step(trainer: Any, *arguments: Any, **named: Any) -> Any:
            logged = original(trainer, *arguments, **named)
            if trainer.get_num_updates() == self.update:
                for keeper in keepers:
                    keeper.wait()
                self.act()
            return logged

        with (
            mock.patch.object(fairseq.trainer.Trainer, "train_step", train_step),
            mock.patch.object(CheckpointKeeper, "save", save),
        ):
            yield

    def act(self) -> None:
        """Do it."""
        raise NotImplementedError


class Signal(Hook, frozen=True, kw_only=True):
    """The process gets a signal."""

    number: int = signal.SIGTERM

    def act(self) -> None:
        """Send it."""
        os.kill(os.getpid(), self.number)


class SignalRank0(Signal, frozen=True, kw_only=True):
    """Only the first rank of a local job gets the signal."""

    def act(self) -> None:
        """Send it, or not."""
        if os.environ["SUBMITIT_LOCAL_GLOBALID"] == "0":
            os.kill(os.getpid(), self.number)


class Fault(Hook, frozen=True, kw_only=True):
    """Something in the training raises an error."""

    message: str

    def act(self) -> None:
        """Raise it."""
        raise RuntimeError(self.message)


class Wait(Hook, frozen=True, kw_only=True):
    """The training says that it is there (`<path>.here`), and goes on when `path` exists."""

    path: str

    def act(self) -> None:
        """Wait, but not for ever."""
        Path(f"{self.path}.here").touch()
        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
        while not Path(self.path).exists() and time.monotonic() < deadline:
            time.sleep(0.02)


class KillInSave(Hook, frozen=True, kw_only=True):
    """The process is killed when half of this update's full checkpoint is written."""

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Let it happen in `torch.save`."""
        import torch

        original = torch.save

        def save(state: dict[str, Any], file: Any) -> None:
            if (
                state["optimizer_history"][-1]["num_updates"] == self.update
                and "last_optimizer_state" in state
            ):
                whole = io.BytesIO()
                original(state, whole)
                file.write(whole.getvalue()[: whole.tell() // 2])
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            original(state, file)

        with mock.patch.object(torch, "save", save):
            yield


class KillAtEnd(Hook, frozen=True, kw_only=True):
    """The process is killed when all is trained and saved, and nothing told yet."""

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Let it happen where the record would be made."""

        def kill(*_: object, **__: object) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        with mock.patch("aiayn.train.train.make_record", kill):
            yield


AnyHook = Signal | Fault | Wait | KillInSave | KillAtEnd


class HookedJob(TrainingJob):
    """A training job with a hook installed."""

    def __init__(self, request: TrainingRequest, hook: Hook) -> None:
        super().__init__(request)
        self.hook = hook

    def __call__(self) -> None:
        """Train with the hook installed."""
        # In a process of its own the patch of conftest.py does not hold.
        every_checkpoint = mock.patch("aiayn.train.train.RESUME_SECONDS", 0.0)
        with every_checkpoint, self.hook.installed():
            super().__call__()


def next_jobs(*hooks: Hook) -> Callable[[TrainingRequest], TrainingJob]:
    """Return what makes a hooked job at each call, and plain ones after the last hook."""
    left = list(hooks)
    return lambda request: HookedJob(request, left.pop(0)) if left else TrainingJob(request)


@contextlib.contextmanager
def hooked(*hooks: Hook) -> Iterator[None]:
    """Install a hook in each of the next jobs that are submitted."""
    # A job looks for modules only in the copy of its code and in PYTHONPATH; this module is not
    # in the copy.
    path = os.pathsep.join([str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with (
        mock.patch("aiayn.launch.local.TrainingJob", next_jobs(*hooks)),
        mock.patch.dict(os.environ, {"PYTHONPATH": path}),
    ):
        yield
