"""Reads system outputs for the tables that show them sentence by sentence."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from aiayn.errors import RecordError
from aiayn.packed import find_packed, open_unpacked
from aiayn.paths import Evaluation, evaluation_record
from aiayn.records import Hypotheses, TrainRecord
from analysis.scoring.scores import TrainingKey, read_of_run, training_key


@dataclass(frozen=True)
class Translations:
    """The translations of a test set, a line a sentence, and the signature of the search that found them."""

    lines: tuple[str, ...]
    signature: str


def read_translations(
    evaluations: Iterable[Evaluation],
    train_by_key: Mapping[TrainingKey, TrainRecord],
    results_folder: Path,
    scale: str,
    *,
    so_far: bool,
) -> dict[Evaluation, Translations]:
    """Return the translations by evaluation; `so_far` leaves out what is missing or of another run than its training.

    Raises:
        RecordError: if a record or its text is missing or of another run (unless `so_far`), or torn.
    """
    translations = {}
    for evaluation in evaluations:
        path = evaluation_record(results_folder, scale, "decode", evaluation)
        record = read_of_run(path, Hypotheses, train_by_key.get(training_key(evaluation)), so_far=so_far)
        if record is None:
            continue
        translations[evaluation] = Translations(_read_text(path.with_suffix(".txt"), record), record.signature)
    return translations


def _read_text(path: Path, record: Hypotheses) -> tuple[str, ...]:
    """Return the lines of a record of decode, from the file beside it, plain or packed."""
    found_path = find_packed(path)
    content = b""
    if found_path is not None:
        with open_unpacked(found_path) as text:
            content = text.read()
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != record.hypotheses_sha256:
        found = f"sha256 {sha256}" if found_path is not None else "no such file"
        raise RecordError(f"{path}: {found}, its record says {record.hypotheses_sha256}; rerun `aiayn decode`")
    return tuple(content.decode("utf-8").removesuffix("\n").split("\n"))
