"""Tries repairs on translations and references, and says which raises the score: one table, no rule
for each fault.

A repair changes either side where it applies, and nothing else. It helps if the score rises by more
than 2 BLEU and by more than 10 %. The value of the files as given is always reported as well.
"""

import csv
import html
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from aiayn.data.text.detokenise import PIECE_PATTERN, join_any_pieces
from aiayn.data.text.tokenize_moses import detokenize_line
from aiayn.scoring.outputs.system_output import form_of

MIN_GAIN, MIN_FACTOR = 2.0, 1.1  # a repair must raise BLEU by 2 points and by 10 %
MIN_CHANGED = 0.01  # of the lines of a side; below it a repair is not tried
Score = Callable[[Sequence[str], Sequence[str]], float]
Lines = Sequence[str]
_TAG = re.compile(
    r"^(>>\S{2,12}<<|<2\w{2,7}>|__\w{2,7}__|\[\w{2}_[A-Z]{2}\]|<(?:lang:)?\w{2}>|\w{2}_[A-Z]{2})\s+"
)


class Repair(NamedTuple):
    """A repair: its name in a command, what it does in words, and the function of a side's lines
    and language.

    The function returns None where it does not apply.
    """

    name: str
    words: str
    change: Callable[[Lines, str], Lines | None]


class Repaired(NamedTuple):
    """A repair that was made (names joined by `+`), and the two sides after it."""

    name: str
    words: str
    hypotheses: Lines
    references: Lines


def _each(change: Callable[[str], str]) -> Callable[[Lines, str], Lines | None]:
    return lambda lines, language: [change(line) for line in lines]


def _without_invisible(line: str) -> str:
    line = re.sub("[\u00ad\u200b-\u200f\u2060\ufeff]", "", line)
    return re.sub("[\u00a0\u2000-\u200a\u202f\u3000]", " ", line)


def _undo_mojibake(line: str) -> str:
    for encoding in ("cp1252", "latin-1"):
        try:
            return line.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
    return line


def _join(line: str) -> str:
    if re.search(PIECE_PATTERN, line):
        return join_any_pieces(line)
    # Some write sentencepiece's mark as an underscore.
    return (
        line.replace(" ", "").replace("_", " ").strip()
        if line.startswith("_") and " _" in line
        else line
    )


def _without_symbols(line: str) -> str:
    return " ".join(re.sub(r"</?s>|<pad>|<(?:bos|eos)>|\[(?:CLS|SEP|PAD)\]", " ", line).split())


def _without_numbers(lines: Lines, language: str) -> Lines | None:
    found = [re.match(r"\s*(\d{1,9})(?:\t| \|\|\| |[:.)] |\s{2,})", line) for line in lines]
    numbers = [int(one[1]) for one in found if one]
    if len(numbers) < len(lines) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    return [line[one.end() :] for line, one in zip(lines, found, strict=True) if one]


def _last_column(lines: Lines, language: str) -> Lines | None:
    for separator in ("\t", " ||| "):
        if all(separator in line for line in lines):
            return [line.rpartition(separator)[2] for line in lines]
    return None


def _of_json(lines: Lines, language: str) -> Lines | None:
    texts = []
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            return None
        if isinstance(value, dict):
            words = [text for text in value.values() if isinstance(text, str)]
            known = [value[key] for key in JSON_KEYS if isinstance(value.get(key), str)]
            value = (known or words or [None])[0]
        if not isinstance(value, str):
            return None
        texts.append(value)
    return texts


JSON_KEYS = (
    "translation",
    "hypothesis",
    "prediction",
    "output",
    "hyp",
    "mt",
    "text",
    "target",
    "reference",
    "ref",
)


def _of_csv(lines: Lines, language: str) -> Lines | None:
    if not all(line.startswith('"') and line.rstrip(",").endswith('"') for line in lines if line):
        return None
    rows = [next(csv.reader([line]), [""]) for line in lines]
    return [row[0] if row else "" for row in rows]


def detokenised(lines: Lines, language: str) -> Lines | None:
    """Return text for Moses' tokens; None for lines that are not tokens."""
    if not form_of(lines).is_tokens:
        return None
    return [detokenize_line(line, language) for line in lines]


