"""Pieces are learnt the same each time, hold no white space, and are sentencepiece's. A sample has
each line alike.
"""

from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest
import sentencepiece

from aiayn.data.text import binarize, subword
from aiayn.data.text.detokenise import join_pieces
from aiayn.data.text.lines import write_lines
from aiayn.data.text.subword import (
    PieceEncoder,
    learn_pieces,
    load_encoders,
    sample_lines,
    segment_corpus,
)
from aiayn.errors import ConfigError, CorpusError
from aiayn.records import ParallelText, SegmentedText
from aiayn.spec.system import SubwordSpec
from tests.encoded_lines import encoded_lines
from tests.small_corpus import SMALL, write_train

ENGLISH = [
    "the dog sees the house",
    "the dogs see a house",
    "a\u00a0dog sleeps in the house",
    "the\rhouse is old",
] * 5
GERMAN = [
    "der Hund sieht das Haus",
    "die Hunde sehen ein Haus",
    "ein Hund schl\u00e4ft im Haus",
    "das Haus ist alt",
] * 5
SPEC = msgspec.structs.replace(
    SMALL,
    subword=SubwordSpec(vocabulary_size=60, joint=True),
)
# White space other than blanks, a soft hyphen, a joiner, a byte order mark, other scripts, emoji,
# NUL, names of pieces.
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
    return learn_pieces(
        [*ENGLISH, *GERMAN], SubwordSpec(vocabulary_size=60, joint=True), "the small text"
    )


@pytest.fixture
def encoder(model: bytes, tmp_path: Path) -> PieceEncoder:
    """Return an encoder by the joint model."""
    (tmp_path / "joint.model").write_bytes(model)
    return PieceEncoder(tmp_path / "joint.model")


@pytest.fixture
def text(tmp_path: Path) -> ParallelText:
    """Return the record of the small text, written to files."""
    return write_train(tmp_path, {"en": ENGLISH, "de": GERMAN})


def test_every_line_comes_back_as_it_was(encoder: PieceEncoder) -> None:
    for line in [*ENGLISH, *GERMAN, *ODD_LINES]:
        assert join_pieces(encoder.pieces(line)) == line


def test_only_blanks_in_a_row_and_the_word_mark_are_lost(encoder: PieceEncoder) -> None:
    assert join_pieces(encoder.pieces("  the   dog ")) == "the dog"
    assert join_pieces(encoder.pieces("the\u2581dog")) == "the dog"


def test_no_piece_holds_white_space(encoder: PieceEncoder) -> None:
    """The text that it learnt from does: fairseq would split a piece there."""
    assert any("\u00a0" in line for line in ENGLISH)
    assert [symbol for symbol in encoder.symbols() if symbol.split() != [symbol]] == []
    assert all(
        piece.split() == [piece]
        for line in ODD_LINES
        for piece in encoder.pieces(line).split(" ")
        if piece
    )


def test_a_vocabulary_size_counts_characters_and_merges(encoder: PieceEncoder) -> None:
    assert len(encoder.symbols()) == 60 + 3 + 256
    assert encoder.symbols()[:4] == ["<unk>", "<s>", "</s>", "<0x00>"]


@pytest.mark.parametrize("vocabulary_size", [7, 2])
def test_a_size_that_the_text_cannot_have_is_refused(vocabulary_size: int) -> None:
    """The word `ab` with its mark has three characters and, with those, six substrings."""
    expected = (
        rf"train\.en: subword\.vocabulary_size is {vocabulary_size}; with 259 control symbols and"
        r" bytes"
    )
    with pytest.raises(ConfigError, match=expected):
        learn_pieces(
            ["ab"] * 9, SubwordSpec(vocabulary_size=vocabulary_size, joint=True), "train.en"
        )


def test_a_joint_model_is_one_file(text: ParallelText, tmp_path: Path) -> None:
    record = segment_corpus(SPEC, text, record_path=tmp_path / "segment" / "record.json")
    assert record.model_path_by_language == dict.fromkeys(
        ("en", "de"), tmp_path / "segment/joint.model"
    )
    assert [path.name for path in (tmp_path / "segment").iterdir()] == ["joint.model"]
    encoders = load_encoders(record)
    assert encoders["en"] is encoders["de"]
    assert (record.method, record.normalise, record.tokenise) == ("sentencepiece", "none", "none")
    assert record.learning_by_model["joint"].num_lines == 40
    assert record.learning_by_model["joint"].sample_seed is None


@pytest.mark.parametrize("content", [None, b"junk"])
def test_a_model_that_is_none_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "joint.model").write_bytes(content)
    with pytest.raises(CorpusError, match=r"joint\.model: not a sentencepiece model"):
        PieceEncoder(tmp_path / "joint.model")


