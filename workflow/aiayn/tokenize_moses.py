"""Turns detokenised text into the tokens that the paper's BLEU was counted on (T2T's utils/get_ende_bleu.sh).

Moses' tokenizer.perl is used as it stood before its final dots changed (mosesdecoder 9fc964da7, 2018-11-07): sacremoses
keeps that behaviour on purpose. German and French are held against the original's output, token by token, in
tests/oracle; other languages are refused, for nobody has looked.

Text is tokenised as characters, but the two later scripts, `perl -ple` and multi-bleu.perl, read bytes, so what
follows the tokenizer works on UTF-8 bytes. It matters: of `x-e-y` only the first hyphen is split, for the `e` is used
up; put an accent on it and both are, for its second byte is still free to stand left of the second hyphen.
"""

import re
from collections.abc import Sequence

from sacremoses import MosesTokenizer  # type: ignore[import-untyped, unused-ignore]

MOSES_LANGUAGES = ("de", "fr")  # those whose tokens tests/oracle compares with tokenizer.perl's

# Python's \s holds these four control characters and perl's does not: tokenizer.perl deletes them, sacremoses would
# put a blank in their place.
_NOT_WHITE_SPACE_IN_PERL = dict.fromkeys(range(0x1C, 0x20))

_HYPHEN_BETWEEN_WORDS = re.compile(rb"(\S)-(\S)")  # T2T's get_ende_bleu.sh, fairseq's compound_split_bleu.sh
_SPLIT_HYPHEN = rb"\1 ##AT##-##AT## \2"

# mosesdecoder scripts/tokenizer/replace-unicode-punctuation.perl at 59119c004 (2016-12-23). The full-width digit one
# becomes a double quote: a slip of that script, repaired in 5d3331b92 (2019-10-14), kept here for the numbers' sake.
# The low German quote U+201E and the French ones are not in the script's list.
_FULL_WIDTH_STOP_AND_BLANKS = re.compile("[\u3002\uff0e] *")
_ASCII_BY_PUNCTUATION = str.maketrans(
    {
        "\uff0c": ",",
        "\u3001": ",",
        "\u201d": '"',
        "\u201c": '"',
        "\u2236": ":",
        "\uff1a": ":",
        "\uff1f": "?",
        "\u300a": '"',
        "\u300b": '"',
        "\uff09": ")",
        "\uff01": "!",
        "\uff08": "(",
        "\uff1b": ";",
        "\u300d": '"',
        "\u300c": '"',
        "\uff10": "0",
        "\uff11": '"',
        "\uff12": "2",
        "\uff13": "3",
        "\uff14": "4",
        "\uff15": "5",
        "\uff16": "6",
        "\uff17": "7",
        "\uff18": "8",
        "\uff19": "9",
        "\uff5e": "~",
        "\u2019": "'",
        "\u2026": "...",
        "\u2501": "-",
        "\u3008": "<",
        "\u3009": ">",
        "\u3010": "[",
        "\u3011": "]",
        "\uff05": "%",
    }
)


def tokenize_lines(lines: Sequence[str], language: str) -> list[str]:
    """Tokens joined by blanks, one line a line, as `tokenizer.perl -l language` prints them (not aggressive).

    The characters & | < > ' " [ ] come out as entities (`&quot;`), so such text compares only with text that was
    escaped too; against an unescaped reference about a point of BLEU is lost. All Unicode white space, no-break
    spaces included, separates tokens; a soft hyphen is a token of its own.
    """
    tokenizer = MosesTokenizer(lang=language)
    return [
        tokenizer.tokenize(line.translate(_NOT_WHITE_SPACE_IN_PERL), return_str=True, escape=True) for line in lines
    ]


def replace_unicode_punctuation(line: str) -> str:
    """Turn typographic and full-width marks into ASCII, as replace-unicode-punctuation.perl does.

    T2T's script does this to the hypotheses alone since 2018-04-05 (fc9335c0), before it tokenises.
    """
    return _FULL_WIDTH_STOP_AND_BLANKS.sub(". ", line).translate(_ASCII_BY_PUNCTUATION)


def split_compounds(tokenized_line: bytes) -> bytes:
    r"""Substitute `s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g`, in perl's reading of bytes.

    Matches do not overlap: of `a-b-c` only the first hyphen is split. Text from `tokenizer.perl -a` must not come here:
    its ` @-@ ` is split once more, and each hyphen earns extra n-grams.
    """
    return _HYPHEN_BETWEEN_WORDS.sub(_SPLIT_HYPHEN, tokenized_line)
