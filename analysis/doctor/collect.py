"""Collects the evidence on a training into a `Case`: log, data-bin, translations, references and
scores, either from the records of one of our runs or from any folder.

The records of our run name its files and say what was decoded, averaged and scored. The spec in its
training record (`training_json`) is not read, because the expected values come from the system's
own file.

In any other folder the content of a file decides how it is read. Translations come from a log of
`fairseq-generate` (S-, T-, H- and D- lines, put into the order of the source), from our records, or
from two plain files. The plain files are recognised by their names, or the caller gives them.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from aiayn.data.text.detokenise import join_any_pieces
from aiayn.errors import RecordError, UsageError
from aiayn.logs.evidence import (
    VALIDATION_BLEU,
    LoggedFolder,
    LoggedGeneration,
    LoggedTraining,
    join_logs,
    logged_training,
    metric_of_generation,
)
from aiayn.logs.listing import LeftOut, list_folder
from aiayn.logs.reader import OTHER_TOOLKIT, read_log
from aiayn.logs.symbols import Symbol
from aiayn.logs.types import TrainingLog
from aiayn.packed import find_packed
from aiayn.paths import (
    corpus_record,
    num_averaged,
    split_alpha,
)
from aiayn.records import (
    BinarizedCorpus,
    Hypotheses,
    PerplexityRecord,
    RawCorpus,
    Record,
    ScoreRecords,
    TrainRecord,
    read_record,
)
from aiayn.scoring.outputs.system_output import generated_sentences, read_output, read_text
from aiayn.spec.system import CorpusSpec
from analysis.doctor.check_settings import claimed_system, recorded_judgements
from analysis.doctor.data_bin import DataBin
from analysis.doctor.types import (
    Attending,
    Case,
    Claim,
    Reported,
    Scorer,
    Translation,
)
from paper_tables.compare.decoding import compare_generation
from paper_tables.compare.judgement import file_of
from paper_tables.logs.tables import file_problems

_MAX_LENGTH = re.compile(r"maxlen:([\d.]+)x\+(\d+)")  # in a signature of `aiayn decode`
_HYPOTHESES = re.compile(r"(hyp|sys|output|translations)", re.IGNORECASE)
_REFERENCES = re.compile(r"(ref)", re.IGNORECASE)
_PLAIN_SUFFIXES = (".txt", ".hyp", ".hypo", ".sys", ".ref", ".de", ".fr", ".es", ".sgm", ".gz")
MAX_NOTES = 4  # files that a refusal names
References = tuple[Path | None, tuple[str, ...] | None]  # their file and lines
_AnyRecord = TypeVar("_AnyRecord", bound=Record)


def list_runs(results_folder: Path) -> list[tuple[Path, TrainRecord]]:
    """Return every finished run below a results folder with its record's path, the newest last."""
    paths = sorted(
        results_folder.glob("*/train/*/*/seed*.json"), key=lambda path: path.stat().st_mtime
    )
    return [(path, read_record(path, TrainRecord)) for path in paths]


def collect_run(results_folder: Path, train: TrainRecord, claim: Claim, scorer: Scorer) -> Case:
    """Return the evidence of a run.

    Raises:
        RecordError, CorpusError: if a file that is there is malformed, or belongs to another run.
    """
    scale_folder = results_folder / claim.scale
    evaluated = f"{train.corpus}/{train.system}/seed{train.seed}"
    data = None
    binarized_path = corpus_record(results_folder, claim.scale, "binarize", train.corpus)
    if binarized_path.exists():
        folder = read_record(binarized_path, BinarizedCorpus).folder
        if folder.is_dir():
            data = DataBin(folder, claim.corpus.source_language, claim.corpus.target_language)
    decoded = []
    for path in sorted(scale_folder.glob(f"decode/{evaluated}/last*/*.json")):
        record = read_record(path, Hypotheses)
        if record.run != train.run:
            raise RecordError(
                f"{path}: of run {record.run}, expected {train.run}; rerun `decode`, or name"
                " that run"
            )
        # A name with another length penalty is a search that differs on purpose.
        if split_alpha(path.stem)[1] is None:
            decoded.append((path, record))
    decoded.sort(key=lambda placed: -num_averaged(placed[1].average))
    translations = []
    for path, record in decoded:
        scored_path = scale_folder / "score" / evaluated / record.average / path.name
        scored = None
        if scored_path.exists():
            scored = scored_path, read_record(scored_path, ScoreRecords)
        references = _references(results_folder, claim, record.testset)
        translations.append(_translation_from_records(claim, (path, record), scored, references))
    log_path = find_packed(train.log_path)
    return Case(
        claim=claim,
        training=None if log_path is None else read_training(log_path),
        data=data,
        translations=tuple(translations),
        scorer=scorer,
        attending=_attending(scale_folder, f"perplexity/{evaluated}/last*/*.json"),
    )


