"""Defines and checks the two parts of a system: the settings of its training and of its beam
search.

The keys are the paper's symbols, spelt in ASCII. fairseq's names for the same settings appear only
in `train/fairseq_args.py`.
"""

import math
from collections.abc import Callable
from typing import Annotated, Literal, get_args

import msgspec

from aiayn.errors import ConfigError

Check = Callable[[str, bool, str], None]
Precision = Literal["fp32", "tf32", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
# The number of tokens of a line that a model reads, fairseq's default. Longer training pairs are
# left out. Translation and perplexity cut longer lines.
MAX_POSITIONS = 1024
Count = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
_Width = Annotated[int, msgspec.Meta(ge=1, le=10**6)]
_Fraction = Annotated[float, msgspec.Meta(ge=0, lt=1)]
AtLeastZero = Annotated[float, msgspec.Meta(ge=0, lt=1e9)]  # no infinity
_Epsilon = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base class of all specs (structs of config files). A spec cannot be changed, and unknown
    keys are errors.
    """


class TrainingSpec(Spec, frozen=True, kw_only=True):
    """All settings that the trained weights of a model depend on, except data and seed (sections 3
    and 5).

    The digest in a run's name covers these settings.

    The key `architecture` selects this project's Transformer (`transformer`, model/transformer.py)
    or a model of fairseq: its unchanged Transformer (`fairseq_transformer`), its LSTM (`lstm`) or
    its convolutional model (`fconv`). The models lstm and fconv ignore the keys on heads, norms,
    attention, positions, embeddings, initialisation and further dropout. In lstm and fconv, d_model
    is the width of embeddings, and d_ff is the width of hidden states.

    - With pre-norm (`norm_order: pre`), the model normalises before each sub-layer, and again at
      the end of the encoder and of the decoder.
    - The kind of normalisation (`norm`) is layer normalisation (`layer`), layer normalisation by
      the unbiased standard deviation plus epsilon (`layer_std`), or batch normalisation (`batch`).
    - The key `attention` sets the argument of the attention's softmax: q.k / sqrt(d_k) (`scaled`,
      equation (1)), q.k (`unscaled`), q.k / sqrt(d_model) (`sqrt_d_model`), q.k over a learned
      number (`temperature`), or v.tanh(q + k) (`additive`; Bahdanau, Cho and Bengio 2015).
    - The positional encoding, `positions`, consists of the paper's sinusoids (`sinusoidal`), of
      tensor2tensor's (`sinusoidal_halves`: all sines, then all cosines), or of learned vectors
      (`learned`).
    - If `tied_embeddings` is true, source embeddings, target embeddings and output layer share a
      single matrix (section 3.4).
    - The dropout rate for attention weights is `p_drop_attention`, and for the inner layer of the
      feed-forward network `p_drop_ffn`. In the paper both of these dropout rates are 0.
    - The initial values of embeddings are drawn from N(0, 1 / d_model) or from N(0, 1), as the key
      `embeddings` says. The key `initialisation` says whether the other weights are initialised as
      in tensor2tensor, as in torch.nn.Transformer (`torch_nn`), by Xavier's uniform distribution on
      every matrix including embeddings (`xavier`), or as in fairseq's own architectures.
    - A *batch* has at most `max_tokens_per_batch` tokens on its longer side (source or target),
      padding included. An *update* (an optimiser step) sums the gradients of `batches_per_update`
      batches, which are computed on as many GPUs or one after the other.
    - If `save_interval_updates` is null, a checkpoint is written at the end of each epoch.
    - With the schedule `inverse_sqrt`, the learning rate rises linearly from
      `initial_learning_rate` to `peak_learning_rate` and then falls. With the schedule `constant`,
      the learning rate is always `peak_learning_rate`. With the schedule `equation_3`, the keys for
      initial and peak learning rate are null.
    - With `precision: bf16`, the model computes in bfloat16 where this is safe, with fp32 weights.
    """

    architecture: Literal["transformer", "fairseq_transformer", "lstm", "fconv"]
    num_layers: _Width
    d_model: _Width
    d_ff: _Width
    num_heads: _Width
    d_k: _Width
    d_v: _Width
    norm_order: Literal["post", "pre"]
    norm: Literal["layer", "layer_std", "batch"]
    norm_epsilon: _Epsilon
    attention: Literal["scaled", "unscaled", "sqrt_d_model", "temperature", "additive"]
    attention_biases: bool
    positions: Literal["sinusoidal", "sinusoidal_halves", "learned"]
    tied_embeddings: bool
    embeddings: Literal["d_model", "standard_normal"]
    initialisation: Literal["tensor2tensor", "torch_nn", "xavier", "fairseq"]
    p_drop: _Fraction
    p_drop_attention: _Fraction
    p_drop_ffn: _Fraction
    eps_ls: _Fraction
    adam_beta_1: _Fraction
    adam_beta_2: _Fraction
    adam_epsilon: _Epsilon
    clip_norm: AtLeastZero  # 0.0 turns clipping off
    schedule: Literal["equation_3", "inverse_sqrt", "constant"]
    warmup_steps: Count
    peak_learning_rate: float | None
    initial_learning_rate: float | None
    updates: Count
    max_tokens_per_batch: Count
    batches_per_update: Count
    save_interval_updates: Count | None
    patience_epochs: Count | None
    device: Literal["auto", "cpu", "cuda"]
    precision: Precision


class DecodingSpec(Spec, frozen=True, kw_only=True):
    """The settings of the beam search (section 6.1), which do not change the digest in a run's
    name.

    The score by which a hypothesis of n tokens (end-of-sentence symbol included) is ranked is its
    log-probability divided by n^alpha (form `len`, as in fairseq) or by ((5 + n) / 6)^alpha (form
    `gnmt`, which the paper cites). The length of a hypothesis is at most a multiple of the source
    length (`max_length_per_source_token`) plus a constant (`max_extra_tokens`). With fairseq's
    stopping rule (`stop: fairseq`), the search for a sentence ends when `beam_size` hypotheses have
    ended. With tensor2tensor's rule (`stop: tensor2tensor`), the search ends when no unfinished
    hypothesis can get a better score than the worst of the best `beam_size` ended hypotheses.
    """

    beam_size: Count
    length_penalty_alpha: AtLeastZero
    length_penalty_form: Literal["len", "gnmt"]
    stop: Literal["fairseq", "tensor2tensor"]
    max_length_per_source_token: AtLeastZero
    max_extra_tokens: Count

    @property
    def signature(self) -> str:
        """One line of text with all settings of the beam search that could change a hypothesis."""
        return (
            f"beam:{self.beam_size}|lenpen:{self.length_penalty_form}"
            f"|alpha:{self.length_penalty_alpha:g}|stop:{self.stop}"
            f"|maxlen:{self.max_length_per_source_token:g}x+{self.max_extra_tokens}"
        )


# The only values that fairseq's own transformer allows.
_FAIRSEQ_TRANSFORMER = {
    "norm": "layer",
    "norm_epsilon": 1e-5,
    "attention": "scaled",
    "attention_biases": True,
    "embeddings": "d_model",
    "initialisation": "fairseq",
}


def check_training(training: TrainingSpec, check: Check) -> None:
    """Check the training settings by rules that types cannot express. For every rule the function
    `check(key, is_right, expected)` is called.
    """
    _check_schedule(training, check)
    _check_architecture(training, check)


def _check_schedule(training: TrainingSpec, check: Check) -> None:
    # A key without effect would still change the run's digest, so it must be null.
    peak, initial = training.peak_learning_rate, training.initial_learning_rate
    if training.schedule == "equation_3":
        for key in ("peak_learning_rate", "initial_learning_rate"):
            check(key, getattr(training, key) is None, "null, as equation (3) fixes the rate")
        return
    check("peak_learning_rate", peak is not None and 0.0 < peak < math.inf, "a number above 0")
    if training.schedule == "constant":
        check("initial_learning_rate", initial is None, "null, as the rate is constant")
        return
    is_below = peak is not None and initial is not None and 0.0 <= initial <= peak
    check("initial_learning_rate", is_below, "a number from 0 to peak_learning_rate")


def _check_architecture(training: TrainingSpec, check: Check) -> None:
    """Check the training settings whose allowed values depend on the architecture."""
    # A value that fairseq ignores would be in the run's name, but not in its tensors.
    if training.architecture == "fairseq_transformer":
        for key, value in _FAIRSEQ_TRANSFORMER.items():
            check(
                key,
                getattr(training, key) == value,
                f"{value!r}: fairseq's own transformer has no other form",
            )
        check(
            "positions",
            training.positions != "sinusoidal",
            "sinusoidal_halves or learned, as fairseq has them",
        )
        # fairseq has no flag for d_k: it computes d_model / num_heads.
        for key in ("d_k", "d_v"):
            is_fixed = getattr(training, key) * training.num_heads == training.d_model
            check(
                key,
                is_fixed,
                "d_model / num_heads, as in fairseq; architecture: transformer takes any value",
            )
    # fairseq initialises its own modules, which this architecture does not use.
    elif training.architecture == "transformer":
        check(
            "initialisation",
            training.initialisation != "fairseq",
            "tensor2tensor, torch_nn or xavier",
        )
        check(
            "d_model",
            training.d_model % 2 == 0 or training.positions == "learned",
            "even, for pairs of sinusoids",
        )


def check_search(decoding: DecodingSpec, num_symbols: int) -> None:
    """Raise an error for settings of the beam search that are not possible with a vocabulary of
    `num_symbols` symbols.

    Raises:
        ConfigError: if the beam is too large for the vocabulary, or if a negative alpha (a reward
            for length) is combined with tensor2tensor's stopping rule, which would then stop too
            early.
    """
    # fairseq silently reduces a larger beam, or continues ended hypotheses.
    # At the first step all 2 x beam_size candidates continue the same beginning, so there must be
    # that many symbols. One symbol, the padding, is never a candidate.
    largest_beam = (num_symbols - 1) // 2
    expected = (
        f"1 to {largest_beam}, because 2 candidates for each beam are drawn from this vocabulary of"
        f" {num_symbols}"
    )
    require_decoding(
        "beam_size", 1 <= decoding.beam_size <= largest_beam, decoding.beam_size, expected
    )
    alpha = decoding.length_penalty_alpha
    is_reward = decoding.stop == "tensor2tensor" and alpha < 0
    require_decoding(
        "length_penalty_alpha", not is_reward, alpha, "0 or more with stop tensor2tensor"
    )


def require_decoding(key: str, is_right: bool, value: object, expected: str) -> None:
    """Raise an error if a setting of the beam search is wrong.

    Raises:
        ConfigError: if the argument `is_right` is false. The message contains the setting, its
            value and what was expected.
    """
    if not is_right:
        raise ConfigError(
            f"{key} is {value!r}; expected {expected}; correct the command line, or `decoding` in"
            " the system's file"
        )
