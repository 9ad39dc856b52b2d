"""Judges a pack of measured runs, ours or another group's: whole and free of contradiction, or refused with reasons.

Nothing in it is unpickled or run: records, logs and text are read, every score is computed again from its translations,
and the tables are rendered again. A low result is no reason to refuse. What the doctor finds stands beside the row.
That no further seed was run cannot be seen: it is the submitter's own sentence (paper_tables/measured/README.md).
"""

import filecmp
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from aiayn.data.text.detokenise import detokenise
from aiayn.errors import AiaynError, RecordError, StateError
from aiayn.packed import find_packed, open_unpacked
from aiayn.paths import Evaluation, average_record, corpus_record, evaluation_record, split_alpha
from aiayn.records import CheckpointRecord, Hypotheses, RawCorpus, ScoreRecords, TrainRecord, read_record
from aiayn.runs.attempts import ATTEMPTS_NAME, LOG_NAME, Started, list_attempts, read_events
from aiayn.spec.system import CONFIG_FOLDER, SCALES, CorpusSpec
from analysis.logs.reader import read_log
from analysis.logs.types import TrainingLog
from analysis.scoring.score import default_metrics, lines_sha256, score_hypotheses
from analysis.scoring.scores import training_key
from paper_tables.doctor.diagnoses import diagnose_run
from paper_tables.scale_results import REQUEST_NAME, RUNS_NAME, RecordedResults, gather_from_records
from paper_tables.tools.readme import write_tables_of_pack

MAX_BYTES = 20_000_000
SUFFIXES = (".csv", ".html", ".json", ".jsonl", ".md", ".svg", ".tex", ".tsv", ".xz")
MODELS_NAME = "models"  # as `aiayn pack --model` writes them
MODEL_SUFFIXES = (".codes", ".model", ".safetensors", ".txt", ".vocab", "")  # '' is the NOTICE; none is a pickle
SCORE_TOLERANCE = 1e-6  # BLEU; the order of a sum may differ between machines
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
ReadReferences = Callable[[CorpusSpec, str], Sequence[str]]  # (corpus, test set): the raw lines as published


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """What was checked, why the pack is refused (nothing: it is admitted), and what stands beside its rows."""

    num_runs: int
    num_asked: int
    num_scores: int
    num_bytes: int
    refusals: tuple[str, ...]
    findings: tuple[str, ...]


def check_pack(folder: Path, read_references: ReadReferences, *, config_folder: Path = CONFIG_FOLDER) -> Admission:
    """Check a folder as `aiayn pack` writes it.

    Raises:
        StateError: if it is no pack.
        RecordError: if a record is torn or of another training than its path names.
    """
    folder = folder.resolve()
    if folder.name not in SCALES or not (folder / REQUEST_NAME).is_file():
        raise StateError(
            f"{folder}: no pack; expected a folder named for its scale ({', '.join(SCALES)}) with {REQUEST_NAME}; "
            "`aiayn pack` makes one"
        )
    recorded = gather_from_records(folder.name, [folder.parent], config_folder)
    results = recorded.results
    recomputed: list[str] = []
    num_scores = 0
    references_by_testset: dict[tuple[str, str], Sequence[str]] = {}
    for evaluation in results.experiment.evaluations:
        if training_key(evaluation) not in results.train_by_key:
            continue
        place = (evaluation.corpus, split_alpha(evaluation.testset)[0])
        corpus = results.experiment.corpora[evaluation.corpus]
        try:
            if place not in references_by_testset:
                references_by_testset[place] = read_references(corpus, place[1])
            recomputed += _score_faults(folder, evaluation, corpus, references_by_testset[place])
            num_scores += 1
        except RecordError as error:
            recomputed.append(str(error))
    missing = [key for key in results.state_by_key if key not in results.train_by_key]
    refusals = [
        *_file_faults(folder),
        *(f"{corpus} {system} seed {seed}: asked for, and not there; a pack is whole when it is trained"
          for corpus, system, seed in missing),
        *_besides(folder, recorded),
        *(fault.text for fault in recorded.faults),
        *(text for train in results.train_by_key.values() for text in _run_faults(folder, train)),
        *recomputed,
        *_table_faults(folder, recorded),
    ]  # fmt: skip
    return Admission(
        num_runs=len(results.train_by_key), num_asked=len(results.state_by_key), num_scores=num_scores,
        num_bytes=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        refusals=tuple(dict.fromkeys(refusals)), findings=tuple(_findings(folder, recorded)),
    )  # fmt: skip


