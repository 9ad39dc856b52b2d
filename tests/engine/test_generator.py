"""The oracle of our search finds what there is to find, with both penalties and both stops."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest

from tests.engine.reference_search import LENGTH_PENALTY_FORMS, SEARCH_STOPS, make_generator
from tests.engine.table_model import (
    MIN_LENGTH_BY_STOP,
    PENALTY_BY_FORM,
    NextSymbol,
    Prefix,
    TableModel,
    everything_said,
    make_dictionary,
    make_sample,
    random_table,
    slow_starter,
)

DICTIONARY = make_dictionary()
every_form = pytest.mark.parametrize("form", LENGTH_PENALTY_FORMS)
every_stop = pytest.mark.parametrize("stop", SEARCH_STOPS)


def search(
    next_symbol: NextSymbol,
    tables: Sequence[str] = "a",
    lengths: Sequence[int] = (2,),
    **keywords: Any,
) -> list[list[tuple[Prefix, float]]]:
    """Return (words, score) of each source's hypotheses as fairseq returns them, best first."""
    return hypotheses_of(make(next_symbol, **keywords), tables, lengths)


def make(
    next_symbol: NextSymbol, *, form: str = "len", stop: str, alpha: float = 0.6, **keywords: Any
) -> Any:
    """Return the generator of a table; sentences have at most 3 words unless `max_len_b` says
    otherwise.
    """
    model = TableModel(DICTIONARY, next_symbol)
    keywords = {"max_len_b": 3} | keywords
    return make_generator(
        model, DICTIONARY, length_penalty_form=form, search_stop=stop, len_penalty=alpha, **keywords
    )


def hypotheses_of(
    generator: Any, tables: Sequence[str], lengths: Sequence[int]
) -> list[list[tuple[Prefix, float]]]:
    """Run a generator; each hypothesis must end, and its score must be the sum over its own
    positions.
    """
    found = generator.generate([], make_sample(DICTIONARY, tables, lengths))
    for hypothesis in itertools.chain(*found):
        assert hypothesis["tokens"][-1] == DICTIONARY.eos()
        penalty = float(len(hypothesis["tokens"]) ** generator.len_penalty)
        assert float(hypothesis["score"]) == pytest.approx(
            float(hypothesis["positional_scores"].sum()) / penalty
        )
    return [
        [
            (
                tuple(DICTIONARY[token] for token in hypothesis["tokens"][:-1]),
                float(hypothesis["score"]),
            )
            for hypothesis in beam
        ]
        for beam in found
    ]


def differences(
    found: list[tuple[Prefix, float]], expected: list[tuple[Prefix, float]]
) -> list[str]:
    """Return where the first hypotheses differ from the expected hypotheses; an empty list of
    them differs
    too.
    """
    if not found:
        return ["nothing found"]
    pairs = zip(found, expected[: len(found)], strict=True)
    return [
        f"{f} for {e}"
        for f, e in pairs
        if f[0] != e[0] or not math.isclose(f[1], e[1], abs_tol=1e-5)
    ]


@every_form
@every_stop
@pytest.mark.parametrize("seed", range(8))
def test_a_beam_that_covers_everything_finds_what_going_through_everything_finds(
    form: str, stop: str, seed: int
) -> None:
    """Vocabulary 5, length 3, beam 125: fairseq keeps all 4 + 16 + 64 sentences, tensor2tensor the
    best of 85.
    """
    table = random_table(seed)
    expected = everything_said(
        table, "a", max_length=3, penalty=PENALTY_BY_FORM[form], min_length=MIN_LENGTH_BY_STOP[stop]
    )
    assert len(expected) == {"fairseq": 84, "tensor2tensor": 85}[stop]
    (found,) = search(table, form=form, stop=stop, beam_size=125)
    assert differences(found, expected) == []
    if stop == "fairseq":
        assert len(found) == len(expected)


def test_tensor2tensors_stop_waits_for_a_hypothesis_that_can_still_win() -> None:
    """With beam 2 and scores of log p / n, two have ended after the second step: log 0.4 / 2 and
    log 0.312 / 2.

    The unfinished `a a` has log 0.288 and may grow to 5 words and an end: it can reach log 0.288 /
    6 = -0.21, above the worst, -0.58. So tensor2tensor goes on, and `a a a` ends with log 0.288 / 4
    = -0.31: the best of all.
    """
    two_step_scores = [(("b",), math.log(0.4) / 2), (("a",), math.log(0.312) / 2)]
    (by_fairseq,) = search(slow_starter, stop="fairseq", alpha=1.0, beam_size=2, max_len_b=5)
    assert differences(by_fairseq, two_step_scores) == []
    assert len(by_fairseq) == 2
    (by_tensor2tensor,) = search(
        slow_starter, stop="tensor2tensor", alpha=1.0, beam_size=2, max_len_b=5
    )
    assert (
        differences(by_tensor2tensor, [(("a", "a", "a"), math.log(0.288) / 4), *two_step_scores])
        == []
    )
    assert len(by_tensor2tensor) == 2  # the best two of three


def test_tensor2tensors_stop_comes_when_nothing_can_win() -> None:
    """With alpha 0 scores are log p: the unfinished 0.288 is below both that have ended, and a
    third step is not made.

    With alpha 1 four steps are. At each step the model computes both beams.
    """
    for alpha, num_steps in ((0.0, 2), (1.0, 4)):
        generator = make(slow_starter, stop="tensor2tensor", alpha=alpha, beam_size=2, max_len_b=5)
        hypotheses_of(generator, "a", (2,))
        assert generator.model.single_model.model.num_rows == 2 * num_steps
