"""Joins the pieces of a translation to a line of text, by the corpus's segmentation."""

import re

from aiayn.data.text.tokenize_moses import detokenize_line
from aiayn.spec.system import CorpusSpec

CONTINUATION_MARK = "@@ "  # of subword-nmt: the word goes on
_WORD_BEGIN = "\u2581"
_UNKNOWN_SURFACE = " \u2047 "  # what sentencepiece prints for <unk>
_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")


def detokenise(pieces: str, corpus: CorpusSpec) -> str:
    """Return the line of the target language for pieces, separated by blanks; it never holds a line
    feed.

    Of text that others segmented, words stay as they were tokenised (fairseq's `--remove-bpe`).
    Where this project tokenised, tokens are put together as Moses' detokenizer does: the line is
    plain text, as the references are.
    """
    if corpus.subword is None:  # it came in pieces
        return remove_marks(pieces)
    return join_line(pieces, corpus.subword.method, corpus.tokenise, corpus.target_language)


def join_line(pieces: str, method: str, tokenise: str, language: str) -> str:
    """Return the line of text in a language that was tokenised, and then split by a method, into
    these pieces.

    `method` is sentencepiece or subword_nmt; `tokenise` is none, or one of Moses' ways.
    """
    line = join_pieces(pieces) if method == "sentencepiece" else remove_marks(pieces)
    return line if tokenise == "none" else detokenize_line(line, language)


# The marks of pieces, and how a message names them: subword-nmt, sentencepiece, OpenNMT, word
# pieces, byte-level BPE.
PIECE_MARKS = {
    "@@": "`@@ `",
    "\u2581": "\\u2581",
    "\uffed": "\\uffed",
    "##": "`##`",
    "\u0120": "\\u0120",
}
PIECE_PATTERN = "@@(?= |$)|\u2581|\uffed|(?<= )##(?=[^\\s#])|(?:(?<=[ \\t])|^)\u0120"


def join_any_pieces(pieces: str) -> str:
    """Return the words of pieces, whichever of `PIECE_MARKS` they have; a line without marks
    stays.
    """
    if "\u2581" in pieces:
        return join_pieces(pieces).strip()
    if "\uffed" in pieces:
        return pieces.replace(" \uffed", "").replace("\uffed ", "").replace("\uffed", "")
    if "\u0120" in pieces:
        return _join_byte_level(pieces)
    if " ##" in pieces:
        return re.sub(r" ##(?=[^\s#])", "", pieces)
    return remove_marks(pieces) if "@@" in pieces else pieces


def _join_byte_level(pieces: str) -> str:
    """Return the line of byte-level BPE's pieces: GPT-2 shows each byte as a character, a blank as
    U+0120.
    """
    shown = [
        byte for byte in range(256) if chr(byte).isprintable() and byte not in (0x20, 0xA0, 0xAD)
    ]
    hidden = [byte for byte in range(256) if byte not in shown]
    byte_by_character = {chr(byte): byte for byte in shown}
    byte_by_character |= {chr(256 + place): byte for place, byte in enumerate(hidden)}
    known = [byte_by_character.get(character) for character in pieces.replace(" ", "")]
    return (
        bytes(byte for byte in known if byte is not None).decode("utf-8", errors="replace").strip()
    )


def remove_marks(pieces: str) -> str:
    """Return the words of pieces by subword-nmt: `@@ ` goes, as by fairseq's `--remove-bpe`."""
    return f"{pieces} ".replace(CONTINUATION_MARK, "").rstrip()


def join_pieces(pieces: str) -> str:
    """Return the line of sentencepiece's pieces, joined as its `decode_pieces` does."""
    text = ""
    spelt = bytearray()  # of the byte pieces in a row
    for piece in [*filter(None, pieces.split(" ")), ""]:
        byte = _BYTE_PIECE.fullmatch(piece)
        if byte:
            spelt.append(int(byte[1], 16))
            continue
        spelling = spelt.decode(
            "utf-8", errors="surrogateescape"
        )  # one surrogate a byte that belongs to no character
        text += re.sub("[\udc80-\udcff]", "\ufffd", spelling)
        spelt.clear()
        if piece == "<unk>":
            text += _UNKNOWN_SURFACE
        elif piece not in ("<s>", "</s>"):
            text += (piece if text else piece.removeprefix(_WORD_BEGIN)).replace(_WORD_BEGIN, " ")
    return text.replace(
        "\n", " "
    )  # a model may spell a line feed in bytes; one line in is one line out
