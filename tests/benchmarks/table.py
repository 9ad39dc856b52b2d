"""The rows of `make bench`: each benchmark tells what it found, and one table is made of all
(`__main__.py`).
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROWS_VARIABLE = "AIAYN_BENCH_ROWS"  # a file that rows are appended to


class Result(NamedTuple):
    """What was measured, ours, and the peer's or the bound; `ratios` above 1 where ours is better,
    of turns.
    """

    what: str
    ours: str
    peer: str
    ratios: Sequence[float] = ()

    @property
    def cells(self) -> list[str]:
        """The table's cells: the ratio is the median, the spread the smallest and the largest."""
        if not self.ratios:
            return [self.what, self.ours, self.peer, "", ""]
        spread = f"{min(self.ratios):.2f} to {max(self.ratios):.2f}" if len(self.ratios) > 1 else ""
        return [self.what, self.ours, self.peer, f"{median(self.ratios):.2f}", spread]


def tell(what: str, ours: str, peer: str, ratios: Sequence[float] = ()) -> None:
    """Print a row, and keep it where `make bench` collects them."""
    row = Result(what, ours, peer, list(ratios))
    print("| " + " | ".join(row.cells) + " |", flush=True)
    if path := os.environ.get(ROWS_VARIABLE):
        with Path(path).open("a", encoding="utf-8") as rows:
            rows.write(json.dumps(row) + "\n")


def ratios_of(peers: Sequence[float], ours: Sequence[float]) -> list[float]:
    """Return the peer's seconds over ours, turn by turn."""
    return [peer / one for peer, one in zip(peers, ours, strict=True)]


def seconds(values: Sequence[float]) -> str:
    """Return the median of seconds in words."""
    value = median(values)
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
