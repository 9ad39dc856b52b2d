r"""Moses' scripts of 2018, character by character: what they printed is here as digests, and as
lines to read.

The digests (the beginnings of SHA-256, in cases/printed_by_perl.csv) are of what perl printed with mosesdecoder 8c5eaa1a (2018-06-25, before the final dots
changed): tokenizer.perl -q, with white space made one blank.
"""

import hashlib
from pathlib import Path

from aiayn.data.text.clean import preprocessor
from aiayn.data.text.lines import read_lines
from tests.case_tables import each_case


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


def test_a_recipe_of_nothing_leaves_lines_as_they_are() -> None:
    assert preprocessor("none", "en")(" a\u00a0 b\r") == " a\u00a0 b\r"
