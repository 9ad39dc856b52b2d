"""Updates are Adam's, at equation (3)'s rate of their step; fairseq's own schedule is one update
late.
"""

from collections.abc import Callable

import pytest
from fairseq.optim.lr_scheduler.inverse_square_root_schedule import (
    InverseSquareRootSchedule,
)

from aiayn.train.optimiser import Equation3, Equation3Config

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
    found = rates(lambda optimizer: Equation3(cfg, optimizer))
    assert [rate - written_out(step) for step, rate in enumerate(found, start=1)] == [
        0.0
    ] * NUM_STEPS


def test_an_epochs_end_does_not_touch_the_rate() -> None:
    cfg = Equation3Config(warmup_updates=WARMUP_STEPS, schedule_d_model=D_MODEL, lr=[1.0])
    schedule = Equation3(cfg, RateKeeper())
    assert schedule.step_update(99) == schedule.step(epoch=1, val_loss=5.0) == written_out(100)