def _attending(folder: Path, pattern: str) -> Attending | None:
    """Return the cross-attention statistics of the first perplexity record that has them."""
    for path, record in _records(folder, PerplexityRecord, pattern):
        if record.cross_attention_entropy and record.bits_lost_uniform is not None:
            entropies = tuple(map(tuple, record.cross_attention_entropy))
            return Attending(str(path), entropies, record.bits_lost_uniform)
    return None


def _references(results_folder: Path, claim: Claim, testset: str) -> References:
    """Return the references as `score` takes them: raw lines, or joined where the corpus came in
    pieces.
    """
    raw_path = corpus_record(results_folder, claim.scale, "fetch", claim.corpus.name)
    if not raw_path.exists():
        return None, None
    pair = read_record(raw_path, RawCorpus).pair_by_split.get(testset)
    path = pair.path_by_language[claim.corpus.target_language] if pair else None
    if path is None or not path.exists():
        return None, None
    lines = read_lines(path)
    if claim.corpus.is_segmented:
        lines = tuple(join_any_pieces(line) for line in lines)
    return path, lines


def collect_folder(
    folder: Path,
    claim: Claim,
    scorer: Scorer,
    *,
    hypotheses_path: Path | None,
    references_path: Path | None,
) -> Case:
    """Return the evidence of one training in a folder; a kind of evidence that is absent is None.

    Raises:
        UsageError: if the folder holds several trainings or data-bins.
        RecordError, CorpusError: if a file is malformed.
    """
    listing = list_folder(folder)
    logs = join_logs(folder, {path: read_log(folder / path) for path in listing.log_paths})
    translations = tuple(_translations(folder, claim, logs, hypotheses_path, references_path))
    attending = _attending(folder, "**/*.json")
    notes = tuple(_not_read(logs, listing.left_out))
    case = Case(
        claim, _training(folder, logs), _data(folder, claim), translations, scorer, attending, notes
    )
    if case.training is None and case.data is None and not translations:
        others = [
            f"{path}: {file_problems(path, log_file)[0]}"
            for path, log_file in logs.file_by_path.items()
            if log_file.refusal is None and not log_file.entries
        ]
        shown = [*(note.removesuffix(".") for note in notes), *others]
        if not shown:
            shown = [f"{path} holds nothing of fairseq" for path in listing.log_paths]
        details = f" ({'; '.join(shown[:MAX_NOTES])})" if shown else ""
        raise RecordError(
            f"{folder}: no training log, no data-bin of {claim.corpus.language_pair} and no"
            " translations; expected at least one of these; name the folder that has"
            f" them{details}"
        )
    return case


def _not_read(logs: LoggedFolder, left_out: Sequence[LeftOut]) -> Iterator[str]:
    """Yield a sentence for each file that could not be read or is the log of another program."""
    for path, log_file in logs.file_by_path.items():
        refusal = log_file.refusal
        if refusal is not None:
            yield f"Not read: {path}: {refusal.text}; {refusal.next_step}."
        elif log_file.other_programs == (OTHER_TOOLKIT,) and not log_file.entries:
            yield f"Not read: {path}: a log of another toolkit than fairseq."
    for one in left_out:
        if not one.path.startswith("("):
            yield f"Not read: {one.why}."


def _training(folder: Path, logs: LoggedFolder) -> LoggedTraining | None:
    trainings = {training.identity or training.path: training for training in logs.trainings}
    _refuse_several(folder, "trainings", [training.path for training in trainings.values()])
    training = next(iter(trainings.values()), None)
    if training is None:
        return None
    log = training.log
    if not (log.arguments or log.num_parameters or log.validations):
        return None
    return msgspec.structs.replace(training, path=str(folder / file_of(training)))


