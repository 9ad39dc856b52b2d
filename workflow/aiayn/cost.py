"""What a training costs, from its spec alone: parameters, operations, bytes, seconds, and Table 2's estimate.

Pure: no model is built. `num_parameters` equals the count of fairseq's `transformer` (attention biases on, post-norm
without a last layer norm), and follows section 3.2.2 where d_k or d_v is not d_model / num_heads.
"""

from aiayn.spec import TrainingSpec

LEARNED_POSITION_ROWS = 1026  # fairseq: 1024 positions, counted from its padding index 1, plus that row and row 0
BYTES_PER_PARAMETER = 4  # fp32
COPIES_WITH_OPTIMIZER = 3  # the parameters and Adam's two moments
PASSES_PER_UPDATE = 3  # a backward pass takes about twice a forward one
FLOPS_PER_MULTIPLICATION = 2  # a multiplication and the addition that follows it
SOURCE_TOKENS_PER_SENTENCE = 30.0  # assumption: about the mean of WMT14 En-De in word-pieces
UTILISATION_FRACTION = 0.3  # assumption; the paper's own base training comes to 0.28 (tests/unit/test_cost.py)


def training_flops(gpu_seconds: float, sustained_flops_per_second: float) -> float:
    """Return Table 2's training cost in floating-point operations (section 6.1, footnote 5).

    `gpu_seconds` is the time of training multiplied by the number of GPUs, over all attempts;
    `sustained_flops_per_second` is one GPU's, single precision.
    """
    return gpu_seconds * sustained_flops_per_second


def attention_parameters(training: TrainingSpec) -> int:
    """Return the parameters of one multi-head attention: W^Q, W^K, W^V, W^O (section 3.2.2) and their biases."""
    query_width, value_width = training.num_heads * training.d_k, training.num_heads * training.d_v
    inward = 2 * (training.d_model + 1) * query_width + (training.d_model + 1) * value_width
    return inward + (value_width + 1) * training.d_model


def layer_parameters(training: TrainingSpec) -> int:
    """Return the parameters of all encoder and decoder layers, their layer norms included (sections 3.1 to 3.3)."""
    feed_forward = (training.d_model + 1) * training.d_ff + (training.d_ff + 1) * training.d_model
    layer_norm = 2 * training.d_model
    encoder_layer = attention_parameters(training) + feed_forward + 2 * layer_norm
    decoder_layer = 2 * attention_parameters(training) + feed_forward + 3 * layer_norm
    return training.num_layers * (encoder_layer + decoder_layer)


def num_parameters(
    training: TrainingSpec, vocabulary_size: int, joint: bool, target_vocabulary_size: int | None = None
) -> int:
    """Return the number of trained parameters.

    With one `joint` vocabulary a single matrix serves source, target and output (section 3.4); with two,
    target and output share one, and the source has its own. Sizes count the special symbols;
    `target_vocabulary_size` is `vocabulary_size` unless given. Sinusoids are no parameters, learned positions are.
    """
    rows = vocabulary_size if joint else vocabulary_size + (target_vocabulary_size or vocabulary_size)
    if training.positions == "learned":
        rows += 2 * LEARNED_POSITION_ROWS
    return layer_parameters(training) + rows * training.d_model


def flops_per_token(
    training: TrainingSpec, target_vocabulary_size: int, tokens_per_sentence: float = SOURCE_TOKENS_PER_SENTENCE
) -> float:
    """Return the operations of training on one target token and one source token, forward and backward.

    Counted are the multiplications of matrices: projections, feed-forward layers, the output, and, for sentences of
    `tokens_per_sentence` on either side, queries by keys and weights by values. Element-wise work is left out.
    """
    query_width, value_width = training.num_heads * training.d_k, training.num_heads * training.d_v
    projections = 2 * training.d_model * (query_width + value_width)
    weighting = tokens_per_sentence * (query_width + value_width)
    feed_forward = 2 * training.d_model * training.d_ff
    # an encoder layer attends once, a decoder layer twice
    layers = training.num_layers * (3 * (projections + weighting) + 2 * feed_forward)
    output = training.d_model * target_vocabulary_size
    return PASSES_PER_UPDATE * FLOPS_PER_MULTIPLICATION * (layers + output)


def checkpoint_bytes(num_parameters: int, *, has_optimizer: bool) -> int:
    """Return the size of a checkpoint's tensors in fp32: the model alone, or with Adam's two moments."""
    return num_parameters * BYTES_PER_PARAMETER * (COPIES_WITH_OPTIMIZER if has_optimizer else 1)


def predicted_training_seconds(
    training: TrainingSpec,
    target_vocabulary_size: int,
    *,
    flops_per_second: float,
    utilisation_fraction: float = UTILISATION_FRACTION,
    target_tokens_per_update: float | None = None,
) -> float:
    """Return how long all updates would take on a machine that sustains `flops_per_second`, all its GPUs together.

    Without `target_tokens_per_update` its upper bound stands, every batch full: a prediction on the slow side.
    """
    full_batches = training.max_tokens_per_batch * training.batches_per_update
    tokens = training.updates * (full_batches if target_tokens_per_update is None else target_tokens_per_update)
    return tokens * flops_per_token(training, target_vocabulary_size) / (flops_per_second * utilisation_fraction)
