"""Splits plain text into the subwords of a translation model that other people have trained, with
the BPE codes that they published.

The tokenisation of the translation model's training text is inferred from the model's dictionary
and its codes file.
"""

from collections.abc import Callable, Collection
from pathlib import Path

from aiayn.data.text.subword import CodesEncoder, PieceEncoder
from aiayn.data.text.tokenize_moses import tokenize_line
from aiayn.errors import CorpusError

_SPLIT_HYPHEN = "@-@"  # of `tokenizer.perl -a`


def foreign_splitter(
    codes_path: Path, symbols: Collection[str], language: str, *, is_tokenised: bool = False
) -> tuple[Callable[[str], str], str]:
    """Return a function that splits a line into the subwords of a translation model made by other
    people, and a description of the function.

    BPE codes of subword-nmt and fastBPE are applied to tokens of Moses' tokenizer. A sentencepiece
    model is applied to text that is not tokenised. The argument `symbols` is the dictionary of the
    translation model. If the dictionary contains the token for a split hyphen (`@-@`), Moses'
    tokenizer splits hyphens (option -a). If the dictionary does not contain the apostrophe U+2019,
    this apostrophe is first replaced by the ASCII apostrophe. If the text is already tokenised
    (`is_tokenised`), it is not tokenised again.

    Raises:
        CorpusError: if the file at `codes_path` is absent, or if it contains neither BPE codes nor
            a sentencepiece model.
    """
    if not codes_path.exists():
        raise CorpusError(f"{codes_path}: no such file; give the codes that came with the model")
    if b"\0" in codes_path.read_bytes():  # a codes file is text, which does not contain zero bytes
        return PieceEncoder(codes_path).pieces, "sentencepiece"
    encoder = CodesEncoder(codes_path)
    if is_tokenised:
        return encoder.pieces, "byte-pair codes, tokens as given"
    # The dictionary shows which tokens the preprocessing of the training text produced.
    splits_hyphens = _SPLIT_HYPHEN in symbols
    has_apostrophe = any("\u2019" in symbol for symbol in symbols)

    def split(line: str) -> str:
        plain = line if has_apostrophe else line.replace("\u2019", "'")
        return encoder.pieces(tokenize_line(plain, language, splits_hyphens=splits_hyphens))

    hyphens = "Moses -a, because @-@ is in the dictionary"
    if not splits_hyphens:
        hyphens = "Moses without -a, because @-@ is not in the dictionary"
    apostrophes = "" if has_apostrophe else ", U+2019 made ' because the dictionary lacks it"
    return split, f"{hyphens}{apostrophes}; then byte-pair codes"
