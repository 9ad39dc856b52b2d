"""How many numbers a system trains, from its spec alone; each count equals that of the built model, exactly.

Pure: no model is built. Ours follows sections 3.1 to 3.5 with d_k and d_v free of d_model / num_heads; the others
follow fairseq 0.12's `transformer`, `lstm` and `fconv` (fairseq/models/), built by `engine/fairseq_args.py`'s flags.
"""

import msgspec

from aiayn.spec import TrainingSpec

# Rows of a table of learned positions: one for each of 1,024 places. fairseq's `transformer` counts places from its
# padding index 1, so it has that row and row 0 on top; its `fconv` takes 1,024 rows for all.
LEARNED_POSITION_ROWS = {"transformer": 1024, "fairseq_transformer": 1026, "fconv": 1024}
ENCODER_NORMS, DECODER_NORMS = 2, 3  # of one layer: one for each sub-layer (section 3.1)
ENCODER_ATTENTIONS, DECODER_ATTENTIONS = 1, 2  # of one layer
LSTM_GATES = 4  # input, forget, cell, output
CONVOLUTION_WIDTH = 3  # words that a convolution sees; Gehring et al. 2017
GLU_WIDTHS = 2  # a gated linear unit halves its input: one half opens or closes the other


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True):
    """Number of entries of source and target, special symbols included; `is_joint`: one dictionary for both."""

    source_size: int
    target_size: int
    is_joint: bool


def num_parameters(
    training: TrainingSpec, vocabulary_size: int, joint: bool, target_vocabulary_size: int | None = None
) -> int:
    """Return the number of trained parameters.

    Sizes count the special symbols; `target_vocabulary_size` is `vocabulary_size` unless given, and is so if `joint`.
    Sinusoids are no parameters, learned positions are; a batch norm's running mean and variance are not trained.
    """
    target_size = vocabulary_size if joint or target_vocabulary_size is None else target_vocabulary_size
    vocabulary = Vocabulary(source_size=vocabulary_size, target_size=target_size, is_joint=joint)
    if training.architecture == "lstm":
        return _lstm_layer_parameters(training) + _lstm_embedding_parameters(training, vocabulary)
    if training.architecture == "fconv":
        return _fconv_layer_parameters(training) + _fconv_embedding_parameters(training, vocabulary)
    positions = 0
    if training.positions == "learned":
        positions = 2 * LEARNED_POSITION_ROWS[training.architecture] * training.d_model
    return layer_parameters(training) + positions + _embedding_rows(training, vocabulary) * training.d_model


def attention_parameters(training: TrainingSpec) -> int:
    """Return the parameters of one multi-head attention (section 3.2.2).

    These are W^Q, W^K, W^V and W^O, a bias for each if `attention_biases`; with additive attention a vector of d_k for
    each head, with a learned temperature one number.
    """
    query_width, value_width = training.num_heads * training.d_k, training.num_heads * training.d_v
    num_biases = 1 if training.attention_biases else 0
    inward = (training.d_model + num_biases) * (2 * query_width + value_width)
    outward = (value_width + num_biases) * training.d_model
    return inward + outward + {"additive": query_width, "temperature": 1}.get(training.attention, 0)


def layer_parameters(training: TrainingSpec) -> int:
    """Return the parameters of all layers of a transformer, norms included (sections 3.1 to 3.3).

    A norm of any kind has a gain and a bias; `norm_order: pre` adds one after either stack.
    """
    feed_forward = (training.d_model + 1) * training.d_ff + (training.d_ff + 1) * training.d_model
    norm = 2 * training.d_model
    attentions = (ENCODER_ATTENTIONS + DECODER_ATTENTIONS) * attention_parameters(training)
    layer_pair = attentions + 2 * feed_forward + (ENCODER_NORMS + DECODER_NORMS) * norm
    return training.num_layers * layer_pair + (2 * norm if training.norm_order == "pre" else 0)


def _embedding_rows(training: TrainingSpec, vocabulary: Vocabulary) -> int:
    """Return the rows of d_model of a transformer's matrices of source, target and output.

    Tied, they are one matrix if the languages have one dictionary (section 3.4), else target and output share theirs.
    """
    if not training.tied_embeddings:
        return vocabulary.source_size + 2 * vocabulary.target_size
    return vocabulary.source_size + (0 if vocabulary.is_joint else vocabulary.target_size)


def _lstm_layer_parameters(training: TrainingSpec) -> int:
    """Return the parameters of fairseq's `lstm` but its embeddings and output: d_model wide words, d_ff wide states.

    The encoder reads from left to right only. The decoder's first layer also reads what attention gave for the last
    word; attention has two matrices without bias, and its outcome is brought to d_model if d_ff is another width.
    """
    width, state = training.d_model, training.d_ff
    further = (training.num_layers - 1) * _lstm_parameters(state, state)
    encoder = _lstm_parameters(width, state) + further
    decoder = _lstm_parameters(width + state, state) + further
    attention = state * state + 2 * state * state
    narrowing = (state + 1) * width if state != width else 0
    return encoder + decoder + attention + narrowing


def _lstm_parameters(input_width: int, state_width: int) -> int:
    """Return the parameters of one LSTM layer; PyTorch's has two biases a gate, of input and of state."""
    return LSTM_GATES * state_width * (input_width + state_width + 2)


def _lstm_embedding_parameters(training: TrainingSpec, vocabulary: Vocabulary) -> int:
    """Return those of fairseq's `lstm`: shared as in a transformer; an output matrix of its own has a bias."""
    bias = 0 if training.tied_embeddings else vocabulary.target_size
    return _embedding_rows(training, vocabulary) * training.d_model + bias


def _fconv_layer_parameters(training: TrainingSpec) -> int:
    """Return the parameters of fairseq's `fconv` but its embeddings and output: d_model wide words, d_ff channels.

    Every matrix has a norm and a bias for each of its outputs (weight normalisation). Either stack is brought from
    d_model to d_ff before its convolutions and back after them; so is each layer's attention in the decoder.
    """
    width, channels = training.d_model, training.d_ff
    into, out_of = _normalised_parameters(width, channels), _normalised_parameters(channels, width)
    convolution = _normalised_parameters(CONVOLUTION_WIDTH * channels, GLU_WIDTHS * channels)
    attention = into + out_of
    return 2 * (into + out_of) + training.num_layers * (2 * convolution + attention)


def _normalised_parameters(input_width: int, output_width: int) -> int:
    """Return the parameters of a weight-normalised linear map: directions, and a length and a bias for each output."""
    return (input_width + 2) * output_width


def _fconv_embedding_parameters(training: TrainingSpec, vocabulary: Vocabulary) -> int:
    """Return those of words, learned positions and output of fairseq's `fconv`.

    It never shares source and target; tied, the output has the target's matrix and a bias, else a normalised one.
    """
    rows = vocabulary.source_size + vocabulary.target_size + 2 * LEARNED_POSITION_ROWS["fconv"]
    own_output = _normalised_parameters(training.d_model, vocabulary.target_size)
    return rows * training.d_model + (vocabulary.target_size if training.tied_embeddings else own_output)
