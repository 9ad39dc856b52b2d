"""Our criterion: fairseq's label-smoothed one, its loss computed within the model (`model/fused_loss.py`)."""

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.dataclass import FairseqDataclass
from omegaconf import II

NUM_SOURCE_TOKENS = "num_source_tokens"  # of a batch, without padding: counted where it is made (`train/task.py`)


@dataclass
class AiaynLabelSmoothingConfig(FairseqDataclass):  # type: ignore[misc]
    """eps_ls of section 5.4."""

    label_smoothing: float = field(default=0.0, metadata={"help": "eps_ls"})
    sentence_avg: bool = II("optimization.sentence_avg")


@register_criterion("aiayn_label_smoothing", dataclass=AiaynLabelSmoothingConfig)
class AiaynLabelSmoothing(LabelSmoothedCrossEntropyCriterion):  # type: ignore[misc]
    """Sums over target tokens, in nats, of the smoothed loss and of -log-probability; logged as fairseq's own."""

    def forward(self, model: Any, sample: Any, reduce: bool = True) -> tuple[Any, int, dict[str, Any]]:
        """Return the loss, the number of target tokens that its gradient is divided by, and what is logged."""
        target_BT = sample["target"]
        counted = {} if target_BT.is_cpu or NUM_SOURCE_TOKENS not in sample else {
            "num_tokens": (sample[NUM_SOURCE_TOKENS], sample["ntokens"])
        }  # fmt: skip
        loss, nll = model(**sample["net_input"], target_BT=target_BT, eps_ls=self.eps, **counted)
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        logging_output = {
            "loss": self._for_the_log(loss.data),
            "nll_loss": self._for_the_log(nll.data),
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
        }
        return loss, sample_size, logging_output

    def _for_the_log(self, value: torch.Tensor) -> torch.Tensor:
        """Return where a value will stand when Adam has waited for the norm of the gradient, which comes after it.

        On one GPU the log then reads memory of the host instead of waiting for the GPU thrice more. Several ranks add
        up their values on the GPU; a validation waits for each batch.
        """
        is_alone = not torch.distributed.is_initialized() or torch.distributed.get_world_size() == 1
        return value.to("cpu", non_blocking=True) if value.is_cuda and self.training and is_alone else value
