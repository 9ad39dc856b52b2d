"""Types of a cell's origin: the stages, attempts, files and digests behind each seed's number."""

import msgspec

from paper_tables.answers.where_cells import NamedCell


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that was run: its record, when and where it was written, by which command at which commit."""

    verb: str
    record: str
    created: str
    host: str
    commit: str
    command: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a training; `ended` and `outcome` are '' until it ends."""

    attempt: int
    started: str
    ended: str
    host: str
    device: str
    job: str
    commit: str
    first_update: int
    last_update: int | None
    outcome: str
    reason: str


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a training's log, counted from 1, and its update."""

    path: str
    number: int
    update: int
    text: str


class FileTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A file, the digest in its record, and the state of the file: `as recorded`, `changed` or `missing`."""

    path: str
    sha256: str
    state: str


class CheckpointTrace(msgspec.Struct, frozen=True, kw_only=True):
    """An averaged checkpoint, the digest of its sorted tensors as recorded, and the updates that were averaged."""

    path: str
    is_there: bool
    tensors_sha256: str
    averaged_updates: list[int]


class SeedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of one seed's number; what is missing is None or empty, and `problems` gives the reason."""

    seed: int
    status: str
    run: str
    value: float | None
    signature: str
    attempts: list[Attempt]
    log_line: LogLine | None
    hypotheses: FileTrace | None
    checkpoint: CheckpointTrace | None
    version_by_package: dict[str, str]
    python: str
    steps: list[Step]
    problems: list[str]


class CellTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A cell, the evaluation that fills it at a scale, the data that all its seeds share, and each seed's trace."""

    cell: NamedCell
    scale: str
    corpus: str
    testset: str
    data_steps: list[Step]
    seeds: list[SeedTrace]
