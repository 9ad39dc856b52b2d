"""Lists pairs of beam size and alpha to try on a dev set (section 6.1), and tabulates their scores.

The paper's pair, beam 4 and alpha 0.6, was "chosen after experimentation on the development set".
This module repeats that experiment. No other table uses its results.
"""

import itertools
from collections.abc import Sequence

import msgspec
from tabulate import tabulate

from aiayn.errors import UsageError
from aiayn.spec.system import DecodingSpec

PAPERS_CHOICE = (4, 0.6)  # section 6.1


class SearchTable(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of all pairs, in percent: a single metric, test set and checkpoint.

    `value_by_pair` is by beam size and alpha. `signature` belongs to score and search, with ROW and
    COLUMN in place of beam and alpha.
    """

    run: str
    average: str
    testset: str
    num_lines: int
    metric: str
    signature: str
    value_by_pair: dict[tuple[int, float], float]


def pairs_to_try(
    decoding: DecodingSpec, beam_sizes: Sequence[int], alphas: Sequence[float]
) -> list[DecodingSpec]:
    """Return a search for each pair, beam by beam; everything else is as in `decoding`.

    Raises:
        UsageError: if a value is invalid, or occurs twice.
    """
    for flag, values, least in (("--beam-sizes", beam_sizes, 1), ("--alphas", alphas, 0)):
        if not values or len(set(values)) != len(values):
            raise UsageError(
                f"{flag} is {list(values)}; expected one or more different values; correct the flag"
            )
        for value in values:
            if not value >= least:
                raise UsageError(
                    f"{flag} has {value!r}; expected {least} or more; correct the flag"
                )
    searches = []
    for size, alpha in itertools.product(beam_sizes, alphas):
        pair = {"beam_size": size, "length_penalty_alpha": alpha}
        searches.append(msgspec.structs.replace(decoding, **pair))
    return searches


def render_markdown(table: SearchTable) -> str:
    """Return the table: beams down, alphas across.

    The best values are bold, the paper's choice is in brackets.
    """
    highest = max(table.value_by_pair.values())
    row_by_beam: dict[int, dict[str, str]] = {}
    best = []
    for (beam_size, alpha), value in table.value_by_pair.items():
        text = f"{value:.2f}"
        if value == highest:
            text = f"**{text}**"
            best.append(f"beam {beam_size} with alpha {alpha:g}")
        if (beam_size, alpha) == PAPERS_CHOICE:
            text = f"[{text}]"
        row_by_beam.setdefault(beam_size, {"beam": str(beam_size)})[f"alpha {alpha:g}"] = text
    choice = "the paper's choice, beam {} and alpha {}, was not tried".format(*PAPERS_CHOICE)
    if PAPERS_CHOICE in table.value_by_pair:
        loss = highest - table.value_by_pair[PAPERS_CHOICE]
        choice = f"[] the paper's choice (section 6.1): {loss:.2f} below the best"
    rows = list(row_by_beam.values())
    grid = tabulate(rows, "keys", "pipe", stralign="right", disable_numparse=True)
    return (
        f"## Beam size and alpha on {table.testset}\n\n{table.metric} (percent) on {table.testset},"
        f" {table.num_lines} lines; {table.run}, {table.average}\n\n{grid}\n\n- bold is best:"
        f" {', '.join(best)}\n- {choice}\n\nSignature: `{table.signature}`\n"
    )
