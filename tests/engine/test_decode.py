"""Decoding gives one hypothesis a line, whatever the line holds."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq_cli import generate

from aiayn.data.text.binarize import binarize_corpus
from aiayn.data.text.encoder import WordEncoder
from aiayn.data.text.lines import read_lines, text_pair, write_lines
from aiayn.decode.decode import Translator, decode_split, load_split
from aiayn.decode.decoder_steps import TransformerSteps
from aiayn.decode.perplexity import perplexity
from aiayn.errors import CheckpointError, UsageError
from aiayn.provenance import gather_provenance
from aiayn.records import BinarizedCorpus, CheckpointRecord, RawCorpus, TrainRecord
from aiayn.spec.system import DecodingSpec
from aiayn.train.average import average_checkpoints
from aiayn.train.fairseq_args import USER_FOLDER
from tests.engine.random_checkpoint import save_random
from tests.engine.tiny_spec import CORPUS, DECODING, TRAINING, flags_of


@pytest.fixture(scope="module")
def average(finished: TrainRecord, tmp_path_factory: pytest.TempPathFactory) -> CheckpointRecord:
    """Return the average of the finished training's last three models."""
    return average_checkpoints(
        finished, last=3, record_path=tmp_path_factory.mktemp("average") / "last3.json"
    )


@pytest.fixture(scope="module")
def translator(average: CheckpointRecord, data: BinarizedCorpus) -> Translator:
    """Return a translator with the length penalty of fairseq."""
    return Translator(Path(average.path), Path(data.folder), DECODING, device="cpu")


