"""Subword pieces: learn them (byte-pair encoding, section 5.1, by sentencepiece), split lines into them, join them.

Text is taken as it is (normalization `identity`; `nmt_nfkc`, sentencepiece's own choice, would change it): only blanks
at the ends of a line and in a row are lost, and U+2581, sentencepiece's mark, comes back as a blank. What the model has
never seen is spelt in UTF-8 bytes, pieces `<0x00>` to `<0xFF>`. So are all white space characters but the blank
(NBSP, CR, U+2028, ...): they are kept out of the text that pieces are learnt from, for fairseq's dictionaries and
readers split at them, and a piece that holds one would fall apart there.
"""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import sentencepiece

from aiayn.errors import ConfigError, CorpusError
from aiayn.provenance import gather_provenance, replace_outputs_on_success
from aiayn.records import ParallelText, SegmentedText
from aiayn.spec import CorpusSpec, SubwordSpec
from aiayn.text import read_blocks, read_lines, unchanged_paths, write_lines

NUM_RESERVED_PIECES = 3 + 256  # <unk> <s> </s>, and one piece a byte
MAX_PIECE_CHARACTERS = 64  # sentencepiece's own 16 would cut frequent German compounds; section 5.1 has no limit
MAX_LINE_BYTES = 1 << 24  # sentencepiece learns from no longer line, by default 4192 bytes
LINES_PER_BLOCK = 8192
_WHITE_SPACE = re.compile(r"\s")
_CONTINUATION_MARK = "@@ "  # of subword-nmt: the word goes on
_WORD_BEGIN = "\u2581"
_UNKNOWN_SURFACE = " \u2047 "  # what sentencepiece prints for <unk>
_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")


class Encoder:
    """Splits lines into pieces by a learnt model."""

    def __init__(self, model_path: Path) -> None:
        """Load a model.

        Raises:
            CorpusError: if the file is absent or no sentencepiece model.
        """
        try:
            self._model = sentencepiece.SentencePieceProcessor(model_proto=model_path.read_bytes())
        except (FileNotFoundError, RuntimeError) as error:
            raise CorpusError(f"{model_path}: no sentencepiece model: {error}; rerun `aiayn segment`") from error
        self.symbols: list[str] = [self._model.id_to_piece(index) for index in range(self._model.get_piece_size())]

    def pieces(self, line: str) -> str:
        """Return a line's pieces, separated by blanks."""
        return " ".join(self._model.encode(line, out_type=str))

    def number(self, lines: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32]]:
        """Return the indices into `symbols` of all lines' pieces, each line ended by `</s>`, and each line's length.

        Shapes: (num_tokens,) and (num_lines,); a length counts its `</s>`.
        """
        indices_by_line: list[list[int]] = self._model.encode(list(lines), out_type=int, add_eos=True)
        lengths = np.fromiter(map(len, indices_by_line), np.int32, len(indices_by_line))
        indices = np.fromiter((index for line in indices_by_line for index in line), np.uint32, int(lengths.sum()))
        return indices, lengths


def load_encoders(segmented: SegmentedText) -> dict[str, Encoder]:
    """Return each language's encoder, the same object for a joint model.

    Raises:
        CorpusError: as `Encoder`.
    """
    encoder_by_path = {path: Encoder(Path(path)) for path in set(segmented.model_path_by_language.values())}
    return {language: encoder_by_path[path] for language, path in segmented.model_path_by_language.items()}


def detokenise(pieces: str, is_segmented: bool) -> str:
    """Return the line that pieces, separated by blanks, stand for; it never holds a line feed.

    With `is_segmented`, text that others segmented: `@@ ` goes, words stay as they were tokenised (fairseq's
    `--remove-bpe`). Else sentencepiece's own pieces, joined as its `decode_pieces` does.
    """
    if is_segmented:
        return f"{pieces} ".replace(_CONTINUATION_MARK, "").rstrip()
    text = ""
    spelt = bytearray()  # of the byte pieces in a row
    for piece in [*filter(None, pieces.split(" ")), ""]:
        byte = _BYTE_PIECE.fullmatch(piece)
        if byte:
            spelt.append(int(byte[1], 16))
            continue
        text += _decode_bytes(spelt)
        spelt.clear()
        if piece == "<unk>":
            text += _UNKNOWN_SURFACE
        elif piece not in ("<s>", "</s>"):
            text += (piece if text else piece.removeprefix(_WORD_BEGIN)).replace(_WORD_BEGIN, " ")
    return text.replace("\n", " ")  # a model may spell a line feed in bytes; one line in is one line out


def _decode_bytes(spelt: bytearray) -> str:
    """Decode UTF-8, each byte that belongs to no character as U+FFFD."""
    text = spelt.decode("utf-8", errors="surrogateescape")  # one surrogate a stray byte
    return re.sub("[\udc80-\udcff]", "\ufffd", text)


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


def segment_corpus(spec: CorpusSpec, text: ParallelText, *, record_path: Path) -> SegmentedText:
    """Learn pieces from the training text and write models and vocabularies beside the record; return the record.

    A joint model, `joint.model`, is learnt from both sides; else there is one a language, `en.model`, from its own. The
    `.vocab` beside it is for readers: a piece and its rank's score a line. `num_tokens_by_language` counts the
    training text's pieces, without end of sentence.

    Raises:
        ConfigError: if the corpus comes in pieces, or its text and the vocabulary's size do not go together.
        CorpusError: if the text is another corpus's, or has changed since it was cleaned.
    """
    if spec.subword is None:
        raise ConfigError(f"corpus {spec.name}: its text comes in pieces, segmented by others; run `aiayn binarize`")
    if text.corpus != spec.name:
        raise CorpusError(f"the text record is of corpus {text.corpus}, expected {spec.name}; name its own")
    path_by_language = unchanged_paths(text.pair_by_split["train"])
    names = ["joint"] if spec.subword.joint else list(path_by_language)
    with replace_outputs_on_success(record_path) as folder:
        for name in names:
            paths = list(path_by_language.values()) if name == "joint" else [path_by_language[name]]
            lines = (line for path in paths for line in read_lines(path))
            model = learn_pieces(lines, spec.subword, " and ".join(map(str, paths)))
            (folder / f"{name}.model").write_bytes(model)
            write_lines(_vocabulary_lines(model), folder / f"{name}.vocab")
        name_by_language = {language: "joint" if spec.subword.joint else language for language in path_by_language}
        num_tokens_by_language = _count_tokens(
            path_by_language, {language: folder / f"{name}.model" for language, name in name_by_language.items()}
        )
    final_folder = record_path.parent
    return SegmentedText(
        provenance=gather_provenance(path_by_language.values()),
        corpus=spec.name,
        model_path_by_language={k: str(final_folder / f"{name}.model") for k, name in name_by_language.items()},
        vocabulary_path_by_language={k: str(final_folder / f"{name}.vocab") for k, name in name_by_language.items()},
        num_tokens_by_language=num_tokens_by_language,
    )


def _vocabulary_lines(model: bytes) -> Iterator[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    for index in range(processor.get_piece_size()):
        yield f"{processor.id_to_piece(index)}\t{processor.get_score(index):g}"


def _count_tokens(path_by_language: Mapping[str, Path], model_path_by_language: Mapping[str, Path]) -> dict[str, int]:
    num_tokens_by_language = {}
    for language, path in path_by_language.items():
        encoder = Encoder(model_path_by_language[language])
        lengths = (encoder.number(block)[1] for block in read_blocks(path, LINES_PER_BLOCK))
        num_tokens_by_language[language] = int(sum(int(length.sum()) - length.size for length in lengths))
    return num_tokens_by_language
