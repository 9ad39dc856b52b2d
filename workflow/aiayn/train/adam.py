"""Adam (section 5.3) by torch's fused kernel: one pass over the parameters instead of a dozen a tensor."""

from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II


@dataclass
class AiaynAdamConfig(FairseqDataclass):  # type: ignore[misc]
    """The three constants of section 5.3."""

    adam_beta_1: float = field(default=0.9, metadata={"help": "beta_1"})
    adam_beta_2: float = field(default=0.98, metadata={"help": "beta_2"})
    adam_epsilon: float = field(default=1e-9, metadata={"help": "epsilon"})
    lr: list[float] = II("optimization.lr")  # noqa: RUF009 -- a string that omegaconf looks up


@register_optimizer("aiayn_adam", dataclass=AiaynAdamConfig)
class AiaynAdam(FairseqOptimizer):  # type: ignore[misc]
    """torch.optim.Adam, whose epsilon is added after the correction of bias, as in Kingma and Ba's algorithm 1.

    tensor2tensor's and fairseq's add it before, as if it were epsilon / sqrt(1 - beta_2^t): at 1e-9 nothing in fp32.
    """

    def __init__(self, cfg: AiaynAdamConfig, params: Any) -> None:
        super().__init__(cfg)
        self._optimizer = torch.optim.Adam(params, **self.optimizer_config)

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Any = None) -> torch.Tensor:
        """Return the gradient's norm, on the CPU: fairseq asks whether it is finite before each update.

        This is the one wait of an update for the GPU. Weights that are not numbers are not to be made, nor saved.
        """
        gradients = [parameter.grad for parameter in self.params if parameter.grad is not None]
        if not gradients or gradients[0].is_cpu or aggregate_norm_fn is not None:
            norm: torch.Tensor = super().clip_grad_norm(max_norm, aggregate_norm_fn)
            return norm
        return clip_on_device(list(self.params), max_norm).cpu()

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """Return Adam's arguments, which stand above those found in a checkpoint."""
        lr = self.cfg.lr if isinstance(self.cfg.lr, float) else self.cfg.lr[0]
        betas = (self.cfg.adam_beta_1, self.cfg.adam_beta_2)
        return {"lr": lr, "betas": betas, "eps": self.cfg.adam_epsilon, "weight_decay": 0.0, "fused": True}


def clip_on_device(parameters: list[torch.Tensor], max_norm: float) -> torch.Tensor:
    """Return the norm of all gradients, shortened to `max_norm` if that is above 0: some kernels, not one a tensor."""
    norm = torch.nn.utils.get_total_norm([one.grad for one in parameters if one.grad is not None], foreach=True)
    if max_norm > 0:
        torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm, foreach=True)
    return norm
