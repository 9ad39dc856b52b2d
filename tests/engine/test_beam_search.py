"""Our beam search finds what the reference finds, whatever the model, the batch and the device's
way of asking.
"""

import functools
import itertools
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import torch
from fairseq import tasks
from torch import Tensor

import aiayn.decode.beam_search as beam_search
import aiayn.decode.decoder_steps as decoder_steps
from aiayn.decode.beam_search import BatchSearch, length_penalty
from aiayn.decode.decode import Translator
from aiayn.decode.decoder_steps import FairseqSteps, TransformerSteps, steps_of
from aiayn.errors import CheckpointError, ConfigError
from aiayn.records import BinarizedCorpus
from aiayn.spec.system import DecodingSpec
from aiayn.spec.training import check_search
from aiayn.train import compat
from tests.engine.models import WaitsForTheHost, make_dictionary, make_model, make_task, randomise
from tests.engine.reference_search import (
    LENGTH_PENALTY_FORMS,
    SEARCH_STOPS,
    search_by_reference,
    unequal,
)
from tests.engine.test_parameter_counts import CHANGES, TINY, write_dictionaries
from tests.engine.tiny_spec import DECODING, flags_of

DICTIONARY = make_dictionary()
# The empty sentence, which is only its end; short sentences, several of the same length; and
# one far longer than the others.
LENGTHS = (1, 2, 2, 3, 5, 5, 8, 16)
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "pre_norm": {"norm_order": "pre"},
    "narrow_keys": {"d_k": 3, "d_v": 5, "num_heads": 3, "attention_biases": False},
    "one_layer": {"num_layers": 1, "num_heads": 1, "d_k": 8, "d_v": 8},
    "additive": {"attention": "additive"},
    "temperature": {"attention": "temperature", "positions": "learned"},
    "unscaled": {"attention": "unscaled", "positions": "sinusoidal_halves", "position_offset": 2},
    "sqrt_d_model": {"attention": "sqrt_d_model", "norm": "layer_std", "norm_order": "pre"},
    "batch_norm": {"norm": "batch", "share_embeddings": "decoder"},
    "untied": {"share_embeddings": "none"},
}
every_stop = pytest.mark.parametrize("stop", SEARCH_STOPS)


def make_sources(
    lengths: Sequence[int] = LENGTHS, num_symbols: int = len(DICTIONARY), seed: int = 1
) -> list[Tensor]:
    """Return random sentences of these lengths, their ends counted."""
    rng = torch.Generator().manual_seed(seed)
    end = torch.tensor([DICTIONARY.eos()])
    return [
        torch.cat([torch.randint(4, num_symbols, (length - 1,), generator=rng), end])
        for length in lengths
    ]


def search(
    model: Any,
    sources: Sequence[Tensor],
    decoding: DecodingSpec,
    num_symbols: int = len(DICTIONARY),
) -> list[Any]:
    """Return what is found for each source, all in one batch, longest first as `Translator` has
    them.
    """
    check_search(decoding, num_symbols)
    order = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
    batch = [sources[index] for index in order]
    source_BS = torch.nn.utils.rnn.pad_sequence(
        batch, batch_first=True, padding_value=DICTIONARY.pad(), padding_side="left"
    )
    hypotheses = BatchSearch(
        steps_of(model),
        source_BS,
        list(map(len, batch)),
        decoding,
        padding=DICTIONARY.pad(),
        end=DICTIONARY.eos(),
    ).run()
    by_index = dict(zip(order, hypotheses, strict=True))
    return [by_index[index] for index in range(len(sources))]


def searched_as(**changes: Any) -> DecodingSpec:
    """Return the tests' decoding with changes."""
    return msgspec.structs.replace(DECODING, **changes)


def random_model(seed: int, **shape: Any) -> Any:
    """Return a small model whose sentences end now and then."""
    return randomise(make_model(seed, max_positions=260, **shape), seed)


