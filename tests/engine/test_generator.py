"""Both searches find what there is to find, with both penalties; where they differ, cases worked out by hand."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.search import BeamSearch, Sampling
from fairseq.sequence_generator import SequenceGenerator

from aiayn.errors import ConfigError
from aiayn.spec.search_options import LENGTH_PENALTY_FORMS, SEARCH_STOPS
from aiayn.train.generator import (
    GnmtPenalty,
    Tensor2TensorGenerator,
    make_generator,
)
from aiayn.train.task import AiaynTranslationConfig, AiaynTranslationTask
from tests.engine.table_model import (
    END,
    WORDS,
    NextSymbol,
    Prefix,
    TableModel,
    everything_said,
    make_dictionary,
    make_sample,
    search_in_lists,
)

DICTIONARY = make_dictionary()
PENALTY_BY_FORM: dict[str, Callable[[int], float]] = {"len": lambda n: n**0.6, "gnmt": lambda n: ((5 + n) / 6) ** 0.6}
MIN_LENGTH_BY_STOP = {"fairseq": 1, "tensor2tensor": 0}  # fairseq does not say nothing at all
every_form = pytest.mark.parametrize("form", LENGTH_PENALTY_FORMS)
every_stop = pytest.mark.parametrize("stop", SEARCH_STOPS)


def random_table(seed: int, *, sharpness: float = 1.0) -> NextSymbol:
    """Return a model with five symbols, four words and the end: probabilities drawn anew for each source and prefix."""

    def next_symbol(source: str, prefix: Prefix) -> Mapping[str, float]:
        digits = [WORDS.index(source), *map(WORDS.index, prefix)]
        rng = torch.Generator().manual_seed(seed * 10**6 + sum((digit + 1) * 5**i for i, digit in enumerate(digits)))
        drawn = (torch.randn(5, generator=rng, dtype=torch.float64) * sharpness).softmax(dim=0)
        return dict(zip((END, *WORDS), drawn.tolist(), strict=True))

    return next_symbol


def search(
    next_symbol: NextSymbol, tables: Sequence[str] = "a", lengths: Sequence[int] = (2,), **keywords: Any
) -> list[list[tuple[Prefix, float]]]:
    """Return (words, score) of each source's hypotheses as fairseq returns them, best first."""
    return hypotheses_of(make(next_symbol, **keywords), tables, lengths)


def make(next_symbol: NextSymbol, *, form: str = "len", stop: str, alpha: float = 0.6, **keywords: Any) -> Any:
    """Return the generator of a table; sentences have at most 3 words unless `max_len_b` says otherwise."""
    model = TableModel(DICTIONARY, next_symbol)
    keywords = {"max_len_b": 3} | keywords
    return make_generator(
        [model], DICTIONARY, length_penalty_form=form, search_stop=stop, len_penalty=alpha, **keywords
    )


def hypotheses_of(generator: Any, tables: Sequence[str], lengths: Sequence[int]) -> list[list[tuple[Prefix, float]]]:
    """Run a generator; each hypothesis must end, and its score be that of its own positions."""
    found = generator.generate([], make_sample(DICTIONARY, tables, lengths))
    for hypothesis in itertools.chain(*found):
        assert hypothesis["tokens"][-1] == DICTIONARY.eos()
        penalty = float(len(hypothesis["tokens"]) ** generator.len_penalty)
        assert float(hypothesis["score"]) == pytest.approx(float(hypothesis["positional_scores"].sum()) / penalty)
    return [
        [(tuple(DICTIONARY[token] for token in hypothesis["tokens"][:-1]), float(hypothesis["score"]))
         for hypothesis in beam]
        for beam in found
    ]  # fmt: skip


def differences(found: list[tuple[Prefix, float]], expected: list[tuple[Prefix, float]]) -> list[str]:
    """Return where the first hypotheses are not the expected ones; an empty list of them differs too."""
    if not found:
        return ["nothing found"]
    pairs = zip(found, expected[: len(found)], strict=True)
    return [f"{f} for {e}" for f, e in pairs if f[0] != e[0] or not math.isclose(f[1], e[1], abs_tol=1e-5)]


