r"""Normalises punctuation as Moses' scripts did before November 2018.

The scripts are normalize-punctuation.perl and then remove-non-printing-char.perl, both of
mosesdecoder 8c5eaa1a, which NVIDIA pinned. sacremoses' MosesPunctNormalizer is not used because it
differs from them, even with `perl_parity`:

- it turns the single quotes U+2018, U+201A and U+2019 into apostrophes; before 2019 they became
  double quotes;
- it keeps `."` at the end of a line; the script changes it, because the script still sees the line
  feed, which counts as a character other than `<`;
- it strips blanks at the ends of a line;
- its digits are Unicode's digits, not only ASCII's;
- it deletes characters that do not print; the second script turns them into blanks.

The characters that do not print are \p{C}: controls, format characters (soft hyphen, zero width
space, byte order mark), private use, and characters that the Unicode version does not assign.
Python 3.11 and perl 5.36 have Unicode 14.0. The perls of 2017 had 6.2 to 9.0, and blanked later
characters, mostly emoji.
"""

import re
import unicodedata

_NBSP = "\u00a0"
_BLANKS = re.compile(" {2,}")
_ROUND_BEFORE_MARK = re.compile(r"\) ([.!:?;,])")
_DIGIT_BEFORE_PERCENT = re.compile("([0-9]) %")
_SINGLE_QUOTE_IN_WORD = {mark: re.compile(f"([a-zA-Z]){mark}([a-zA-Z])") for mark in "\u2018\u2019"}
_MARKS_AFTER_QUOTE = re.compile(r'"([,.]+)')
_DOTS_BEFORE_QUOTE = re.compile(r'(\.+)"([ \t\n\r\f\v]*[^<])')
_DIGITS_AROUND_NBSP = re.compile(f"([0-9]){_NBSP}([0-9])")
_LANGUAGES_WITH_DECIMAL_COMMA = ("de", "es", "fr")  # among the languages of corpora

# Replaced in this order, each pair everywhere in the line before the next pair.
_BRACKETS = (("\r", ""), ("(", " ("), (")", ") "))
_AFTER_BRACKETS = (("( ", "("), (" )", ")"))
_BEFORE_MARKS = ((" :", ":"), (" ;", ";"), ("`", "'"), ("''", ' " '))
_DASHES = (("\u201e", '"'), ("\u201c", '"'), ("\u201d", '"'), ("\u2013", "-"), ("\u2014", " - "))
_QUOTES = (
    ("\u2018", '"'),
    ("\u201a", '"'),
    ("\u2019", '"'),
    ("''", '"'),
    ("\u2026", "..."),
    (f"{_NBSP}\u00ab{_NBSP}", ' "'),
    (f"\u00ab{_NBSP}", '"'),
    ("\u00ab", '"'),
    (f"{_NBSP}\u00bb{_NBSP}", '" '),
    (f"{_NBSP}\u00bb", '"'),
    ("\u00bb", '"'),
)
_PSEUDO_SPACES = (
    (f"{_NBSP}%", "%"),
    (f"n\u00ba{_NBSP}", "n\u00ba "),
    (f"{_NBSP}:", ":"),
    (f"{_NBSP}\u00baC", " \u00baC"),
    (f"{_NBSP}cm", " cm"),
    (f"{_NBSP}?", "?"),
    (f"{_NBSP}!", "!"),
    (f"{_NBSP};", ";"),
    (f",{_NBSP}", ", "),
)


def normalise_line(line: str, language: str) -> str:
    """Return a line with plain punctuation, and a blank for each character that does not print.

    `language` decides whether a comma or dot goes before or after a closing quote, and which mark
    replaces a no-break space between digits.
    """
    return blank_non_printing(_normalise_punctuation(line, language))


def blank_non_printing(line: str) -> str:
    r"""Return a line with a blank for each character of \p{C}."""
    if line.isprintable():  # a shortcut; it is also false for no-break spaces, which stay
        return line
    return "".join(
        " " if unicodedata.category(character).startswith("C") else character for character in line
    )


def _normalise_punctuation(line: str, language: str) -> str:
    line = _single_blanks(_replaced(line, _BRACKETS))
    if ") " in line:
        line = _ROUND_BEFORE_MARK.sub(r")\1", line)
    line = _replaced(line, _AFTER_BRACKETS)
    if " %" in line:
        line = _DIGIT_BEFORE_PERCENT.sub(r"\1%", line)
    line = _single_blanks(_replaced(_replaced(line, _BEFORE_MARKS), _DASHES)).replace("\u00b4", "'")
    for mark, pattern in _SINGLE_QUOTE_IN_WORD.items():
        if mark in line:
            line = pattern.sub(r"\1'\2", line)
    line = _single_blanks(_replaced(_replaced(line, _QUOTES), _PSEUDO_SPACES))
    # In English a comma or dots go before a closing quote, in other languages after it.
    if '"' in line and language == "en":
        line = _MARKS_AFTER_QUOTE.sub(r'\1"', line)
    elif '"' in line:
        line = _DOTS_BEFORE_QUOTE.sub(r'"\1\2', line.replace(',"', '",') + "\n").removesuffix("\n")
    if _NBSP in line:
        mark = "," if language in _LANGUAGES_WITH_DECIMAL_COMMA else "."
        line = _DIGITS_AROUND_NBSP.sub(rf"\1{mark}\2", line)
    return line


def _replaced(line: str, pairs: tuple[tuple[str, str], ...]) -> str:
    for old, new in pairs:
        line = line.replace(old, new)
    return line


def _single_blanks(line: str) -> str:
    return _BLANKS.sub(" ", line) if "  " in line else line
