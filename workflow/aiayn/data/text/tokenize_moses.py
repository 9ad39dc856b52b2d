"""Turns text into Moses' tokens, those that the paper's BLEU was counted on (T2T's
utils/get_ende_bleu.sh), and back.

Moses' tokenizer.perl is used as it stood before its final dots changed (mosesdecoder 9fc964da7,
2018-11-07): sacremoses keeps that behaviour on purpose, and `Tokenizer` is sacremoses without the
steps that cannot change a line. German and French are held against the original's output, token by
token, in tests/oracle, English by its digest; lines with CJK characters differ (they have no place
in these corpora, and tokenizer.perl splits them by a later Unicode's properties).

For scoring, text is tokenised as characters, but the two later scripts, `perl -ple` and
multi-bleu.perl, read bytes, so what follows the tokenizer works on UTF-8 bytes. It matters: of
`x-e-y` only the first hyphen is split, for the `e` is used up; put an accent on it and both are,
for its second byte is still free on the left of the second hyphen.
"""

import functools
import re
from collections.abc import Sequence

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer  # type: ignore[import-untyped, unused-ignore]

MOSES_LANGUAGES = ("de", "fr")  # those whose tokens tests/oracle compares with tokenizer.perl's

# Control characters that are no white space to perl: tokenizer.perl deletes them. Four of them (FS
# to US) are white space to Python, and sacremoses would put a blank in their place.
_DELETED = dict.fromkeys([*range(9), *range(0x0E, 0x20)])
_ASCII_DIGITS = frozenset("0123456789")
_ENTITY_BY_CHARACTER = {
    "&": "&amp;",
    "|": "&#124;",
    "<": "&lt;",
    ">": "&gt;",
    "'": "&apos;",
    '"': "&quot;",
    "[": "&#91;",
    "]": "&#93;",
}
_ESCAPED_CHARACTER = re.compile(r"""[&|<>'"\[\]]""")

_HYPHEN_BETWEEN_WORDS = re.compile(
    rb"(\S)-(\S)"
)  # T2T's get_ende_bleu.sh, fairseq's compound_split_bleu.sh
_SPLIT_HYPHEN = rb"\1 ##AT##-##AT## \2"

# Of mosesdecoder scripts/tokenizer/replace-unicode-punctuation.perl at 59119c004 (2016-12-23), as
# sacremoses lists it. The full-width digit one becomes a double quote: a slip of that script,
# repaired in 5d3331b92 (2019-10-14) and in sacremoses, kept here for the numbers' sake. The low
# German quote U+201E and the French ones are not in the list.
_FULL_WIDTH_STOP_AND_BLANKS = re.compile("[\u3002\uff0e] *")
_ASCII_BY_PUNCTUATION = {
    ord(mark): ascii_text
    for mark, ascii_text in MosesPunctNormalizer.REPLACE_UNICODE_PUNCTUATION
    if len(mark) == 1
} | {0xFF11: '"'}