@every_form
@every_stop
@pytest.mark.parametrize("seed", range(8))
def test_a_beam_that_covers_everything_finds_what_going_through_everything_finds(
    form: str, stop: str, seed: int
) -> None:
    """Vocabulary 5, length 3, beam 125: fairseq keeps all 4 + 16 + 64 sentences, tensor2tensor the best of 85."""
    table = random_table(seed)
    expected = everything_said(
        table, "a", max_length=3, penalty=PENALTY_BY_FORM[form], min_length=MIN_LENGTH_BY_STOP[stop]
    )
    assert len(expected) == {"fairseq": 84, "tensor2tensor": 85}[stop]
    (found,) = search(table, form=form, stop=stop, beam_size=125)
    assert differences(found, expected) == []
    if stop == "fairseq":
        assert len(found) == len(expected)


def test_a_wrong_penalty_is_noticed() -> None:
    table = random_table(1)
    expected = everything_said(table, "a", max_length=3, penalty=PENALTY_BY_FORM["len"], min_length=1)
    assert differences(search(table, form="gnmt", stop="fairseq", beam_size=125)[0], expected) != []
    assert differences([], expected) != []


def slow_starter(source: str, prefix: Prefix) -> Mapping[str, float]:
    """Three sentences: `b` with probability 0.4, `a` with 0.6 * 0.52 = 0.312, `a a a` with 0.6 * 0.48 = 0.288."""
    return {
        (): {"a": 0.6, "b": 0.4},
        ("b",): {END: 1.0},
        ("a",): {END: 0.52, "a": 0.48},
        ("a", "a"): {"a": 1.0},
        ("a", "a", "a"): {END: 1.0},
    }.get(prefix, {"d": 1.0})


def test_tensor2tensors_stop_waits_for_a_hypothesis_that_can_still_win() -> None:
    """With beam 2 and scores of log p / n, two have ended after the second step: log 0.4 / 2 and log 0.312 / 2.

    The unfinished `a a` has log 0.288 and may grow to 5 words and an end: it can reach log 0.288 / 6 = -0.21, above
    the worst, -0.58. So tensor2tensor goes on, and `a a a` ends with log 0.288 / 4 = -0.31: the best of all.
    """
    two_step_scores = [(("b",), math.log(0.4) / 2), (("a",), math.log(0.312) / 2)]
    (by_fairseq,) = search(slow_starter, stop="fairseq", alpha=1.0, beam_size=2, max_len_b=5)
    assert differences(by_fairseq, two_step_scores) == []
    assert len(by_fairseq) == 2
    (by_tensor2tensor,) = search(slow_starter, stop="tensor2tensor", alpha=1.0, beam_size=2, max_len_b=5)
    assert differences(by_tensor2tensor, [(("a", "a", "a"), math.log(0.288) / 4), *two_step_scores]) == []
    assert len(by_tensor2tensor) == 2  # the best two of three


def test_tensor2tensors_stop_comes_when_nothing_can_win() -> None:
    """With alpha 0 scores are log p: the unfinished 0.288 is below both that have ended, and a third step is not made.

    With alpha 1 four steps are. At each the model is asked about both beams.
    """
    for alpha, num_steps in ((0.0, 2), (1.0, 4)):
        generator = make(slow_starter, stop="tensor2tensor", alpha=alpha, beam_size=2, max_len_b=5)
        hypotheses_of(generator, "a", (2,))
        assert generator.model.single_model.num_rows == 2 * num_steps


def one_word(source: str, prefix: Prefix) -> Mapping[str, float]:
    """`a` ends with 0.25 after its first word, behind 0.4 and 0.35 for others, which then go in all directions."""
    return {
        (): {"a": 1.0},
        ("a",): {"a": 0.4, "b": 0.35, END: 0.25},
    }.get(prefix, {"a": 0.45, "b": 0.45, END: 0.1})


