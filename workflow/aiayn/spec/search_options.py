"""Options of a beam search (section 6.1), of a system's `decoding` and a vocabulary: beam, stop, length penalty."""

from collections.abc import Callable

import msgspec

from aiayn.errors import ConfigError
from aiayn.spec.training import DecodingSpec


class SearchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to search, in the names of `DecodingSpec`.

    `penalty` is of a number of tokens, the end counted; `max_length`, in tokens before the end, of a number of source
    tokens with theirs.
    """

    beam_size: int
    stop: str
    penalty: Callable[[int], float]
    max_length: Callable[[int], int]


def make_options(decoding: DecodingSpec, *, num_symbols: int) -> SearchOptions:
    """Return the options of a system's `decoding`, for a vocabulary of so many symbols.

    Raises:
        ConfigError: for a beam too large for the vocabulary, and a reward for length with tensor2tensor's stop, which
            would come too early.
    """
    alpha = decoding.length_penalty_alpha
    largest_beam = (num_symbols - 1) // 2  # fairseq would cut the beam in silence, or go on with ended hypotheses
    expected = f"1 to {largest_beam}, as 2 candidates a beam are drawn from this vocabulary of {num_symbols}"
    require("beam_size", 1 <= decoding.beam_size <= largest_beam, decoding.beam_size, expected)
    is_reward = decoding.stop == "tensor2tensor" and alpha < 0
    require("length_penalty_alpha", not is_reward, alpha, "0 or more with stop tensor2tensor")
    return SearchOptions(
        beam_size=decoding.beam_size,
        stop=decoding.stop,
        penalty=gnmt_penalty(alpha) if decoding.length_penalty_form == "gnmt" else lambda num_tokens: num_tokens**alpha,
        max_length=lambda num_source_tokens: int(
            decoding.max_length_per_source_token * num_source_tokens + decoding.max_extra_tokens
        ),
    )


def gnmt_penalty(alpha: float) -> Callable[[int], float]:
    """Return ((5 + n) / 6)^alpha as a function of n (Wu et al. 2016, equation 14)."""
    return lambda num_tokens: ((5 + num_tokens) / 6) ** alpha


def require(key: str, is_right: bool, value: object, expected: str) -> None:
    """Refuse a value of a search.

    Raises:
        ConfigError: unless it is right.
    """
    if not is_right:
        raise ConfigError(
            f"{key} is {value!r}; expected {expected}; correct the command line, or `decoding` in the system's file"
        )
