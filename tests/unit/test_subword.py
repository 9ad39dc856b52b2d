"""Pieces are learnt the same each time, hold no white space, and come back as the line they stood for."""

import random
from pathlib import Path

import msgspec
import pytest
import sentencepiece

from aiayn.errors import ConfigError, CorpusError
from aiayn.provenance import gather_provenance
from aiayn.records import ParallelText
from aiayn.spec import CorpusSpec, GeneratedSource, SubwordSpec
from aiayn.subword import Encoder, detokenise, learn_pieces, load_encoders, segment_corpus
from aiayn.text import text_pair, write_lines

ENGLISH = ["the dog sees the house", "the dogs see a house", "a\u00a0dog sleeps in the house", "the\rhouse is old"] * 5
GERMAN = [
    "der Hund sieht das Haus",
    "die Hunde sehen ein Haus",
    "ein Hund schl\u00e4ft im Haus",
    "das Haus ist alt",
] * 5
SPEC = CorpusSpec(
    name="small",
    description="for these tests",
    language_pair="en-de",
    source=GeneratedSource(num_train_pairs=1, num_dev_pairs=1, num_test_pairs=1, grammar_seed=1),
    dev_testset="dev",
    test_testset="test",
    subword=SubwordSpec(vocabulary_size=60, joint=True),
)
# White space that is no blank, a soft hyphen, a joiner, a byte order mark, other scripts, emoji, NUL, names of pieces.
ODD_LINES = [
    "",
    "a\u00a0dog",
    "the\u2028house\ris\told\x85now\x0b\x0c\u3000\u202fend",
    "soft\u00adhyphen\u200djoin\ufeff",
    "\u4e2d\u6587 \U0001f600 \u0627\u0644",
    "nul\x00nul",
    "<unk> <s> </s> <pad> <0x41> @@ x@@ y",
    "\u2585",
]


@pytest.fixture(scope="module")
def model() -> bytes:
    """Return a joint model of the small text."""
    return learn_pieces([*ENGLISH, *GERMAN], SubwordSpec(vocabulary_size=60, joint=True), "the small text")


@pytest.fixture
def encoder(model: bytes, tmp_path: Path) -> Encoder:
    """Return an encoder by the joint model."""
    (tmp_path / "joint.model").write_bytes(model)
    return Encoder(tmp_path / "joint.model")


@pytest.fixture
def text(tmp_path: Path) -> ParallelText:
    """Return the record of the small text, written to files."""
    paths = {"en": tmp_path / "train.en", "de": tmp_path / "train.de"}
    write_lines(ENGLISH, paths["en"])
    write_lines(GERMAN, paths["de"])
    return ParallelText(
        provenance=gather_provenance(),
        corpus="small",
        pair_by_split={"train": text_pair(paths)},
        num_pairs=len(ENGLISH),
        num_dropped_by_reason={},
    )


def test_every_line_comes_back_as_it_was(encoder: Encoder) -> None:
    for line in [*ENGLISH, *GERMAN, *ODD_LINES]:
        assert detokenise(encoder.pieces(line), is_segmented=False) == line


def test_only_blanks_in_a_row_and_the_word_mark_are_lost(encoder: Encoder) -> None:
    assert detokenise(encoder.pieces("  the   dog "), is_segmented=False) == "the dog"
    assert detokenise(encoder.pieces("the\u2581dog"), is_segmented=False) == "the dog"


def test_no_piece_holds_white_space(encoder: Encoder) -> None:
    """The text that it learnt from does: fairseq would split a piece there."""
    assert any("\u00a0" in line for line in ENGLISH)
    assert [symbol for symbol in encoder.symbols if symbol.split() != [symbol]] == []
    assert all(piece.split() == [piece] for line in ODD_LINES for piece in encoder.pieces(line).split(" ") if piece)