def test_fairseqs_generate_says_what_to_use_instead(
    average: CheckpointRecord, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The default of fairseq's parser, which is not among the models that we import.
    unused = SimpleNamespace(add_args=lambda parser: None)
    monkeypatch.setitem(ARCH_MODEL_REGISTRY, "wav2vec2", unused)
    flags = [str(data.folder), "--user-dir", str(USER_FOLDER), "--cpu", "--path", str(average.path)]
    monkeypatch.setattr(sys, "argv", ["fairseq-generate", *flags])
    with pytest.raises(UsageError, match="do not translate with aiayn_transformer; use `aiayn"):
        generate.cli_main()


def test_the_signature_names_every_option_of_the_search() -> None:
    # Two searches of one signature could not be told apart in a table.
    assert DECODING.signature == "beam:4|lenpen:len|alpha:0.6|stop:fairseq|maxlen:1x+10"
    changes = {
        "beam_size": 5,
        "length_penalty_alpha": 0.7,
        "length_penalty_form": "gnmt",
        "stop": "tensor2tensor",
        "max_length_per_source_token": 2.0,
        "max_extra_tokens": 11,
    }
    assert set(changes) == set(DecodingSpec.__struct_fields__)
    changed = [msgspec.structs.replace(DECODING, **{key: value}) for key, value in changes.items()]
    signatures = {decoding.signature for decoding in [DECODING, *changed]}
    assert len(signatures) == 1 + len(changes)


ODD_LINES = [
    "",
    " ",
    "\u2581the " * 1500,
    "<unk> never \u00fcber \U0001f600 seen",
    "\u2581the",
    "<s> </s> <pad>",
    "\u2028\u0085",
]


def test_there_is_one_hypothesis_a_line_whatever_it_holds(
    average: CheckpointRecord, data: BinarizedCorpus
) -> None:
    """Nothing, 1,500 tokens, unknown characters. A line's translation does not depend on the other
    lines of its batch.
    """
    short = msgspec.structs.replace(DECODING, max_length_per_source_token=0.0)
    translator = Translator(Path(average.path), Path(data.folder), short, device="cpu")
    together = translator.translate([translator.number(line) for line in ODD_LINES])
    assert len(together) == len(ODD_LINES)
    for line, hypothesis in zip(ODD_LINES, together, strict=True):
        (alone,) = translator.translate([translator.number(line)])
        assert alone.pieces == hypothesis.pieces
        assert alone.score == pytest.approx(hypothesis.score, abs=1e-5)
        assert not any(re.search(r"\s", piece) for piece in hypothesis.pieces)


def test_no_lines_give_no_hypotheses(translator: Translator) -> None:
    assert translator.translate([]) == []


def test_a_line_above_the_models_positions_is_cut_and_keeps_its_end(translator: Translator) -> None:
    # Otherwise a single line would end the translation of a whole file.
    source = translator.number(ODD_LINES[2])
    assert len(source) == 1501
    cut = torch.cat([source[:1023], source[-1:]])
    assert translator.translate([source]) == translator.translate([cut])


@pytest.mark.parametrize("positions", ["sinusoidal_halves", "learned"])
def test_source_and_target_have_their_own_limits_of_positions(
    positions: str, tmp_path: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of fairseq may read longer lines than it writes."""
    limits = ["--max-source-positions", "12", "--max-target-positions", "9"]
    monkeypatch.setattr(
        "tests.engine.random_checkpoint.flags_of",
        lambda *args, **kwargs: flags_of(*args, **kwargs) + limits,
    )
    training = msgspec.structs.replace(
        TRAINING,
        architecture="fairseq_transformer",
        norm_epsilon=1e-5,
        positions=positions,
        initialisation="fairseq",
    )
    path = save_random(tmp_path, data, training)
    translator = Translator(path, data.folder, DECODING, device="cpu")
    assert isinstance(translator.steps, TransformerSteps)
    source = translator.number("\u2581the " * 40)
    (hypothesis,) = translator.translate([source])
    assert translator.translate([torch.cat([source[:11], source[-1:]])]) == [hypothesis]
    # One of the positions is the end of sentence.
    assert len(hypothesis.pieces) <= 8
    targets = load_split(translator.task, "test")[1]
    assert targets is not None
    assert max(map(len, targets)) > 9  # some are cut
    num_tokens = sum(min(len(target), 9) for target in targets)
    assert perplexity(path, data.folder, "test", device="cpu").num_tokens == num_tokens


def test_a_hypothesis_is_limited_by_its_own_line(translator: Translator) -> None:
    """At most 10 more tokens than the line has with its end, however long the other lines are.
    This model never ends.
    """
    short, long = (translator.number("\u2581the " * num_pieces) for num_pieces in (2, 30))
    hypotheses = translator.translate([short, long])
    assert [len(hypothesis.pieces) for hypothesis in hypotheses] == [3 + 10, 31 + 10]


def test_a_data_bin_comes_back_in_the_order_of_its_lines(
    translator: Translator, data: BinarizedCorpus
) -> None:
    """The source side is as long, line by line, as the text was."""
    sources, _ = load_split(translator.task, "test")
    assert len(sources) == data.num_pairs_by_split["tiny_test"]
    assert sum(map(len, sources)) == data.num_tokens_by_split_by_language["tiny_test"]["en"]
    assert len({len(source) for source in sources}) > 3


def other_data_bin(
    folder: Path, data: BinarizedCorpus, *, num_symbols_changed: int, num_symbols_more: int
) -> Path:
    """Return a data-bin whose words are the symbols of another dictionary, except a few."""
    symbols = [line.split(" ")[0] for line in read_lines(Path(data.folder) / "dict.en.txt")]
    symbols[:num_symbols_changed] = [f"other{index}" for index in range(num_symbols_changed)]
    symbols += [f"more{index}" for index in range(num_symbols_more)]
    folder.mkdir()
    pairs = {}
    for split in ("train", *CORPUS.testsets):
        for language in ("en", "de"):
            write_lines([" ".join(symbols)], folder / f"{split}.{language}")
        pairs[split] = text_pair(
            {language: folder / f"{split}.{language}" for language in ("en", "de")}
        )
    raw = RawCorpus(provenance=gather_provenance(), corpus=CORPUS.name, pair_by_split=pairs)
    encoders = dict.fromkeys(("en", "de"), WordEncoder())
    record = binarize_corpus(
        CORPUS, raw, {**encoders}, record_path=folder / "binarize" / "record.json"
    )
    return Path(record.folder)


def test_a_data_bin_of_a_larger_vocabulary_is_refused(
    tmp_path: Path, average: CheckpointRecord, data: BinarizedCorpus
) -> None:
    # Its numbers would name embeddings that the model does not have.
    folder = other_data_bin(tmp_path / "other", data, num_symbols_changed=0, num_symbols_more=3)
    size = data.vocabulary_size_by_language["en"]
    message = (
        rf"last3\.pt: embeds \({size}, {size}\) symbols, the data-bin has \({size + 3},"
        rf" {size + 3}\): .* trained on"
    )
    with pytest.raises(CheckpointError, match=message):
        Translator(Path(average.path), folder, DECODING, device="cpu")


def test_a_data_bin_of_as_many_other_symbols_is_refused(
    tmp_path: Path, average: CheckpointRecord, data: BinarizedCorpus
) -> None:
    """It would decode, and every word would be wrong."""
    folder = other_data_bin(tmp_path / "other", data, num_symbols_changed=1, num_symbols_more=0)
    message = r"as many as the data-bin has, but the dictionaries in .* trained on"
    with pytest.raises(CheckpointError, match=message):
        Translator(Path(average.path), folder, DECODING, device="cpu")
    with pytest.raises(CheckpointError, match=message):
        perplexity(Path(average.path), folder, "test", device="cpu")


def test_a_checkpoint_of_fairseqs_own_is_taken_without_its_dictionaries_digest(
    tmp_path: Path, average: CheckpointRecord, data: BinarizedCorpus
) -> None:
    # Checkpoints that fairseq's own training wrote have no digest.
    state = torch.load(average.path, weights_only=True)
    state["extra_state"] = {}
    torch.save(state, tmp_path / "foreign.pt")
    translator = Translator(tmp_path / "foreign.pt", Path(data.folder), DECODING, device="cpu")
    assert len(decode_split(translator, "valid")[0]) == 19
