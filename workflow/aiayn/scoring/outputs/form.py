"""Rejects a file of translations if its form, such as subwords, escapes, lists or tags, would lower
the BLEU.

A rule distinguishes a wrong form of the lines from bad translations. The *match* is the share of
n-grams that translations and references have in common. A form is a fault if the match rises when
the form is undone (such as when subwords are joined). Undoing a form does not improve a bad
translation, so translations that are cut, telegraphic, repeated or wrong are scored.

The match is computed again without three kinds of form. For the first kind, the forms listed in
forms.csv are undone. For the second kind, if the translations have no umlauts or no punctuation,
the marks are removed from the references, too. For the third kind, blanks in the translations are
moved to where words of the references begin and end.
"""

import functools
import importlib
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from aiayn.errors import ScoreError
from aiayn.printed import read_rows

# The lengths of n-grams. Single words are left out, because moved blanks would find words inside of
# wrongly inflected words.
ORDERS = (2, 3, 4)
# The factor by which the match must rise if a form is undone. It is small for a known form, which
# is also seen in the lines themselves. For moved blanks, the factor was at most 1.11 over 23 kinds
# of bad translations of nine systems, and 1.5 for a fault.
MIN_GAIN_KNOWN, MIN_GAIN_MARKS, MIN_GAIN_BLANKS = 1.01, 1.1, 1.3
MIN_MATCH = 3.0  # percent without the form. The source or a repeated sentence has less
MIN_SHARE = 0.05  # of the lines that contain a known form
MIN_MARKS = 20  # accents or punctuation marks of the references
MAX_MISSING = 0.05  # share of the references' marks. An output with fewer counts as without marks
MARKS = {"accents or umlauts": r"[^\W\d_a-zA-Z]", "punctuation": r"[^\w\s]"}
PLAIN_SHARE = 0.1  # of lines with a full stop or comma after a word


class Form(msgspec.Struct, frozen=True):
    """A known form of wrong lines, such as subwords: its name in messages, a regular expression
    that its lines match, and a command that undoes the form.

    The command that undoes a form is either a list of steps of sed -E, which Python's re.sub
    understands, too, or a Python expression in the variable `line` with its imports. A form of
    tokens (`is_tokens` is not '') is allowed with the flag --as-given if hypotheses and references
    both have the form.
    """

    form: str
    pattern: str
    sed: str
    imports: str
    python: str
    is_tokens: str

    @property
    def command(self) -> str:
        """A shell command that reads text from stdin and prints the text without the form."""
        if self.sed:
            return f"sed -E {shlex.quote(self.sed)}"
        lines = f"{self.python} + chr(10) for line in map(str.strip, sys.stdin)"
        program = f"import sys, {self.imports}; sys.stdout.writelines({lines})"
        return f"python3 -c {shlex.quote(program)}"

    def plain(self, line: str) -> str:
        """Undo the form (such as subwords) in a line. A line without the form is not changed."""
        if re.search(self.pattern, line) is None:
            return line
        for step in filter(None, self.sed.split("; ")):
            # A step has the form `s/OLD/NEW/g`, such as `s/@@( |$)//g`.
            _, old, new, _ = step.split("/")
            line = re.sub(old, new, line)
        if self.python:
            # The expression fails for a line that only looks like the form, such as a quotation
            # that is not JSON. Such a line is kept.
            names = {"line": line.strip(), self.imports: importlib.import_module(self.imports)}
            try:
                line = str(eval(self.python, names))  # the expression is the table's
            except (ValueError, SyntaxError, LookupError, TypeError, RecursionError):
                return line
        return line


@functools.cache
def known_forms(language: str) -> list[Form]:
    """Return the known forms of wrong lines from forms.csv. The form of Moses' tokens is undone by
    Moses' detokenizer for the target language.
    """
    forms = [form for _, form in read_rows(Path(__file__).with_name("forms.csv"), Form)]
    return [
        msgspec.structs.replace(form, python=form.python.replace("{language}", language))
        for form in forms
    ]


class FormFault(NamedTuple):
    """The reason why the form of a text is wrong, and the command that undoes the form ('' if no
    command is known).

    The percentage of n-grams that hypotheses and references have in common is `match` for the lines
    as they are, and `undone_match` after the form was undone.
    """

    words: str
    match: float
    undone_match: float
    command: str = ""
    is_of_references: bool = False

    @property
    def figures(self) -> str:
        """Return a text with the percentages of matching n-grams before and after the form is
        undone.
        """
        return (
            f"{self.match:.1f} % of the n-grams match the references, {self.undone_match:.1f} %"
            " without this form"
        )


