"""Pieces come back as plain text: sentencepiece's, subword-nmt's with Moses' tokens put together,
and others'.
"""

import random
from pathlib import Path

import msgspec
import pytest
import sentencepiece

from aiayn.data.text.clean import preprocessor
from aiayn.data.text.detokenise import detokenise, join_pieces
from aiayn.data.text.lines import read_lines
from aiayn.data.text.subword import learn_pieces
from aiayn.spec.system import SegmentedSource, SubwordSpec, read_corpus
from tests.small_corpus import SMALL

SENTENCEPIECE = msgspec.structs.replace(
    SMALL, source=SegmentedSource(mirror_folder="", public_url="", file_by_split={}),
    subword=SubwordSpec(vocabulary_size=60, joint=True),
)  # fmt: skip
SEGMENTED = msgspec.structs.replace(SENTENCEPIECE, subword=None)
CODES = msgspec.structs.replace(
    SENTENCEPIECE, subword=SubwordSpec(vocabulary_size=60, joint=True, method="subword_nmt")
)


def test_pieces_are_joined_as_sentencepiece_joins_them() -> None:
    """Any pieces, in any order: bytes that make no character, control symbols, unknowns."""
    lines = ["the dog sees the house", "der Hund sieht das Haus", "ein Hund schl\u00e4ft im Haus"]
    model = learn_pieces(lines * 5, SubwordSpec(vocabulary_size=50, joint=True), "these lines")
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    symbols = [processor.id_to_piece(index) for index in range(processor.get_piece_size())]
    symbols.remove("<0x0A>")  # see the next test
    rng = random.Random(1)
    for _ in range(2000):
        population = symbols if rng.random() < 0.5 else symbols[250:]  # the first are bytes, mostly
        pieces = rng.choices(population, k=rng.randrange(12))
        assert join_pieces(" ".join(pieces)) == processor.decode_pieces(pieces)


def test_a_spelt_line_feed_does_not_make_two_lines() -> None:
    assert join_pieces("\u2581a <0x0A> b") == "a b"


def test_bytes_are_joined_to_characters() -> None:
    assert join_pieces("\u2581caf <0xC3> <0xA9> \u2581x") == "caf\u00e9 x"
    assert join_pieces("<0xC3> \u2581x <0xE2> <0x80>") == "\ufffd x\ufffd\ufffd"


@pytest.mark.parametrize(
    ("pieces", "line"),
    [
        ("viel@@ er b\u00fc@@ sche .", "vieler b\u00fcsche ."),
        ("cut sh@@", "cut sh"),
        ("a @@ b", "a b"),
        ("", ""),
    ],
)
def test_marks_of_segmented_text_are_removed(pieces: str, line: str) -> None:
    assert detokenise(pieces, SEGMENTED) == line


def test_a_corpus_decides_how_its_pieces_are_joined() -> None:
    assert detokenise("\u2581a b", SENTENCEPIECE) == "ab"
    assert detokenise("a@@ b &quot;", CODES) == "ab &quot;"  # its words were not tokenised here
    assert detokenise("a@@ b &quot;", SEGMENTED) == "ab &quot;"


@pytest.mark.parametrize(
    ("tokenise", "pieces", "line"),
    [
        ("moses", "Er sag@@ te : &quot; N@@ ein ! &quot;", 'Er sagte: "Nein!"'),
        ("moses", "R &amp; D kost@@ en 3,@@ 5 % &#91; 1 &#93; .", "R & D kosten 3,5% [1]."),
        ("moses_aggressive", "E @-@ Mail , ein@@ mal", "E-Mail, einmal"),
        ("moses", "<unk> sag@@ t", "<unk> sagt"),
        ("moses", "", ""),
    ],
)
def test_tokens_of_ours_become_plain_text(tokenise: str, pieces: str, line: str) -> None:
    assert detokenise(pieces, msgspec.structs.replace(CODES, tokenise=tokenise)) == line


def test_tokens_in_sentencepieces_pieces_become_plain_text_too() -> None:
    corpus = msgspec.structs.replace(SENTENCEPIECE, tokenise="moses")
    assert detokenise("\u2581Hallo \u2581, \u2581We lt \u2581!", corpus) == "Hallo, Welt!"


@pytest.mark.parametrize("name", ["wmt16_en_de_google", "fairseq_scaling"])
def test_the_way_there_and_back_loses_little_of_real_german(name: str, newstest: Path) -> None:
    """Moses' detokenizer cannot know which blanks there were around quotes, dashes and signs."""
    corpus = read_corpus(name)
    prepare = preprocessor("none", corpus.tokenise, "de")
    lines = list(read_lines(newstest / "newstest2014.de"))
    same = sum(detokenise(prepare(line), corpus) == " ".join(line.split()) for line in lines)
    assert same / len(lines) > 0.8, same / len(lines)