# A seed of model and sentences, the beam, the stop, and alpha. By a large alpha longer hypotheses
# overtake those that have ended, which tensor2tensor's stop must wait for.
SEARCHES = (
    (0, 1, "fairseq", 0.6),
    (1, 4, "fairseq", 0.6),
    (1, 4, "tensor2tensor", 2.0),
    (3, 8, "tensor2tensor", 0.6),
)


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_of_our_transformer_decodes_as_with_the_reference(name: str) -> None:
    """A shape changes the model's steps alone. The next test has every stop with every beam."""
    lengths = set()
    for seed, beam_size, stop, alpha in SEARCHES:
        model, form = random_model(seed, **SHAPES[name]), LENGTH_PENALTY_FORMS[seed % 2]
        decoding = searched_as(
            length_penalty_form=form, length_penalty_alpha=alpha, stop=stop, beam_size=beam_size
        )
        sources = make_sources(seed=seed)
        assert type(steps_of(model)) is TransformerSteps
        hypotheses = search(model, sources, decoding)
        assert unequal(hypotheses, search_by_reference(model, DICTIONARY, decoding, sources)) == []
        lengths |= {len(one.symbols) for one in hypotheses}
    assert len(lengths) > 1


@every_stop
@pytest.mark.parametrize("beam_size", [1, 2, 5, 8])
def test_every_beam_size_finds_what_the_reference_finds(beam_size: int, stop: str) -> None:
    """The vocabulary is larger than a block of symbols, and not a multiple of it."""
    dictionary = make_dictionary(150)
    task = make_task(dictionary)
    model = random_model(1, task=task, d_model=16)
    decoding = searched_as(stop=stop, beam_size=beam_size, length_penalty_form="gnmt")
    sources = make_sources([2 + index % 9 for index in range(27)], len(dictionary), 1)
    hypotheses = search(model, sources, decoding, len(dictionary))
    assert unequal(hypotheses, search_by_reference(model, dictionary, decoding, sources)) == []


@functools.cache
def build(name: str) -> Any:
    """Return a model of a fairseq architecture, with noise on its parameters, and its dictionary.

    No search changes a model: all tests share it, because fairseq takes 0.2 s to read its flags.
    """
    training = msgspec.structs.replace(TINY, **CHANGES[name])
    with tempfile.TemporaryDirectory() as folder:
        write_dictionaries(Path(folder), is_joint=True)
        cfg = compat.training_config(flags_of(training, folder))
        torch.manual_seed(1)
        task = tasks.setup_task(cfg.task)
        return randomise(task.build_model(cfg.model)).eval(), task.target_dictionary


@pytest.mark.parametrize(
    "name", ["fairseq_transformer", "fairseq_transformer_pre_norm", "lstm", "fconv"]
)
def test_every_architecture_of_fairseqs_decodes_as_with_the_reference(name: str) -> None:
    model, dictionary = build(name)
    sources = make_sources(num_symbols=len(dictionary))
    # fairseq's own transformer is searched as ours.
    expected = TransformerSteps if name.startswith("fairseq_transformer") else FairseqSteps
    assert type(steps_of(model)) is expected
    for beam_size, stop in ((1, "fairseq"), (4, "tensor2tensor"), (2, "fairseq")):
        decoding = searched_as(stop=stop, beam_size=beam_size, length_penalty_form="gnmt")
        hypotheses = search(model, sources, decoding, len(dictionary))
        assert unequal(hypotheses, search_by_reference(model, dictionary, decoding, sources)) == []


@every_stop
@pytest.mark.parametrize("name", ["base", "fairseq_transformer", "lstm", "fconv"])
def test_what_else_is_in_a_batch_changes_nothing(name: str, stop: str) -> None:
    # Otherwise BLEU would depend on the size of batches.
    model, dictionary = build(name)
    sources, decoding = make_sources((1, 3, 7, 12, 40), len(dictionary)), searched_as(stop=stop)
    together = search(model, sources, decoding, len(dictionary))
    for source, hypothesis in zip(sources, together, strict=True):
        (alone,) = search(model, [source], decoding, len(dictionary))
        assert alone.symbols == hypothesis.symbols
        assert alone.score == pytest.approx(hypothesis.score, abs=1e-5)