def test_with_tensor2tensor_all_candidates_may_end_and_with_fairseq_the_best_beam_size() -> None:
    """Beam 2: the end after `a` is third of four candidates. At 3 words all must end: 0.4 * 0.45 * 0.1 = 0.018."""
    (by_fairseq,) = search(one_word, stop="fairseq", alpha=0.0, beam_size=2)
    assert by_fairseq[0][1] == pytest.approx(math.log(0.018))
    (by_tensor2tensor,) = search(one_word, stop="tensor2tensor", alpha=0.0, beam_size=2)
    assert differences(by_tensor2tensor[:1], [(("a",), math.log(0.25))]) == []


def silent(source: str, prefix: Prefix) -> Mapping[str, float]:
    """Says nothing with probability 0.6."""
    return {(): {END: 0.6, "a": 0.4}}.get(prefix, {END: 0.8, "a": 0.2})


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_only_fairseq_bars_the_end_at_the_first_step(beam_size: int) -> None:
    assert search(silent, stop="fairseq", beam_size=beam_size)[0][0][0] == ("a",)
    assert search(silent, stop="tensor2tensor", beam_size=beam_size)[0][0][0] == ()


@every_form
@every_stop
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_of_one_takes_the_likeliest_symbol_at_each_step(form: str, stop: str, seed: int) -> None:
    table = random_table(seed, sharpness=2.0)
    words: list[str] = []
    while len(words) < 6:
        probability_by_symbol = dict(table("a", tuple(words)))
        if len(words) < MIN_LENGTH_BY_STOP[stop]:
            del probability_by_symbol[END]
        symbol = max(probability_by_symbol, key=probability_by_symbol.__getitem__)
        if symbol == END:
            break
        words.append(symbol)
    ((hypothesis,),) = search(table, form=form, stop=stop, beam_size=1, max_len_b=6)
    assert hypothesis[0] == tuple(words)


@every_form
@pytest.mark.parametrize("beam_size", [2, 4])
def test_a_sentence_is_translated_alike_alone_and_in_a_batch(form: str, beam_size: int) -> None:
    """Of tensor2tensor's stop, whose maximal length is each sentence's own: twice the source's, so 4 to 14 words."""
    table = random_table(3)
    lengths = (2, 7, 3, 5)
    keywords = {"form": form, "stop": "tensor2tensor", "beam_size": beam_size, "max_len_a": 2.0, "max_len_b": 0}
    together = search(table, "abcd", lengths, **keywords)
    for word, length, found in zip("abcd", lengths, together, strict=True):
        alone = search(table, word, (length,), **keywords)[0]
        assert differences(found[:1], alone) == []


@every_form
@pytest.mark.parametrize("beam_size", [2, 3, 4])
def test_tensor2tensors_search_finds_what_it_finds_in_lists(form: str, beam_size: int) -> None:
    """Beams that leave much out, on 24 models: batches of 4 sentences, which end at different steps."""
    for seed in range(6):
        table = random_table(seed)
        found = search(table, "abcd", (2,) * 4, form=form, stop="tensor2tensor", beam_size=beam_size, max_len_b=7)
        expected = [
            search_in_lists(table, source, beam_size=beam_size, max_length=7, penalty=PENALTY_BY_FORM[form])
            for source in "abcd"
        ]
        assert differences([beam[0] for beam in found], expected) == []


def endless(source: str, prefix: Prefix) -> Mapping[str, float]:
    """Hardly ever ends."""
    return {"a": 0.5, "b": 0.499, END: 0.001}


def test_the_maximal_length_is_that_of_the_sentence_itself() -> None:
    """1 * source length + 2, end of sentence counted in the source and not in the words; fairseq takes the batch's."""
    for stop, num_words in (("tensor2tensor", [4, 7]), ("fairseq", [7, 7])):
        found = search(endless, "ab", (2, 5), stop=stop, alpha=5.0, beam_size=2, max_len_a=1.0, max_len_b=2)
        assert [len(beam[0][0]) for beam in found] == num_words