def find_form_fault(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str = "de",
    is_as_given: bool = False,
) -> FormFault | None:
    """Return the first form (such as subwords) that, when undone, raises the share of n-grams which
    hypotheses and references have in common. Return None for normal sentences, whatever their
    quality.

    A known form in most lines of hypotheses and references is also a fault. For example, n-grams of
    subwords match if both texts consist of subwords.
    """
    sides = (hypotheses, references)
    match = word_match(*sides)
    for form in known_forms(language):
        # Only a form that one side has, or most lines of both, can decide a score.
        shares = [share_of(form.pattern, lines) for lines in sides]
        is_expected = is_as_given and form.is_tokens and abs(shares[0] - shares[1]) < MIN_SHARE
        if is_expected or max(shares) < MIN_SHARE:
            continue
        undone_match = word_match(*(map(form.plain, lines) for lines in sides))
        if _is_raised(match, undone_match, MIN_GAIN_KNOWN) or min(shares) > 1 / 2:
            # The side with the form is the side to correct.
            is_of_references = shares[0] < MIN_SHARE
            reason = f"{shares[is_of_references]:.0%} of the lines have {form.form}"
            return FormFault(reason, match, undone_match, form.command, is_of_references)
    # What no pattern shows: marks that all translations lack, and blanks inside of words.
    bare = [[_without_marks(line) for line in lines] for lines in sides]
    undone_match = word_match(*bare)
    missing = _missing_marks(*sides)
    if missing and _is_raised(match, undone_match, MIN_GAIN_MARKS):
        return FormFault(missing, match, undone_match)
    # Both texts are now without marks, so their forms can differ in blanks only.
    match = undone_match
    undone_match = word_match(map(_with_blanks, *bare), bare[1])
    if _is_raised(match, undone_match, MIN_GAIN_BLANKS):
        return FormFault("blanks are at other places than in the references", match, undone_match)
    return None


def _is_raised(match: float, undone_match: float, gain: float) -> bool:
    return undone_match > max(MIN_MATCH, gain * match)


def word_match(hypotheses: Iterable[str], references: Iterable[str]) -> float:
    """Return the percentage of matching n-grams (2 to 4 words): twice the number of n-grams that
    hypotheses and references have in common, over the number of n-grams of both texts.
    """
    num_common, num_both = 0, 0
    for lines in zip(hypotheses, references, strict=True):
        counts, expected = map(_count_ngrams, lines)
        num_common += (counts & expected).total()
        num_both += counts.total() + expected.total()
    # This is Dice's coefficient, in which both texts have the same role.
    return 200 * num_common / max(1, num_both)


def _count_ngrams(line: str) -> Counter[tuple[str, ...]]:
    tokens = line.lower().split()  # case is reported by `find_doubts`
    return Counter(
        tuple(tokens[begin : begin + order])
        for order in ORDERS
        for begin in range(len(tokens) - order + 1)
    )


def share_of(pattern: str, lines: Sequence[str]) -> float:
    """Return the share of non-empty lines in which a regular expression matches."""
    full = [line for line in lines if line.strip()]
    return sum(re.search(pattern, line) is not None for line in full) / max(1, len(full))


def _missing_marks(hypotheses: Sequence[str], references: Sequence[str]) -> str:
    """Return a message about missing marks if the hypotheses have almost no accents, or almost no
    punctuation, although the references have some. Return '' if no marks are missing.
    """
    for name_of_marks, pattern in MARKS.items():
        # NFC first: an accent may be a character of its own after its letter, and would not be
        # counted.
        number, expected = (
            len(re.findall(pattern, unicodedata.normalize("NFC", "".join(lines))))
            for lines in (hypotheses, references)
        )
        if expected >= MIN_MARKS and number <= MAX_MISSING * expected:
            return f"there are {number:,} {name_of_marks}, the references have {expected:,}"
    return ""


def _without_marks(line: str) -> str:
    """Return a line in lower case, without accents and punctuation. The spelling "ue" of a German
    umlaut becomes "u", as the umlaut U+00FC does.
    """
    # NFD splits U+00FC into `u` and an accent, and the second pattern below removes the accent.
    text = unicodedata.normalize("NFD", line.replace("\u00df", "ss"))
    return re.sub("([aou])e", r"\1", re.sub(r"[^\w\s]", "", text.lower()))


def _with_blanks(line: str, reference: str) -> str:
    """Return a hypothesis with blanks exactly where words of its reference begin and end."""
    # The longest word first, because a regular expression takes the first alternative that fits.
    reference_words = sorted(set(reference.split()), key=len, reverse=True)
    # The words consist of letters and digits (see `_without_marks`), so they need no escape. The
    # last alternative `.` takes a letter that fits no word.
    return " ".join(re.findall("|".join([*reference_words, "."]), "".join(line.split())))


def check_form(
    hypotheses: Sequence[str],
    references: Sequence[str],
    paths: tuple[str, str],
    *,
    language: str,
    is_as_given: bool,
) -> None:
    """Check that hypotheses and references are plain sentences, whose form (such as subwords) does
    not lower the score. The argument `paths` has the paths of both files.

    Raises:
        ScoreError: if the form of the lines is wrong. The message states how many n-grams match the
            references before and after the form is undone, and the next step.
    """
    fault = find_form_fault(hypotheses, references, language=language, is_as_given=is_as_given)
    if fault is None:
        return
    path = paths[fault.is_of_references]
    step = "write plain sentences, as the references are"
    if fault.command:
        step = f"undo it: {fault.command} < {shlex.quote(path)} > plain.txt, then score plain.txt"
    raise ScoreError(
        f"{path}: {fault.words}; {fault.figures}; {step}; --no-warning scores the lines as they are"
    )


def check_as_given(sides: Sequence[Sequence[str]]) -> None:
    """Check that hypotheses and references consist of tokens, if they are scored without
    tokenisation (flag --as-given).

    Raises:
        ScoreError: if neither text consists of tokens, and in both texts full stops and commas are
            attached to words.
    """
    # In tokens, full stops are separate words. In plain text, they are attached to words.
    has_tokens = any(share_of(r"\w [.,](?= |$)", lines) >= PLAIN_SHARE for lines in sides)
    has_attached = all(share_of(r"\w[.,](?= |$)", lines) >= PLAIN_SHARE for lines in sides)
    if has_attached and not has_tokens:
        raise ScoreError(
            "--as-given: hypotheses and references are plain text, not tokens; omit the flag"
        )