@every_stop
def test_how_often_the_device_is_asked_and_when_sentences_leave_changes_nothing(
    stop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step, as on a CPU, every third step, as on a GPU, and with caches that must grow."""
    model, sources = random_model(3), make_sources()
    hypotheses = search(model, sources, searched_as(stop=stop))
    for steps_between_looks, leaving_fraction, capacity in (
        (3, 1 / 16, 32),
        (1, 0.0, 2),
        (1, 1.0, 1),
        (1000, 1.0, 8),
    ):
        monkeypatch.setattr(beam_search, "STEPS_BETWEEN_LOOKS", {"cpu": steps_between_looks})
        monkeypatch.setattr(beam_search, "LEAVING_FRACTION", leaving_fraction)
        monkeypatch.setattr(decoder_steps, "FIRST_CAPACITY", capacity)
        assert unequal(search(model, sources, searched_as(stop=stop)), hypotheses) == []


@every_stop
def test_a_step_waits_for_nothing_on_the_device(stop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With translations of any length, the host only reads, once a batch, whether there is
    padding.
    """
    monkeypatch.setattr(beam_search, "STEPS_BETWEEN_LOOKS", {"cpu": 1000})
    num_waits = []
    for max_extra_tokens in (1, 30):
        with WaitsForTheHost() as waiting:
            search(
                random_model(1),
                make_sources((3, 5)),
                searched_as(stop=stop, max_extra_tokens=max_extra_tokens),
            )
        num_waits.append(waiting.found)
    assert num_waits == [["is_nonzero"], ["is_nonzero"]]
    with WaitsForTheHost() as waiting:
        float(torch.ones(1))
    assert waiting.found == ["_local_scalar_dense"]


class TableSteps:
    """Steps without a model: after each prefix, five symbols have probabilities of their own."""

    num_symbols, max_tokens = 300, 100

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def start(self, source_BS: Tensor) -> None:
        """Begin with an empty prefix in each row."""
        self.prefixes: list[tuple[int, ...]] = [()] * len(source_BS)

    def logits(self, token_N: Tensor) -> Tensor:
        """Return each row's log-probabilities after its next token."""
        rows = zip(self.prefixes, token_N.tolist(), strict=True)
        self.prefixes = [(*prefix, token) for prefix, token in rows]
        return torch.stack([self.nats(prefix[1:]) for prefix in self.prefixes])

    def keep(self, row_N: Tensor, sentence_B: Tensor | None) -> None:
        """Continue with these rows."""
        self.prefixes = [self.prefixes[row] for row in row_N.tolist()]

    def nats(self, words: tuple[int, ...]) -> Tensor:
        """Return the log-probabilities of all symbols after some words."""
        rng = torch.Generator().manual_seed(hash((self.seed, *words)) % 2**31)
        nats_V = torch.full((self.num_symbols,), -torch.inf)
        nats_V[[DICTIONARY.eos(), *WORDS]] = torch.randn(5, generator=rng).log_softmax(dim=0)
        return nats_V


WORDS = (4, 5, 6, 7)


def search_table(steps: TableSteps, decoding: DecodingSpec) -> Any:
    """Return what is found for one sentence."""
    padding, end = DICTIONARY.pad(), DICTIONARY.eos()
    source_BS = torch.tensor([[4, end]])
    search = BatchSearch(cast(Any, steps), source_BS, [2], decoding, padding=padding, end=end)
    (hypothesis,) = search.run()
    return hypothesis


def best_of_everything(steps: TableSteps, decoding: DecodingSpec) -> tuple[float, list[int]]:
    """Return score and symbols of the best of all sentences, without any search."""
    sentences = []
    for length in range(decoding.stop == "fairseq", decoding.max_extra_tokens + 1):
        for words in itertools.product(WORDS, repeat=length):
            nats = 0.0
            for index, symbol in enumerate((*words, DICTIONARY.eos())):
                nats += float(steps.nats(words[:index])[symbol])
            sentences.append((nats / length_penalty(decoding, length + 1), list(words)))
    return max(sentences)


def test_the_penalty_by_hand() -> None:
    """7 tokens: (12 / 6)^1 = 2, and 2^0.6 = 1.5157. alpha 0 means no penalty. 1 token costs
    nothing.
    """

    def penalty(alpha: float, num_tokens: int) -> float:
        return length_penalty(
            searched_as(length_penalty_form="gnmt", length_penalty_alpha=alpha), num_tokens
        )

    assert (penalty(1.0, 7), penalty(0.0, 7), penalty(0.6, 1)) == (2.0, 1.0, 1.0)
    assert penalty(0.6, 7) == pytest.approx(1.5157, abs=1e-4)


@pytest.mark.parametrize("form", LENGTH_PENALTY_FORMS)
@every_stop
def test_a_beam_that_covers_everything_finds_the_best_of_everything(form: str, stop: str) -> None:
    """4 words, length 3, beam 125, against all 84 or 85 sentences gone through."""
    decoding = searched_as(
        length_penalty_form=form,
        stop=stop,
        beam_size=125,
        max_length_per_source_token=0.0,
        max_extra_tokens=3,
    )
    for seed in range(8):
        score, symbols = best_of_everything(TableSteps(seed), decoding)
        hypothesis = search_table(TableSteps(seed), decoding)
        assert (hypothesis.symbols, hypothesis.score) == (symbols, pytest.approx(score, abs=1e-5))


@every_stop
def test_no_search_goes_beyond_the_models_positions(stop: str) -> None:
    """4 positions hold the start and 3 words. Longer sentences would have better scores."""
    steps = TableSteps(1)
    decoding = searched_as(stop=stop, length_penalty_alpha=5.0, max_extra_tokens=50)
    assert len(search_table(steps, decoding).symbols) > 3
    steps.max_tokens = 4
    assert len(search_table(steps, decoding).symbols) == 3


@every_stop
def test_a_beam_of_which_two_candidates_each_are_not_in_the_vocabulary_is_refused(
    stop: str,
) -> None:
    """One of the 23 symbols is padding: 22 candidates are two each for 11 beams."""
    decoding = searched_as(stop=stop, beam_size=11)
    model, sources = random_model(1), make_sources((2, 4))
    assert (
        unequal(
            search(model, sources, decoding),
            search_by_reference(model, DICTIONARY, decoding, sources),
        )
        == []
    )
    with pytest.raises(
        ConfigError, match=r"beam_size is 12; expected 1 to 11, .* vocabulary of 23"
    ):
        check_search(searched_as(stop=stop, beam_size=12), 23)


def test_what_no_search_can_do_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"length_penalty_alpha is -0\.1; expected 0 or more"):
        check_search(searched_as(stop="tensor2tensor", length_penalty_alpha=-0.1), 23)
    none = searched_as(max_length_per_source_token=0.0, max_extra_tokens=0)
    with pytest.raises(ConfigError, match="longest translation is 0; expected 1 token or more"):
        search(random_model(1), make_sources((2,)), none)
    assert (
        search(
            random_model(1), make_sources((2,)), msgspec.structs.replace(none, stop="tensor2tensor")
        )[0].symbols
        == []
    )