def test_no_search_goes_beyond_the_models_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 positions hold the start and 3 words."""
    monkeypatch.setattr(TableModel, "max_decoder_positions", lambda self: 4)
    for stop in SEARCH_STOPS:
        ((words, _), *_) = search(endless, stop=stop, alpha=5.0, beam_size=2, max_len_b=50)[0]
        assert words == ("a", "a", "a")


def test_the_penalty_by_hand() -> None:
    """7 tokens: (12 / 6)^1 = 2, and 2^0.6 = 1.5157; alpha 0 is no penalty; 1 token costs nothing."""
    assert 7 ** GnmtPenalty(1.0) == 2.0
    assert 7 ** GnmtPenalty(0.6) == pytest.approx(1.5157, abs=1e-4)
    assert 7 ** GnmtPenalty(0.0) == 1.0
    assert 1 ** GnmtPenalty(0.6) == 1.0


def test_fairseqs_stop_with_its_own_penalty_is_fairseqs_generator() -> None:
    generator = make(silent, stop="fairseq", beam_size=4)
    assert (type(generator), generator.len_penalty, generator.min_len) == (SequenceGenerator, 0.6, 1)
    assert type(make(silent, stop="tensor2tensor", beam_size=4)) is Tensor2TensorGenerator


BAD_VALUES = [
    ({"beam_size": 0}, r"--beam is 0; expected 1 to 149, as 2 candidates a beam .* vocabulary of 300; correct"),
    ({"unk_penalty": -1.0}, r"--unkpen is -1\.0; expected 0 or more with --search-stop tensor2tensor"),
    ({"min_len": 2}, r"--min-len is 2; expected none with --search-stop tensor2tensor, which allows any length"),
    ({"search_strategy": Sampling(DICTIONARY)}, r"search strategy is 'Sampling'; expected plain beam search with"),
]


@pytest.mark.parametrize(("values", "message"), BAD_VALUES)
def test_what_cannot_be_exact_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(silent, **{"stop": "tensor2tensor", "beam_size": 4} | values)


def task_of(**values: str) -> AiaynTranslationTask:
    """Return a task with our dictionary on both sides."""
    return AiaynTranslationTask(AiaynTranslationConfig(**values), DICTIONARY, DICTIONARY)


def test_the_task_makes_what_its_flags_say() -> None:
    """As `fairseq-generate` asks for it; without the flags it is fairseq's own, to the last argument."""
    model = TableModel(DICTIONARY, slow_starter)
    flags = SimpleNamespace(beam=2, lenpen=2.0, max_len_a=0, max_len_b=5, min_len=1, temperature=1.0, unkpen=0)
    stock = task_of().build_generator([model], flags)
    assert (type(stock), stock.len_penalty, type(stock.search)) == (SequenceGenerator, 2.0, BeamSearch)
    task = task_of(length_penalty_form="gnmt", search_stop="tensor2tensor")
    ours = task.build_generator([model], flags, extra_gen_cls_kwargs={"lm_model": None, "lm_weight": 0.0})
    assert (type(ours), ours.len_penalty.alpha, ours.beam_size) == (Tensor2TensorGenerator, 2.0, 2)
    assert hypotheses_of(ours, "a", (2,))[0][0][0] == ("a", "a", "a")


def test_the_task_refuses_alignments_with_a_search_that_is_not_fairseqs() -> None:
    flags = SimpleNamespace(beam=2, print_alignment="hard")
    message = "--print-alignment with --length-penalty-form gnmt --search-stop fairseq; expected len and fairseq"
    with pytest.raises(ConfigError, match=message):
        task_of(length_penalty_form="gnmt").build_generator([], flags)
    aligning = task_of().build_generator([TableModel(DICTIONARY, silent)], flags)
    assert type(aligning).__name__ == "SequenceGeneratorWithAlignment"
