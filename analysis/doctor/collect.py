"""Turns files into evidence: a log, a translation with its records, a signature of a search."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from aiayn.errors import RecordError
from aiayn.records import CheckpointRecord, Hypotheses, Record, ScoreRecords, read_record
from aiayn.spec.system import CorpusSpec
from analysis.doctor.rates import read_rates
from analysis.doctor.types import Averaged, Reported, Search, Trained, Translation
from analysis.logs.reader import read_log
from analysis.logs.symbols import symbols_of_arguments
from analysis.logs.types import TrainingLog
from analysis.scoring.system_output import read_output

_SEARCH_FIELD = re.compile(r"(beam|lenpen|alpha|stop|maxlen):([^|]+)")
_MAX_LENGTH = re.compile(r"([\d.]+)x\+(\d+)")
_AnyRecord = TypeVar("_AnyRecord", bound=Record)


def read_lines(path: Path, *, may_be_blank: bool = False) -> tuple[str, ...]:
    """Return the lines of a text, whatever it is packed in (see `analysis.scoring.system_output`).

    Raises:
        ScoreError: if it is empty, torn, binary or no UTF-8.
    """
    return tuple(read_output(path, may_be_blank=may_be_blank).lines)


def read_trained(path: Path) -> Trained:
    """Return the content of a training's log.

    Raises:
        RecordError: if the file holds no training, or several.
    """
    log_file, _ = read_log(path)
    found = [entry for entry in log_file.entries if isinstance(entry, TrainingLog)]
    if len(found) != 1:
        refusal = f" (line {log_file.refusal.line}: {log_file.refusal.text})" if log_file.refusal else ""
        raise RecordError(f"{path}: {len(found)} trainings{refusal}; expected the log of one, by fairseq-train")
    symbols = symbols_of_arguments(found[0].arguments, found[0].num_gpus)
    return Trained(path=str(path), log=found[0], symbols=symbols, rates=read_rates(path))


def search_of_signature(signature: str, place: str) -> Search | None:
    """Return the search that a signature of `aiayn decode` states; None if it states none."""
    fields = dict(_SEARCH_FIELD.findall(signature))
    if "beam" not in fields:
        return None
    limit = _MAX_LENGTH.fullmatch(fields.get("maxlen", ""))
    return Search(
        place=place,
        beam_size=int(fields["beam"]),
        length_penalty_alpha=float(fields["alpha"]) if "alpha" in fields else None,
        length_penalty_form=fields.get("lenpen"),
        stop=fields.get("stop"),
        max_length_per_source_token=float(limit[1]) if limit else None,
        max_extra_tokens=int(limit[2]) if limit else None,
    )


def translation_of_records(
    corpus: CorpusSpec,
    placed: tuple[Path, Hypotheses],
    averaged: tuple[Path, CheckpointRecord] | None,
    scored: tuple[Path, ScoreRecords] | None,
    references_path: Path | None,
    references: Sequence[str] | None,
) -> Translation:
    """Return a translated test set from its records and the files beside them."""
    path, record = placed
    reported = [] if scored is None else [
        Reported(str(scored[0]), one.metric, one.value, one.signature) for one in scored[1].scores
    ]  # fmt: skip
    return Translation(
        path=str(record.path),
        lines=read_lines(record.path, may_be_blank=True),
        pieces=read_lines(record.pieces_path, may_be_blank=True) if record.pieces_path.is_file() else None,
        testset=record.testset,
        split=split_of(corpus, record.testset),
        role=role_of(corpus, record.testset),
        average=record.average,
        averaged=None if averaged is None else Averaged(str(averaged[0]), tuple(averaged[1].averaged_updates)),
        search=search_of_signature(record.signature, str(path)),
        references_path=str(references_path or ""),
        references=None if references is None else tuple(references),
        reported=tuple(reported),
    )


def split_of(corpus: CorpusSpec, testset: str) -> str:
    """Return the data-bin's name of a test set, as `aiayn binarize` gives it: valid, test, test1 by their order."""
    if testset not in corpus.testsets:
        return ""
    place = corpus.testsets.index(testset)
    return ("valid", "test")[place] if place < 2 else f"test{place - 1}"


def role_of(corpus: CorpusSpec, testset: str) -> str:
    """Return the role of a test set in its corpus: dev, test, or '' for a further one."""
    return next((role for role in ("dev", "test") if corpus.testset_of(role) == testset), "")


def read_if_record(path: Path, record_type: type[_AnyRecord]) -> _AnyRecord | None:
    """Return a record of a type, None if the file is anything else."""
    try:
        return read_record(path, record_type)
    except RecordError:
        return None
