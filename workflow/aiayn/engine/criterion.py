"""Our criterion: fairseq's label-smoothed one, its loss computed within the model (`engine/fused_loss.py`)."""

from dataclasses import dataclass, field
from typing import Any

from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.dataclass import FairseqDataclass
from omegaconf import II


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
        loss, nll = model(**sample["net_input"], target_BT=sample["target"], eps_ls=self.eps)
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        logging_output = {
            "loss": loss.data,
            "nll_loss": nll.data,
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
        }
        return loss, sample_size, logging_output
