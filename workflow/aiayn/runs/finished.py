"""Finds a finished run by its name below a results folder, with all that is needed to translate with it."""

import re
from pathlib import Path

import msgspec

from aiayn.errors import RecordError
from aiayn.paths import average_record, corpus_record
from aiayn.records import BinarizedCorpus, CheckpointRecord, SegmentedText, TrainRecord, read_record
from aiayn.runs.names import match_run
from aiayn.spec import DecodingSpec, read_system


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run's averaged checkpoint, data-bin, subwords (none for text that came in pieces) and search."""

    scale: str
    checkpoint: CheckpointRecord
    data: BinarizedCorpus
    segmented: SegmentedText | None
    decoding: DecodingSpec


def find_finished(results_folder: Path, run: str | None, average: str | None) -> FinishedRun:
    """Return the run whose name begins with `run`, or the newest; and its longest average, unless one is named.

    Raises:
        RecordError: if there is none, or more than one; the message lists the candidates.
    """
    train_path, train = _find_training(results_folder, run)
    scale = train_path.relative_to(results_folder).parts[0]
    folder = average_record(results_folder, scale, train.corpus, train.system, train.seed, "last1").parent
    averages = sorted((path.stem for path in folder.glob("last*.json")), key=_num_averaged)
    if not averages or (average is not None and average not in averages):
        raise RecordError(f"{folder}: no average {average or ''}; there is {averages or 'none'}; run `aiayn average`")
    segment_path = corpus_record(results_folder, scale, "segment", train.corpus)
    return FinishedRun(
        scale=scale,
        checkpoint=read_record(folder / f"{average or averages[-1]}.json", CheckpointRecord),
        data=read_record(corpus_record(results_folder, scale, "binarize", train.corpus), BinarizedCorpus),
        segmented=read_record(segment_path, SegmentedText) if segment_path.exists() else None,
        decoding=read_system(train.system, scale).decoding,
    )


def _num_averaged(average: str) -> int:
    return int(re.sub(r"\D", "", average) or 0)


def _find_training(results_folder: Path, run: str | None) -> tuple[Path, TrainRecord]:
    paths = sorted(results_folder.glob("*/train/*/*/seed*.json"), key=lambda path: path.stat().st_mtime)
    found = [(path, read_record(path, TrainRecord)) for path in paths]
    names = [train.run for _, train in found]
    if run is None and not found:
        raise RecordError(f"{results_folder}: the newest is no finished run; candidates:\n  none")
    name = names[-1] if run is None else match_run(run, names, place=str(results_folder), unknown="is no finished run")
    return next(entry for entry in reversed(found) if entry[1].run == name)