def _file_faults(folder: Path) -> Iterator[str]:
    """Yield what is too large, and every file that is none of a pack's."""
    paths = sorted(folder.rglob("*"))
    num_bytes = sum(path.lstat().st_size for path in paths if not path.is_dir())
    if num_bytes > MAX_BYTES:
        yield f"{folder}: {num_bytes / 1e6:.2f} MB, expected {MAX_BYTES / 1e6:.0f} MB at most; ask for fewer runs"
    for path in paths:
        is_models = path.relative_to(folder).parts[0] == MODELS_NAME
        suffixes = (*SUFFIXES, *MODEL_SUFFIXES) if is_models else SUFFIXES
        if path.is_symlink() or not (path.is_dir() or path.suffix in suffixes):
            yield f"{path}: a link, or no record, log, text or table; a pack has no other files; delete it"


def _besides(folder: Path, recorded: RecordedResults) -> Iterator[str]:
    """Yield the runs, and the records of evaluations, that belong to no training that was asked for."""
    trainings = recorded.results.train_by_key
    runs = {train.run for train in trainings.values()}
    for path in sorted((*folder.glob(f"{RUNS_NAME}/*"), *folder.glob(f"{MODELS_NAME}/*"))):
        if path.name not in runs:
            yield f"{path}: of no training that {REQUEST_NAME} asks for; ask for it, or pack the scale again"
    names = {(corpus, system, f"seed{seed}") for corpus, system, seed in trainings}
    for path in sorted(folder.glob("*/*/*/seed*")):
        if path.is_dir() and path.parts[-3:] not in names:
            yield f"{path}: of no finished training that {REQUEST_NAME} asks for; pack the scale again"


def _run_faults(folder: Path, train: TrainRecord) -> Iterator[str]:
    """Yield why a run is not whole, or contradicts its record."""
    run_folder = folder / RUNS_NAME / train.run
    log_path = find_packed(run_folder / LOG_NAME)
    if log_path is None or not (run_folder / ATTEMPTS_NAME).exists():
        yield f"{run_folder}: no {LOG_NAME if log_path is None else ATTEMPTS_NAME}; pack the run with it"
    else:
        read = read_log(log_path)
        logs = [entry for entry in read.entries if isinstance(entry, TrainingLog)]
        if read.refusal is not None or len(logs) != 1:
            why = read.refusal or f"{len(logs)} trainings in it, expected 1"
            yield f"{log_path}: not whole: {why}; pack the run's own log again"
        elif (log := logs[0]).last_update != train.updates or log.truncated_line is not None:
            yield (
                f"{log_path}: cut: it ends at update {log.last_update:,}, its record has {train.updates:,}; pack the "
                "run's own log again"
            )
        elif log.arguments.get("seed", train.seed) != train.seed:
            yield f"{log_path}: of seed {log.arguments['seed']}, its record is of {train.seed}; pack the run's own log"
        events = read_events(run_folder)
        last = list_attempts(events)[-1] if any(isinstance(one, Started) for one in events) else None
        if last is None or (last.outcome, last.last_update) != ("done", train.updates):
            said = "no attempt" if last is None else f"{last.outcome or 'open'} at update {last.last_update}"
            yield f"{run_folder / ATTEMPTS_NAME}: ends with {said}; expected done at update {train.updates}"
    if not _COMMIT.fullmatch(train.provenance.commit):
        yield f"{train.run}: commit {train.provenance.commit!r} is none; name the commit that trained it"
    hardware = train.hardware
    if not (hardware.gpu if hardware.num_gpus else hardware.cpu):
        yield f"{train.run}: its record names no {'GPU' if hardware.num_gpus else 'CPU'}; name the hardware"
    key = (train.corpus, train.system, train.seed)
    path = average_record(folder.parent, folder.name, *key, "last1")
    if path.exists() and read_record(path, CheckpointRecord).tensors_sha256 != train.tensors_sha256:
        yield f"{path}: the last model has another digest than in the record of {train.run}; average it again"


