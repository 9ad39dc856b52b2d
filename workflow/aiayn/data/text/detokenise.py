"""Joins the subwords of a translation to text, by undoing the segmentation of the corpus."""

import re

from aiayn.data.text.tokenize_moses import detokenize_line
from aiayn.spec.system import CorpusSpec

CONTINUATION_MARK = "@@ "  # of subword-nmt: the word goes on
_WORD_BEGIN = "\u2581"
_UNKNOWN_SURFACE = " \u2047 "  # what sentencepiece prints for <unk>
_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")


def detokenise(pieces: str, corpus: CorpusSpec) -> str:
    """Join the subwords of a translation, separated by blanks, to a line of text in the target
    language.

    If this project tokenised the corpus, Moses' detokenizer turns tokens into plain text, which the
    references are, too. If the corpus was published as subwords, the result is a line of tokens (as
    with fairseq's option --remove-bpe). The result never contains a line feed.
    """
    if corpus.subword is None:  # published in pieces
        return remove_marks(pieces)
    return join_line(pieces, corpus.subword.method, corpus.tokenise, corpus.target_language)


def join_line(pieces: str, method: str, tokenise: str, language: str) -> str:
    """Join the subwords of a translation to a line of text: undo first the subword method, then the
    tokenisation.

    The argument `method` is sentencepiece or subword_nmt. The argument `tokenise` is the setting
    for tokenisation in the corpus file (none or moses).
    """
    # The order is the reverse of preprocessing: first tokens from pieces, then plain text from
    # tokens.
    line = join_pieces(pieces) if method == "sentencepiece" else remove_marks(pieces)
    return line if tokenise == "none" else detokenize_line(line, language)


# The marks of pieces: subword-nmt, sentencepiece, OpenNMT, word pieces, byte-level BPE.
PIECE_PATTERN = "@@(?= |$)|\u2581|\uffed|(?<= )##(?=[^\\s#])|(?:(?<=[ \\t])|^)\u0120"


def remove_marks(pieces: str) -> str:
    """Join the subwords of subword-nmt: remove the marks within words (`@@ `), as fairseq's option
    --remove-bpe does.
    """
    # A blank is added so that a mark at the end of the line is also followed by a blank. fairseq
    # does the same.
    return f"{pieces} ".replace(CONTINUATION_MARK, "").rstrip()


def join_pieces(pieces: str) -> str:
    """Join the subwords of sentencepiece as its function `decode_pieces` does."""
    text = ""
    spelt = bytearray()  # the bytes of consecutive byte pieces
    # The empty piece at the end flushes the bytes that are still collected.
    for piece in [*filter(None, pieces.split(" ")), ""]:
        # A character outside the vocabulary is spelt in byte pieces, such as `<0xC3> <0xA9>` for
        # U+00E9. They are decoded together when the next ordinary piece comes.
        byte = _BYTE_PIECE.fullmatch(piece)
        if byte:
            spelt.append(int(byte[1], 16))
            continue
        # Each byte that is not part of a character becomes a surrogate, then U+FFFD.
        spelling = spelt.decode("utf-8", errors="surrogateescape")
        text += re.sub("[\udc80-\udcff]", "\ufffd", spelling)
        spelt.clear()
        if piece == "<unk>":
            text += _UNKNOWN_SURFACE
        elif piece not in ("<s>", "</s>"):
            # The mark of the first word is not a blank, because a line does not begin with one.
            text += (piece if text else piece.removeprefix(_WORD_BEGIN)).replace(_WORD_BEGIN, " ")
    return text.replace("\n", " ")  # a model may spell a line feed in bytes
