"""Byte-pair encoding by sentencepiece: learns pieces from lines of plain text, splits and numbers lines by them.

Text is taken as it is (normalization `identity`; `nmt_nfkc`, sentencepiece's own choice, would change it): only blanks
at the ends of a line and in a row are lost, and U+2581, sentencepiece's mark, comes back as a blank. Unseen characters
are spelt in UTF-8 bytes, pieces `<0x00>` to `<0xFF>`. So are all white space characters but the blank
(NBSP, CR, U+2028, ...): they are kept out of the text that pieces are learnt from, for fairseq's dictionaries and
readers split at them, and a piece that holds one would fall apart there.

Learning holds all its lines, some 0.7 GB for a million of 24 words. It runs in one thread: the model's bytes hold that
number.
"""

import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import sentencepiece

from aiayn.data.text.encoder import Encoder
from aiayn.errors import ConfigError, CorpusError
from aiayn.spec.system import SubwordSpec

NUM_RESERVED_PIECES = 3 + 256  # <unk> <s> </s>, and one piece a byte
MAX_PIECE_CHARACTERS = 64  # sentencepiece's own 16 would cut frequent German compounds; section 5.1 has no limit
MAX_LINE_BYTES = 1 << 24  # sentencepiece learns from no longer line, by default 4192 bytes
WORD_BEGIN = "\u2581"
_WHITE_SPACE = re.compile(r"\s")


class PieceEncoder(Encoder):
    """Splits lines into pieces by a learnt model.

    A line may be split word by word, several times as fast as sentencepiece itself and with the same pieces: no piece
    holds U+2581 but at its beginning. Where one does, or the line holds that mark itself, the line counts as one word.
    """

    def __init__(self, model_path: Path) -> None:
        """Load a model.

        Raises:
            CorpusError: if the file is absent or no sentencepiece model.
        """
        try:
            self._model = sentencepiece.SentencePieceProcessor(model_proto=model_path.read_bytes())
        except (FileNotFoundError, RuntimeError) as error:
            raise CorpusError(f"{model_path}: no sentencepiece model: {error}; rerun `aiayn segment`") from error
        self.end = self._model.eos_id()
        self._symbols = [self._model.id_to_piece(index) for index in range(self._model.get_piece_size())]
        self._has_pieces_within_words = not any(WORD_BEGIN in symbol[1:] for symbol in self._symbols)

    def words(self, line: str) -> list[str]:
        """Return the words of a line, no piece of which spans two."""
        return [line] if WORD_BEGIN in line or not self._has_pieces_within_words else line.split(" ")

    def pieces(self, line: str) -> str:
        """Return a line's pieces, separated by blanks."""
        return " ".join(self._model.encode(line, out_type=str))

    def numbers(self, words: list[str]) -> list[list[int]]:
        """Return the numbers of each word's pieces, which are the model's."""
        numbers: list[list[int]] = self._model.encode(words, num_threads=1)
        return numbers

    def symbols(self) -> list[str]:
        """Return all pieces of the model, by their numbers."""
        return self._symbols


def learn_pieces(lines: Iterable[str], spec: SubwordSpec, origin: str) -> bytes:
    """Learn byte-pair pieces from lines and return the model, the same bytes for the same lines.

    Raises:
        ConfigError: if the lines of `origin` cannot fill so large a vocabulary, or have too many characters for it.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(_WHITE_SPACE.sub(" ", line) for line in lines),
            model_writer=model,
            model_type="bpe",
            vocab_size=spec.vocabulary_size + NUM_RESERVED_PIECES,
            character_coverage=1.0,  # every character seen is a piece
            byte_fallback=True,
            normalization_rule_name="identity",
            max_sentencepiece_length=MAX_PIECE_CHARACTERS,
            max_sentence_length=MAX_LINE_BYTES,
            num_threads=1,  # the model file holds this number; the pieces do not depend on it
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ConfigError(_explain_failure(str(error), spec, origin)) from error
    return model.getvalue()


def _explain_failure(message: str, spec: SubwordSpec, origin: str) -> str:
    """Turn sentencepiece's words on the vocabulary's size, which count the reserved pieces, into ours."""
    place = f"{origin}: subword.vocabulary_size is {spec.vocabulary_size}"
    if largest := re.search(r"too high .* value <= (\d+)", message):
        most = int(largest[1]) - NUM_RESERVED_PIECES
        return f"{place}; this text yields {most} pieces at most; lower it to that or less"
    if smallest := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        least = int(smallest[1]) - NUM_RESERVED_PIECES
        return f"{place}; this text has {least} different characters; raise it to that or more"
    return f"{place}; sentencepiece says: {message}; look at the text and the size"


def piece_vocabulary(model: bytes) -> Iterator[str]:
    """Yield a line a piece, in order of number: the piece, a tab, the score of its rank."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    for index in range(processor.get_piece_size()):
        yield f"{processor.id_to_piece(index)}\t{processor.get_score(index):g}"
