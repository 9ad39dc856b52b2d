"""Splits text into Moses tokens, the form in which the paper's BLEU was computed, and joins tokens
to text again.

The tokenizer behaves like tokenizer.perl before its treatment of dots at the end of a line changed
(mosesdecoder 9fc964da7, 2018-11-07). The library sacremoses keeps the behaviour before this change
on purpose. Tests in tests/oracle compare this tokenizer with the output of tokenizer.perl: German
and French token by token, English by a digest. Four kinds of characters may be split differently
than by tokenizer.perl: CJK, the virama U+094D, letters above U+FFFF, and letters of later Unicode
versions. The word DOTMULTI, which tokenizer.perl uses internally, is treated differently, too. The
corpora of this project contain neither characters of these four kinds nor the word DOTMULTI.

In the scoring script of tensor2tensor (T2T), utils/get_ende_bleu.sh, the tokenizer reads
characters, but the two later steps, `perl -ple` and multi-bleu.perl, read bytes. The code here that
follows the tokenizer therefore works on UTF-8 bytes. Bytes and characters give different results:
in "x-e-y" only the first hyphen is split, because its match consumes the "e". With an accent on the
"e", both hyphens are split, because a letter with an accent has two bytes, and the second byte is
still free for the second match.
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
    """Return a line's tokens joined by blanks, as Moses' tokenizer.perl -l language prints them.

    If `splits_hyphens` is true, the tokenizer splits hyphens, like Moses' tokenizer.perl -a: "x-y"
    becomes "x @-@ y".

    The characters & | < > [ ] and both ASCII quotes become entities such as `&quot;`. References
    must be escaped in the same way as translations, otherwise about a point of BLEU is lost. All
    Unicode white space, including no-break spaces, separates tokens. A soft hyphen is a separate
    token. After a full stop and an apostrophe at the end of a line there is a surplus blank, as in
    the output of tokenizer.perl.
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
    """Return each line's tokens joined by blanks, as `tokenize_line` does for a single line."""
    return [tokenize_line(line, language) for line in lines]


def detokenize_line(line: str, language: str) -> str:
    """Turn a line of tokens into plain text, as Moses' detokenizer.perl -l language does.

    Entities such as `&quot;` become characters again, and blanks around punctuation are removed.
    Detokenising is not the exact inverse of tokenising, because the tokenizer loses the original
    blanks. sacreBLEU's tokenizer 13a, which is applied to plain text, splits tokens again at most
    of the positions where the blanks are uncertain.
    """
    text: str = _detokenizer(language).detokenize(line.split(" "))
    return text


@functools.cache
def _detokenizer(language: str) -> "MosesDetokenizer":
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer(lang=language)


def replace_unicode_punctuation(line: str) -> str:
    """Turn typographic and full-width punctuation into ASCII, as Moses'
    replace-unicode-punctuation.perl does.

    Since 2018-04-05 (commit fc9335c0), the scoring script of tensor2tensor replaces Unicode
    punctuation in the hypotheses, not in the references, before tokenisation.
    """
    return _FULL_WIDTH_STOP_AND_BLANKS.sub(". ", line).translate(_ascii_by_punctuation())


def split_compounds(tokenized_line: bytes) -> bytes:
    r"""Split the hyphens within words of a tokenised line, on bytes, as perl does.

    The substitution is `s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g`. Matches do not overlap: in "a-b-c"
    only the first hyphen is split. Do not pass text whose hyphens tokenizer.perl -a has already
    split. Such a hyphen, ` @-@ `, would be split again, and each hyphen would add n-grams.
    """
    return _HYPHEN_BETWEEN_WORDS.sub(_SPLIT_HYPHEN, tokenized_line)
