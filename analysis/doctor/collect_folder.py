"""Finds evidence in anybody's folder: fairseq's log, a data-bin, translations; what each file is, its content says.

Translations are those of `fairseq-generate` (S-, T-, H-, D- lines, put into the order of the source), records of ours
with the files beside them, or two plain files: hypotheses and references by their names, or named by the caller. A
sacreBLEU score saved as JSON is taken for what was reported.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from aiayn.errors import RecordError, UsageError
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
from analysis.doctor.pieces import joined
from analysis.doctor.types import Case, Claim, Reported, Scorer, Search, Trained, Translation
from analysis.logs.cache import list_logs
from analysis.logs.evaluations import average_of
from analysis.logs.reader import read_log
from analysis.logs.types import AveragingLog, GenerationLog, TrainingLog

_SENTENCE = re.compile(r"([STHD])-(\d+)\t(.*)")
_HYPOTHESES = re.compile(r"(hyp|sys|output|translations)", re.IGNORECASE)
_REFERENCES = re.compile(r"(ref)", re.IGNORECASE)
_PLAIN_SUFFIXES = (".txt", ".hyp", ".hypo", ".sys", ".ref", ".de", ".fr")
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
    """Return all that a folder holds of one training; a kind of evidence that is not there is none.

    Raises:
        UsageError: if the folder holds several trainings or data-bins.
        RecordError, CorpusError: if a file is malformed.
    """
    translations = tuple(_translations(folder, claim, hypotheses_path, references_path))
    case = Case(claim, _trained(folder), _data(folder, claim), translations, scorer)
    if case.trained is None and case.data is None and not translations:
        raise RecordError(
            f"{folder}: neither a training's log nor a data-bin of {claim.corpus.language_pair} nor translations; "
            f"expected at least one of them; name the folder that holds them"
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


def _generations(folder: Path, claim: Claim) -> Iterator[Translation]:
    entries = [(path, entry) for path in list_logs(folder) for entry in read_log(folder / path)[0].entries]
    averagings = [entry for _, entry in entries if isinstance(entry, AveragingLog)]
    for path, entry in entries:
        if isinstance(entry, GenerationLog) and entry.num_hypotheses:
            average = average_of(entry, averagings, None)
            yield _generated(folder / path, entry, claim, average if average.startswith("last") else "")


def _generated(path: Path, log: GenerationLog, claim: Claim, average: str) -> Translation:
    """Return fairseq-generate's lines in the order of the source; its first hypothesis of each is the best."""
    line_by_kind: dict[str, dict[int, str]] = {kind: {} for kind in "STHD"}
    for line in read_lines(path)[log.first_line - 1 : log.last_line]:
        if found := _SENTENCE.match(line):
            text = found[3] if found[1] in "ST" else found[3].partition("\t")[2]
            line_by_kind[found[1]].setdefault(int(found[2]), text)
    chosen = line_by_kind["D"] or line_by_kind["H"]
    numbers = sorted(chosen)
    targets = line_by_kind["T"]
    has_targets = bool(numbers) and all(number in targets for number in numbers)
    subset = log.bleu.subset if log.bleu else str(log.arguments.get("gen_subset") or "test")
    testset = claim.corpus.testset_of("dev" if subset == "valid" else "test")
    arguments = log.arguments
    beam_size = arguments.get("beam") or (log.bleu.beam_size if log.bleu else None)
    alpha, factor, extra = (arguments.get(key) for key in ("lenpen", "max_len_a", "max_len_b"))
    return Translation(
        path=str(path), lines=tuple(chosen[number] for number in numbers),
        pieces=None, testset=testset, split=subset, role=role_of(claim.corpus, testset), average=average,
        averaged=None,
        search=Search(
            place=f"{path}:{log.first_line}",
            beam_size=beam_size if isinstance(beam_size, int) else None,
            length_penalty_alpha=float(alpha) if isinstance(alpha, int | float) else None,
            max_length_per_source_token=float(factor) if isinstance(factor, int | float) else None,
            max_extra_tokens=extra if isinstance(extra, int) else None,
        ),
        references_path=str(path),
        references=tuple(joined(targets[number]) for number in numbers) if has_targets else None,
        reported=(),
    )  # fmt: skip


def _sacrebleu_scores(folder: Path) -> Iterator[Reported]:
    """Yield the scores that sacreBLEU wrote as JSON; those whose definition is none of ours keep their own name."""
    for path in sorted(folder.rglob("*.json")):
        try:
            content = json.loads(path.read_bytes())
        except ValueError:
            continue
        for score in content if isinstance(content, list) else [content]:
            if isinstance(score, dict) and {"name", "score", "signature"} <= score.keys():
                signature = str(score["signature"])
                tokenizer = re.search(r"tok:(\w+)", signature)
                metric = _METRIC_BY_TOKENIZER.get(tokenizer[1] if tokenizer else "", str(score["name"]))
                yield Reported(str(path), metric, float(score["score"]), signature)
