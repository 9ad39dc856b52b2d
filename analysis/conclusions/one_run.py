"""Compares Table 3's printed differences with the seed noise of public trainings at WMT's scale.

Each row of Table 3 is a single run. At a given noise, two single runs of the same system differ by
more than t(1 - alpha / 2, df) sd sqrt(2) with chance alpha: the reach of one run against one run. A
printed difference above the reach is distinguishable from seed noise of that size. The authors' own
noise was not published, so this says nothing about what they knew.
"""

import math
import statistics
from collections.abc import Mapping
from typing import NamedTuple

from scipy import stats

from aiayn.printed import printed_number, read_table
from analysis.conclusions.published import read_conclusions
from paper_tables.public_seeds import ALGOPERF, MLPERF, Quantity, seed_noise, values_of

ALPHA = 0.05
PERPLEXITY_COLUMN, BLEU_COLUMN = "ppl_dev", "bleu_dev"


class PrintedDifference(NamedTuple):
    """A printed row of Table 3 minus base, and the smallest absolute difference that rounding
    allows.
    """

    row: str
    bits: float
    smallest_bits: float
    bleu: float
    smallest_bleu: float


class Noise(NamedTuple):
    """A standard deviation over seeds in one quantity; `name` says where it comes from."""

    name: str
    sd: float
    degrees_of_freedom: int

    def reach(self, num_comparisons: int = 1) -> float:
        """Return the reach of one run against one run, by alpha / `num_comparisons`
        (Bonferroni).
        """
        quantile = stats.t.ppf(1 - ALPHA / num_comparisons / 2, self.degrees_of_freedom)
        return float(quantile) * self.sd * math.sqrt(2)


def printed_differences() -> list[PrintedDifference]:
    """Return the rows of Table 3 that the paper's text draws a conclusion from, each minus base.

    Raises:
        TableError: if a printed cell is not a number.
    """
    text_by_place = {(cell.row, cell.column): cell.value for cell in read_table(3)}
    differences = {}
    for conclusion in read_conclusions():
        if conclusion.table == 3:
            row, reference = conclusion.row, conclusion.reference
            differences[row] = _difference(row, reference, text_by_place)
    return list(differences.values())


def bits_noises() -> list[Noise]:
    """Return AlgoPerf's noise in bits a subword: pooled, and its noisiest setting."""
    return _algoperf_noises("bits_dev")


def bleu_noises() -> list[Noise]:
    """Return the noises in BLEU: AlgoPerf's, its noisiest setting, and MLPerf's."""
    pooled = seed_noise(MLPERF).pooled("bleu_test")
    mlperf = [] if pooled is None else [Noise("MLPerf", pooled.sd, pooled.degrees_of_freedom)]
    return [*_algoperf_noises("bleu_test"), *mlperf]


def _algoperf_noises(quantity: Quantity) -> list[Noise]:
    """Return AlgoPerf's pooled noise, and that of its noisiest setting by its own degrees of
    freedom.
    """
    noise = seed_noise(ALGOPERF)
    pooled = noise.pooled(quantity)
    if pooled is None:
        return []
    settings = [values_of(runs, quantity) for runs in noise.runs_by_setting.values()]
    noisiest = max((values for values in settings if len(values) > 1), key=statistics.stdev)
    return [
        Noise("AlgoPerf", pooled.sd, pooled.degrees_of_freedom),
        Noise("AlgoPerf's noisiest setting", statistics.stdev(noisiest), len(noisiest) - 1),
    ]


def _difference(
    row: str, reference: str, text_by_place: Mapping[tuple[str, str], str]
) -> PrintedDifference:
    """Return the printed difference of two rows; a printed 4.92 may be 4.915 to 4.925."""
    row_ppl, row_bleu = text_by_place[row, PERPLEXITY_COLUMN], text_by_place[row, BLEU_COLUMN]
    reference_ppl = text_by_place[reference, PERPLEXITY_COLUMN]
    reference_bleu = text_by_place[reference, BLEU_COLUMN]
    bits = math.log2(printed_number(row_ppl) / printed_number(reference_ppl))
    bleu = printed_number(row_bleu) - printed_number(reference_bleu)
    higher, lower = (row_ppl, reference_ppl) if bits > 0 else (reference_ppl, row_ppl)
    smallest_higher = printed_number(higher) - half_unit(higher)
    largest_lower = printed_number(lower) + half_unit(lower)
    return PrintedDifference(
        row=row,
        bits=bits,
        smallest_bits=max(0.0, math.log2(smallest_higher / largest_lower)),
        bleu=bleu,
        smallest_bleu=max(0.0, abs(bleu) - half_unit(row_bleu) - half_unit(reference_bleu)),
    )


def half_unit(text: str) -> float:
    """Return half a unit of the last printed digit: 0.005 for 4.92."""
    _, _, decimals = text.partition(".")
    return 0.5 * 10.0 ** -len(decimals)
