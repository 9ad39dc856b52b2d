"""Finds evidence in any folder: fairseq's log, a data-bin, translations. The content of a file decides what it is.

Translations are those of `fairseq-generate` (S-, T-, H-, D- lines, put into the order of the source), records of ours
with the files beside them, or two plain files: hypotheses and references by their names, or named by the caller. A
sacreBLEU score saved as JSON is taken for what was reported.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from aiayn.errors import RecordError, UsageError
from aiayn.paths import num_averaged
from aiayn.records import CheckpointRecord, Hypotheses, ScoreRecords
from analysis.doctor.collect import (
    read_if_record,
    read_lines,
    read_trained,
    role_of,
    split_of,
    translation_of_records,
)
from analysis.doctor.data_bin import DataBin
from analysis.doctor.types import Case, Claim, Reported, Scorer, Search, Trained, Translation
from analysis.logs.evaluations import average_of, metric_of_generation
from analysis.logs.listing import list_logs
from analysis.logs.reader import read_log
from analysis.logs.types import AveragingLog, GenerationLog, TrainingLog
from analysis.scoring.system_output import generated_sentences, read_output, read_text

_HYPOTHESES = re.compile(r"(hyp|sys|output|translations)", re.IGNORECASE)
_REFERENCES = re.compile(r"(ref)", re.IGNORECASE)
_PLAIN_SUFFIXES = (".txt", ".hyp", ".hypo", ".sys", ".ref", ".de", ".fr", ".es", ".sgm", ".gz")
_METRIC_BY_TOKENIZER = {"13a": "bleu_sacre_13a", "intl": "bleu_sacre_intl"}


def training_logs(folder: Path) -> list[str]:
    """Return the paths below a folder of the logs of trainings."""
    found = []
    for path in list_logs(folder):
        log_file, _ = read_log(folder / path)
        found += [path for entry in log_file.entries if isinstance(entry, TrainingLog)][:1]
    return found


def collect_folder(
    folder: Path, claim: Claim, scorer: Scorer, *, hypotheses_path: Path | None, references_path: Path | None
) -> Case:
    """Return the evidence of one training in a folder; a kind of evidence that is absent is None.

    Raises:
        UsageError: if the folder holds several trainings or data-bins.
        RecordError, CorpusError: if a file is malformed.
    """
    translations = tuple(_translations(folder, claim, hypotheses_path, references_path))
    case = Case(claim, _trained(folder), _data(folder, claim), translations, scorer)
    if case.trained is None and case.data is None and not translations:
        raise RecordError(
            f"{folder}: no training log, no data-bin of {claim.corpus.language_pair} and no translations; "
            f"expected one of them at least; name the folder that has them"
        )
    return case


def _trained(folder: Path) -> Trained | None:
    paths = training_logs(folder)
    _refuse_several(folder, "logs of trainings", paths)
    return read_trained(folder / paths[0]) if paths else None


def _data(folder: Path, claim: Claim) -> DataBin | None:
    source, target = claim.corpus.source_language, claim.corpus.target_language
    folders = [str(path.parent) for path in sorted(folder.rglob(f"train.{source}-{target}.{source}.idx"))]
    _refuse_several(folder, "data-bins", folders)
    return DataBin(Path(folders[0]), source, target) if folders else None


def _refuse_several(folder: Path, what: str, paths: list[str]) -> None:
    if len(paths) > 1:
        raise UsageError(f"{folder}: {len(paths)} {what} ({', '.join(paths[:4])}); give a folder of one run")


def _translations(
    folder: Path, claim: Claim, hypotheses_path: Path | None, references_path: Path | None
) -> Iterator[Translation]:
    records = list(_of_records(folder, claim, references_path or _plain_file(folder, _REFERENCES)))
    generations = list(_generations(folder, claim))
    if hypotheses_path is None and (records or generations):
        yield from records or generations
        return
    plain_path = hypotheses_path or _plain_file(folder, _HYPOTHESES)
    if plain_path is None:
        return
    if read_output(plain_path).kind == "generate log":
        yield from _generations(plain_path.parent, claim, only=plain_path.name, references_path=references_path)
        return
    given_path = references_path or _plain_file(folder, _REFERENCES)
    testset = claim.corpus.test_testset
    yield Translation(
        path=str(plain_path), lines=read_lines(plain_path), pieces=None, testset=testset,
        split=split_of(claim.corpus, testset), role="test", average="", averaged=None, search=None,
        references_path=str(given_path or ""), references=read_lines(given_path) if given_path else None,
        reported=tuple(_sacrebleu_scores(folder)),
    )  # fmt: skip


def _plain_file(folder: Path, name: re.Pattern[str]) -> Path | None:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix in _PLAIN_SUFFIXES]
    return next((path for path in paths if name.match(path.name)), None)


def _of_records(folder: Path, claim: Claim, references_path: Path | None) -> Iterator[Translation]:
    """Yield what records of ours below the folder are of; references are those of a plain file, if there is one."""
    paths = sorted(folder.rglob("*.json"))
    checkpoints = [(path, found) for path in paths if (found := read_if_record(path, CheckpointRecord))]
    scores = [(path, score) for path in paths if (score := read_if_record(path, ScoreRecords))]
    for path in paths:
        record = read_if_record(path, Hypotheses)
        if record is None:
            continue
        averaged = next((one for one in checkpoints if one[1].average == record.average), None)
        scored = next((one for one in scores if one[1].testset == record.testset), None)
        references = read_lines(references_path) if references_path else None
        yield translation_of_records(claim.corpus, (path, record), averaged, scored, references_path, references)


def _generations(
    folder: Path, claim: Claim, only: str | None = None, references_path: Path | None = None
) -> Iterator[Translation]:
    """Yield what logs of fairseq-generate below a folder hold, or the one that is named."""
    names = list_logs(folder) if only is None else [only]
    entries = [(path, entry) for path in names for entry in read_log(folder / path)[0].entries]
    averagings = [entry for _, entry in entries if isinstance(entry, AveragingLog)]
    for path, entry in entries:
        if isinstance(entry, GenerationLog) and (entry.num_hypotheses or entry.bleu):
            average = average_of(entry, averagings, None)
            average = average if num_averaged(average) else ""
            yield _generated(folder / path, entry, claim, average, references_path)


def _generated(path: Path, log: GenerationLog, claim: Claim, average: str, references_path: Path | None) -> Translation:
    """Return fairseq-generate's lines as they are, in the order of the source, with the BLEU that it printed."""
    lines = read_text(path).split("\n")[log.first_line - 1 : log.last_line]
    sentences = generated_sentences(lines)
    chosen = sentences["D"] or sentences["H"]
    numbers = sorted(chosen)
    subset = log.bleu.subset if log.bleu else str(log.arguments.get("gen_subset") or "test")
    testset = claim.corpus.testset_of("dev" if subset == "valid" else "test")
    reported = []
    if log.bleu is not None:
        reported = [Reported(f"{path}:{log.bleu.line}", metric_of_generation(log), log.bleu.value, "")]
    return Translation(
        path=str(path), lines=tuple(chosen[number] for number in numbers),
        pieces=None, testset=testset, split=subset, role=role_of(claim.corpus, testset), average=average,
        averaged=None, search=_search_of_log(path, log),
        references_path=str(references_path or path),
        references=read_lines(references_path) if references_path else _of_all(sentences["T"], numbers),
        reported=() if references_path else tuple(reported),
        source_lines=_of_all(sentences["S"], numbers), logged=log.bleu,
    )  # fmt: skip


