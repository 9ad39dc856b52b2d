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
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from aiayn.data.text.detokenise import join_any_pieces
from aiayn.errors import RecordError, UsageError
from aiayn.facts.listing import LeftOut, list_folder
from aiayn.logs.evidence import (
    VALIDATION_BLEU,
    LoggedFolder,
    LoggedTraining,
    file_of,
    join_logs,
    metric_of_generation,
)
from aiayn.logs.reader import OTHER_TOOLKIT, read_log
from aiayn.logs.types import Argument, GenerationLog
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
from analysis.doctor.check_facts import statements_of_folder
from analysis.doctor.data_bin import DataBin
from analysis.doctor.old_files import file_problem
from analysis.doctor.types import (
    Attending,
    Case,
    Claim,
    Reported,
    Scorer,
    Translation,
)

_MAX_LENGTH = re.compile(r"maxlen:([\d.]+)x\+(\d+)")  # in a signature of `aiayn decode`
_HYPOTHESES = re.compile(r"(hyp|sys|output|translations)", re.IGNORECASE)
_REFERENCES = re.compile(r"(ref)", re.IGNORECASE)
_PLAIN_SUFFIXES = (".txt", ".hyp", ".hypo", ".sys", ".ref", ".de", ".fr", ".es", ".sgm", ".gz")
MAX_NOTES = 4  # files that a refusal names
References = tuple[Path | None, tuple[str, ...] | None]  # their file and lines
_AnyRecord = TypeVar("_AnyRecord", bound=Record)


def list_runs(results_folder: Path) -> dict[str, Path]:
    """Return the record of every finished run below a results folder by the run's name, the newest
    last.

    Raises:
        RecordError: if there are no finished runs.
    """
    paths = sorted(
        results_folder.glob("*/train/*/*/seed*.json"), key=lambda path: path.stat().st_mtime
    )
    if not paths:
        raise RecordError(
            f"{results_folder}: no finished run; give its folder with --results, or a FOLDER of"
            " logs"
        )
    return {read_record(path, TrainRecord).run: path for path in paths}


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
        data = _data(read_record(binarized_path, BinarizedCorpus).folder, claim)
    decoded_paths = sorted(scale_folder.glob(f"decode/{evaluated}/last*/*.json"))
    decoded = [(path, read_record(path, Hypotheses)) for path in decoded_paths]
    for path, record in decoded:
        if record.run != train.run:
            raise RecordError(
                f"{path}: of run {record.run}, expected {train.run}; rerun `decode`, or name"
                " that run"
            )
    scored_paths = sorted(scale_folder.glob(f"score/{evaluated}/last*/*.json"))
    scores = [(path, read_record(path, ScoreRecords)) for path in scored_paths]
    log_path = find_packed(train.log_path)
    log_files = {} if log_path is None else {log_path.name: read_log(log_path)}
    logs = join_logs(train.log_path.parent, log_files)
    return Case(
        claim=claim,
        training=training_in(train.log_path.parent, logs),
        data=data,
        translations=_recorded(
            claim, decoded, scores, lambda testset: _references(results_folder, claim, testset)
        ),
        scorer=scorer,
        attending=_attending(scale_folder, f"perplexity/{evaluated}/last*/*.json"),
        notes=tuple(_not_read(logs, ())),
    )


def _recorded(
    claim: Claim,
    decoded: Iterable[tuple[Path, Hypotheses]],
    scores: Sequence[tuple[Path, ScoreRecords]],
    references_of: Callable[[str], References],
) -> tuple[Translation, ...]:
    """Return the translations of records, those of most checkpoints first; a record whose name has
    another length penalty is of a search that differs on purpose.
    """
    kept = [placed for placed in decoded if split_alpha(placed[0].stem)[1] is None]
    translations = []
    for path, record in sorted(kept, key=lambda placed: -num_averaged(placed[1].average)):
        text_path = find_packed(record.path) or record.path
        references_path, references = references_of(record.testset)
        translations.append(
            Translation(
                path=str(text_path),
                lines=read_lines(text_path, may_be_blank=True),
                testset=record.testset,
                role=role_of(claim, record.testset),
                generation=_recorded_generation(claim, path, record),
                references_path=str(references_path or ""),
                references=references,
                reported=_reported(record, scores),
            )
        )
    return tuple(translations)


def _recorded_generation(claim: Claim, path: Path, record: Hypotheses) -> GenerationLog:
    """Return the average and the search of a record in the terms of fairseq-generate."""
    role = role_of(claim, record.testset)
    arguments: dict[str, Argument] = {
        "beam": record.beam_size,
        "lenpen": record.length_penalty_alpha,
    }
    if limit := _MAX_LENGTH.search(record.signature):
        arguments |= {"max_len_a": float(limit[1]), "max_len_b": int(limit[2])}
    return GenerationLog(
        first_line=0,
        last_line=0,
        arguments=arguments,
        model_path=record.average,
        num_sentences=record.num_lines,
        # A further test set is a subset of its own name: no average is printed for it.
        subset={"dev": "valid"}.get(role, role) or record.testset,
        path=str(path),
        average=record.average,
    )


