"""Registers our criterion with fairseq: the label-smoothed loss, which the model itself computes
(`model/fused_loss.py`).
"""

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.dataclass import FairseqDataclass
from omegaconf import II


@dataclass
class AiaynLabelSmoothingConfig(FairseqDataclass):  # type: ignore[misc]
    """The setting of the criterion: the label smoothing epsilon (eps_ls of section 5.4)."""

    label_smoothing: float = field(default=0.0, metadata={"help": "eps_ls"})
    # omegaconf replaces this text by the value of fairseq's flag --sentence-avg.
    sentence_avg: bool = II("optimization.sentence_avg")


@register_criterion("aiayn_label_smoothing", dataclass=AiaynLabelSmoothingConfig)
class AiaynLabelSmoothing(LabelSmoothedCrossEntropyCriterion):  # type: ignore[misc]
    """Computes two sums over target tokens, in nats: the smoothed loss and the negative
    log-probability. In the log, the two sums have the names and units of fairseq's own loss.
    """

    def forward(
        self, model: Any, sample: Any, reduce: bool = True
    ) -> tuple[Any, int, dict[str, Any]]:
        """Return the loss, the sample size (the number of target tokens by which fairseq divides
        the gradient), and the values for the log.
        """
        num_sentences = sample["target"].size(0)
        # Counted on the host when the batch was made, so the loss does not wait for a GPU.
        num_tokens = sample["ntokens"]
        # The model computes the loss itself, so that not all logits are in memory at once.
        loss, nll = model(
            **sample["net_input"],
            target_BT=sample["target"],
            eps_ls=self.eps,
            num_tokens=num_tokens,
        )
        # fairseq's flag --sentence-avg, which no system here sets, divides by sentences.
        sample_size = num_sentences if self.sentence_avg else num_tokens
        logging_output = {
            "loss": self._for_the_log(loss.data),
            "nll_loss": self._for_the_log(nll.data),
            "ntokens": num_tokens,
            "nsentences": num_sentences,
            "sample_size": sample_size,
        }
        return loss, sample_size, logging_output

    def _for_the_log(self, value: torch.Tensor) -> torch.Tensor:
        """Copy a value from the GPU to the host's memory without waiting for the GPU.

        The optimiser waits for the norm of the gradient, which the GPU computes after the copy. So
        the copy to the host's memory is complete before the log reads the value. With several ranks
        (processes), the value stays on the GPU, where the values of all ranks are summed. In a
        validation, the value also stays on the GPU, because nothing would wait for the copy.
        """
        is_alone = not torch.distributed.is_initialized() or torch.distributed.get_world_size() == 1
        return (
            value.to("cpu", non_blocking=True)
            if value.is_cuda and self.training and is_alone
            else value
        )
