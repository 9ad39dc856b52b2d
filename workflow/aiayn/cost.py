"""Computes the cost of a training from its settings: parameters, floating-point operations, bytes
of checkpoints, and the training cost of Table 2.

The functions compute all numbers from the settings (`TrainingSpec`), and do not build a model.
"""

import msgspec

from aiayn.spec.system import TrainingSpec

FULL_CHECKPOINTS_KEPT = 2  # of a running training, in case the newest is damaged
BYTES_PER_PARAMETER = 4  # fp32
COPIES_WITH_OPTIMIZER = 3  # the parameters and Adam's two moments
PASSES_PER_UPDATE = 3  # a backward pass takes about twice a forward one
FLOPS_PER_MULTIPLICATION = 2  # a multiplication and the addition that follows it
SOURCE_TOKENS_PER_SENTENCE = 30.0  # assumption: about the mean of WMT14 En-De in word-pieces
# Rows of a table of learned positions: one for each of 1,024 positions. fairseq's `transformer`
# counts positions from its padding index 1, so it has two more rows, 0 and 1. Its `fconv` has 1,024
# rows in total.
LEARNED_POSITION_ROWS = {"transformer": 1024, "fairseq_transformer": 1026, "fconv": 1024}
ENCODER_NORMS, DECODER_NORMS = 2, 3  # of one layer: one for each sub-layer (section 3.1)
ENCODER_ATTENTIONS, DECODER_ATTENTIONS = 1, 2  # of one layer
LSTM_GATES = 4  # input, forget, cell, output
CONVOLUTION_WIDTH = 3  # words that a convolution sees (Gehring et al. 2017)
GLU_WIDTHS = 2  # a gated linear unit halves its input: one half opens or closes the other


def training_flops(gpu_seconds: float, sustained_flops_per_second: float) -> float:
    """Return the training cost of Table 2, in floating-point operations (section 6.1, footnote 5).

    `gpu_seconds` is the training time multiplied by the number of GPUs, summed over all attempts.
    `sustained_flops_per_second` is the speed of one GPU in single precision.
    """
    return gpu_seconds * sustained_flops_per_second


class SentenceLengths(msgspec.Struct, frozen=True):
    """The mean numbers of tokens of a source sentence and of a target sentence, with end of
    sentence.
    """

    source: float
    target: float


def model_flops(
    training: TrainingSpec,
    target_vocabulary_size: int,
    *,
    source_tokens: float,
    target_tokens: float,
    lengths: SentenceLengths,
) -> float:
    """Return the number of floating-point operations, forward and backward, to train a model on
    these tokens.

    Only matrix multiplications are counted: 2 operations (multiply and add) for each product of two
    elements, three times (once forward, twice backward). The matrices are in projections,
    feed-forward layers, recurrences, convolutions and the output layer. In attention, the products
    of queries and keys and of weights and values are counted for sentences of these `lengths`, also
    at masked positions. Additive attention has, for each query, key and element of d_k, a tanh,
    which counts as one multiplication, and a multiplication by a learned vector. Other element-wise
    operations, normalisation, the optimiser and padding are not counted.
    tests/engine/test_model_flops.py compares this number with torch's own counter, for one training
    step of each architecture.
    """
    count = {"lstm": _lstm_multiplications, "fconv": _fconv_multiplications}.get(
        training.architecture, _transformer_multiplications
    )
    per_source_token, per_target_token = count(
        training, lengths
    )  # multiplications of all layers, forward
    # The output layer is a product of the decoder's state with each symbol of the vocabulary.
    per_target_token += training.d_model * target_vocabulary_size
    multiplications = source_tokens * per_source_token + target_tokens * per_target_token
    return PASSES_PER_UPDATE * FLOPS_PER_MULTIPLICATION * multiplications


def flops_per_token(
    training: TrainingSpec,
    target_vocabulary_size: int,
    tokens_per_sentence: float = SOURCE_TOKENS_PER_SENTENCE,
) -> float:
    """Return the floating-point operations to train on one source token and one target token,
    counted as in `model_flops`.
    """
    lengths = SentenceLengths(tokens_per_sentence, tokens_per_sentence)
    return model_flops(
        training, target_vocabulary_size, source_tokens=1, target_tokens=1, lengths=lengths
    )