@every_stop
def test_a_model_of_which_nothing_is_a_number_is_named(
    stop: str, data: BinarizedCorpus, tmp_path: Path
) -> None:
    model = random_model(1)
    with torch.no_grad():
        model.decoder.layers[0].fc1.weight.fill_(math.nan)
    hypotheses = search(model, make_sources((2, 4)), searched_as(stop=stop))
    assert hypotheses == [None, None]
    translator = SimpleNamespace(checkpoint_path=tmp_path / "last5.pt")
    with pytest.raises(CheckpointError, match=r"last5\.pt: its outputs for line 3 are not numbers"):
        Translator._hypothesis(translator, None, 2)  # type: ignore[arg-type]


def test_a_batch_holds_no_more_tokens_than_it_may_whatever_the_lengths() -> None:
    # One long line among short ones would exhaust a GPU's memory.
    from aiayn.decode.decode import _batches

    lengths = [1 + index * index % 97 for index in range(300)] + [900]
    batches = list(_batches(lengths, searched_as(max_extra_tokens=50), 2_000))
    assert sorted(index for batch in batches for index in batch) == list(range(301))
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or len(batch) * (2 * longest + 51) <= 2_000
    ordered = [lengths[index] for batch in batches for index in batch]
    assert ordered == sorted(lengths, reverse=True)