def _data(folder: Path, claim: Claim) -> DataBin | None:
    source, target = claim.corpus.source_language, claim.corpus.target_language
    folders = [
        str(path.parent) for path in sorted(folder.rglob(f"train.{source}-{target}.{source}.idx"))
    ]
    _refuse_several(folder, "data-bins", folders)
    return DataBin(Path(folders[0]), source, target) if folders else None


def _refuse_several(folder: Path, what: str, paths: list[str]) -> None:
    if len(paths) > 1:
        raise UsageError(
            f"{folder}: {len(paths)} {what} ({', '.join(paths[:4])}); give a folder of one run"
        )


def _translations(
    folder: Path,
    claim: Claim,
    logs: LoggedFolder,
    hypotheses_path: Path | None,
    references_path: Path | None,
) -> Iterator[Translation]:
    given_path = references_path or _plain_file(folder, _REFERENCES)
    references = read_lines(given_path) if given_path else None
    scores = list(_records(folder, ScoreRecords))
    records = []
    for path, record in _records(folder, Hypotheses):
        scored = next((placed for placed in scores if _is_score_of(placed, record)), None)
        placed = path, record
        records.append(_translation_from_records(claim, placed, scored, (given_path, references)))
    generations = [
        _generated(folder, one, claim, None) for one in logs.generations if _is_scored(one)
    ]
    if hypotheses_path is None and (records or generations):
        yield from records or generations
        return
    plain_path = hypotheses_path or _plain_file(folder, _HYPOTHESES)
    if plain_path is None:
        return
    if read_output(plain_path).kind == "generate log":
        given = join_logs(plain_path.parent, {plain_path.name: read_log(plain_path)})
        yield from (
            _generated(plain_path.parent, one, claim, references_path) for one in given.generations
        )
        return
    testset = claim.corpus.test_testset
    yield Translation(
        path=str(plain_path),
        lines=read_lines(plain_path),
        testset=testset,
        split=split_of(claim.corpus, testset),
        role="test",
        references_path=str(given_path or ""),
        references=references,
    )


def _is_score_of(placed: tuple[Path, ScoreRecords], decoded: Hypotheses) -> bool:
    """Return whether a record of score below any folder may belong to decoded translations.

    A record of score does not name its average. The pipeline's folder, `last5`, does.
    """
    path, record = placed
    is_other_average = num_averaged(path.parent.name) and path.parent.name != decoded.average
    return record.testset == decoded.testset and not is_other_average


def _plain_file(folder: Path, name: re.Pattern[str]) -> Path | None:
    paths = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in _PLAIN_SUFFIXES
    ]
    return next((path for path in paths if name.match(path.name)), None)


def _records(
    folder: Path, record_type: type[_AnyRecord], pattern: str = "**/*.json"
) -> Iterator[tuple[Path, _AnyRecord]]:
    """Yield the records of a type below a folder, in order of path; files of anything else are
    passed over.
    """
    for path in sorted(folder.glob(pattern)):
        try:
            record = read_record(path, record_type)
        except RecordError:
            continue
        yield path, record


def _is_scored(generation: LoggedGeneration) -> bool:
    """Return whether a log of fairseq-generate holds translations or a score; a validation of a
    training does not count.
    """
    log = generation.log
    is_validation = log.bleu is not None and log.bleu.name == VALIDATION_BLEU
    return bool(log.num_hypotheses or log.bleu) and not is_validation


