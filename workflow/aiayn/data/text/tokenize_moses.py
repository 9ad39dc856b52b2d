"""Splits text into Moses tokens, the form in which the paper's BLEU was computed, and joins tokens
to text again.

The tokenizer is tokenizer.perl before its treatment of final dots changed (mosesdecoder 9fc964da7,
2018-11-07). sacremoses keeps that behaviour on purpose. tests/oracle compares German and French
with the original's output token by token, English by a digest. Four kinds of characters may be
split differently: CJK, the virama U+094D, letters above U+FFFF, and letters of later Unicode
versions. The word DOTMULTI differs, too. The corpora of this project do not contain them.

For scoring (T2T's utils/get_ende_bleu.sh), the tokenizer reads characters, but the two later
scripts, `perl -ple` and multi-bleu.perl, read bytes, so the code after the tokenizer works on UTF-8
bytes. The difference matters: in `x-e-y` only the first hyphen is split, because its match consumes
the `e`. With an accent on the `e`, both hyphens are split, because the second byte of that letter
is still free for the second match.
"""

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # sacremoses takes 0.4 s of CPU to import, which a mistyped flag should not cost
    from sacremoses import MosesDetokenizer, MosesTokenizer  # type: ignore[import-untyped, unused-ignore]

MOSES_LANGUAGES = ("de", "fr")  # tests/oracle compares their tokens with tokenizer.perl's

# tokenizer.perl deletes control characters that perl does not count as white space. Python counts
# four of them (FS to US) as white space, so sacremoses would turn these into blanks.
_DELETED = dict.fromkeys([*range(9), *range(0x0E, 0x20)])

# From T2T's get_ende_bleu.sh and fairseq's compound_split_bleu.sh.
_HYPHEN_BETWEEN_WORDS = re.compile(rb"(\S)-(\S)")
_SPLIT_HYPHEN = rb"\1 ##AT##-##AT## \2"

# sacremoses' list of mosesdecoder scripts/tokenizer/replace-unicode-punctuation.perl at 59119c004
# (2016-12-23). That script turned the full-width digit 1 into a double quote, a mistake repaired in
# 5d3331b92 (2019-10-14) and in sacremoses, and kept here because it enters the scores. The list
# does not contain the low German quote U+201E and the French quotes.
# Two entries of the list are patterns: a full-width stop with all blanks after it becomes `. `.
_FULL_WIDTH_STOP_AND_BLANKS = re.compile("[\u3002\uff0e] *")


@functools.cache
def _ascii_by_punctuation() -> dict[int, str]:
    # The list's two patterns (longer than a character) are left out here. U+FF11 is the full-width
    # digit 1 with the old mistake.
    from sacremoses import MosesPunctNormalizer

    return {
        ord(mark): ascii_text
        for mark, ascii_text in MosesPunctNormalizer.REPLACE_UNICODE_PUNCTUATION
        if len(mark) == 1
    } | {0xFF11: '"'}


def tokenize_line(line: str, language: str, *, splits_hyphens: bool = False) -> str:
    """Return the tokens joined by blanks, as `tokenizer.perl -l language` prints them.

    With `splits_hyphens`, hyphens are split as by `tokenizer.perl -a`: `x-y` becomes `x @-@ y`.

    The characters & | < > ' " [ ] become entities such as `&quot;`. The references must be escaped
    in the same way, otherwise about a point of BLEU is lost. All Unicode white space, including
    no-break spaces, separates tokens. A soft hyphen is a separate token. After a final `.'` there
    is a surplus blank, as in the original.
    """
    text: str = _tokenizer(language).tokenize(
        line.translate(_DELETED), return_str=True, aggressive_dash_splits=splits_hyphens
    )
    return text


# sacremoses reads its lists of abbreviations when a tokenizer is made, so each language's tokenizer
# is made once.
@functools.cache
def _tokenizer(language: str) -> "MosesTokenizer":
    from sacremoses import MosesTokenizer

    return MosesTokenizer(lang=language)


def tokenize_lines(lines: Sequence[str], language: str) -> list[str]:
    """Return each line's tokens, as `tokenize_line`."""
    return [tokenize_line(line, language) for line in lines]


def detokenize_line(line: str, language: str) -> str:
    """Turn a line of tokens into plain text, as `detokenizer.perl -l language` does.

    Entities become characters again, and blanks around punctuation are removed. This is not the
    exact inverse of the tokenizer, which loses the original blanks. sacreBLEU's 13a, which scores
    plain text, splits most of the ambiguous positions again.
    """
    text: str = _detokenizer(language).detokenize(line.split(" "))
    return text


@functools.cache
def _detokenizer(language: str) -> "MosesDetokenizer":
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer(lang=language)


def replace_unicode_punctuation(line: str) -> str:
    """Turn typographic and full-width marks into ASCII, as replace-unicode-punctuation.perl does.

    Since 2018-04-05 (fc9335c0), T2T's script does this to the hypotheses, not to the references,
    before tokenisation.
    """
    return _FULL_WIDTH_STOP_AND_BLANKS.sub(". ", line).translate(_ascii_by_punctuation())


def split_compounds(tokenized_line: bytes) -> bytes:
    r"""Substitute `s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g` on bytes, as perl does.

    Matches do not overlap: in `a-b-c` only the first hyphen is split. Do not pass text of
    `tokenizer.perl -a`: its ` @-@ ` would be split again, and each hyphen would add n-grams.
    """
    return _HYPHEN_BETWEEN_WORDS.sub(_SPLIT_HYPHEN, tokenized_line)
