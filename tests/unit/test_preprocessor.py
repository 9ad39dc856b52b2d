r"""Moses' scripts of 2018, character by character: what they printed is here as digests, and as
lines to read.

The digests (the beginnings of SHA-256, in cases/printed_by_perl.csv) are of what perl printed with mosesdecoder 8c5eaa1a (2018-06-25, before the final dots
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
from aiayn.data.text.tokenize_moses import Tokenizer
from tests.case_tables import each_case, read_cases


def prepared_digest(path: Path, normalise: str, tokenise: str) -> str:
    """Return the beginning of the SHA-256 of a file as we prepare it."""
    prepare = preprocessor(normalise, tokenise, path.name[-2:])
    content = "".join(f"{prepare(line)}\n" for line in read_lines(path))
    return hashlib.sha256(content.encode()).hexdigest()[:16]


@each_case("printed_by_perl.csv")
def test_every_line_of_newstest_is_what_perl_printed(
    name: str, tokens: str, normalised: str, normalised_and_aggressive_tokens: str, newstest: Path
) -> None:
    path = newstest / name
    assert prepared_digest(path, "none", "moses") == tokens
    assert prepared_digest(path, "moses", "none") == normalised
    assert prepared_digest(path, "moses", "moses_aggressive") == normalised_and_aggressive_tokens


@each_case("moses.toml", "normalised")
def test_punctuation_becomes_what_the_script_prints(line: str, printed: str, language: str) -> None:
    assert normalise_line(line, language) == printed


@each_case("moses.toml", "non_printing")
def test_what_does_not_print_becomes_a_blank_each(line: str, printed: str) -> None:
    assert blank_non_printing(line) == printed


LIKELY_TROUBLE = read_cases("moses.toml", "likely_trouble")


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
