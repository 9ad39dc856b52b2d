"""Reads the descriptions of models that others have released with their test sets
(`workflow/config/released/`), and the records of what was decoded with these models here.
"""

from pathlib import Path

import msgspec

from aiayn.errors import UsageError, did_you_mean
from aiayn.records import Record, ScoreRecord, read_record
from aiayn.spec.strict_yaml import convert, read_document
from aiayn.spec.system import CONFIG_FOLDER

RELEASED_FOLDER = CONFIG_FOLDER / "released"
RECORD_NAME = "record.json"


class ReleasedArchive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A published archive. `sha256` is '' if nobody published it. `expected_bytes` is an
    estimate.
    """

    url: str
    expected_bytes: int
    sha256: str = ""

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.url.rpartition("/")[2]


class PublishedScore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A BLEU that was published for exactly this model, with fairseq's length penalty and stopping
    rule.
    """

    metric: str
    value: float
    beam_size: int
    alpha: float
    source: str


class PrintedScore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The BLEU that the paper printed, under the definition that is nearest to the paper's."""

    metric: str
    value: float


class ReleasedModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A released model with its binarized test set, the published facts about them, and the
    differences from the paper.
    """

    name: str
    language_pair: str
    testset: str
    num_lines: int
    num_symbols: int
    num_reference_tokens: int
    model: ReleasedArchive
    data: ReleasedArchive
    printed: PrintedScore
    published: list[PublishedScore]
    differences: list[str]


class ReleasedRecord(Record, frozen=True, kw_only=True, tag="ReleasedRecord"):
    """The scores of a released model that was decoded here. `num_lines` is the number of decoded
    lines out of `num_testset_lines`. `search` is the signature of the beam search.
    """

    name: str
    language_pair: str
    testset: str
    search: str
    num_lines: int
    num_testset_lines: int
    sha256_by_archive: dict[str, str]
    hardware: str
    scores: list[ScoreRecord]


def read_released(name: str) -> ReleasedModel:
    """Return a released model by its name.

    Raises:
        UsageError: if the file does not exist. The message lists the known names.
        ConfigError: if the file is malformed.
    """
    path = RELEASED_FOLDER / f"{name}.yaml"
    if not path.exists():
        names = sorted(file.stem for file in RELEASED_FOLDER.glob("*.yaml"))
        hint = did_you_mean(name, names, f"known: {', '.join(names)}")
        raise UsageError(f"--released {name}: no {path}; {hint}")
    return convert(read_document(path), ReleasedModel)


def read_released_records(results: Path) -> list[ReleasedRecord]:
    """Return the records of the released models that were decoded below a results folder."""
    paths = sorted(results.glob(f"released/*/{RECORD_NAME}"))
    return [read_record(path, ReleasedRecord) for path in paths]