def _score_faults(folder: Path, evaluation: Evaluation, corpus: CorpusSpec, references: Sequence[str]) -> Iterator[str]:
    """Yield where the recorded scores of an evaluation are not those of its translations."""
    place, (testset, _) = (folder.parent, folder.name), split_alpha(evaluation.testset)
    decode_path, score_path = (evaluation_record(*place, verb, evaluation) for verb in ("decode", "score"))
    decoded, scored = read_record(decode_path, Hypotheses), read_record(score_path, ScoreRecords)
    raw_path = corpus_record(*place, "fetch", evaluation.corpus)
    pair = read_record(raw_path, RawCorpus).pair_by_split.get(testset) if raw_path.exists() else None
    text_path = find_packed(decode_path.with_suffix(".txt"))
    if evaluation.has_perplexity and not evaluation_record(*place, "perplexity", evaluation).exists():
        yield f"{evaluation_record(*place, 'perplexity', evaluation)}: no such record; run `aiayn perplexity`"
    if pair is None:
        yield f"{raw_path}: no record of {testset}, so that its references have no digest; run `aiayn fetch`"
    elif (named := pair.sha256_by_language[corpus.target_language]) != lines_sha256(references):
        yield f"{raw_path}: references of {testset} of sha256 {named}, published {lines_sha256(references)}"
        return  # scores on other references say nothing
    if text_path is None:
        return  # named by the reader of records, as what cannot be unpacked is
    with open_unpacked(text_path) as content:
        lines = content.read().decode("utf-8").removesuffix("\n").split("\n")
    if corpus.is_segmented:
        references = [detokenise(line, corpus) for line in references]
    found = score_hypotheses(
        lines, references, metrics=default_metrics(corpus.target_language, corpus.is_segmented),
        target_language=corpus.target_language, testset=testset,
    )  # fmt: skip
    sha256 = lines_sha256(lines)
    if decoded.hypotheses_sha256 != sha256:
        yield f"{decode_path}: translations of sha256 {decoded.hypotheses_sha256}, those beside it have {sha256}"
    value_by_metric = {score.metric: score.value for score in scored.scores}
    if sorted(value_by_metric) != sorted(score.metric for score in found):
        yield f"{score_path}: definitions {', '.join(value_by_metric)}; expected all of `aiayn score`; score again"
    wrong = [
        f"{score.metric} {value_by_metric[score.metric]:g}, but its translations give {score.value:g}"
        for score in found
        if abs(value_by_metric.get(score.metric, score.value) - score.value) > SCORE_TOLERANCE
    ]
    penalty_by_metric = {score.metric: score.brevity_penalty for score in scored.scores}
    wrong += [
        f"brevity penalty {penalty:g} in {score.metric}, but its translations give {score.brevity_penalty:g}"
        for score in found
        if (penalty := penalty_by_metric.get(score.metric)) is not None and score.brevity_penalty is not None
        and abs(penalty - score.brevity_penalty) > SCORE_TOLERANCE
    ]  # fmt: skip
    if wrong:
        others = f", and {len(wrong) - 1} other definitions" if len(wrong) > 1 else ""
        yield f"{score_path}: {wrong[0]}{others}; score them again"


def _table_faults(folder: Path, recorded: RecordedResults) -> Iterator[str]:
    """Yield the tables that do not follow from the files, byte for byte."""
    with tempfile.TemporaryDirectory() as name:
        again = Path(name)
        write_tables_of_pack(recorded, again)
        made = {path.relative_to(again) for path in again.rglob("*") if path.is_file()}
        there = {path.relative_to(folder) for path in (*folder.glob("*.*"), *folder.glob("tables/*"))}
        there.discard(Path(REQUEST_NAME))
        for path in sorted(made | there):
            if path not in made or path not in there or not filecmp.cmp(again / path, folder / path, shallow=False):
                yield f"{folder / path}: not what its files give; pack it again"


def _findings(folder: Path, recorded: RecordedResults) -> Iterator[str]:
    """Yield what the doctor finds in each run, and runs of a changed working tree."""
    results = recorded.results
    for train in results.train_by_key.values():
        if train.provenance.is_dirty:
            yield f"{train.run}: trained from a changed working tree, beside commit {train.provenance.commit}"
        try:
            diagnosis = diagnose_run(folder.parent, Path(RUNS_NAME), train.run, results.experiment.scale.overrides)
        except AiaynError as error:
            yield f"{train.run}: the doctor cannot judge it: {error}"
            continue
        if diagnosis.findings:
            yield f"{train.run}: {'; '.join(finding.title for finding in diagnosis.findings)}"
