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

from msgspec.structs import replace

from aiayn.data.text.detokenise import join_any_pieces
from aiayn.errors import RecordError, UsageError
from aiayn.facts.jobs import join_jobs
from aiayn.facts.listing import LeftOut, list_folder, not_read, reason_not_read
from aiayn.facts.reader import read_log
from aiayn.facts.types import Fact, LogFile, Section, Value, real
from aiayn.known_good.judge import OF_TRANSLATIONS, judge
from aiayn.known_good.rows import (
    VALIDATION_BLEU,
    JudgedJobs,
    JudgedTraining,
    JudgedTranslation,
    judge_jobs,
    judge_training,
)
from aiayn.known_good.table import ANY
from aiayn.packed import exists, find_packed, glob, modified_seconds
from aiayn.paths import corpus_record, num_averaged, split_alpha
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
from analysis.doctor.data_bin import DataBin
from analysis.doctor.types import Attending, Case, Claim, Reported, Scorer, Translation

_HYPOTHESES = re.compile(r"(hyp|sys|output|translations)", re.IGNORECASE)
_REFERENCES = re.compile(r"(ref)", re.IGNORECASE)
_PLAIN_SUFFIXES = (".txt", ".hyp", ".hypo", ".sys", ".ref", ".de", ".fr", ".es", ".sgm", ".gz")
_MAX_LENGTH = re.compile(r"maxlen:([\d.]+)x\+(\d+)")  # in a signature of `aiayn decode`
MAX_NOTES = 4  # files that a refusal names
References = tuple[Path | None, tuple[str, ...] | None]  # their file and lines
_AnyRecord = TypeVar("_AnyRecord", bound=Record)
_Recorded = tuple[Path, Hypotheses]


def list_runs(results_folder: Path) -> dict[str, Path]:
    """Return the record of every finished run below a results folder by the run's name, the newest
    last.

    Raises:
        RecordError: if there are no finished runs.
    """
    paths = sorted(glob(results_folder, "*/train/*/*/seed*.json"), key=modified_seconds)
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
    scale_folder = results_folder / claim.target.scale
    evaluated = f"{train.corpus}/{train.system}/seed{train.seed}"
    data = None
    binarized_path = corpus_record(results_folder, claim.target.scale, "binarize", train.corpus)
    if exists(binarized_path):
        data = _data(read_record(binarized_path, BinarizedCorpus).folder, claim)
    decoded_paths = glob(scale_folder, f"decode/{evaluated}/last*/*.json")
    decoded = [(path, read_record(path, Hypotheses)) for path in decoded_paths]
    for path, record in decoded:
        if record.run != train.run:
            raise RecordError(
                f"{path}: of run {record.run}, expected {train.run}; rerun `decode`, or name"
                " that run"
            )
    scored_paths = glob(scale_folder, f"score/{evaluated}/last*/*.json")
    scores = [(path, read_record(path, ScoreRecords)) for path in scored_paths]

    def references_of(testset: str) -> References:
        return _references(results_folder, claim, testset)

    return _make_case(
        claim,
        scorer,
        _logs_of_run(train),
        data,
        _recorded(claim, decoded, scores, references_of),
        attending=_attending(scale_folder, f"perplexity/{evaluated}/last*/*.json"),
    )


def _logs_of_run(train: TrainRecord) -> list[LogFile]:
    """Return the log of a run, and that of the run that it continues.

    The record says that both are one training, which saved into two folders.
    """
    own_path = find_packed(train.log_path)
    files = [] if own_path is None else [read_log(own_path, str(own_path))]
    if train.beginning is None or not files:
        return files
    runs_folder = train.log_path.parent.parent
    path = find_packed(runs_folder / train.beginning.run / train.log_path.name)
    if path is not None:
        files.append(read_log(path, str(path)))
    for file in files:
        for section in file.sections:
            section.arguments["save_dir"] = f"/{train.run}"
    return files


