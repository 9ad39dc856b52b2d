"""Options of a beam search (section 6.1): beam, stop, length penalty; and the check of their values."""

from collections.abc import Callable
from typing import NamedTuple

from aiayn.errors import ConfigError
from aiayn.spec.training import DecodingSpec

LENGTH_PENALTY_FORMS = ("len", "gnmt")
SEARCH_STOPS = ("fairseq", "tensor2tensor")


class SearchOptions(NamedTuple):
    """How to search, in the names of `DecodingSpec`."""

    beam_size: int
    stop: str
    penalty: Callable[[int], float]  # of a number of tokens, the end counted
    max_length: Callable[[int], int]  # in tokens before the end, of a number of source tokens with theirs


def make_options(decoding: DecodingSpec, *, num_symbols: int) -> SearchOptions:
    """Return the options of a system's `decoding`, for a vocabulary of so many symbols.

    Raises:
        ConfigError: as `check_search`.
    """
    alpha = decoding.length_penalty_alpha
    check_search(decoding.length_penalty_form, decoding.stop, decoding.beam_size, alpha, num_symbols=num_symbols)

    def max_length(num_source_tokens: int) -> int:
        return int(decoding.max_length_per_source_token * num_source_tokens + decoding.max_extra_tokens)

    return SearchOptions(
        beam_size=decoding.beam_size,
        stop=decoding.stop,
        penalty=gnmt_penalty(alpha) if decoding.length_penalty_form == "gnmt" else lambda num_tokens: num_tokens**alpha,
        max_length=max_length,
    )


def gnmt_penalty(alpha: float) -> Callable[[int], float]:
    """Return ((5 + n) / 6)^alpha as a function of n (Wu et al. 2016, equation 14)."""
    return lambda num_tokens: ((5 + num_tokens) / 6) ** alpha


def check_search(form: str, stop: str, beam_size: int, alpha: float, *, num_symbols: int) -> None:
    """Refuse values that no search here supports.

    Raises:
        ConfigError: for a form or stop that does not exist, a beam too large for the vocabulary, and a reward for
            length with tensor2tensor's stop, which would come too early.
    """
    check_flag("--length-penalty-form", form in LENGTH_PENALTY_FORMS, form, "len or gnmt")
    check_flag("--search-stop", stop in SEARCH_STOPS, stop, "fairseq or tensor2tensor")
    # fairseq would cut the beam in silence, or go on with hypotheses that have ended.
    largest_beam = (num_symbols - 1) // 2
    expected = f"1 to {largest_beam}, as 2 candidates a beam are drawn from this vocabulary of {num_symbols}"
    check_flag("--beam", 1 <= beam_size <= largest_beam, beam_size, expected)
    if stop == "tensor2tensor":
        check_flag("--lenpen", alpha >= 0, alpha, "0 or more with --search-stop tensor2tensor")


def check_flag(flag: str, is_right: bool, value: object, expected: str) -> None:
    """Refuse a value of a search.

    Raises:
        ConfigError: unless it is right.
    """
    if not is_right:
        raise ConfigError(
            f"{flag} is {value!r}; expected {expected}; correct the command line, or `decoding` in the system's file"
        )
