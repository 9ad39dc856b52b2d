"""The rows that benchmarks print, in the form of RESULTS.md."""

import datetime
from collections.abc import Sequence
from statistics import median

from aiayn.provenance import commit_label


def tell(what: str, ours: str, peer: str, ratios: Sequence[float] = ()) -> None:
    """Print a row with its date and commit; hardware is added by hand.

    A ratio above 1 means that ours is better. The row has the median of the ratios of all turns,
    and their spread.
    """
    ratio = f"{median(ratios):.2f}" if ratios else ""
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}" if len(ratios) > 1 else ""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    cells = [what, ours, peer, ratio, spread, "", today, commit_label()[:12]]
    print("| " + " | ".join(cells) + " |", flush=True)


def ratios_of(peers: Sequence[float], ours: Sequence[float]) -> list[float]:
    """Return the peer's seconds over ours, turn by turn."""
    return [peer / one for peer, one in zip(peers, ours, strict=True)]


def seconds(values: Sequence[float]) -> str:
    """Return the median of seconds in words."""
    value = median(values)
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