def _make_case(
    claim: Claim,
    scorer: Scorer,
    files: Sequence[LogFile],
    data: DataBin | None,
    recorded: Sequence[Translation],
    *,
    attending: Attending | None,
    left_out: Sequence[LeftOut] = (),
    choose: Callable[[JudgedJobs], tuple[Translation, ...]] | None = None,
) -> Case:
    """Return a case with what the judge finds in all evidence. `recorded` are translations of
    records or of plain text; without any, `choose` takes them from the logs.
    """
    claim = _with_corpus(claim, data)
    values = claim.target.values
    judged = judge_jobs(join_jobs(files), [claim.target], Path(), is_claimed=True)
    training = training_in(claim.name, judged)
    facts = [] if data is None else list(_facts_of_data(data, claim))
    of_training = [one for one in judge(facts, values, ("train",)) if one.is_stated]
    if training is not None:
        training.facts += facts
        judge_training(training)
        of_training = training.problems
    problems = {"training": of_training, "translation": [], "validation": []}
    for translation in judged.translations:
        is_validation = translation.translation.section.value("bleu_name") == VALIDATION_BLEU
        # Those of its training are there already.
        own = [one for one in translation.problems if one.keeps_out in ((), OF_TRANSLATIONS)]
        problems["validation" if is_validation else "translation"] += own
    for output in recorded:
        found = judge(output.facts, claim.target.values_of_role(output.role), OF_TRANSLATIONS)
        if output.can_be_scored:
            found = [one for one in found if one.is_stated or one.quantity != "bleu"]
        problems["translation"] += found
    translations = tuple(recorded)
    if not translations and choose is not None:
        translations = choose(judged)
    return Case(
        claim=claim,
        scorer=scorer,
        log_path=training.training.last.path if training else "",
        training=training,
        data=data,
        translations=translations,
        problems={subject: list(dict.fromkeys(listed)) for subject, listed in problems.items()},
        attending=attending,
        not_read=tuple(_not_read(files, left_out)),
    )


def _facts_of_data(data: DataBin, claim: Claim) -> Iterator[Fact]:
    path = str(data.folder)
    source, target = data.dictionaries
    yield Fact("language_pair", claim.corpus.language_pair, path, 0)
    yield Fact("train_pairs", len(data.sides_by_split["train"][0]), path, 0)
    for dictionary in (source, target):
        yield Fact("num_types", len(dictionary), path, 0)
    yield Fact("num_dictionaries", 1 if source == target else 2, path, 0)
    if "valid" in data.sides_by_split:
        yield Fact("dev_pairs", len(data.sides_by_split["valid"][0]), path, 0)


def _facts_of_record(
    path: Path, record: Hypotheses, reported: Sequence[Reported]
) -> Iterator[Fact]:
    """Yield what a record of `decode` and its scores state, as facts of a translation."""
    stated: dict[str, Value] = {
        "beam_size": record.beam_size,
        "length_penalty_alpha": record.length_penalty_alpha,
        "training": record.run,
        "average": record.average,
        "num_scored": record.num_lines,
    }
    if limit := _MAX_LENGTH.search(record.signature):
        for num_tokens in (20, 100):
            most = float(limit[1]) * num_tokens + int(limit[2])
            stated[f"limit_of_{num_tokens}_tokens"] = most
    if reported:
        stated["bleu"] = reported[0].value
    for quantity, value in stated.items():
        yield Fact(quantity, value, str(path), 0)


def _with_corpus(claim: Claim, data: DataBin | None) -> Claim:
    """Return the claim with what the corpus and its data-bin say and the paper does not: whether
    there is one vocabulary, and how many sentences a test set has.
    """
    if claim.is_papers_corpus:
        return claim
    values = dict(claim.target.values)
    if claim.corpus.subword is None or not claim.corpus.subword.joint:
        values["num_dictionaries"] = ANY
    for role in ("dev", "test"):
        # `aiayn binarize` names test sets by their order: valid, test, test1.
        place = claim.corpus.testsets.index(claim.corpus.testset_of(role))
        split = ("valid", "test")[place] if place < 2 else f"test{place - 1}"
        if data is not None and split in data.sides_by_split:
            values[f"{role}_sentences"] = len(data.sides_by_split[split][1])
    return replace(claim, target=replace(claim.target, values=values))


