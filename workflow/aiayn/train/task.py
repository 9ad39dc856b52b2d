"""Registers our translation task with fairseq. The task saves its state in checkpoints, computes in
the precision of the training, and can share a batch among several ranks (processes).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import fairseq_cli.train
import torch
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from aiayn.train import joining

# fairseq's trainer looks for these words in the text of an error.
OUT_OF_MEMORY = "out of memory"


def forget_validations() -> None:
    """Reset fairseq's count of validations without improvement, which decides about early stopping.
    fairseq keeps this count in attributes of a function, so without a reset it would go on in the
    next training of the same process.
    """
    fairseq_cli.train.should_stop_early.best = None
    fairseq_cli.train.should_stop_early.num_runs = 0


@contextmanager
def _memory_required() -> Iterator[None]:
    """Let a lack of GPU memory end the training, with an error message that fairseq does not
    recognise.

    If fairseq recognises torch's message, it omits the batch and continues: the update is made
    without the batch, or its gradient is divided by a wrong number of tokens. With several ranks
    (processes), the ranks would also no longer sum the same things at the same time.
    """
    try:
        yield
    except RuntimeError as error:
        # torch.OutOfMemoryError is a RuntimeError. Some errors of CUDA have a different type, and
        # only the words `out of memory`.
        if not isinstance(error, torch.OutOfMemoryError) and OUT_OF_MEMORY not in str(error):
            raise
        raise RuntimeError(
            f"{str(error).replace(OUT_OF_MEMORY, 'memory exhausted')}; no batch may be omitted:"
            " lower max_tokens_per_batch in the system's file and raise batches_per_update by the"
            " same factor, take GPUs with more memory, or end other processes on this GPU"
        ) from error


@dataclass
class AiaynTranslationConfig(TranslationConfig):  # type: ignore[misc]
    """The config of fairseq's translation task, plus the precision of the training and the number
    of ranks (processes) that share a batch.
    """

    precision: str = field(
        default="fp32", metadata={"help": "fp32, tf32, or bf16 (autocast, fp32 weights)"}
    )
    ranks_per_batch: int = field(
        default=1, metadata={"help": "how many ranks share each batch's sentences"}
    )


@register_task("aiayn_translation", dataclass=AiaynTranslationConfig)
class AiaynTranslationTask(TranslationTask):  # type: ignore[misc]
    """fairseq's translation task, plus some state that fairseq itself would lose when a training
    resumes.

    `num_target_tokens` is the number of target tokens that were trained on, with the end of
    sentence, over all ranks and attempts. `num_updates_by_groups` counts the updates in which a GPU
    joined batches, by the number of batches after joining. The state of early stopping
    (`--patience`) is also saved in checkpoints, because fairseq keeps this state only in attributes
    of a function.
    """

    def __init__(self, cfg: AiaynTranslationConfig, src_dict: Any, tgt_dict: Any) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self.num_target_tokens = 0
        self.num_updates_by_groups = Counter[int]()
        # Set in either case, because the switch applies to the whole process, which may have
        # trained a different system before.
        torch.backends.cuda.matmul.allow_tf32 = cfg.precision == "tf32"
        torch.backends.cudnn.allow_tf32 = cfg.precision == "tf32"

    def _computing(self, device_type: str) -> AbstractContextManager[Any]:
        """Return a context manager in which matrix products have the precision of the training."""
        return torch.autocast(
            device_type, dtype=torch.bfloat16, enabled=self.cfg.precision == "bf16"
        )

    def get_batch_iterator(
        self, *arguments: Any, num_shards: int = 1, shard_id: int = 0, **named: Any
    ) -> Any:
        """Return the batches of one rank (process), in training and in validation.

        With `ranks_per_batch` k, the data are divided into `num_shards` / k shards, and k
        neighbouring ranks share each batch of a shard. Because of this sharing, an update has the
        same sentences on any number of ranks. If a rank's part of a batch has no sentences, fairseq
        uses a dummy batch with weight 0.
        """
        num_parts = self.cfg.ranks_per_batch
        # In decoding there is a single shard, however many ranks have trained the model.
        if num_shards % num_parts:
            num_parts = 1
        batches = super().get_batch_iterator(
            *arguments, num_shards=num_shards // num_parts, shard_id=shard_id // num_parts, **named
        )
        # fairseq keeps iterators from one epoch to the next: a shared iterator is not divided
        # again.
        if num_parts > 1 and "ordered_batches" not in vars(batches):
            whole = batches.ordered_batches
            part = shard_id % num_parts
            batches.ordered_batches = lambda *order: [
                batch[part::num_parts] for batch in whole(*order)
            ]
        return batches

    def join_batches(self, samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Join several batches into one batch that has all sentences."""
        if len(samples) == 1:
            return samples[0]
        return joining.join_batches(
            samples,
            padding_index=self.source_dictionary.pad(),
            is_left_padded=self.cfg.left_pad_source,
        )

    def train_step(
        self,
        sample: Any,
        model: Any,
        criterion: Any,
        optimizer: Any,
        update_num: int,
        ignore_grad: bool = False,
    ) -> tuple[Any, Any, Any]:
        """Do one forward and backward pass of a batch in the precision of the training.

        fairseq's own method, which this method replaces, switches autocast off on a GPU. fairseq's
        flag `--bf16` needs a TPU and bfloat16 weights.
        """
        model.train()
        model.set_num_updates(update_num)
        with _memory_required():
            with self._computing(sample["target"].device.type):
                loss, sample_size, logging_output = criterion(model, sample)
            # A dummy batch at the end of an epoch. This rank must take part in the sums of all
            # ranks, with weight 0.
            if ignore_grad:
                loss *= 0
            optimizer.backward(loss)
        return loss, sample_size, logging_output

    def valid_step(self, sample: Any, model: Any, criterion: Any) -> tuple[Any, Any, Any]:
        """Compute the validation loss of a batch in the precision of the training.

        If GPU memory is short, fairseq frees the gradients and validates the batch again, with the
        same result. If there are no gradients to free, an error ends the training.
        """
        # fairseq frees the gradients and validates the batch once more. At that time there are no
        # gradients, so a lack of memory is final.
        has_gradients = any(parameter.grad is not None for parameter in model.parameters())
        required = nullcontext() if has_gradients else _memory_required()
        with required, self._computing(sample["target"].device.type):
            loss, sample_size, logging_output = super().valid_step(sample, model, criterion)
        return loss, sample_size, logging_output

    def reduce_metrics(self, logging_outputs: list[dict[str, Any]], criterion: Any) -> None:
        """Log the statistics of an update, and count its target tokens. fairseq passes the outputs
        of all ranks (processes).
        """
        super().reduce_metrics(logging_outputs, criterion)
        # A validation uses this method, too, and its tokens are not trained on.
        if criterion.training:
            self.num_target_tokens += int(
                sum(int(output.get("ntokens", 0)) for output in logging_outputs)
            )

    def get_checkpoint_dict(self) -> dict[str, dict[str, Any]]:
        """Return the state of this task for a full checkpoint, under the name of this class."""
        stopping = fairseq_cli.train.should_stop_early
        state: dict[str, Any] = {
            "num_target_tokens": self.num_target_tokens,
            "best_valid_loss": stopping.best,
            "num_validations_without_improvement": stopping.num_runs,
        }
        # Absent on CPUs and on GPUs where no batches are joined.
        if self.num_updates_by_groups:
            state["num_updates_by_groups"] = dict(self.num_updates_by_groups)
        return {type(self).__name__: state}

    def set_checkpoint_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of this task from a checkpoint, as `get_checkpoint_dict`
        returned it.
        """
        self.num_target_tokens = state["num_target_tokens"]
        self.num_updates_by_groups = Counter(state.get("num_updates_by_groups", {}))
        fairseq_cli.train.should_stop_early.best = state["best_valid_loss"]
        fairseq_cli.train.should_stop_early.num_runs = state["num_validations_without_improvement"]
