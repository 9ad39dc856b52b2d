"""What a training costs, from its spec alone: parameters, operations, bytes, seconds, and Table 2's estimate.

Pure: no model is built. Parameters are counted in `aiayn.parameters`.
"""

import msgspec

from aiayn.parameters import (
    CONVOLUTION_WIDTH,
    GLU_WIDTHS,
    LEARNED_POSITION_ROWS,
    LSTM_GATES,
    attention_parameters,
    layer_parameters,
    num_parameters,
)
from aiayn.spec import TrainingSpec

__all__ = [
    "LEARNED_POSITION_ROWS",
    "SOURCE_TOKENS_PER_SENTENCE",
    "SentenceLengths",
    "attention_parameters",
    "checkpoint_bytes",
    "flops_per_token",
    "full_batch_flops",
    "layer_parameters",
    "model_flops",
    "num_parameters",
    "target_tokens_per_full_update",
    "training_flops",
]

FULL_CHECKPOINTS_KEPT = 2  # of a training at work: should the newest be torn, the one before it is there
BYTES_PER_PARAMETER = 4  # fp32
COPIES_WITH_OPTIMIZER = 3  # the parameters and Adam's two moments
PASSES_PER_UPDATE = 3  # a backward pass takes about twice a forward one
FLOPS_PER_MULTIPLICATION = 2  # a multiplication and the addition that follows it
SOURCE_TOKENS_PER_SENTENCE = 30.0  # assumption: about the mean of WMT14 En-De in word-pieces


def training_flops(gpu_seconds: float, sustained_flops_per_second: float) -> float:
    """Return Table 2's training cost in floating-point operations (section 6.1, footnote 5).

    `gpu_seconds` is the time of training multiplied by the number of GPUs, over all attempts;
    `sustained_flops_per_second` is one GPU's, single precision.
    """
    return gpu_seconds * sustained_flops_per_second


class SentenceLengths(msgspec.Struct, frozen=True):
    """Mean numbers of tokens of a sentence on either side, end of sentence included."""

    source: float
    target: float


class _Multiplications(msgspec.Struct, frozen=True):
    """Multiplications of matrices of one forward pass, by which token they are done for."""

    per_source_token: float
    per_target_token: float


def model_flops(
    training: TrainingSpec,
    target_vocabulary_size: int,
    *,
    source_tokens: float,
    target_tokens: float,
    lengths: SentenceLengths,
) -> float:
    """Return the operations of training on so many tokens, forward and backward: what the model needs, and no more.

    Counted are the multiplications of matrices, each with its addition (2 operations), three times: once forward and
    twice backward. These are projections, feed-forward layers, recurrences, convolutions, the output, and, for
    sentences of these `lengths`, queries by keys and weights by values, whether or not a mask hides them. Additive
    attention has for each d_k of each pair a tanh, counted as one multiplication, and one by its vector. Other
    element-wise work, normalisation, the optimiser and padding are left out. tests/engine/test_model_flops.py compares
    with torch's own counter on a step of each architecture.
    """
    count = {"lstm": _lstm_multiplications, "fconv": _fconv_multiplications}.get(
        training.architecture, _transformer_multiplications
    )
    of_layers = count(training, lengths)
    per_target_token = of_layers.per_target_token + training.d_model * target_vocabulary_size
    multiplications = source_tokens * of_layers.per_source_token + target_tokens * per_target_token
    return PASSES_PER_UPDATE * FLOPS_PER_MULTIPLICATION * multiplications


def flops_per_token(
    training: TrainingSpec, target_vocabulary_size: int, tokens_per_sentence: float = SOURCE_TOKENS_PER_SENTENCE
) -> float:
    """Return the operations of training on one target token and one source token, as `model_flops` counts them."""
    lengths = SentenceLengths(tokens_per_sentence, tokens_per_sentence)
    return model_flops(training, target_vocabulary_size, source_tokens=1, target_tokens=1, lengths=lengths)


def _transformer_multiplications(training: TrainingSpec, lengths: SentenceLengths) -> _Multiplications:
    """Return those of all layers; the encoder's output is projected to keys and values once a decoder layer."""
    query_width, value_width = training.num_heads * training.d_k, training.num_heads * training.d_v
    half_of_projections = training.d_model * (query_width + value_width)  # queries and output, or keys and values
    per_key = query_width * (2 if training.attention == "additive" else 1) + value_width
    feed_forward = 2 * training.d_model * training.d_ff
    encoder = 2 * half_of_projections + lengths.source * per_key + feed_forward
    decoder = 3 * half_of_projections + (lengths.target + lengths.source) * per_key + feed_forward
    return _Multiplications(training.num_layers * (encoder + half_of_projections), training.num_layers * decoder)


def _lstm_multiplications(training: TrainingSpec, lengths: SentenceLengths) -> _Multiplications:
    """Return those of fairseq's `lstm`: four gates of input and state, and one attention a target token."""
    width, state = training.d_model, training.d_ff
    further = (training.num_layers - 1) * LSTM_GATES * state * (state + state)
    encoder = LSTM_GATES * state * (width + state) + further
    decoder = LSTM_GATES * state * (width + state + state) + further
    attention = 3 * state * state + 2 * lengths.source * state
    return _Multiplications(encoder, decoder + attention + (state * width if state != width else 0))


def _fconv_multiplications(training: TrainingSpec, lengths: SentenceLengths) -> _Multiplications:
    """Return those of fairseq's `fconv`: a convolution a layer on either side, and an attention a decoder layer."""
    width, channels = training.d_model, training.d_ff
    convolution = CONVOLUTION_WIDTH * channels * GLU_WIDTHS * channels
    attention = 2 * width * channels + 2 * lengths.source * width
    ends = 2 * width * channels
    return _Multiplications(
        ends + training.num_layers * convolution, ends + training.num_layers * (convolution + attention)
    )


def checkpoint_bytes(num_parameters: int, *, has_optimizer: bool) -> int:
    """Return the size of a checkpoint's tensors in fp32: the model alone, or with Adam's two moments."""
    return num_parameters * BYTES_PER_PARAMETER * (COPIES_WITH_OPTIMIZER if has_optimizer else 1)


def target_tokens_per_full_update(training: TrainingSpec) -> int:
    """Return the upper bound of an update's target tokens: every batch full."""
    return training.max_tokens_per_batch * training.batches_per_update


def full_batch_flops(training: TrainingSpec, target_vocabulary_size: int) -> float:
    """Return the operations of all updates with every batch full: those of a training at most."""
    tokens = training.updates * target_tokens_per_full_update(training)
    return tokens * flops_per_token(training, target_vocabulary_size)
