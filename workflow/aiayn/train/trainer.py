"""Lets fairseq's trainer start fewer kernels on GPUs, and wait for them less often.

On a GPU, the batches of an update are joined as `train/grouping.py` chooses. With several ranks
(processes), fairseq sums the logged values of all ranks after every update, and reading each sum
waits for the GPU. Here every rank keeps its own values until they are needed: at a log line, at a
checkpoint, at the end of an epoch or when the training stops. When the values are needed, one sum
over the ranks covers all updates since the previous sum, and each update is logged with the values
that fairseq would have logged. The sum also contains each rank's gradient norms, which must be
equal on all ranks.

On CPUs, this trainer differs from fairseq's trainer only in one point: it seeds only the CPU's
random generator.
"""

from typing import Any

import torch
from fairseq.distributed import utils
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from torch import Tensor

from aiayn.train.fairseq_model import AiaynTransformer
from aiayn.train.grouping import GroupLimits, choose_groups, group_limits
from aiayn.train.joining import shape_of

# On these devices the ranks keep their logs. On a CPU, reading a sum does not wait for a device.
LOCAL_LOG_DEVICES = {"cuda"}
NORM_TOLERANCE = 1e-6  # relative, as in fairseq's own comparison


class AiaynTrainer(Trainer):  # type: ignore[misc]
    """fairseq's trainer, but on GPUs it joins batches, and ranks (processes) share their logs only
    when the logs are needed.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # This rank's log and gradient norm of each update since the last call of `share_log`.
        self._unshared: list[tuple[dict[str, Any], Tensor]] = []
        self._is_first = True
        self._group_limits = self._find_group_limits()

    def _find_group_limits(self) -> GroupLimits | None:
        """Return the limits of joined batches, or None if the batches of this training are not
        joined.

        A model with batch normalisation is excluded, because joining would change the mean of a
        batch. fairseq's own models are excluded, because fairseq's LSTM needs sentences sorted by
        length.
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
        """Seed the random numbers (dropout) of the next update, as fairseq does.

        On a CPU, this method does not call fairseq's method. With fairseq's method, torch would
        store the seed for GPUs, in case a GPU is used later, and would take a stack trace each
        time.
        """
        if self.cuda:
            super()._set_seed()
        else:
            torch.default_generator.manual_seed(self.cfg.common.seed + self.get_num_updates())

    def train_step(self, samples: list[dict[str, Any]], raise_oom: bool = False) -> Any:
        """Make an update with the sentences of the batches `samples`. On a GPU, batches are joined.

        At the end of an epoch on several ranks (processes), an update may have an empty dummy
        batch. The batches of an update with a dummy batch are not joined.
        """
        if self._group_limits is not None and len(samples) > 1 and all(samples):
            groups = choose_groups([shape_of(sample) for sample in samples], self._group_limits)
            batches = samples
            samples = []
            for group in groups:
                samples.append(self.task.join_batches([batches[index] for index in group]))
            # For the training's record, because dropout depends on how batches were joined.
            self.task.num_updates_by_groups[len(groups)] += 1
        return super().train_step(samples, raise_oom)

    @property
    def keeps_local_log(self) -> bool:
        """Whether ranks (processes) share their logs only when the logs are needed: on several
        GPUs.
        """
        return self.data_parallel_world_size > 1 and self.device.type in LOCAL_LOG_DEVICES

    def _aggregate_logging_outputs(
        self,
        logging_outputs: list[dict[str, Any]],
        sample_size: float,
        *others: Any,
        ignore: bool = False,
    ) -> Any:
        """Return the log of an update on this rank (process) only. `sample_size`, the number of
        target tokens, is summed over the ranks later, with the gradients.

        The log of a validation is summed over the ranks at once, as in fairseq. `ignore` is True
        for a dummy batch, whose values count as zero.
        """
        if not self.keeps_local_log or not self.get_criterion().training:
            return super()._aggregate_logging_outputs(
                logging_outputs, sample_size, *others, ignore=ignore
            )
        # `FlatGradients` sums this number together with the gradients.
        self.model.module.sample_size = sample_size
        weight = 0 if ignore else 1
        own_log = {}
        for name in logging_outputs[0]:
            own_log[name] = weight * sum(output[name] for output in logging_outputs)
        # fairseq multiplies the gradients by the number of ranks and divides them by this sample
        # size. `FlatGradients` has already divided them, so the factor must be 1.
        world_size = float(self.data_parallel_world_size)
        num_failures, train_seconds = others
        return [own_log], (world_size, num_failures, train_seconds * world_size)

    def _check_grad_norms(self, grad_norm: Tensor) -> None:
        """Compare the gradient norms of the ranks, unless `share_log` will do so before a
        checkpoint.
        """
        if not self.keeps_local_log:
            super()._check_grad_norms(grad_norm)

    def _reduce_and_log_stats(
        self, logging_outputs: Any, sample_size: Any, grad_norm: Tensor | None = None
    ) -> Any:
        """Log an update, or keep the values for the log until `share_log` is called. For a
        validation, `grad_norm` is None.
        """
        if not self.keeps_local_log or grad_norm is None:
            return super()._reduce_and_log_stats(logging_outputs, sample_size, grad_norm)
        self._unshared.append((logging_outputs[0], grad_norm))
        # fairseq measures words and updates per second from the first update that is logged.
        if self._is_first or self.get_num_updates() % self.cfg.common.log_interval == 0:
            self._is_first = False
            self.share_log()
        return {}

    def share_log(self) -> None:
        """Sum the logs that the ranks (processes) have kept, and log each of these updates. All
        ranks must call this method.

        Raises:
            FloatingPointError: on all ranks, if ranks have different gradient norms in an update.
        """
        updates = self._unshared
        self._unshared = []
        if not updates:
            return
        world_size = self.data_parallel_world_size
        # Each rank fills its own column, so that after the sum every rank has all norms.
        own_norms = torch.zeros(len(updates), world_size, dtype=torch.float64)
        own_norms[:, self.data_parallel_rank] = torch.stack([norm for _, norm in updates])
        values: list[Any] = []
        for own_log, _ in updates:
            values += own_log.values()
        # Numbers on the GPU are summed there: reading them one by one would wait at each.
        on_device = [value for value in values if torch.is_tensor(value)]
        numbers = [value for value in values if not torch.is_tensor(value)]
        sums = torch.cat([own_norms.flatten(), torch.tensor(numbers, dtype=torch.float64)])
        sums = sums.to(self.device)
        if on_device:
            sums = torch.cat([sums, torch.stack(on_device).double()])
        utils.all_reduce(sums, group=self.data_parallel_process_group)
        norms, summed_numbers, summed_on_device = torch.split(
            sums.cpu(), [own_norms.numel(), len(numbers), len(on_device)]
        )
        # The kept logs are of the most recent updates, the newest last.
        first_update = self.get_num_updates() - len(updates) + 1
        _require_equal_norms(norms.view_as(own_norms), first_update, self.get_num_updates())
        next_number, next_on_device = iter(summed_numbers.tolist()), iter(summed_on_device.tolist())
        # The task counts tokens only in training mode, and a validation since the updates may have
        # left that mode.
        criterion = self.get_criterion()
        was_training = criterion.training
        criterion.train()
        with metrics.aggregate("train_inner"):
            for own_log, grad_norm in updates:
                output = {
                    name: next(next_on_device if torch.is_tensor(value) else next_number)
                    for name, value in own_log.items()
                }
                super()._reduce_and_log_stats([output], output["sample_size"], grad_norm)
        criterion.train(was_training)


def _require_equal_norms(norms_UR: Tensor, first_update: int, num_updates: int) -> None:
    """Require that all R ranks (processes) have equal gradient norms in each of the last U updates.
    `num_updates` is the number of the newest update.

    Raises:
        FloatingPointError: if the norms differ. The message has the first update at which they
            differ, and the norm of each rank.
    """
    # Relative to rank 0's norm. The small summand is for a norm of 0.
    errors_U = (norms_UR - norms_UR[:, :1]).abs().amax(dim=1) / (norms_UR[:, 0] + 1e-6)
    for index, error in enumerate(errors_U.tolist()):
        # The test is `<`, and not its opposite, so that a NaN counts as a difference.
        if error < NORM_TOLERANCE:
            continue
        norms = ", ".join(f"rank {rank} {norm:.8g}" for rank, norm in enumerate(norms_UR[index]))
        raise FloatingPointError(
            f"update {first_update + index}: the ranks' norms of the summed gradients differ:"
            f" {norms}; expected equal norms to {NORM_TOLERANCE:g}; noticed after {num_updates}"
            " updates, before a checkpoint was written: a GPU computes wrongly, or the GPUs differ;"
            " leave that node out and start the training again"
        )