# At most 20, in the order in which they are tried. If two help equally, the first counts.
REPAIRS = (
    Repair("json", "the texts of JSON lines", _of_json),
    Repair("csv", "the quotes of CSV removed", _of_csv),
    Repair("numbers", "the line numbers removed", _without_numbers),
    Repair("column", "the last column only", _last_column),
    Repair("pieces", "pieces joined to words", _each(_join)),
    Repair("tags", "language tags removed", _each(lambda line: _TAG.sub("", line))),
    Repair("symbols", "<s>, </s>, <pad> and the like removed", _each(_without_symbols)),
    Repair("detokenise", "tokens detokenised (Moses)", detokenised),
    Repair("entities", "HTML entities resolved", _each(html.unescape)),
    Repair("invisible", "zero-width and soft characters removed", _each(_without_invisible)),
    Repair("nfc", "composed to NFC", _each(lambda line: unicodedata.normalize("NFC", line))),
    Repair("mojibake", "UTF-8 that was read as another encoding restored", _each(_undo_mojibake)),
)
PAIRS = (
    ("json", "pieces"),
    ("column", "pieces"),
    ("numbers", "pieces"),
    ("pieces", "detokenise"),
    ("pieces", "entities"),
    ("symbols", "pieces"),
    ("tags", "pieces"),
    ("invisible", "nfc"),
    ("mojibake", "nfc"),
    ("entities", "detokenise"),
)
SHIFT = "shift"
BY_NAME: Mapping[str, Repair] = {repair.name: repair for repair in REPAIRS}


def repair_sides(
    names: Sequence[str], hypotheses: Lines, references: Lines, language: str
) -> Repaired | None:
    """Return both sides after the named repairs; None if a repair changes nothing."""
    sides = [hypotheses, references]
    words = []
    for name in names:
        if name == SHIFT:
            moved = _shifted(*sides) if len(sides[0]) == len(sides[1]) else sides[0]
            changed = [None if moved == sides[0] else moved, None]
            words.append("lines moved back to their places")
        else:
            repair = BY_NAME[name]
            changed = [_changed(repair, lines, language) for lines in sides]
            words.append(repair.words)
        if changed == [None, None]:
            return None
        sides = [lines if new is None else new for lines, new in zip(sides, changed, strict=True)]
    return Repaired("+".join(names), ", ".join(words), *sides)


def _changed(repair: Repair, lines: Lines, language: str) -> Lines | None:
    """Return a side after a repair; None if it does not apply, or changes next to nothing."""
    new = repair.change(lines, language) if lines else None
    if new is None:
        return None
    if len(new) == len(lines):
        num_changed = sum(before != after for before, after in zip(lines, new, strict=True))
        if num_changed <= MIN_CHANGED * len(lines):
            return None
    return new


def best_repair(
    hypotheses: Lines, references: Lines, language: str, score: Score, given: float | None
) -> tuple[Repaired, float] | None:
    """Return the repair that raises the score most, with that score; None if none helps.

    `given` is the score of the files as they are, None if they cannot be scored: their numbers of
    lines differ.
    """
    best: tuple[Repaired, float] | None = None
    limit = -1.0 if given is None else max(given + MIN_GAIN, given * MIN_FACTOR)
    for names in (*((repair.name,) for repair in REPAIRS), *PAIRS, (SHIFT,)):
        repaired = repair_sides(names, hypotheses, references, language)
        if repaired is not None and len(repaired.hypotheses) == len(repaired.references):
            value = score(repaired.hypotheses, repaired.references)
            # A pair must do better than its first repair, or it only adds what is not needed.
            if value > limit and (best is None or value > best[1] + 0.1):
                best = repaired, value
    return best


def _shifted(hypotheses: Lines, references: Lines) -> Lines:
    """Return translations with a shift by one line undone from the place on where that fits the
    references best.

    A line was lost, so that those after it are one too early, or doubled, so that they are one too
    late.
    """
    bags = (
        [Counter(line.split()) for line in hypotheses],
        [Counter(line.split()) for line in references],
    )
    size = len(bags[0])

    def fits(offset: int) -> list[int]:
        return [
            (bags[0][index + offset] & bags[1][index]).total() if 0 <= index + offset < size else 0
            for index in range(size)
        ]

    here = fits(0)
    best, moved = 0, hypotheses
    for offset in (-1, 1):
        # From `begin` on the line at index + offset belongs to a reference.
        there, gain, best_gain, begin = fits(offset), 0, 0, None
        for index in reversed(range(size)):
            gain += there[index] - here[index]
            if gain > best_gain:
                best_gain, begin = gain, index
        if begin is not None and best_gain > best:
            best = best_gain
            moved = [*hypotheses[:begin], *_moved(hypotheses, begin, offset)]
    return moved


def _moved(hypotheses: Lines, begin: int, offset: int) -> list[str]:
    lines = hypotheses[max(0, begin + offset) :]
    wanted = len(hypotheses) - begin
    return [*lines[:wanted], *[""] * (wanted - len(lines))]
