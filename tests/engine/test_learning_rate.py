"""Updates are Adam's, at equation (3)'s rate of their step. fairseq's own schedule is one update
late.
"""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from fairseq.optim.lr_scheduler.inverse_square_root_schedule import (
    InverseSquareRootSchedule,
)

from aiayn.train.optimiser import AiaynAdam, AiaynAdamConfig, Equation3, Equation3Config

D_MODEL, WARMUP_STEPS, NUM_STEPS = 512, 4000, 10_000


class RateKeeper:
    """Stands for fairseq's Adam: keeps the rate that it is told."""

    rate = 0.0

    def set_lr(self, rate: float) -> None:
        """Keep it."""
        self.rate = rate

    def get_lr(self) -> float:
        """Tell it."""
        return self.rate


@pytest.fixture(autouse=True)
def any_optimizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fairseq's schedules accept the stand-in as an optimizer."""
    monkeypatch.setattr(
        "fairseq.optim.lr_scheduler.fairseq_lr_scheduler.FairseqOptimizer", RateKeeper
    )


def written_out(step: int) -> float:
    """Return equation (3) as the paper prints it."""
    rising, falling = step * WARMUP_STEPS ** (-1.5), step ** (-0.5)
    return float(D_MODEL ** (-0.5) * min(falling, rising))


def rates(
    make_schedule: Callable[[RateKeeper], Equation3 | InverseSquareRootSchedule],
) -> list[float]:
    """Return the rate at which each of the updates 1 to 10,000 would be made, in the order of
    fairseq's trainer.
    """
    optimizer = RateKeeper()
    schedule = make_schedule(optimizer)
    schedule.step_update(0)
    at_update = []
    for num_updates in range(1, NUM_STEPS + 1):
        at_update.append(optimizer.get_lr())  # the optimizer steps, then the schedule hears of it
        schedule.step_update(num_updates)
    return at_update


def test_every_update_is_made_at_the_rate_of_its_step() -> None:
    cfg = Equation3Config(warmup_updates=WARMUP_STEPS, schedule_d_model=D_MODEL, lr=[1.0])
    rates_found = rates(lambda optimizer: Equation3(cfg, optimizer))
    assert [rate - written_out(step) for step, rate in enumerate(rates_found, start=1)] == [
        0.0
    ] * NUM_STEPS


def test_an_epochs_end_does_not_touch_the_rate() -> None:
    # fairseq asks a schedule at the end of each epoch, too.
    cfg = Equation3Config(warmup_updates=WARMUP_STEPS, schedule_d_model=D_MODEL, lr=[1.0])
    schedule = Equation3(cfg, RateKeeper())
    assert schedule.step_update(99) == schedule.step(epoch=1, val_loss=5.0) == written_out(100)


def our_adam(parameters: list[torch.nn.Parameter]) -> Any:
    """Return the optimizer that our fairseq optimizer steps."""
    return AiaynAdam(AiaynAdamConfig(lr=[0.01]), parameters).optimizer


def torchs_adam(parameters: list[torch.nn.Parameter]) -> torch.optim.Adam:
    """Return torch's own with the same settings."""
    return torch.optim.Adam(parameters, lr=0.01, betas=(0.9, 0.98), eps=1e-9, fused=True)


def after_updates(adam: Callable[[list[torch.nn.Parameter]], Any]) -> dict[str, torch.Tensor]:
    """Return a parameter and its moments after four updates. The moments are saved and loaded
    before the third.
    """
    parameter = torch.nn.Parameter(torch.arange(1.0, 7.0))
    optimizer = adam([parameter])
    for update in range(4):
        if update == 2:
            optimizer.load_state_dict(optimizer.state_dict())
        optimizer.zero_grad()
        parameter.square().sum().backward()
        optimizer.step()
    return {"parameter": parameter.detach(), **optimizer.state_dict()["state"][0]}


def test_our_adam_is_torchs_to_the_bit() -> None:
    ours, torchs = after_updates(our_adam), after_updates(torchs_adam)
    assert ours.keys() == torchs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, torchs[name]), name


def test_no_update_loads_torchs_compiler() -> None:
    script = (
        "import sys, aiayn.train.plugin;"  # before fairseq, of which it then imports little
        " from tests.engine.test_learning_rate import after_updates, our_adam;"
        " after_updates(our_adam); sys.exit('torch._dynamo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
