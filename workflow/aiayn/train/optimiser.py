"""Registers the optimiser of section 5.3 with fairseq: Adam by torch's fused kernel, and exactly
the learning rate schedule of equation (3).
"""

import inspect
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II

from aiayn.schedule import learning_rate


@dataclass
class AiaynAdamConfig(FairseqDataclass):  # type: ignore[misc]
    """The hyper-parameters of Adam: beta_1, beta_2 and epsilon of section 5.3."""

    adam_beta_1: float = field(default=0.9, metadata={"help": "beta_1"})
    adam_beta_2: float = field(default=0.98, metadata={"help": "beta_2"})
    adam_epsilon: float = field(default=1e-9, metadata={"help": "epsilon"})
    lr: list[float] = II("optimization.lr")  # noqa: RUF009 -- a string that omegaconf looks up


class EagerAdam(torch.optim.Adam):
    """torch.optim.Adam with bitwise the same results, but without torch's compiler.

    torch wraps the methods of Adam for `torch.compile`, which no training here uses. The first call
    of a wrapped method imports torch's compiler, which takes a second in each training. EagerAdam
    has the methods of Adam without the wrapper.
    """

    # torch's wrapper of `step` switches the recording of gradients off, as `no_grad` does here.
    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))
    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Adam.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Adam.load_state_dict)


@register_optimizer("aiayn_adam", dataclass=AiaynAdamConfig)
class AiaynAdam(FairseqOptimizer):  # type: ignore[misc]
    """torch.optim.Adam as an optimiser of fairseq. torch adds epsilon after the bias correction, as
    in Kingma and Ba's algorithm 1.

    tensor2tensor and fairseq add epsilon before the bias correction, which is equal to adding
    epsilon / sqrt(1 - beta_2^t) after the correction. With an epsilon of 1e-9, the difference
    disappears in fp32.
    """

    def __init__(self, cfg: AiaynAdamConfig, params: Any) -> None:
        super().__init__(cfg)
        # fairseq's base class looks for torch's optimiser under this name.
        self._optimizer = EagerAdam(params, **self.optimizer_config)

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Any = None) -> torch.Tensor:
        """Clip the gradient to `max_norm`, and return its norm before clipping, on the CPU.

        fairseq checks before each update that the norm is finite, so a gradient that is not finite
        never reaches the weights or a checkpoint. With one rank (process), the host waits for the
        GPU only here in each update. With several ranks, the host also waits when the ranks agree
        after an update whether to stop (`plan/kernels.csv` counts the waits).
        """
        # If parameters are sharded over ranks, fairseq passes a function that sums over the shards.
        if aggregate_norm_fn is not None:
            norm: torch.Tensor = super().clip_grad_norm(max_norm, aggregate_norm_fn)
            return norm
        return clip_by_norm(list(self.params), max_norm).cpu()

    def multiply_grads(self, c: Any) -> None:
        """Multiply the gradients by the factor `c`. With a factor of 1, do nothing. The factor is 1
        if `FlatGradients` has already divided the gradients.
        """
        if torch.is_tensor(c) or c != 1.0:
            super().multiply_grads(c)

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """Return Adam's hyper-parameters. When a training resumes, the returned hyper-parameters
        replace the hyper-parameters in the checkpoint.
        """
        # fairseq's config has a list of learning rates, one for each epoch.
        lr = self.cfg.lr if isinstance(self.cfg.lr, float) else self.cfg.lr[0]
        betas = (self.cfg.adam_beta_1, self.cfg.adam_beta_2)
        return {
            "lr": lr,
            "betas": betas,
            "eps": self.cfg.adam_epsilon,
            "weight_decay": 0.0,
            "fused": True,
        }


def clip_by_norm(parameters: list[torch.Tensor], max_norm: float) -> torch.Tensor:
    """Scale all gradients so that the norm over all of them is at most `max_norm`. A `max_norm` of
    0 switches scaling off. Return the norm of the gradients before scaling.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    # `foreach` computes on lists of tensors, with a few kernels instead of some for each tensor.
    norm = torch.nn.utils.get_total_norm(gradients, foreach=True)
    if max_norm > 0:
        torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm, foreach=True)
    return norm


@dataclass
class Equation3Config(FairseqDataclass):  # type: ignore[misc]
    """The two constants of equation (3): warmup_steps and d_model."""

    warmup_updates: int = field(default=4000, metadata={"help": "warmup_steps of equation (3)"})
    schedule_d_model: int = field(default=512, metadata={"help": "d_model of equation (3)"})
    lr: list[float] = II("optimization.lr")  # noqa: RUF009 -- a string that omegaconf looks up


@register_lr_scheduler("equation_3", dataclass=Equation3Config)
class Equation3(FairseqLRScheduler):  # type: ignore[misc]
    """The learning rate schedule of section 5.3. Update n uses the learning rate of step n.

    fairseq's schedule `inverse_sqrt` computes the learning rate from the number of updates that are
    already done, which is one too small, so its first update has a learning rate of 0. With both
    schedules, fairseq writes `lr` to the log after it has set the learning rate of the next update,
    so `lr` in a log is the learning rate of the next update.
    """

    def __init__(self, cfg: Equation3Config, optimizer: Any) -> None:
        super().__init__(cfg, optimizer)
        # The rate of the first update. fairseq's own schedules also set it when they are made.
        self.step_update(0)

    def step_update(self, num_updates: int) -> float:
        """Set and return the learning rate for the next update, after `num_updates` updates."""
        # Equation (3) counts steps from 1.
        rate = learning_rate(
            num_updates + 1, d_model=self.cfg.schedule_d_model, warmup_steps=self.cfg.warmup_updates
        )
        self.optimizer.set_lr(rate)
        return rate

    def step(self, epoch: int, val_loss: float | None = None) -> float:
        """Return the learning rate, which the end of an epoch does not change."""
        return float(self.optimizer.get_lr())
