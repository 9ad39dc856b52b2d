"""Reads the descriptions of models that others have released with their test sets
(`workflow/config/released/`), and the records of the translations that this project made with these
models.
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
    """An archive that others published. `sha256` is '' if nobody published the SHA-256 of the
    archive. `expected_bytes` is an estimate of its size.
    """

    url: str
    expected_bytes: int
    sha256: str = ""

    @property
    def name(self) -> str:
        """The file name of the archive."""
        return self.url.rpartition("/")[2]


class PublishedScore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A BLEU that was published for exactly this released model, with fairseq's length penalty and
    stopping rule.
    """

    metric: str
    value: float
    beam_size: int
    alpha: float
    source: str


class PrintedScore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The BLEU in the paper. `metric` is our definition of BLEU that is most similar to the
    paper's.
    """

    metric: str
    value: float


class ReleasedModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model that others released with its binarized test set, published facts about the model and
    the test set, and the differences from the paper.
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
    """The scores of translations that this project made with a released model. `num_lines` of the
    `num_testset_lines` lines of the test set were translated. `search` is the signature (the
    settings) of the beam search.
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
    """Return the description of a released model by its name.

    Raises:
        UsageError: if there is no file with this name. The message lists the known names.
        ConfigError: if the file of the model is malformed.
    """
    path = RELEASED_FOLDER / f"{name}.yaml"
    if not path.exists():
        names = sorted(file.stem for file in RELEASED_FOLDER.glob("*.yaml"))
        hint = did_you_mean(name, names, f"known: {', '.join(names)}")
        raise UsageError(f"--released {name}: no {path}; {hint}")
    return convert(read_document(path), ReleasedModel)


def read_released_records(results: Path) -> list[ReleasedRecord]:
    """Return the records of released models below a results folder."""
    paths = sorted(results.glob(f"released/*/{RECORD_NAME}"))
    return [read_record(path, ReleasedRecord) for path in paths]