def _transformer_multiplications(
    training: TrainingSpec, lengths: SentenceLengths
) -> tuple[float, float]:
    """Return the multiplications in all layers of a transformer for one source token and for one
    target token. Each decoder layer projects the encoder's output to keys and values.
    """
    query_width, value_width = training.num_heads * training.d_k, training.num_heads * training.d_v
    half_of_projections = training.d_model * (
        query_width + value_width
    )  # queries and output, or keys and values
    per_key = query_width * (2 if training.attention == "additive" else 1) + value_width
    feed_forward = 2 * training.d_model * training.d_ff
    # The decoder has four halves of projections: two for its self-attention, one for the queries
    # and the output of its attention to the encoder, and one for the keys and values of this
    # attention. The last is computed once for each source token, so it is added to the encoder
    # below.
    encoder = 2 * half_of_projections + lengths.source * per_key + feed_forward
    decoder = 3 * half_of_projections + (lengths.target + lengths.source) * per_key + feed_forward
    return training.num_layers * (encoder + half_of_projections), training.num_layers * decoder


def _lstm_multiplications(training: TrainingSpec, lengths: SentenceLengths) -> tuple[float, float]:
    """Return the multiplications in fairseq's model `lstm` for one source token and for one target
    token. Each LSTM layer has four gates, which read the input and the state. The model `lstm`
    computes its attention once for each target token.
    """
    width, state = training.d_model, training.d_ff
    # Layers above the first read a state of the layer below, and their own state.
    further = (training.num_layers - 1) * LSTM_GATES * state * (state + state)
    encoder = LSTM_GATES * state * (width + state) + further
    decoder = LSTM_GATES * state * (width + state + state) + further
    attention = 3 * state * state + 2 * lengths.source * state
    return encoder, decoder + attention + (state * width if state != width else 0)


def _fconv_multiplications(training: TrainingSpec, lengths: SentenceLengths) -> tuple[float, float]:
    """Return the multiplications in fairseq's model `fconv` for one source token and for one target
    token. Each layer of this model has a convolution, and each decoder layer also has an attention.
    """
    width, channels = training.d_model, training.d_ff
    convolution = CONVOLUTION_WIDTH * channels * GLU_WIDTHS * channels
    attention = 2 * width * channels + 2 * lengths.source * width
    # The linear maps from d_model to d_ff and back at the two ends of a stack.
    ends = 2 * width * channels
    return ends + training.num_layers * convolution, ends + training.num_layers * (
        convolution + attention
    )


def checkpoint_bytes(num_parameters: int, *, has_optimizer: bool) -> int:
    """Return the bytes of a checkpoint's tensors in fp32: only the model or, with `has_optimizer`,
    also the two moments of Adam.
    """
    return num_parameters * BYTES_PER_PARAMETER * (COPIES_WITH_OPTIMIZER if has_optimizer else 1)


def target_tokens_per_full_update(training: TrainingSpec) -> int:
    """Return the largest possible number of target tokens in one update, which is reached if every
    batch of the update is full.
    """
    return training.max_tokens_per_batch * training.batches_per_update


def full_batch_flops(training: TrainingSpec, target_vocabulary_size: int) -> float:
    """Return an upper bound of the floating-point operations of a whole training. The bound is
    reached if every batch is full.
    """
    tokens = training.updates * target_tokens_per_full_update(training)
    return tokens * flops_per_token(training, target_vocabulary_size)


def num_parameters(
    training: TrainingSpec,
    vocabulary_size: int,
    joint: bool,
    target_vocabulary_size: int | None = None,
) -> int:
    """Return the number of trained parameters.

    Vocabulary sizes include the special symbols. `target_vocabulary_size` defaults to
    `vocabulary_size`, and is ignored if the vocabulary is `joint`. Learned position embeddings are
    counted, but sinusoids are not. The running mean and variance of a batch norm are not counted.
    """
    target_size = vocabulary_size
    if target_vocabulary_size is not None and not joint:
        target_size = target_vocabulary_size
    # fconv never shares source and target embeddings. If the output shares the target embeddings,
    # it adds only a bias. Otherwise it is a map with weight normalisation.
    if training.architecture == "fconv":
        rows = vocabulary_size + target_size + 2 * LEARNED_POSITION_ROWS["fconv"]
        own_output = _normalised_parameters(training.d_model, target_size)
        output = target_size if training.tied_embeddings else own_output
        return _fconv_layer_parameters(training) + rows * training.d_model + output
    # With tied embeddings, source, target and output share one matrix if they share a dictionary
    # (section 3.4). With two dictionaries, only target and output share a matrix.
    rows = vocabulary_size
    if not training.tied_embeddings:
        rows += 2 * target_size
    elif not joint:
        rows += target_size
    embeddings = rows * training.d_model
    if training.architecture == "lstm":  # an output that is not tied has a bias
        output_bias = 0 if training.tied_embeddings else target_size
        return _lstm_layer_parameters(training) + embeddings + output_bias
    positions = 0
    if training.positions == "learned":
        positions = 2 * LEARNED_POSITION_ROWS[training.architecture] * training.d_model
    return layer_parameters(training) + positions + embeddings


