"""Reads `published/gaps.csv`, the differences between two definitions of BLEU, into checked rows.

published/README.md describes this file. The file is read as strictly as the files with the paper's
numbers. Wings (optional packages) with further published data use the types in this module.
"""

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from aiayn.errors import TableError
from aiayn.printed import PUBLISHED_FOLDER, LanguagePair, Text, read_rows, require_unique
from aiayn.scoring.definitions import METRICS

Metric = Annotated[str, msgspec.Meta(pattern=f"^(?:{'|'.join(METRICS)})$")]
# `other`: a definition that only printed words describe.
Definition = Annotated[str, msgspec.Meta(pattern=f"^(?:{'|'.join(METRICS)}|other)$")]
# These definitions count the same words of the same tokens. Their values differ by at most 0.01
# (tests/oracle), or by more if hypotheses are empty. `bleu_as_given` is one of them if the given
# tokens are cased and tokenised by Moses.
_COUNTED_ALIKE = frozenset({"bleu_tok_moses", "bleu_fairseq", "bleu_as_given"})
Testset = Literal[
    "newstest2013", "newstest2014", "newstest2014_filtered", "newstest2015", "newstest2017"
]
SystemName = Literal["base", "big"]

# Numbers stay text, as printed: 1.50 is not 1.5 in a table. The patterns make sure that `Decimal`
# can read them.
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
Bleu = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,2}(?:\.[0-9]+)?$")]  # in percent
# Negative if the other definition gives higher values.
Gap = Annotated[str, msgspec.Meta(pattern=rf"^-?{_NUMBER}$")]
LowCost = Annotated[str, msgspec.Meta(pattern=rf"^{_NUMBER}$")]
HighCost = Annotated[str, msgspec.Meta(pattern=rf"^(?:{_NUMBER}|all)$")]
WHOLE_SCORE = "all"  # a cost without upper bound: the cause may cost every point
MAX_BLEU = Decimal(100)


def counted_alike(metric: str) -> frozenset[str]:
    """Return the definitions of BLEU whose numbers are comparable to numbers in `metric`, including
    `metric` itself.
    """
    return _COUNTED_ALIKE if metric in _COUNTED_ALIKE else frozenset({metric})


class PublishedGap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much higher the BLEU of the same translations is in a paper-style definition than in a
    second definition, from `low` to `high`.

    `value_from` and `value_to` are the two published scores, or both are empty. A gap is used in
    computations only if `counts` is "yes". A gap that does not count is only shown, and `note`
    gives the reason.
    """

    who: Text
    language_pair: LanguagePair
    testset: Testset
    definition_from: Definition
    printed_from: Text
    definition_to: Metric
    value_from: str
    value_to: str
    low: Gap
    high: Gap
    counts: Literal["yes", "no"]
    source: Text
    note: str

    @property
    def bounds(self) -> tuple[Decimal, Decimal]:
        """The smallest and largest published gap between the two definitions, in BLEU."""
        return Decimal(self.low), Decimal(self.high)


def read_gaps(folder: Path = PUBLISHED_FOLDER) -> list[PublishedGap]:
    """Return every published gap between a paper-style definition of BLEU and a second definition,
    in file order.

    Raises:
        TableError: gaps.csv is malformed, or a gap is repeated.
    """
    # `location` is the file with the line number, for errors.
    placed = read_rows(folder / "gaps.csv", PublishedGap)
    for location, gap in placed:
        require_order(*gap.bounds, location)
    require_unique(
        (location, (gap.source, gap.who, gap.language_pair, gap.testset, gap.definition_to))
        for location, gap in placed
    )
    return [gap for _, gap in placed]


def require_order(low: Decimal, high: Decimal, location: str) -> None:
    """Check that the smaller bound of a range comes first.

    Raises:
        TableError: if `low` is larger than `high`. The error contains `location`, file and line.
    """
    if low > high:
        raise TableError(f"{location}: from {low} to {high}; expected the smaller bound first")