def _of_all(line_by_number: dict[int, str], numbers: list[int]) -> tuple[str, ...] | None:
    """Return the lines of these numbers, None unless each has one."""
    if not numbers or not line_by_number.keys() >= set(numbers):
        return None
    return tuple(line_by_number[number] for number in numbers)


def _search_of_log(path: Path, log: GenerationLog) -> Search:
    arguments = log.arguments
    beam_size = arguments.get("beam") or (log.bleu.beam_size if log.bleu else None)
    alpha, factor, extra = (arguments.get(key) for key in ("lenpen", "max_len_a", "max_len_b"))
    return Search(
        place=f"{path}:{log.first_line}",
        beam_size=beam_size if isinstance(beam_size, int) else None,
        length_penalty_alpha=float(alpha) if isinstance(alpha, int | float) else None,
        max_length_per_source_token=float(factor) if isinstance(factor, int | float) else None,
        max_extra_tokens=extra if isinstance(extra, int) else None,
    )


def _sacrebleu_scores(folder: Path) -> Iterator[Reported]:
    """Yield the scores that sacreBLEU wrote as JSON; those whose definition is none of ours keep their own name."""
    for path in sorted(folder.rglob("*.json")):
        try:
            content = json.loads(path.read_bytes())
        except ValueError:
            continue
        for score in content if isinstance(content, list) else [content]:
            if not isinstance(score, dict) or not {"name", "score", "signature"} <= score.keys():
                continue
            if isinstance(score["score"], int | float):
                signature = str(score["signature"])
                tokenizer = re.search(r"tok:(\w+)", signature)
                metric = _METRIC_BY_TOKENIZER.get(tokenizer[1] if tokenizer else "", str(score["name"]))
                yield Reported(str(path), metric, float(score["score"]), signature)