def test_pieces_are_joined_as_sentencepiece_joins_them(model: bytes) -> None:
    """Any pieces, in any order: bytes that make no character, control symbols, unknowns."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    symbols = [processor.id_to_piece(index) for index in range(processor.get_piece_size())]
    symbols.remove("<0x0A>")  # see the next test
    rng = random.Random(1)
    for _ in range(2000):
        population = symbols if rng.random() < 0.5 else symbols[250:]  # the first are bytes, mostly
        pieces = rng.choices(population, k=rng.randrange(12))
        assert detokenise(" ".join(pieces), is_segmented=False) == processor.decode_pieces(pieces)


def test_a_spelt_line_feed_does_not_make_two_lines() -> None:
    assert detokenise("\u2581a <0x0A> b", is_segmented=False) == "a b"


def test_bytes_are_joined_to_characters() -> None:
    assert detokenise("\u2581caf <0xC3> <0xA9> \u2581x", is_segmented=False) == "caf\u00e9 x"
    assert detokenise("<0xC3> \u2581x <0xE2> <0x80>", is_segmented=False) == "\ufffd x\ufffd\ufffd"


@pytest.mark.parametrize(
    ("pieces", "line"),
    [("viel@@ er b\u00fc@@ sche .", "vieler b\u00fcsche ."), ("cut sh@@", "cut sh"), ("a @@ b", "a b"), ("", "")],
)
def test_marks_of_segmented_text_are_removed(pieces: str, line: str) -> None:
    assert detokenise(pieces, is_segmented=True) == line


def test_numbers_are_those_of_the_pieces(encoder: Encoder) -> None:
    lines = ["the dog", "", "\u4e2d"]
    numbers, lengths = encoder.number(lines)
    assert lengths.sum() == numbers.size
    symbols = [encoder.symbols[number] for number in numbers]
    assert " ".join(symbols) == " ".join(f"{encoder.pieces(line)} </s>".strip() for line in lines)
    assert lengths[1] == 1  # an empty line is its end
    assert symbols[-5:] == ["\u2581", "<0xE4>", "<0xB8>", "<0xAD>", "</s>"]


def test_learning_twice_gives_the_same_bytes(model: bytes) -> None:
    assert learn_pieces([*ENGLISH, *GERMAN], SubwordSpec(vocabulary_size=60, joint=True), "again") == model


def test_a_vocabulary_size_counts_characters_and_merges(encoder: Encoder) -> None:
    assert len(encoder.symbols) == 60 + 3 + 256
    assert encoder.symbols[:4] == ["<unk>", "<s>", "</s>", "<0x00>"]


@pytest.mark.parametrize(
    ("vocabulary_size", "message"),
    [(7, "size is 7; this text yields 6 pieces at most"), (2, "size is 2; this text has 3 different characters")],
)
def test_a_size_that_the_text_cannot_have_is_refused(vocabulary_size: int, message: str) -> None:
    """The word `ab` with its mark has three characters and, with those, six substrings."""
    with pytest.raises(ConfigError, match=rf"train\.en: subword\.vocabulary_{message}"):
        learn_pieces(["ab"] * 9, SubwordSpec(vocabulary_size=vocabulary_size, joint=True), "train.en")


def test_a_joint_model_is_one_file(text: ParallelText, tmp_path: Path) -> None:
    record = segment_corpus(SPEC, text, record_path=tmp_path / "segment" / "record.json")
    assert record.model_path_by_language == dict.fromkeys(("en", "de"), str(tmp_path / "segment/joint.model"))
    assert sorted(path.name for path in (tmp_path / "segment").iterdir()) == ["joint.model", "joint.vocab"]
    encoders = load_encoders(record)
    assert encoders["en"] is encoders["de"]
    expected = sum(len(encoders["en"].pieces(line).split()) for line in ENGLISH)
    assert record.num_tokens_by_language["en"] == expected
    first_columns = [line.split("\t")[0] for line in (tmp_path / "segment/joint.vocab").read_text("utf-8").split("\n")]
    assert first_columns == [*encoders["en"].symbols, ""]


def test_separate_models_know_their_own_language(text: ParallelText, tmp_path: Path) -> None:
    spec = msgspec.structs.replace(SPEC, subword=SubwordSpec(vocabulary_size=40, joint=False))
    encoders = load_encoders(segment_corpus(spec, text, record_path=tmp_path / "segment" / "record.json"))
    assert "\u00e4" in encoders["de"].symbols
    assert "\u00e4" not in encoders["en"].symbols
    assert encoders["en"].pieces("\u00e4") == "\u2581 <0xC3> <0xA4>"


def test_text_that_comes_in_pieces_is_not_segmented(text: ParallelText, tmp_path: Path) -> None:
    spec = msgspec.structs.replace(SPEC, subword=None)
    with pytest.raises(ConfigError, match="comes in pieces"):
        segment_corpus(spec, text, record_path=tmp_path / "segment" / "record.json")


def test_a_failure_leaves_nothing_behind(text: ParallelText, tmp_path: Path) -> None:
    spec = msgspec.structs.replace(SPEC, subword=SubwordSpec(vocabulary_size=100_000, joint=True))
    with pytest.raises(ConfigError, match=r"train\.en and .*train\.de: subword\.vocabulary_size is 100000"):
        segment_corpus(spec, text, record_path=tmp_path / "segment" / "record.json")
    assert list((tmp_path / "segment").iterdir()) == []


def test_another_corpus_is_refused(text: ParallelText, tmp_path: Path) -> None:
    spec = msgspec.structs.replace(SPEC, name="other")
    with pytest.raises(CorpusError, match="of corpus small, expected other"):
        segment_corpus(spec, text, record_path=tmp_path / "record.json")


@pytest.mark.parametrize("content", [None, b"junk"])
def test_a_model_that_is_none_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "joint.model").write_bytes(content)
    with pytest.raises(CorpusError, match=r"joint\.model: no sentencepiece model"):
        Encoder(tmp_path / "joint.model")
