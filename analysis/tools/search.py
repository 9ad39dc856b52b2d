"""Tabulates the scores of pairs of beam size and alpha on a dev set (section 6.1).

The paper's pair, beam 4 and alpha 0.6, was "chosen after experimentation on the development set".
This module repeats that experiment. No other table uses its results.
"""

import msgspec
from tabulate import tabulate

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
