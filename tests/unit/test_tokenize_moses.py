"""The steps before multi-bleu.perl, on lines whose outcome the original scripts' regular
expressions decide.
"""

from aiayn.data.text.tokenize_moses import (
    detokenize_line,
    replace_unicode_punctuation,
    split_compounds,
    tokenize_lines,
)
from tests.case_tables import each_case


@each_case("moses.toml", "tokens")
def test_lines_become_the_tokens_of_the_script(line: str, printed: str, language: str) -> None:
    assert tokenize_lines([line, "ja"], language) == [printed, "ja"]


@each_case("moses.toml", "unicode_punctuation")
def test_typographic_marks_become_the_scripts_ascii(line: str, printed: str) -> None:
    assert replace_unicode_punctuation(line) == printed


@each_case("moses.toml", "compounds")
def test_a_hyphen_between_two_words_is_split(line: str, printed: str) -> None:
    assert split_compounds(line.encode()).decode() == printed


@each_case("moses.toml", "detokenised")
def test_tokens_become_text_again(line: str, printed: str, language: str) -> None:
    assert detokenize_line(line, language) == printed