def _recorded(
    claim: Claim,
    decoded: Iterable[_Recorded],
    scores: Sequence[tuple[Path, ScoreRecords]],
    references_of: Callable[[str], References],
) -> list[Translation]:
    """Return the translations of records, the average of most checkpoints first."""
    found = []
    kept = _of_the_tables(claim, decoded)
    for path, record in sorted(kept, key=lambda placed: -num_averaged(placed[1].average)):
        text_path = find_packed(record.path) or record.path
        references_path, references = references_of(record.testset)
        reported = _reported(record, scores)
        translation = Translation(
            path=str(text_path),
            lines=read_lines(text_path, may_be_blank=True),
            testset=record.testset,
            role=role_of(claim, record.testset),
            references_path=str(references_path or ""),
            references=references,
            reported=reported,
            facts=tuple(_facts_of_record(path, record, reported)),
        )
        found.append(translation)
    return found


def _of_the_tables(claim: Claim, decoded: Iterable[_Recorded]) -> list[_Recorded]:
    """Return the records without those of searches and averages that differ on purpose.

    A record with a length penalty in its name is left out. A translation with a different average
    than that of the tables is left out if the test set was also translated with the tables'
    average.
    """
    named = [placed for placed in decoded if split_alpha(placed[0].stem)[1] is None]
    averages = {(record.testset, record.average) for _, record in named}
    kept = []
    for path, record in named:
        wanted = claim.target.average_by_role.get(role_of(claim, record.testset), record.average)
        if record.average == wanted or (record.testset, wanted) not in averages:
            kept.append((path, record))
    return kept


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
    raw_path = corpus_record(results_folder, claim.target.scale, "fetch", claim.corpus.name)
    if not exists(raw_path):
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
    data = _data(folder, claim)
    listing = list_folder(folder)
    files = [read_log(folder / path, str(folder / path)) for path in listing.log_paths]
    given_path = references_path or _plain_file(folder, _REFERENCES)
    references = read_lines(given_path) if given_path else None
    recorded: list[Translation] = []
    plain_path, given_log = hypotheses_path, ""
    if hypotheses_path is None:
        decoded, scores = _records(folder, Hypotheses), list(_records(folder, ScoreRecords))
        recorded = _recorded(claim, decoded, scores, lambda testset: (given_path, references))
        plain_path = _plain_file(folder, _HYPOTHESES)
    elif read_output(hypotheses_path).kind == "generate log":
        plain_path = None
        place = hypotheses_path.resolve()
        given_log = next((one.path for one in files if Path(one.path).resolve() == place), "")
        if not given_log:
            given_log = str(hypotheses_path)
            files.append(read_log(hypotheses_path, given_log))
    has_generations = any(_is_scored(section) for file in files for section in file.sections)
    is_plain = hypotheses_path is not None or not (recorded or has_generations)
    if plain_path is not None and is_plain:
        lines = read_lines(plain_path)
        translation = Translation(
            path=str(plain_path),
            lines=lines,
            testset=claim.corpus.test_testset,
            role="test",
            references_path=str(given_path or ""),
            references=references,
            facts=(Fact("num_scored", len(lines), str(plain_path), 0),),
        )
        recorded.append(translation)

    def generated(judged: JudgedJobs) -> tuple[Translation, ...]:
        """Return the translations of `given_log`, or of all logs without it."""
        return tuple(
            _generated(one, claim, references_path)
            for one in judged.translations
            if _is_scored(one.translation.section)
            and given_log in ("", one.translation.section.path)
        )

    case = _make_case(
        claim,
        scorer,
        files,
        data,
        recorded,
        attending=_attending(folder, "**/*.json"),
        left_out=listing.left_out,
        choose=generated,
    )
    if case.training is None and data is None and not case.translations:
        _refuse_nothing(folder, claim, case, files)
    return case


