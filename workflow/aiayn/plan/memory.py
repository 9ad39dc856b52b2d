"""Estimates by a formula how much memory a training needs on a device (a GPU or the CPU)."""

from aiayn.cost import BYTES_PER_PARAMETER
from aiayn.spec.training import TrainingSpec

# fp32 numbers that a source and a target token keep for the backward pass in a pair of layers, as
# multiples of d_model and d_ff. bf16 keeps some of them in half the bytes. Counted as the peak of
# the tensors of base, big and table3_c_dff1024 at 12,500 and 25,000 tokens.
KEPT_PER_D_MODEL = {"fp32": 24.0, "tf32": 24.0, "bf16": 18.5}
KEPT_PER_D_FF = {"fp32": 2.0, "tf32": 2.0, "bf16": 1.0}
# The parameters, their gradients and Adam's two moments.
TRAINED_COPIES = 4
# For each symbol of the vocabulary and token: the logit, its log-softmax and its gradient.
KEPT_PER_SYMBOL = 3
# The loss of our transformer computes the logits of this number of tokens at a time.
LOGITS_TOKENS = 4096
# The memory of torch and fairseq themselves. On a GPU, the memory of CUDA's context.
CONTEXT_BYTES = 1 << 30


def device_memory_bytes(
    training: TrainingSpec, num_parameters: int, target_vocabulary_size: int
) -> int:
    """Estimate the peak memory of a device in training, in bytes: the parameters, the state of the
    optimiser, and the activations that a full batch keeps for the backward pass.

    With fewer devices than `batches_per_update`, a device computes several batches one after the
    other, so the peak is the same. On a GPU, several batches of an update are joined only if the
    joined batch fits into the GPU's memory.
    """
    precision = training.precision
    tokens = training.max_tokens_per_batch
    widths = KEPT_PER_D_MODEL[precision] * training.d_model
    widths += KEPT_PER_D_FF[precision] * training.d_ff
    # The loss of fairseq's own models computes the logits of the whole batch at once.
    has_chunks = training.architecture == "transformer"
    logits_tokens = min(tokens, LOGITS_TOKENS) if has_chunks else tokens
    kept_numbers = tokens * training.num_layers * widths
    kept_numbers += logits_tokens * KEPT_PER_SYMBOL * target_vocabulary_size
    return CONTEXT_BYTES + int(
        BYTES_PER_PARAMETER * (TRAINED_COPIES * num_parameters + kept_numbers)
    )
