"""Finds the evidence of a run of ours below a results folder: log, data-bin, translations, references and scores.

Records name the files and what was decoded, averaged and scored. The spec that the run was trained with
(`training_json`) is not read: the expected values are those of the system's own file.
"""

from pathlib import Path

from aiayn.errors import RecordError
from aiayn.paths import Evaluation, average_record, corpus_record, evaluation_record, num_averaged
from aiayn.records import (
    BinarizedCorpus,
    CheckpointRecord,
    Hypotheses,
    RawCorpus,
    ScoreRecords,
    TrainRecord,
    read_record,
)
from analysis.doctor.collect import read_lines, read_trained, role_of, translation_of_records
from analysis.doctor.data_bin import DataBin
from analysis.doctor.types import Case, Claim, Scorer, Translation
from analysis.scoring.system_output import joined


def list_runs(results_folder: Path) -> list[tuple[Path, TrainRecord]]:
    """Return every finished run below a results folder with its record's path, the newest last."""
    paths = sorted(results_folder.glob("*/train/*/*/seed*.json"), key=lambda path: path.stat().st_mtime)
    return [(path, read_record(path, TrainRecord)) for path in paths]


def scale_of(results_folder: Path, train_path: Path) -> str:
    """Return the scale below whose folder a run's record lies."""
    return train_path.relative_to(results_folder).parts[0]


def collect_run(results_folder: Path, train_path: Path, train: TrainRecord, claim: Claim, scorer: Scorer) -> Case:
    """Return the evidence of a run.

    Raises:
        RecordError, CorpusError: if a file that is there is malformed.
    """
    binarized_path = corpus_record(results_folder, claim.scale, "binarize", train.corpus)
    data = None
    if binarized_path.exists():
        folder = read_record(binarized_path, BinarizedCorpus).folder
        if folder.is_dir():
            data = DataBin(folder, claim.corpus.source_language, claim.corpus.target_language)
    return Case(
        claim=claim,
        trained=read_trained(train.log_path) if train.log_path.exists() else None,
        data=data,
        translations=tuple(_translations(results_folder, train, claim)),
        scorer=scorer,
    )


def _translations(results_folder: Path, train: TrainRecord, claim: Claim) -> list[Translation]:
    pattern = f"{claim.scale}/decode/{train.corpus}/{train.system}/seed{train.seed}/last*/*.json"
    paths = sorted(results_folder.glob(pattern), key=lambda path: (num_averaged(path.parent.name), path.name))
    found = []
    for path in paths:
        record = read_record(path, Hypotheses)
        if record.run != train.run:
            raise RecordError(f"{path}: of run {record.run}, expected {train.run}; rerun `decode`, or name that run")
        references_path, references = _references(results_folder, claim, record.testset)
        evaluation = Evaluation(
            corpus=train.corpus, system=train.system, seed=train.seed, average=record.average, testset=record.testset,
            role=role_of(claim.corpus, record.testset), language_pair=claim.corpus.language_pair,
        )  # fmt: skip
        scored_path = evaluation_record(results_folder, claim.scale, "score", evaluation)
        averaged_path = average_record(
            results_folder, claim.scale, train.corpus, train.system, train.seed, record.average
        )
        found.append(
            translation_of_records(
                claim.corpus,
                (path, record),
                (averaged_path, read_record(averaged_path, CheckpointRecord)) if averaged_path.exists() else None,
                (scored_path, read_record(scored_path, ScoreRecords)) if scored_path.exists() else None,
                references_path,
                references,
            )
        )
    return found


def _references(results_folder: Path, claim: Claim, testset: str) -> tuple[Path | None, list[str] | None]:
    """Return the references as `score` takes them: raw lines, or joined where the corpus came in pieces."""
    raw_path = corpus_record(results_folder, claim.scale, "fetch", claim.corpus.name)
    if not raw_path.exists():
        return None, None
    pair = read_record(raw_path, RawCorpus).pair_by_split.get(testset)
    path = pair.path_by_language[claim.corpus.target_language] if pair else None
    if path is None or not path.exists():
        return None, None
    lines = read_lines(path)
    return path, [joined(line) for line in lines] if claim.corpus.is_segmented else list(lines)
