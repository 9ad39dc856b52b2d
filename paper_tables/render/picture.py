"""Computes the positions in the picture at the top of a page. The picture shows the paper's
difference and our difference for each conclusion, on one axis. The README shows the same picture.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
import pandas as pd

from paper_tables.frame import Number

# The axis ends this much beyond the farthest mark. A longer interval is cut there.
EDGE = 1.12

Kind = Literal["same", "other", "none", "open"]  # the colour of an answer


class PictureLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the picture: a conclusion of the paper about a row in words, the paper's
    difference, our difference, and the answer (does the conclusion hold here?).

    `ours` is None if we have no value, `interval` is None if we have no interval. `printed_text`
    and `ours_text` are the rounded differences. `numbers` are our numbers of the two systems that
    the conclusion compares. `at` maps the marks `zero`, `printed`, `ours`, `low` and `high` to
    their positions in percent of the axis. `at` leaves out marks that are not drawn.
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
    numbers: tuple[Number, ...] = ()
    at: dict[str, float] = {}


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """The picture of the paper's conclusions: a sentence with the number of conclusions that hold
    here, `details` about the other conclusions, the unit of the axis, and the lines.

    `low_text` and `high_text` say which end of the axis is better and which is worse.
    """

    sentence: str
    details: str
    unit: str
    low_text: str
    high_text: str
    lines: tuple[PictureLine, ...]

    @property
    def frame(self) -> pd.DataFrame:
        """The numbers of the picture in full precision as a data frame, with a line for each
        conclusion.
        """
        columns = ["row", "printed", "ours", "low", "high", "answer"]
        lines = []
        for line in self.lines:
            low, high = line.interval or (None, None)
            lines.append((line.row, line.printed, line.ours, low, high, line.answer))
        return pd.DataFrame(lines, columns=columns)


def place_lines(lines: Sequence[PictureLine]) -> tuple[PictureLine, ...]:
    """Return the lines of the picture with the positions of their marks on one common axis."""
    # Intervals do not set the ends of the axis, because a wide interval would squeeze all marks
    # together.
    marks = [0.0]
    for line in lines:
        marks.append(line.printed)
        if line.ours is not None:
            marks.append(line.ours)
    low, high = EDGE * min(marks), EDGE * max(marks)
    # If all differences are 0, the width is 0, and the division below would fail.
    width = (high - low) or 1.0
    placed = []
    for line in lines:
        ends = line.interval or (None, None)
        at = {}
        for name, value in zip(
            ("zero", "printed", "ours", "low", "high"),
            (0.0, line.printed, line.ours, *ends),
            strict=True,
        ):
            if value is not None:
                # An end of an interval that is off the axis is drawn at the edge.
                share = min(1.0, max(0.0, (value - low) / width))
                at[name] = round(100 * share, 2)
        placed.append(msgspec.structs.replace(line, at=at))
    return tuple(placed)
