r"""Moses' scripts of 2018, character by character: what they printed is here as digests, and as
lines to read.

The digests (the beginnings of SHA-256, in cases/printed_by_perl.csv) are of what perl printed with mosesdecoder 8c5eaa1a (2018-06-25, before the final dots
changed): tokenizer.perl -q, with white space made one blank.
"""

import hashlib
import random
from pathlib import Path

import pytest
from sacremoses import MosesTokenizer  # type: ignore[import-untyped, unused-ignore]

from aiayn.data.text.clean import preprocessor
from aiayn.data.text.lines import read_lines
from aiayn.data.text.tokenize_moses import Tokenizer
from tests.case_tables import each_case, read_cases


def prepared_digest(path: Path) -> str:
    """Return the beginning of the SHA-256 of a file as we prepare it."""
    prepare = preprocessor("moses", path.name[-2:])
    content = "".join(f"{prepare(line)}\n" for line in read_lines(path))
    return hashlib.sha256(content.encode()).hexdigest()[:16]


@each_case("printed_by_perl.csv")
def test_every_line_of_newstest_is_what_perl_printed(
    name: str, tokens: str, newstest: Path
) -> None:
    assert prepared_digest(newstest / name) == tokens


LIKELY_TROUBLE = read_cases("moses.toml", "likely_trouble")


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_steps_that_are_passed_over_would_have_changed_nothing(language: str) -> None:
    rng = random.Random(f"{language} False")
    lines = [
        "".join(
            rng.choice(LIKELY_TROUBLE) + rng.choice(("", " ")) for _ in range(rng.randint(0, 9))
        )
        for _ in range(1500)
    ]
    ours, theirs = Tokenizer(language), MosesTokenizer(lang=language)
    for line in lines:
        expected = theirs.tokenize(line, return_str=True, escape=True)
        assert ours.tokenize(line) == expected, line


def test_a_recipe_of_nothing_leaves_lines_as_they_are() -> None:
    assert preprocessor("none", "en")(" a\u00a0 b\r") == " a\u00a0 b\r"
