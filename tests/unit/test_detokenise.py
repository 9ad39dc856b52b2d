"""Pieces come back as plain text: sentencepiece's, and subword-nmt's with Moses' tokens put together."""

import random
from pathlib import Path

import msgspec
import sentencepiece

from aiayn.data.text.clean import preprocessor
from aiayn.data.text.detokenise import detokenise, join_pieces
from aiayn.data.text.lines import read_lines
from aiayn.data.text.subword import learn_pieces
from aiayn.spec.system import SubwordSpec, read_corpus
from tests.case_tables import each_case
from tests.small_corpus import SMALL

SENTENCEPIECE = msgspec.structs.replace(SMALL, subword=SubwordSpec(vocabulary_size=60, joint=True))
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
    symbols.remove("<0x0A>")  # becomes a blank, see cases/pieces.toml
    rng = random.Random(1)
    for _ in range(2000):
        population = symbols if rng.random() < 0.5 else symbols[250:]  # the first are bytes, mostly
        pieces = rng.choices(population, k=rng.randrange(12))
        assert join_pieces(" ".join(pieces)) == processor.decode_pieces(pieces)


@each_case("pieces.toml", "joined")
def test_bytes_are_joined_to_characters(pieces: str, line: str) -> None:
    assert join_pieces(pieces) == line


CORPORA = {"sentencepiece": SENTENCEPIECE, "segmented": SEGMENTED, "codes": CODES}


@each_case("pieces.toml", "detokenised")
def test_pieces_of_a_corpus_become_plain_text(
    pieces: str, line: str, corpus: str, tokenise: str
) -> None:
    assert detokenise(pieces, msgspec.structs.replace(CORPORA[corpus], tokenise=tokenise)) == line


def test_the_way_there_and_back_loses_little_of_real_german(newstest: Path) -> None:
    """Moses' detokenizer cannot know which blanks there were around quotes, dashes and signs."""
    corpus = read_corpus("wmt16_en_de_google")
    prepare = preprocessor(corpus.tokenise, "de")
    lines = list(read_lines(newstest / "newstest2014.de"))
    same = sum(detokenise(prepare(line), corpus) == " ".join(line.split()) for line in lines)
    assert same / len(lines) > 0.8, same / len(lines)
