"""What we register with fairseq: a translation task that remembers, and the schedule of equation (3) exactly."""

from dataclasses import dataclass, field
from typing import Any

import fairseq_cli.train
from fairseq.dataclass import FairseqDataclass
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import II

from aiayn.engine import compat
from aiayn.schedule import learning_rate

compat.install()
compat.install_batching()


def forget_validations() -> None:
    """Set early stopping's count back: fairseq keeps it on a function, over all trainings of a process."""
    fairseq_cli.train.should_stop_early.best = None
    fairseq_cli.train.should_stop_early.num_runs = 0


@register_task("aiayn_translation", dataclass=TranslationConfig)
class AiaynTranslationTask(TranslationTask):  # type: ignore[misc]
    """fairseq's translation task, with the state that fairseq forgets when it resumes.

    `num_target_tokens` counts target tokens trained on, end of sentence included, over all ranks and attempts. Early
    stopping (`--patience`) counts in attributes of a function, which a restart would set back to nothing.
    """

    def __init__(self, cfg: TranslationConfig, src_dict: Any, tgt_dict: Any) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self.num_target_tokens = 0

    def reduce_metrics(self, logging_outputs: list[dict[str, Any]], criterion: Any) -> None:
        """Count the tokens of a training step; fairseq hands over the outputs of all ranks."""
        super().reduce_metrics(logging_outputs, criterion)
        if criterion.training:
            self.num_target_tokens += int(sum(int(output.get("ntokens", 0)) for output in logging_outputs))

    def get_checkpoint_dict(self) -> dict[str, dict[str, Any]]:
        """Return what a full checkpoint must hold of this task; fairseq stores it under the class's name."""
        stopping = fairseq_cli.train.should_stop_early
        state = {
            "num_target_tokens": self.num_target_tokens,
            "best_valid_loss": stopping.best,
            "num_validations_without_improvement": stopping.num_runs,
        }
        return {type(self).__name__: state}

    def set_checkpoint_dict(self, state: dict[str, Any]) -> None:
        """Take up what `get_checkpoint_dict` gave."""
        self.num_target_tokens = state["num_target_tokens"]
        fairseq_cli.train.should_stop_early.best = state["best_valid_loss"]
        fairseq_cli.train.should_stop_early.num_runs = state["num_validations_without_improvement"]


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
