"""The schedule of equation (3), exactly, registered with fairseq."""

from dataclasses import dataclass, field
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II

from aiayn.schedule import learning_rate


@dataclass
class Equation3Config(FairseqDataclass):  # type: ignore[misc]
    """The two constants of equation (3)."""

    warmup_updates: int = field(default=4000, metadata={"help": "warmup_steps of equation (3)"})
    schedule_d_model: int = field(default=512, metadata={"help": "d_model of equation (3)"})
    lr: list[float] = II("optimization.lr")  # noqa: RUF009 -- a string that omegaconf looks up


@register_lr_scheduler("equation_3", dataclass=Equation3Config)
class Equation3(FairseqLRScheduler):  # type: ignore[misc]
    """Section 5.3's schedule; update n is made at the rate of step n.

    fairseq's inverse_sqrt asks for the rate with the number of updates already *done*, one too few: its first
    update is at rate 0. The logged `lr` of a line is therefore that of the next step.
    """

    def __init__(self, cfg: Equation3Config, optimizer: Any) -> None:
        super().__init__(cfg, optimizer)
        self.step_update(0)

    def step_update(self, num_updates: int) -> float:
        """Set the rate of the update that follows `num_updates` done ones, and return it."""
        rate = learning_rate(num_updates + 1, d_model=self.cfg.schedule_d_model, warmup_steps=self.cfg.warmup_updates)
        self.optimizer.set_lr(rate)
        return rate

    def step(self, epoch: int, val_loss: float | None = None) -> float:
        """Leave the rate alone at an epoch's end."""
        return float(self.optimizer.get_lr())
