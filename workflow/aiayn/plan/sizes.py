"""What a training takes of disk and memory, from its spec alone: pure arithmetic; memory is an estimate, by formula."""

from aiayn.cost import BYTES_PER_PARAMETER, FULL_CHECKPOINTS_KEPT, checkpoint_bytes
from aiayn.training_spec import TrainingSpec

TRAINED_COPIES = 4  # of the parameters: themselves, their gradient and Adam's two moments
# fp32 numbers kept for the backward pass, of one token in a pair of an encoder and a decoder layer: in multiples of
# d_model (queries, keys, values and output of three attentions, sums and norms) and of d_ff (before and after ReLU).
KEPT_PER_D_MODEL, KEPT_PER_D_FF = 26, 4
KEPT_PER_SYMBOL = 3  # of the vocabulary: logits, their log-softmax and its gradient
CONTEXT_BYTES = 1 << 30  # of torch and fairseq in memory, and on a GPU of CUDA's own
BYTES_PER_PAIR = 48  # of a data-bin's index: lengths of both sides, the order of an epoch and its batches


def run_disk_bytes(num_parameters: int, num_models: int) -> int:
    """Return what a run writes at most: its model-only checkpoints, two full ones, and one of each being written."""
    model_bytes = checkpoint_bytes(num_parameters, has_optimizer=False)
    full_bytes = checkpoint_bytes(num_parameters, has_optimizer=True)
    return (num_models + 1) * model_bytes + (FULL_CHECKPOINTS_KEPT + 1) * full_bytes


def device_memory_bytes(training: TrainingSpec, num_parameters: int, target_vocabulary_size: int) -> int:
    """Estimate the peak memory of a device that trains: parameters with optimiser, and one full batch kept backward.

    On fewer devices than `batches_per_update` batches follow each other, so that the peak is the same.
    """
    kept_per_token = training.num_layers * (KEPT_PER_D_MODEL * training.d_model + KEPT_PER_D_FF * training.d_ff)
    kept = training.max_tokens_per_batch * (kept_per_token + KEPT_PER_SYMBOL * target_vocabulary_size)
    return CONTEXT_BYTES + BYTES_PER_PARAMETER * (TRAINED_COPIES * num_parameters + kept)


def node_memory_bytes(device_bytes: int, host_bytes: int, num_ranks: int, *, has_gpus: bool) -> int:
    """Estimate a node's peak memory, beside its GPUs'; without GPUs its ranks have there what devices would hold.

    Each rank's `CONTEXT_BYTES` are in both, and are there once.
    """
    return host_bytes + (0 if has_gpus else num_ranks * (device_bytes - CONTEXT_BYTES))


def host_memory_bytes(num_parameters: int, num_pairs: int, num_ranks: int) -> int:
    """Estimate a node's peak memory, without its GPUs': each rank's libraries and index, a checkpoint being saved."""
    saved_bytes = checkpoint_bytes(num_parameters, has_optimizer=True)
    return num_ranks * (CONTEXT_BYTES + BYTES_PER_PAIR * num_pairs) + saved_bytes