class Tokenizer:
    """`tokenizer.perl -l language`, escaped; `is_aggressive`: with `-a`, a hyphen inside a word
    becomes ` @-@ `.

    It does what sacremoses' MosesTokenizer does, with its character classes and abbreviations, and
    passes over each step that needs a character which the line does not have: a comma, an
    apostrophe, two dots, a dot at a word's end.
    """

    def __init__(self, language: str, *, is_aggressive: bool = False) -> None:
        """Prepare the rules of a language; nothing grows with the lines."""
        moses = MosesTokenizer(lang=language)
        self._moses = moses
        self._is_aggressive = is_aggressive
        self._other_character: re.Pattern[str] = moses.PAD_NOT_ISALNUM[0]
        self._commas = (moses.COMMA_SEPARATE_1, moses.COMMA_SEPARATE_2, moses.COMMA_SEPARATE_3)
        self._apostrophes = {
            "en": moses.ENGLISH_SPECIFIC_APOSTROPHE,
            "fr": moses.FR_IT_SPECIFIC_APOSTROPHE,
            "it": moses.FR_IT_SPECIFIC_APOSTROPHE,
        }.get(language, [moses.NON_SPECIFIC_APOSTROPHE])
        self._alphabetic, self._lower = frozenset(moses.IsAlpha), frozenset(moses.IsLower)
        self._before_digit = frozenset(moses.NUMERIC_ONLY_PREFIXES)
        self._abbreviations = frozenset(moses.NONBREAKING_PREFIXES) - self._before_digit

    def tokenize(self, line: str) -> str:
        """Return the tokens joined by blanks; after a last `.'` there is one blank too many, as in
        the original.
        """
        text = " ".join((line if line.isprintable() else line.translate(_DELETED)).split())
        text = self._other_character.sub(lambda match: f" {match[0]} ", text)
        if self._is_aggressive and "-" in text:
            text = _substituted(text, self._moses.AGGRESSIVE_HYPHEN_SPLIT)
        if ".." in text:
            text = self._moses.replace_multidots(text)
        if "," in text:
            text = _substituted(text, *self._commas)
        if "'" in text:
            text = _substituted(text, *self._apostrophes)
        words = text.split()
        if "." in text:
            self._split_dots(words)
        text = " ".join(words)
        if text.endswith(".'"):
            text = _substituted(text, self._moses.TRAILING_DOT_APOSTROPHE)
        if "MULTI" in text:
            text = self._moses.restore_multidots(text)
        return _ESCAPED_CHARACTER.sub(lambda match: _ENTITY_BY_CHARACTER[match[0]], text)

    def _split_dots(self, words: list[str]) -> None:
        """Put a blank before a word's last dot, unless it is an abbreviation's or the next word is
        in lower case.
        """
        for index, word in enumerate(words):
            if not word.endswith(".") or word == ".":
                continue
            before, following = word[:-1], words[index + 1] if index + 1 < len(words) else ""
            if (
                ("." in before and not self._alphabetic.isdisjoint(before))
                or before in self._abbreviations
                or following[:1] in self._lower
                or (before in self._before_digit and following[:1] in _ASCII_DIGITS)
            ):
                continue
            words[index] = f"{before} ."


def _substituted(text: str, *rules: tuple[re.Pattern[str], str]) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


def tokenize_lines(lines: Sequence[str], language: str) -> list[str]:
    """Tokens joined by blanks, one line a line, as `tokenizer.perl -l language` prints them (not
    aggressive).

    The characters & | < > ' " [ ] come out as entities (`&quot;`), so such text compares only with
    text that was escaped too; against an unescaped reference about a point of BLEU is lost. All
    Unicode white space, no-break spaces included, separates tokens; a soft hyphen is a token of its
    own.
    """
    tokenizer = Tokenizer(language)
    return [tokenizer.tokenize(line) for line in lines]


def detokenize_line(line: str, language: str) -> str:
    """Return the plain text of a line of tokens, as `detokenizer.perl -l language`: entities read
    back, blanks closed.

    It is not the inverse of the tokenizer, which forgets which blanks there were; sacreBLEU's 13a
    tokens, which plain text is scored on, split again at most of the places in question.
    """
    text: str = _detokenizer(language).detokenize(line.split(" "))
    return text


@functools.cache
def _detokenizer(language: str) -> MosesDetokenizer:
    return MosesDetokenizer(lang=language)


def replace_unicode_punctuation(line: str) -> str:
    """Turn typographic and full-width marks into ASCII, as replace-unicode-punctuation.perl does.

    T2T's script does this to the hypotheses alone since 2018-04-05 (fc9335c0), before it tokenises.
    """
    return _FULL_WIDTH_STOP_AND_BLANKS.sub(". ", line).translate(_ASCII_BY_PUNCTUATION)


def split_compounds(tokenized_line: bytes) -> bytes:
    r"""Substitute `s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g`, in perl's reading of bytes.

    Matches do not overlap: of `a-b-c` only the first hyphen is split. Text from `tokenizer.perl -a`
    must not come here: its ` @-@ ` is split once more, and each hyphen earns extra n-grams.
    """
    return _HYPHEN_BETWEEN_WORDS.sub(_SPLIT_HYPHEN, tokenized_line)
