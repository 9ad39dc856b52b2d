"""Reads two files of published data into typed, checked rows: the BLEUs that others measured for
base and big, and reasons why a replication misses the paper's numbers.

README.md in the folder of the two files describes the files. A malformed line, an unknown column or
a repeated name is an error, as in the files of the paper's numbers.
"""

from decimal import Decimal
from pathlib import Path
from typing import Literal

import msgspec

from aiayn.errors import TableError
from aiayn.printed import LanguagePair, Text, read_rows, require_unique
from aiayn.scoring.definitions import METRICS
from paper_tables.published_data import (
    MAX_BLEU,
    WHOLE_SCORE,
    Bleu,
    Definition,
    HighCost,
    LowCost,
    SystemName,
    Testset,
    counted_alike,
    require_order,
)

DATA_FOLDER = Path(__file__).parent


class ReferenceReplication(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A BLEU that other authors published for base or big.

    An empty `training_data` means WMT14. Any other empty field means "not stated". `metric` is our
    name for the published definition of BLEU, or `other` if no definition of ours equals it.
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
        """The steps, batch and hardware of the replication in words, or empty if none of them is
        stated.
        """
        # The column holds `300K`, or `20 epochs` where the updates were not stated.
        steps = (
            f"{self.steps} steps"
            if self.steps and not self.steps.endswith("epochs")
            else self.steps
        )
        return ", ".join(filter(None, (steps, self.batch, self.hardware)))

    @property
    def remarks(self) -> str:
        """Return a text with the replication's training data (unless it is WMT14) and its note. The
        text may be empty.
        """
        trained_on = f"trained on {self.training_data}" if self.training_data else ""
        return "; ".join(filter(None, (trained_on, self.note)))


class PublishedCause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reason why a number is below the paper's (`lowers`) or above it (`raises`), and its cost in
    BLEU.

    If `language_pair`, `systems` or `metrics` is empty, the cause applies to any language pair,
    system or metric. `command` is a command of this project that checks for the cause, or empty.
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
        """The smallest and the largest published cost of the cause in BLEU. If the file says `all`,
        the cost is 100, every point.
        """
        high = MAX_BLEU if self.cost_high == WHOLE_SCORE else Decimal(self.cost_high)
        return Decimal(self.cost_low), high

    def applies_to(self, language_pair: str, system: str, metric: str) -> bool:
        """Return whether the cause may explain a BLEU of this language pair, system and metric."""
        # `metrics` lists the definitions, separated by blanks. A definition that counts alike is as
        # good as the definition itself.
        return (
            self.language_pair in ("", language_pair)
            and self.systems in ("", system)
            and (not self.metrics or not counted_alike(metric).isdisjoint(self.metrics.split()))
        )


def read_reference_replications(folder: Path = DATA_FOLDER) -> list[ReferenceReplication]:
    """Return every published replication of base and big, in the order of the file.

    Raises:
        TableError: the file of replications is malformed, or a name is repeated.
    """
    placed = read_rows(folder / "reference_replications.csv", ReferenceReplication)
    require_unique((place, (replication.name,)) for place, replication in placed)
    return [replication for _, replication in placed]


def read_causes(folder: Path = DATA_FOLDER) -> list[PublishedCause]:
    """Return every published cause of a BLEU that differs from the paper's, with its cost, in the
    order of the file: the highest rank first.

    Raises:
        TableError: the file of causes is malformed, a cause is repeated, or a metric is unknown.
    """
    placed = read_rows(folder / "causes.csv", PublishedCause)
    for place, cause in placed:
        require_order(*cause.cost, place)
        # A misspelt metric would never match, and the cause would silently never be shown.
        if unknown := set(cause.metrics.split()) - set(METRICS):
            raise TableError(
                f"{place}: metrics has {min(unknown)!r}; expected some of {', '.join(METRICS)}"
            )
    # One rank may have several lines, such as a cause with a different cost for base and for big.
    require_unique(
        (place, (cause.rank, cause.language_pair, cause.systems)) for place, cause in placed
    )
    return [cause for _, cause in placed]