def attention_parameters(training: TrainingSpec) -> int:
    """Return the number of parameters of one multi-head attention (section 3.2.2).

    The parameters are W^Q, W^K, W^V and W^O and, with `attention_biases`, a bias for each of these
    matrices. Additive attention adds a vector of size d_k for each head. Attention with a learned
    temperature adds one parameter.
    """
    query_width, value_width = training.num_heads * training.d_k, training.num_heads * training.d_v
    num_biases = 1 if training.attention_biases else 0
    inward = (training.d_model + num_biases) * (2 * query_width + value_width)
    outward = (value_width + num_biases) * training.d_model
    return inward + outward + {"additive": query_width, "temperature": 1}.get(training.attention, 0)


def layer_parameters(training: TrainingSpec) -> int:
    """Return the number of parameters of all layers of a transformer, including norms (sections 3.1
    to 3.3).

    A normalisation of any kind has a gain and a bias. The setting `norm_order: pre` adds a
    normalisation at the end of the encoder and of the decoder.
    """
    feed_forward = (training.d_model + 1) * training.d_ff + (training.d_ff + 1) * training.d_model
    norm = 2 * training.d_model
    attentions = (ENCODER_ATTENTIONS + DECODER_ATTENTIONS) * attention_parameters(training)
    layer_pair = attentions + 2 * feed_forward + (ENCODER_NORMS + DECODER_NORMS) * norm
    return training.num_layers * layer_pair + (2 * norm if training.norm_order == "pre" else 0)


def _lstm_layer_parameters(training: TrainingSpec) -> int:
    """Return the number of parameters of fairseq's `lstm`, without embeddings and output layer, for
    word vectors of size d_model and states of size d_ff.

    The encoder of `lstm` reads only from left to right. The input of the first decoder layer of
    `lstm` also contains the attention output at the previous word. The attention has two matrices
    without bias. If d_ff differs from d_model, a linear layer maps the decoder's output from d_ff
    to d_model.
    """
    width, state = training.d_model, training.d_ff
    further = (training.num_layers - 1) * _lstm_parameters(state, state)
    encoder = _lstm_parameters(width, state) + further
    decoder = _lstm_parameters(width + state, state) + further
    attention = state * state + 2 * state * state
    narrowing = (state + 1) * width if state != width else 0
    return encoder + decoder + attention + narrowing


def _lstm_parameters(input_width: int, state_width: int) -> int:
    """Return the number of parameters of one LSTM layer. In PyTorch each gate has two biases: for
    the input and for the state.
    """
    return LSTM_GATES * state_width * (input_width + state_width + 2)


def _fconv_layer_parameters(training: TrainingSpec) -> int:
    """Return the number of parameters of fairseq's `fconv`, without embeddings and output layer,
    for word vectors of size d_model and d_ff channels.

    Every matrix of `fconv` has weight normalisation: a length and a bias for each output. The
    encoder and the decoder each have a linear map from d_model to d_ff before the convolutions, and
    a linear map from d_ff to d_model after them. Each attention of the decoder also has a linear
    map from d_ff to d_model and a linear map back.
    """
    width, channels = training.d_model, training.d_ff
    into, out_of = _normalised_parameters(width, channels), _normalised_parameters(channels, width)
    convolution = _normalised_parameters(CONVOLUTION_WIDTH * channels, GLU_WIDTHS * channels)
    attention = into + out_of
    return 2 * (into + out_of) + training.num_layers * (2 * convolution + attention)


def _normalised_parameters(input_width: int, output_width: int) -> int:
    """Return the number of parameters of a linear map with weight normalisation: a matrix of
    directions, and a length and a bias for each output.
    """
    return (input_width + 2) * output_width
