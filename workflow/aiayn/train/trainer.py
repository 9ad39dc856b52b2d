"""Lets fairseq's trainer start fewer kernels on GPUs: the batches of an update are joined as
`train/grouping.py` chooses.

On CPUs this is fairseq's own trainer, but it seeds only the CPU's generator.
"""

from typing import Any

import torch
from fairseq.trainer import Trainer

from aiayn.train.fairseq_model import AiaynTransformer
from aiayn.train.grouping import GroupLimits, choose_groups, group_limits
from aiayn.train.joining import shape_of


class AiaynTrainer(Trainer):  # type: ignore[misc]
    """fairseq's trainer, but updates on a GPU have fewer and larger batches."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._group_limits = self._find_group_limits()

    def _find_group_limits(self) -> GroupLimits | None:
        """Return the limits of joined batches, or None where batches are not joined.

        Batch normalisation computes with each batch's own mean. fairseq's models are left as they
        are: an LSTM wants its sentences sorted.
        """
        cfg = self.cfg.model
        model = self.get_model()
        if not (self.cuda and isinstance(model, AiaynTransformer) and cfg.norm != "batch"):
            return None
        return group_limits(
            precision=self.task.cfg.precision,
            num_parameters=sum(parameter.numel() for parameter in model.parameters()),
            num_layers=cfg.num_layers,
            d_model=cfg.d_model,
            d_ff=cfg.d_ff,
            memory_bytes=torch.cuda.get_device_properties(self.device).total_memory,
        )

    def _set_seed(self) -> None:
        """Seed the random numbers of the next update, as fairseq does.

        torch would also keep the seed of each update, with a stack trace, for a GPU that is used
        later. On a CPU there is none.
        """
        if self.cuda:
            super()._set_seed()
        else:
            torch.default_generator.manual_seed(self.cfg.common.seed + self.get_num_updates())

    def train_step(self, samples: list[dict[str, Any]], raise_oom: bool = False) -> Any:
        """Make an update with the sentences of `samples`, on a GPU in joined batches.

        An update with a dummy batch, at the end of an epoch on several ranks, is not joined.
        """
        if self._group_limits is not None and len(samples) > 1 and all(samples):
            groups = choose_groups([shape_of(sample) for sample in samples], self._group_limits)
            batches = samples
            samples = []
            for group in groups:
                samples.append(self.task.join_batches([batches[index] for index in group]))
            # For the record: dropout depends on the groups, so it states how many there were.
            self.task.num_updates_by_groups[len(groups)] += 1
        return super().train_step(samples, raise_oom)