def _reported(
    decoded: Hypotheses, scores: Sequence[tuple[Path, ScoreRecords]]
) -> tuple[Reported, ...]:
    """Return the scores of decoded translations from the first record that may belong to them.

    A record of score does not name its average. The pipeline's folder, `last5`, does.
    """
    for path, record in scores:
        is_other_average = num_averaged(path.parent.name) and path.parent.name != decoded.average
        is_probe = split_alpha(path.stem)[1] is not None
        if record.testset == decoded.testset and not is_other_average and not is_probe:
            return tuple(
                Reported(str(path), score.metric, score.value, score.signature)
                for score in record.scores
            )
    return ()


def role_of(claim: Claim, testset: str) -> str:
    """Return the role of a test set in its corpus: dev or test, '' for any other."""
    for role in ("dev", "test"):
        if claim.corpus.testset_of(role) == testset:
            return role
    return ""


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
    translations = _translations(folder, claim, logs, hypotheses_path, references_path)
    attending = _attending(folder, "**/*.json")
    notes = tuple(_not_read(logs, listing.left_out))
    case = Case(
        claim,
        training_in(folder, logs),
        _data(folder, claim),
        translations,
        scorer,
        attending,
        notes,
        statements_of_folder(folder),
    )
    if case.training is None and case.data is None and not translations:
        others = [
            f"{path}: {file_problem(path, log_file)}"
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


def training_in(folder: Path, logs: LoggedFolder) -> LoggedTraining | None:
    """Return the only training of a folder; None without a training, or if its log states nothing.

    Raises:
        UsageError: if there are several.
    """
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
) -> tuple[Translation, ...]:
    given_path = references_path or _plain_file(folder, _REFERENCES)
    references = read_lines(given_path) if given_path else None
    plain_path = hypotheses_path
    if plain_path is None:
        decoded, scores = _records(folder, Hypotheses), list(_records(folder, ScoreRecords))
        recorded = _recorded(claim, decoded, scores, lambda testset: (given_path, references))
        generated = [
            _generated(folder, one, claim, None) for one in logs.generations if _is_scored(one)
        ]
        plain_path = _plain_file(folder, _HYPOTHESES)
        if recorded or generated or plain_path is None:
            return recorded or tuple(generated)
    if read_output(plain_path).kind == "generate log":
        given = join_logs(plain_path.parent, {plain_path.name: read_log(plain_path)})
        return tuple(
            _generated(plain_path.parent, one, claim, references_path) for one in given.generations
        )
    translation = Translation(
        path=str(plain_path),
        lines=read_lines(plain_path),
        testset=claim.corpus.test_testset,
        role="test",
        references_path=str(given_path or ""),
        references=references,
    )
    return (translation,)


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


def _is_scored(log: GenerationLog) -> bool:
    """Return whether a log of fairseq-generate holds translations or a score; a validation of a
    training does not count.
    """
    has_content = log.num_hypotheses > 0 or log.bleu is not None
    return has_content and log.bleu_name != VALIDATION_BLEU


def _generated(
    folder: Path, log: GenerationLog, claim: Claim, references_path: Path | None
) -> Translation:
    """Return fairseq-generate's lines as they are, in the order of the source, with the BLEU that
    it printed.
    """
    path = folder / file_of(log)
    lines = read_text(path).split("\n")[log.first_line - 1 : log.last_line]
    sentences = generated_sentences(lines)
    chosen = sentences["D"] or sentences["H"]
    numbers = sorted(chosen)
    references = None
    if sentences["T"].keys() >= set(numbers):
        references = tuple(sentences["T"][number] for number in numbers)
    reported: tuple[Reported, ...] = ()
    if references_path is not None:
        references = read_lines(references_path)
    elif log.bleu is not None:
        place = f"{path}:{log.bleu_line}"
        reported = (Reported(place, metric_of_generation(log), log.bleu, ""),)
    role = "dev" if log.role == "dev" else "test"
    return Translation(
        path=str(path),
        lines=tuple(chosen[number] for number in numbers),
        testset=claim.corpus.testset_of(role),
        role=role,
        generation=msgspec.structs.replace(log, path=str(path)),
        references_path=str(references_path or path),
        references=references,
        reported=reported,
    )


def read_lines(path: Path, *, may_be_blank: bool = False) -> tuple[str, ...]:
    """Return the lines of a text, whatever it is packed in (see
    `aiayn.scoring.outputs.system_output`).

    Raises:
        ScoreError: if the file is empty, truncated, binary or not UTF-8.
    """
    return tuple(read_output(path, may_be_blank=may_be_blank).lines)
