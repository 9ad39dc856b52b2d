r"""Makes punctuation plain: Moses' normalize-punctuation.perl, then its
remove-non-printing-char.perl, as of 2018.

Both as they stood before November 2018 (mosesdecoder 8c5eaa1a, which NVIDIA pinned). sacremoses'
MosesPunctNormalizer is not used, for it differs, even with `perl_parity`: it makes apostrophes of
the single quotes U+2018, U+201A and U+2019, which were double quotes before 2019; it leaves a `."`
at the end of a line, which the script turns too, as the line feed that it still holds is no `<`
either; it strips blanks at the ends; its digits are all of Unicode's, not ASCII's; and it deletes
what does not print, where the second script leaves a blank.

What does not print is \p{C}: controls, format characters (soft hyphen, zero width space, byte order
mark), private use, and what is not assigned in the Unicode version at hand: Python's here, that
perl's there (both 14.0 for Python 3.11 and perl 5.36; the perls of 2017 had 6.2 to 9.0, and blanked
younger characters, emoji above all).
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

# In order; a pair is replaced everywhere before the next one is looked for.
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

    `language` decides on which side of a closing quote a comma or dot is, and which mark replaces a
    no-break space between digits.
    """
    return blank_non_printing(_normalise_punctuation(line, language))


def blank_non_printing(line: str) -> str:
    r"""Return a line with a blank for each character of \p{C}."""
    if line.isprintable():  # false as well for blanks other than U+0020, which stay
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
    if (
        '"' in line and language == "en"
    ):  # a comma or dots go into a closing quote, in other languages out of it
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
