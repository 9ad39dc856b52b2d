"""Places printed and our differences on one axis: the picture that opens a page, and README's."""

from collections.abc import Sequence
from typing import Literal

import msgspec
import pandas as pd

from paper_tables.layout import CellProvenance

ROW_HEIGHT = 28  # of README's picture, in pixels
HEAD_HEIGHT = 36
FOOT_HEIGHT = 40
TRACK_START, TRACK_WIDTH = 370, 320  # of README's picture, as in its template
EDGE = 1.12  # the axis ends so much beyond the farthest mark; a longer interval is cut there

Kind = Literal["same", "other", "none", "open"]  # the colour of an answer


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A conclusion of the paper about a row, in words, with the printed and our difference, and the
    answer.

    `ours` is None without a value here, `interval` where there is none. The texts are the rounded
    numbers.
    """

    row: str
    words: str
    printed: float
    printed_text: str
    answer: str
    kind: Kind = "open"
    ours: float | None = None
    ours_text: str = ""
    interval: tuple[float, float] | None = None
    provenance: CellProvenance | None = None


class PictureLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line as it is drawn: positions in percent of the axis, and its top in README's picture."""

    words: str
    printed_text: str
    ours_text: str
    answer: str
    kind: Kind
    provenance: CellProvenance | None
    zero: float
    printed: float
    ours: float | None
    low: float | None
    high: float | None
    top: int


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """The picture: a sentence with the count of conclusions that show, the others in `details`,
    the unit of its axis, and its lines.

    `low_text` and `high_text` say what the ends of the axis mean. `zero_at` and `height` are pixels
    of README's picture.
    """

    sentence: str
    details: str
    unit: str
    low_text: str
    high_text: str
    lines: tuple[PictureLine, ...]
    zero_at: float
    height: int
    differences: tuple[Difference, ...]

    @property
    def frame(self) -> pd.DataFrame:
        """The numbers of the picture in full precision: a line for each conclusion."""
        columns = ["row", "printed", "ours", "low", "high", "answer"]
        lines = []
        for difference in self.differences:
            low, high = difference.interval or (None, None)
            values = (difference.printed, difference.ours, low, high, difference.answer)
            lines.append((difference.row, *values))
        return pd.DataFrame(lines, columns=columns)


def make_picture(
    differences: Sequence[Difference],
    *,
    sentence: str,
    details: str,
    unit: str,
    low_text: str,
    high_text: str,
) -> Picture:
    """Return the picture of some differences, in their order."""
    marks = [0.0]
    for difference in differences:
        marks.append(difference.printed)
        if difference.ours is not None:
            marks.append(difference.ours)
    low, high = EDGE * min(marks), EDGE * max(marks)
    width = (high - low) or 1.0

    def place(value: float) -> float:
        return round(100 * min(1.0, max(0.0, (value - low) / width)), 2)

    lines = []
    for index, difference in enumerate(differences):
        ends = difference.interval
        lines.append(
            PictureLine(
                words=difference.words,
                printed_text=difference.printed_text,
                ours_text=difference.ours_text,
                answer=difference.answer,
                kind=difference.kind,
                provenance=difference.provenance,
                zero=place(0.0),
                printed=place(difference.printed),
                ours=None if difference.ours is None else place(difference.ours),
                low=None if ends is None else place(ends[0]),
                high=None if ends is None else place(ends[1]),
                top=HEAD_HEIGHT + ROW_HEIGHT * index,
            )
        )
    return Picture(
        sentence=sentence,
        details=details,
        unit=unit,
        low_text=low_text,
        high_text=high_text,
        lines=tuple(lines),
        zero_at=TRACK_START + TRACK_WIDTH * place(0.0) / 100,
        differences=tuple(differences),
        height=HEAD_HEIGHT + ROW_HEIGHT * len(lines) + FOOT_HEIGHT,
    )
