r"""Moses' scripts of 2018, character by character: what they printed is here as digests, and as
lines to read.

The digests are of what perl printed with mosesdecoder 8c5eaa1a (2018-06-25, before the final dots
changed): normalize- punctuation.perl, remove-non-printing-char.perl and tokenizer.perl -q; of
tokens, white space was made one blank.
"""

import hashlib
import random
from pathlib import Path

import pytest
from sacremoses import MosesTokenizer  # type: ignore[import-untyped, unused-ignore]

from aiayn.data.text.clean import preprocessor
from aiayn.data.text.lines import read_lines
from aiayn.data.text.normalise_moses import blank_non_printing, normalise_line
from aiayn.data.text.tokenize_moses import Tokenizer, detokenize_line

# Beginnings of SHA-256: tokens; normalised; normalised and tokens of -a, as fairseq's script does.
PRINTED_BY_PERL = [
    ("newstest2013.en", "0a8b170e1c275908", "2dc0713c30ac0924", "2c042c599a198a55"),
    ("newstest2013.de", "af868f09fd11f02d", "dea8402ed62c7d0e", "f3c4eb806b136bdb"),
    ("newstest2013.fr", "4fbad7ae6470c745", "b2b07c9bfa4191a3", "ecfbfd5361c5944c"),
    ("newstest2014.en", "0786912cb8591f3b", "21cf7f314f97138a", "3742866c04324f25"),
    ("newstest2014.de", "0dc3292e95d6747c", "7581236140cd8b91", "dc9b65968f1e31ae"),
    ("newstest2014-fren.en", "26826f86d1b97381", "8915b79dc558be83", "f8e6e3df81985b12"),
    ("newstest2014-fren.fr", "af7ea0c536458611", "b7ab8747b40f5f9a", "a60dad9510bfc111"),
]


def prepared_digest(path: Path, normalise: str, tokenise: str) -> str:
    """Return the beginning of the SHA-256 of a file as we prepare it."""
    prepare = preprocessor(normalise, tokenise, path.name[-2:])
    content = "".join(f"{prepare(line)}\n" for line in read_lines(path))
    return hashlib.sha256(content.encode()).hexdigest()[:16]


@pytest.mark.parametrize(("name", "tokens", "normalised", "both"), PRINTED_BY_PERL)
def test_every_line_of_newstest_is_what_perl_printed(
    name: str, tokens: str, normalised: str, both: str, newstest: Path
) -> None:
    assert prepared_digest(newstest / name, "none", "moses") == tokens
    assert prepared_digest(newstest / name, "moses", "none") == normalised
    assert prepared_digest(newstest / name, "moses", "moses_aggressive") == both


def test_another_languages_rules_give_another_digest(newstest: Path) -> None:
    prepare = preprocessor("none", "moses", "de")
    content = "".join(f"{prepare(line)}\n" for line in read_lines(newstest / "newstest2013.fr"))
    assert hashlib.sha256(content.encode()).hexdigest()[:16] != PRINTED_BY_PERL[2][1]


@pytest.mark.parametrize(
    ("language", "line", "printed"),
    [
        (
            "en",
            "He said \u201cyes\u201d, \u2018no\u2019 and it\u2019s",
            'He said "yes," "no" and it\'s',
        ),
        (
            "de",
            "Er sagt \u201eja\u201c, \u201ajein\u2018 \u2013 so\u2014so\u2026",
            'Er sagt "ja", "jein" - so - so...',
        ),
        (
            "fr",
            "\u00abOui\u00bb, dit\u00a0: \u00ab\u00a0non\u00a0\u00bb\u00a0!",
            '"Oui", dit: "non" !',
        ),
        ("fr", "a \u00a0\u00ab\u00a0b\u00a0\u00bb\u00a0c", 'a "b" c'),
        (
            "en",
            "10\u00a0000 in 5 % ( five ) of n\u00ba\u00a07, 3\u00a0cm",
            "10.000 in 5% (five) of n\u00ba 7, 3 cm",
        ),
        ("de", "10\u00a0000 (zehn\u00a0Tausend)", "10,000 (zehn\u00a0Tausend) "),
        ("de", 'Er sagt: "Ja." Sie: "Nein,"', 'Er sagt: "Ja". Sie: "Nein",'),
        (
            "de",
            'Er sagt: "Ja."',
            'Er sagt: "Ja".',
        ),  # at a line's end as well, against the script's own comment
        ("de", 'Er sagt: "Ja."<', 'Er sagt: "Ja."<'),
        ("en", "``so'' a`b \u00b4c\u00b4", " \" so \" a'b 'c'"),
        ("en", "a\rb (c)d :e ;f", "ab (c) d:e;f"),
        ("en", "\u0663 %", "\u0663 %"),  # its \d reads bytes
    ],
)
def test_punctuation_becomes_what_the_script_prints(language: str, line: str, printed: str) -> None:
    assert normalise_line(line, language) == printed


def test_what_does_not_print_becomes_a_blank_each() -> None:
    assert blank_non_printing("a\u00adb\u200b\ufeff\tc\u0085\ue000d\x7f") == "a b   c  d "
    assert (
        blank_non_printing("no-break\u00a0space \u2028 \u00e9")
        == "no-break\u00a0space \u2028 \u00e9"
    )


LIKELY_TROUBLE = (
    ".'", "...", "..", "Dr.", "No.", "z.B.", "U.S.", "Abs.", "art.", "5.", "5,000", "5,", "l'eau", "don't", "'s",
    "1990's", "a-b-c", "DOTMULTI", "&", "|", "<b>", "[x]", '"', "(", ")", "\u2019", "-", ".", "x", "Y", "\u00e9",
    "\u00df", "\u0301", "\u094d", "\u00a0", "\u2028", "\u00ad", "\x01", "\t", "\u4e2d", "\u0663",
)  # fmt: skip


@pytest.mark.parametrize("language", ["en", "de", "fr"])
@pytest.mark.parametrize("is_aggressive", [False, True])
def test_steps_that_are_passed_over_would_have_changed_nothing(
    language: str, is_aggressive: bool
) -> None:
    rng = random.Random(f"{language} {is_aggressive}")
    lines = [
        "".join(
            rng.choice(LIKELY_TROUBLE) + rng.choice(("", " ")) for _ in range(rng.randint(0, 9))
        )
        for _ in range(1500)
    ]
    ours, theirs = Tokenizer(language, is_aggressive=is_aggressive), MosesTokenizer(lang=language)
    for line in lines:
        expected = theirs.tokenize(
            line, return_str=True, escape=True, aggressive_dash_splits=is_aggressive
        )
        assert ours.tokenize(line) == expected, line


def test_a_recipe_of_nothing_leaves_lines_as_they_are() -> None:
    assert preprocessor("none", "none", "en")(" a\u00a0 b\r") == " a\u00a0 b\r"


@pytest.mark.parametrize(
    ("language", "tokens", "text"),
    [
        ("de", "Das ist &quot; so &quot; , sagt er &amp; sie .", 'Das ist "so", sagt er & sie.'),
        ("de", "E @-@ Mail ( neu ) 5 % \u20ac 3", "E-Mail (neu) 5% \u20ac3"),
        ("fr", "l&apos; eau n&apos; est pas", "l'eau n'est pas"),
        ("de", "", ""),
    ],
)
def test_tokens_become_text_again(language: str, tokens: str, text: str) -> None:
    assert detokenize_line(tokens, language) == text