def symbols_by(processor: sentencepiece.SentencePieceProcessor, lines: list[str]) -> list[str]:
    """Return each line's symbols by sentencepiece's own numbers, the end of the line last."""
    return [
        " ".join(map(processor.id_to_piece, row))
        for row in processor.encode(lines, out_type=int, add_eos=True)
    ]


# Blanks at odd places, and sentencepiece's mark in the text, as a word and within a word.
MARKED_LINES = [
    "a \u2581 dog",
    "\u2581\u2581 the",
    "the \u2581",
    "the\u2581dog sees",
    "  the  dog ",
    "\u2581",
    " ",
]


@pytest.mark.parametrize("max_words", [2, 1 << 17])
def test_numbers_word_by_word_are_those_of_the_whole_line(
    encoder: PieceEncoder, model: bytes, max_words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where hardly a word is remembered, and where the line holds the mark that begins a word."""
    monkeypatch.setattr(binarize, "MAX_WORDS", max_words)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    lines = [*ENGLISH, *ODD_LINES, *MARKED_LINES, *GERMAN]
    assert encoded_lines(encoder, lines) == symbols_by(processor, lines)


def learnt(
    text: ParallelText, folder: Path, **keys: int | bool | None
) -> tuple[bytes, SegmentedText]:
    """Return the (English) model of the small text and its record."""
    subword = msgspec.structs.replace(SubwordSpec(vocabulary_size=40, joint=True), **keys)
    record = segment_corpus(
        msgspec.structs.replace(SPEC, subword=subword),
        text,
        record_path=folder / "segment" / "record.json",
    )
    return Path(record.model_path_by_language["en"]).read_bytes(), record


def test_a_sample_is_drawn_by_its_seed(text: ParallelText, tmp_path: Path) -> None:
    """Ten of the forty lines of both sides: the same seed gives the same bytes, another gives
    others.
    """
    first, record = learnt(text, tmp_path / "1", sample_lines=10, sample_seed=1)
    assert (
        record.learning_by_model["joint"].num_lines,
        record.learning_by_model["joint"].sample_seed,
    ) == (10, 1)
    assert learnt(text, tmp_path / "2", sample_lines=10, sample_seed=1)[0] == first
    assert learnt(text, tmp_path / "3", sample_lines=10, sample_seed=2)[0] != first


def test_a_sample_as_large_as_the_text_is_the_text(text: ParallelText, tmp_path: Path) -> None:
    whole, _ = learnt(text, tmp_path / "whole")
    sampled, record = learnt(text, tmp_path / "sampled", sample_lines=40)
    assert sampled == whole
    assert record.learning_by_model["joint"].sample_seed is None


def test_what_learning_took_is_said_and_recorded(
    text: ParallelText, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, record = learnt(text, tmp_path, sample_lines=10)
    learning = record.learning_by_model["joint"]
    assert learning.seconds > 0
    assert 10 < learning.memory_mib < 100_000
    assert "10.0/10.0" in capsys.readouterr().err


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a file of lines 0 to 6 and a file of lines 7 to 9, read in blocks of 4."""
    monkeypatch.setattr(subword, "LINES_PER_DRAW", 4)
    write_lines(map(str, range(7)), tmp_path / "first")
    write_lines(map(str, range(7, 10)), tmp_path / "second")
    return [tmp_path / "first", tmp_path / "second"]


@pytest.mark.parametrize("num_samples", [0, 1, 5, 9, 10])
def test_a_sample_has_its_size_and_the_order_of_the_text(
    paths: list[Path], num_samples: int
) -> None:
    drawn = [
        int(line) for line in sample_lines(paths, [7, 3], num_samples, np.random.default_rng(1))
    ]
    assert len(drawn) == num_samples
    assert drawn == sorted(set(drawn))


def test_each_line_is_drawn_as_often_as_any_other(paths: list[Path]) -> None:
    """2,000 samples of 3 from 10: 600 times each, with a standard deviation of 20. Five of these are
    allowed.
    """
    rng = np.random.default_rng(1)
    counts = Counter(line for _ in range(2000) for line in sample_lines(paths, [7, 3], 3, rng))
    assert len(counts) == 10
    assert all(500 <= count <= 700 for count in counts.values())


@pytest.mark.parametrize("num_lines", [[6, 3], [8, 3], [7, 2]])
def test_another_number_of_lines_than_recorded_is_refused(
    paths: list[Path], num_lines: list[int]
) -> None:
    with pytest.raises(
        CorpusError, match=r"not \d lines, which its record says; rerun `aiayn clean`"
    ):
        list(sample_lines(paths, num_lines, 3, np.random.default_rng(1)))
