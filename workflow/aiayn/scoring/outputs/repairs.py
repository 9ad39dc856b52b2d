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
COLUMN_SEPARATORS = ("\t", " ||| ")
FRAME_SHARE = 0.95  # of the lines, which share a frame
MAX_SHIFT = 5  # lines that a translation may be away from its reference
MIN_MOVED_WORDS = 30  # that a move of all following lines must gain: several sentences
Score = Callable[[Sequence[str], Sequence[str]], float]
Lines = Sequence[str]
_DIGITS = re.compile(r"\d+")


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


def _without_frame(lines: Lines, language: str) -> Lines | None:
    """Return the lines without the beginning and the end that nearly all of them share, with any
    numbers: `PRED 17: `, `(3) `, a time, a language tag, a quotation mark.

    Marks that end a sentence stay.
    """
    shapes = [_DIGITS.sub("0", line) for line in lines]
    start = _shared_start(shapes)
    end = _shared_start([shape[len(start) :][::-1] for shape in shapes])[::-1].lstrip(".!?")
    if not start and not end:
        return None
    before, after = (re.escape(text).replace("0", r"\d+") for text in (start, end))
    frame = re.compile(f"^{before}|{after}$")
    return [frame.sub("", line) for line in lines]


def _shared_start(shapes: Sequence[str]) -> str:
    """Return the longest beginning that at least `FRAME_SHARE` of the texts have."""
    start = ""
    while True:
        longer = [shape for shape in shapes if shape.startswith(start) and shape != start]
        following = [shape[len(start)] for shape in longer]
        [(character, number)] = Counter(following).most_common(1) or [("", 0)]
        if number < FRAME_SHARE * len(shapes):
            return start
        start += character


def _column(index: int) -> Callable[[Lines, str], Lines | None]:
    """Return the repair that keeps one column of lines that all have several."""

    def change(lines: Lines, language: str) -> Lines | None:
        for separator in COLUMN_SEPARATORS:
            if all(separator in line for line in lines):
                return [line.split(separator)[index] for line in lines]
        return None

    return change


def _join_compounds(line: str) -> str:
    return line.replace(" ##AT##-##AT## ", "-")


def _of_json(lines: Lines, language: str) -> Lines | None:
    texts = []
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            return None
        if isinstance(value, dict):
            words = [text for text in value.values() if isinstance(text, str)]
            keys = (*JSON_KEYS, language)
            known = [value[key] for key in keys if isinstance(value.get(key), str)]
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
    if not all(line.rstrip(",").endswith('"') for line in lines if line):
        return None
    rows = [next(csv.reader([line]), []) for line in lines]
    if len({len(row) for row in rows if row}) != 1:
        return None
    return [row[-1] if row else "" for row in rows]


def detokenised(lines: Lines, language: str) -> Lines | None:
    """Return text for Moses' tokens; None for lines that are not tokens."""
    if not form_of(lines).is_tokens:
        return None
    return [detokenize_line(line, language) for line in lines]


# At most 20, in the order in which they are tried. If two help equally, the first counts.
REPAIRS = (
    Repair("json", "the texts of JSON lines", _of_json),
    Repair("csv", "the quotes of CSV removed", _of_csv),
    Repair("column", "the last column only", _column(-1)),
    Repair("first-column", "the first column only", _column(0)),
    Repair("pieces", "pieces joined to words", _each(_join)),
    Repair("symbols", "<s>, </s>, <pad> and the like removed", _each(_without_symbols)),
    Repair("frame", "what begins or ends each line alike removed", _without_frame),
    Repair("detokenise", "tokens detokenised (Moses)", detokenised),
    Repair("compounds", "the split of compounds undone", _each(_join_compounds)),
    Repair("entities", "HTML entities resolved", _each(html.unescape)),
    Repair("invisible", "zero-width and soft characters removed", _each(_without_invisible)),
    Repair("nfc", "composed to NFC", _each(lambda line: unicodedata.normalize("NFC", line))),
    Repair("mojibake", "UTF-8 that was read as another encoding restored", _each(_undo_mojibake)),
)
PAIRS = (
    ("json", "pieces"),
    ("column", "pieces"),
    ("frame", "pieces"),
    ("frame", "entities"),
    ("pieces", "detokenise"),
    ("pieces", "entities"),
    ("symbols", "pieces"),
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
    """Return translations moved back to the references that they fit best, in words in common.

    Where a line was lost or doubled, those after it are too early or too late. The offsets of all
    lines are found together (Viterbi): each change of the offset must gain `MIN_MOVED_WORDS`.
    """
    bags = [Counter(line.split()) for line in hypotheses]
    offsets = range(-MAX_SHIFT, MAX_SHIFT + 1)
    words_by_offset = {offset: 0 if offset == 0 else -MIN_MOVED_WORDS for offset in offsets}
    came_from: list[dict[int, int]] = []
    for index, reference in enumerate(references):
        bag = Counter(reference.split())
        best = max(offsets, key=words_by_offset.__getitem__)
        after_move = words_by_offset[best] - MIN_MOVED_WORDS
        previous, words = {}, {}
        for offset in offsets:
            stays = words_by_offset[offset] >= after_move
            previous[offset] = offset if stays else best
            place = index + offset
            shared = (bags[place] & bag).total() if 0 <= place < len(bags) else 0
            words[offset] = max(words_by_offset[offset], after_move) + shared
        came_from.append(previous)
        words_by_offset = words
    offset = max(offsets, key=words_by_offset.__getitem__)
    moved = []
    for index in reversed(range(len(references))):
        place = index + offset
        moved.append(hypotheses[place] if 0 <= place < len(hypotheses) else "")
        offset = came_from[index][offset]
    return moved[::-1]