def _generated(
    folder: Path, generation: LoggedGeneration, claim: Claim, references_path: Path | None
) -> Translation:
    """Return fairseq-generate's lines as they are, in the order of the source, with the BLEU that
    it printed.
    """
    log = generation.log
    path = folder / generation.path.removesuffix(f"@{log.first_line}")
    lines = read_text(path).split("\n")[log.first_line - 1 : log.last_line]
    sentences = generated_sentences(lines)
    chosen = sentences["D"] or sentences["H"]
    numbers = sorted(chosen)
    references = _numbered_lines(sentences["T"], numbers)
    if references_path is not None:
        references = read_lines(references_path)
    subset = str(log.arguments.get("gen_subset") or "test")
    reported: tuple[Reported, ...] = ()
    metric = ""
    if log.bleu is not None:
        subset, metric = log.bleu.subset, metric_of_generation(log)
        if references_path is None:
            place = f"{path}:{log.bleu.line}"
            reported = (Reported(place, metric, log.bleu.value, ""),)
    testset = claim.corpus.testset_of("dev" if subset == "valid" else "test")
    generation = msgspec.structs.replace(generation, path=str(path))
    pair, system = claim.corpus.language_pair, claimed_system(claim)
    return Translation(
        path=str(path),
        lines=tuple(chosen[number] for number in numbers),
        testset=testset,
        split=subset,
        role=role_of(claim.corpus, testset),
        generation=generation,
        judgements=compare_generation(generation, pair, system),
        metric="bleu_fairseq" if metric == "bleu_as_given" else metric,
        references_path=str(references_path or path),
        references=references,
        reported=reported,
        source_lines=_numbered_lines(sentences["S"], numbers),
        logged=log.bleu,
    )


def _numbered_lines(line_by_number: dict[int, str], numbers: list[int]) -> tuple[str, ...] | None:
    """Return the lines with these numbers in their order; None if a line is missing."""
    if not numbers or not line_by_number.keys() >= set(numbers):
        return None
    return tuple(line_by_number[number] for number in numbers)


def read_lines(path: Path, *, may_be_blank: bool = False) -> tuple[str, ...]:
    """Return the lines of a text, whatever it is packed in (see
    `aiayn.scoring.outputs.system_output`).

    Raises:
        ScoreError: if the file is empty, truncated, binary or not UTF-8.
    """
    return tuple(read_output(path, may_be_blank=may_be_blank).lines)


def read_training(path: Path) -> LoggedTraining:
    """Return the content of a training's log.

    Raises:
        RecordError: if the file holds no training, or several.
    """
    log_file = read_log(path)
    trainings = [entry for entry in log_file.entries if isinstance(entry, TrainingLog)]
    if len(trainings) != 1:
        refusal = ""
        if log_file.refusal is not None:
            refusal = f" (line {log_file.refusal.line}: {log_file.refusal.text})"
        raise RecordError(
            f"{path}: {len(trainings)} trainings{refusal}; expected the log of one, by"
            " fairseq-train"
        )
    return logged_training(str(path), trainings[0], path.parent)


def _translation_from_records(
    claim: Claim,
    placed: tuple[Path, Hypotheses],
    scored: tuple[Path, ScoreRecords] | None,
    placed_references: References,
) -> Translation:
    """Return a translated test set from its record and the files that the record names; `scored` is
    the record of its scores.
    """
    path, record = placed
    text_path = find_packed(record.path) or record.path
    search: dict[str, Symbol] = {
        name: getattr(record, name)
        for name in ("beam_size", "length_penalty_alpha", "length_penalty_form", "stop")
    }
    if limit := _MAX_LENGTH.search(record.signature):
        search["max_length"] = f"{float(limit[1]):g} x source + {limit[2]}"
    reported: list[Reported] = []
    if scored is not None:
        for score in scored[1].scores:
            reported.append(Reported(str(scored[0]), score.metric, score.value, score.signature))
    references_path, references = placed_references
    role = role_of(claim.corpus, record.testset)
    judgements = recorded_judgements(claim, role, record.average, search, str(path))
    return Translation(
        path=str(text_path),
        lines=read_lines(text_path, may_be_blank=True),
        testset=record.testset,
        split=split_of(claim.corpus, record.testset),
        role=role,
        judgements=tuple(judgements),
        references_path=str(references_path or ""),
        references=references,
        reported=tuple(reported),
    )


def split_of(corpus: CorpusSpec, testset: str) -> str:
    """Return the data-bin's name of a test set, as `aiayn binarize` gives it: valid, test, test1 by
    their order.
    """
    if testset not in corpus.testsets:
        return ""
    place = corpus.testsets.index(testset)
    return ("valid", "test")[place] if place < 2 else f"test{place - 1}"


def role_of(corpus: CorpusSpec, testset: str) -> str:
    """Return the role of a test set in its corpus: dev or test, '' for any other."""
    return next((role for role in ("dev", "test") if corpus.testset_of(role) == testset), "")
