"""Updates are Adam's, at equation (3)'s rate of their step; fairseq's own schedule is one update
late.
"""

import math
from collections.abc import Callable

import pytest
import torch
from fairseq.optim.lr_scheduler.inverse_square_root_schedule import (
    InverseSquareRootLRScheduleConfig,
    InverseSquareRootSchedule,
)
from fairseq.trainer import Trainer

from aiayn.records import BinarizedCorpus
from aiayn.runs.attempts import DONE_NAME
from aiayn.train.optimiser import AiaynAdam, AiaynAdamConfig, Equation3, Equation3Config
from tests.engine.tiny_training import make_request, train

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


def test_two_updates_of_adam_by_hand() -> None:
    """Gradients 1 and 3 at rate 0.1; after the second m = 0.39 and v = 0.98 * 0.02 + 0.02 * 9
    (Kingma and Ba 2015).
    """
    weight = torch.nn.Parameter(torch.zeros(1))
    optimiser = AiaynAdam(AiaynAdamConfig(lr=[0.1]), [weight]).optimizer
    for gradient in (1.0, 3.0):
        weight.grad = torch.tensor([gradient])
        optimiser.step()
    second = 0.1 * (0.39 / (1 - 0.9**2)) / math.sqrt(0.1996 / (1 - 0.98**2))
    assert float(weight.detach()) == pytest.approx(-0.1 - second, rel=1e-5)


def test_fairseqs_own_schedule_is_one_update_late() -> None:
    """With the paper's peak and a start at 0 it has the paper's curve, but its first update changes
    nothing.
    """
    peak = (D_MODEL * WARMUP_STEPS) ** -0.5
    cfg = InverseSquareRootLRScheduleConfig(
        warmup_updates=WARMUP_STEPS, warmup_init_lr=0.0, lr=[peak]
    )
    found = rates(lambda optimizer: InverseSquareRootSchedule(cfg, optimizer))
    assert found[0] == 0.0
    assert found[1:] == pytest.approx(
        [written_out(step) for step in range(1, NUM_STEPS)], rel=1e-12
    )
    assert found[2] != pytest.approx(written_out(3), rel=0.1)


def test_an_epochs_end_does_not_touch_the_rate() -> None:
    cfg = Equation3Config(warmup_updates=WARMUP_STEPS, schedule_d_model=D_MODEL, lr=[1.0])
    schedule = Equation3(cfg, RateKeeper())
    assert schedule.step_update(99) == schedule.step(epoch=1, val_loss=5.0) == written_out(100)


def test_a_real_training_steps_at_these_rates_also_after_a_restart(
    tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rate that Adam has when it steps, update by update; d_model 16, 3 warm-up steps."""
    monkeypatch.undo()  # the real optimizer
    found: list[tuple[int, float]] = []
    original = Trainer.clip_grad_norm  # fairseq clips just before the optimizer steps

    def clip_grad_norm(trainer: Trainer, clip_norm: float) -> object:
        found.append(
            (trainer.get_num_updates() + 1, trainer.optimizer.optimizer.param_groups[0]["lr"])
        )
        return original(trainer, clip_norm)

    monkeypatch.setattr(Trainer, "clip_grad_norm", clip_grad_norm)
    run_folder = tmp_path_factory.mktemp("runs") / "rates"
    for updates in (3, 6):
        train(
            make_request(run_folder, data, updates=updates, warmup_steps=3, save_interval_updates=3)
        )
        (run_folder / DONE_NAME).unlink()
    expected = [16**-0.5 * min(step**-0.5, step * 3**-1.5) for step in range(1, 7)]
    assert found == list(enumerate(expected, start=1))