def _refuse_nothing(folder: Path, claim: Claim, case: Case, files: Sequence[LogFile]) -> None:
    """Raise a RecordError that says which other files a folder has."""
    others = [reason_not_read(file) for file in files if file.refusal is None and not file.sections]
    shown = [*(note.removesuffix(".") for note in case.not_read), *others]
    if not shown:
        shown = [f"{file.path} holds nothing of fairseq" for file in files]
    details = f" ({'; '.join(shown[:MAX_NOTES])})" if shown else ""
    raise RecordError(
        f"{folder}: no training log, no data-bin of {claim.corpus.language_pair} and no"
        " translations; expected at least one of these; name the folder that has"
        f" them{details}"
    )


def _not_read(files: Sequence[LogFile], left_out: Sequence[LeftOut]) -> Iterator[str]:
    """Yield a sentence for each file that could not be read or is the log of another program."""
    for text in not_read(files, left_out):
        yield f"Not read: {text}."
    for file in files:
        is_other = "another toolkit" in file.other_programs and not file.sections
        if is_other and file.refusal is None:
            yield f"Not read: {file.path}: a log of another toolkit than fairseq."


def training_in(place: str, judged: JudgedJobs) -> JudgedTraining | None:
    """Return the only training of a folder; None without a training, or if its log states nothing.

    Raises:
        UsageError: if there are several.
    """
    _refuse_several(place, "trainings", [one.name for one in judged.trainings])
    if not judged.trainings:
        return None
    training = judged.trainings[0].training
    is_stated = training.arguments or training.validations or training.last.value("num_parameters")
    return judged.trainings[0] if is_stated else None


def _data(folder: Path, claim: Claim) -> DataBin | None:
    source, target = claim.corpus.source_language, claim.corpus.target_language
    folders = [
        str(path.parent) for path in sorted(folder.rglob(f"train.{source}-{target}.{source}.idx"))
    ]
    _refuse_several(str(folder), "data-bins", folders)
    return DataBin(Path(folders[0]), source, target) if folders else None


def _refuse_several(place: str, what: str, paths: list[str]) -> None:
    if len(paths) > 1:
        raise UsageError(
            f"{place}: {len(paths)} {what} ({', '.join(paths[:4])}); give a folder of one run"
        )


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
    for path in glob(folder, pattern):
        try:
            record = read_record(path, record_type)
        except RecordError:
            continue
        yield path, record


def _is_scored(section: Section) -> bool:
    """Return whether a section holds translations or a score; a validation of a training does not
    count.
    """
    if section.program != "generate" or section.value("bleu_name") == VALIDATION_BLEU:
        return False
    return section.num_hypotheses > 0 or section.value("bleu") is not None


def _generated(
    judged: JudgedTranslation, claim: Claim, references_path: Path | None
) -> Translation:
    """Return fairseq-generate's lines as they are, in the order of the source, with the BLEU that
    it printed.
    """
    section = judged.translation.section
    path, bleu = Path(section.path), section.find("bleu")
    lines = read_text(path).split("\n")[section.line - 1 : section.last_line]
    sentences = generated_sentences(lines)
    chosen = sentences["D"] or sentences["H"]
    numbers = sorted(chosen)
    references = None
    if sentences["T"].keys() >= set(numbers):
        references = tuple(sentences["T"][number] for number in numbers)
    reported: tuple[Reported, ...] = ()
    if references_path is not None:
        references = read_lines(references_path)
    elif bleu is not None:
        place = f"{bleu.path}:{bleu.line}"
        reported = (Reported(place, judged.metric, real(bleu.value) or 0.0, ""),)
    role = "dev" if judged.translation.role == "dev" else "test"
    return Translation(
        path=str(path),
        lines=tuple(chosen[number] for number in numbers),
        testset=claim.corpus.testset_of(role),
        role=role,
        log=section if bleu is not None else None,
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
