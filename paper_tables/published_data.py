"""Turns three files of published data about the paper's numbers into typed, checked rows.

They are described in published/README.md and read as strictly as the paper's own files:

* `gaps.csv`: the difference between two definitions of BLEU on the same system output;
* `reference_replications.csv`: what others measured for base and big, in their definition;
* `causes.csv`: reasons why a replication is below (or above) the paper, with their cost in BLEU.
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
# These definitions count the same words of the same tokens. They differ by at most 0.01
# (tests/oracle), and where a hypothesis is empty. `bleu_as_given` belongs to them if the given
# tokens are cased and tokenised by Moses.
_COUNTED_ALIKE = frozenset({"bleu_tok_moses", "bleu_fairseq", "bleu_as_given"})
Testset = Literal[
    "newstest2013", "newstest2014", "newstest2014_filtered", "newstest2015", "newstest2017"
]
SystemName = Literal["base", "big"]

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
Bleu = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,2}(?:\.[0-9]+)?$")]  # in percent
# Negative if the other definition gives higher values.
Gap = Annotated[str, msgspec.Meta(pattern=rf"^-?{_NUMBER}$")]
LowCost = Annotated[str, msgspec.Meta(pattern=rf"^{_NUMBER}$")]
HighCost = Annotated[str, msgspec.Meta(pattern=rf"^(?:{_NUMBER}|all)$")]
WHOLE_SCORE = "all"  # a cost without upper bound: the cause may cost every point
MAX_BLEU = Decimal(100)


def counted_alike(metric: str) -> frozenset[str]:
    """Return the definitions with numbers comparable to `metric`, including itself."""
    return _COUNTED_ALIKE if metric in _COUNTED_ALIKE else frozenset({metric})


class PublishedGap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An output's BLEU in a paper-style definition minus its BLEU in another: `low` to `high`.

    `value_from` and `value_to` are a printed pair, or both empty. A gap that does not `count` is
    shown, but no range is made from it. Its `note` gives the reason.
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
        """Smallest and largest published gap in BLEU."""
        return Decimal(self.low), Decimal(self.high)


class ReferenceReplication(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published number for base or big.

    Empty `training_data` means WMT14. Any other empty field was not stated.
    """

    name: Text
    who: Text
    system: SystemName
    language_pair: LanguagePair
    testset: Testset
    value: Bleu
    metric: Definition
    definition: Text
    training_data: str
    steps: str
    batch: str
    hardware: str
    note: str
    source: Text

    @property
    def conditions(self) -> str:
        """Steps, batch and hardware in words, or empty if nothing is stated."""
        steps = (
            f"{self.steps} steps"
            if self.steps and not self.steps.endswith("epochs")
            else self.steps
        )
        return ", ".join(filter(None, (steps, self.batch, self.hardware)))

    @property
    def remarks(self) -> str:
        """Other training data, and the note, or empty without either."""
        trained_on = f"trained on {self.training_data}" if self.training_data else ""
        return "; ".join(filter(None, (trained_on, self.note)))


class PublishedCause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a number is below the paper's (`lowers`) or above (`raises`), and the cost in BLEU.

    Empty `language_pair`, `systems` and `metrics` mean: any. `command` is a command of this
    project, or empty.
    """

    rank: Text
    cause: Text
    direction: Literal["lowers", "raises"]
    cost_low: LowCost
    cost_high: HighCost
    language_pair: Literal["en-de", "en-fr", ""]
    systems: Literal["base", "big", ""]
    metrics: str
    evidence: Text
    source: Text
    check: Text
    command: str

    @property
    def cost(self) -> tuple[Decimal, Decimal]:
        """Smallest and largest published cost in BLEU, never negative. `all` is every point."""
        high = MAX_BLEU if self.cost_high == WHOLE_SCORE else Decimal(self.cost_high)
        return Decimal(self.cost_low), high

    def applies_to(self, language_pair: str, system: str, metric: str) -> bool:
        """Return whether the cause can hold for a number of this kind."""
        return (
            self.language_pair in ("", language_pair)
            and self.systems in ("", system)
            and (not self.metrics or not counted_alike(metric).isdisjoint(self.metrics.split()))
        )


def read_gaps(folder: Path = PUBLISHED_FOLDER) -> list[PublishedGap]:
    """Return every published gap between a paper-style definition and another, in file order.

    Raises:
        TableError: the file is malformed, or a gap is repeated.
    """
    placed = read_rows(folder / "gaps.csv", PublishedGap)
    for place, gap in placed:
        _check_order(*gap.bounds, place)
    require_unique(
        (place, (gap.source, gap.who, gap.language_pair, gap.testset, gap.definition_to))
        for place, gap in placed
    )
    return [gap for _, gap in placed]


def read_reference_replications(folder: Path = PUBLISHED_FOLDER) -> list[ReferenceReplication]:
    """Return every published replication of base and big, in file order.

    Raises:
        TableError: the file is malformed, or a name is repeated.
    """
    placed = read_rows(folder / "reference_replications.csv", ReferenceReplication)
    require_unique((place, (replication.name,)) for place, replication in placed)
    return [replication for _, replication in placed]


def read_causes(folder: Path = PUBLISHED_FOLDER) -> list[PublishedCause]:
    """Return every published cause with its cost, the highest rank first.

    Raises:
        TableError: the file is malformed, a cause is repeated, or a metric is unknown.
    """
    placed = read_rows(folder / "causes.csv", PublishedCause)
    for place, cause in placed:
        _check_order(*cause.cost, place)
        if unknown := set(cause.metrics.split()) - set(METRICS):
            raise TableError(
                f"{place}: metrics has {min(unknown)!r}; expected some of {', '.join(METRICS)}"
            )
    require_unique(
        (place, (cause.rank, cause.language_pair, cause.systems)) for place, cause in placed
    )
    return [cause for _, cause in placed]


def _check_order(low: Decimal, high: Decimal, place: str) -> None:
    if low > high:
        raise TableError(f"{place}: from {low} to {high}; expected the smaller bound first")
