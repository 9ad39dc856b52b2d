"""Gives every piece of evidence to the judge: logs, the data-bin, records and plain translations
become facts, and each problem is kept once with the number that it keeps out.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from aiayn.facts.types import Fact, Section, Value
from aiayn.known_good.judge import Problem, problems
from aiayn.known_good.rows import VALIDATION_BLEU, JudgedTraining, JudgedTranslation
from aiayn.known_good.targets import Target
from aiayn.records import Hypotheses
from analysis.doctor.data_bin import DataBin
from analysis.doctor.types import Claim, Judged, Reported, Translation

CONCERNS = {"row": "", "train": "", "ppl": "the perplexity", "cost": "the training cost"}
OF_VALIDATION = "the BLEU of a validation"
_MAX_LENGTH = re.compile(r"maxlen:([\d.]+)x\+(\d+)")  # in a signature of `aiayn decode`


def is_of_validation(section: Section) -> bool:
    """Return whether `--eval-bleu` printed the BLEU of a section."""
    return section.value("bleu_name") == VALIDATION_BLEU


def problems_of_logs(
    folder: Path, training: JudgedTraining | None, translations: Sequence[JudgedTranslation]
) -> list[Judged]:
    """Return the problems of all logs, with paths that begin with their folder."""
    found = []
    if training is not None:
        for number, concerns in CONCERNS.items():
            for problem in training.problems_by_number[number]:
                found.append(Judged("training", concerns, problem))
    inherited = {one.problem for one in found}
    for judged in translations:
        concerns = OF_VALIDATION if is_of_validation(judged.translation.section) else ""
        for problem in judged.problems:
            if problem not in inherited:
                found.append(Judged("translation", concerns, problem))
    return [_placed(folder, one) for one in found]


def _placed(folder: Path, judged: Judged) -> Judged:
    problem = judged.problem
    if not problem.path:
        return judged
    return replace(judged, problem=replace(problem, path=str(folder / problem.path)))


def problems_of_data(data: DataBin | None, claim: Claim, logged: Sequence[Judged]) -> list[Judged]:
    """Return the problems of logs and of the data-bin, which states pairs and dictionaries where
    the log does not.
    """
    if data is None:
        return list(logged)
    facts = list(_facts_of_data(data, claim))
    stated = {fact.quantity for fact in facts}
    found = [one for one in logged if one.problem.is_stated or one.problem.quantity not in stated]
    known = {(one.problem.quantity, one.problem.value) for one in found}
    for problem in problems(facts, claim.target.values, "train"):
        if problem.is_stated and (problem.quantity, problem.value) not in known:
            found.append(Judged("training", "", problem))
    return found


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


def facts_of_record(path: Path, record: Hypotheses, reported: Sequence[Reported]) -> Iterator[Fact]:
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


def problems_of_translation(
    facts: Iterable[Fact], target: Target, translation: Translation
) -> list[Judged]:
    """Return the problems of a translation of a role; a score that can be computed is stated."""
    found = problems(facts, target.values_of_role(translation.role), "bleu")
    if translation.can_be_scored:
        found = [one for one in found if one.is_stated or one.quantity != "bleu"]
    return [Judged("translation", "", one) for one in found]


def problems_of_text(translation: Translation, target: Target) -> list[Judged]:
    """Return the problems of plain translations, which state their number of lines."""
    facts = [Fact("num_scored", len(translation.lines), translation.path, 0)]
    return problems_of_translation(facts, target, translation)


def without_repeats(found: Iterable[Judged]) -> list[Judged]:
    """Return each problem once, with the first number that it keeps out."""
    by_problem: dict[Problem, Judged] = {}
    for one in found:
        by_problem.setdefault(one.problem, one)
    return list(by_problem.values())


def notes_of_logs(
    training: JudgedTraining | None, translations: Sequence[JudgedTranslation]
) -> list[str]:
    """Return the notes of the judge as sentences, each once."""
    found = list(training.notes) if training else []
    for judged in translations:
        found += judged.notes
    return list(dict.fromkeys(f"Note: {note.text}." for note in found))


def unstated_notes(found: Iterable[Judged]) -> Iterator[str]:
    """Yield a sentence for each other number that needs quantities which nothing states."""
    names: dict[str, list[str]] = {}
    for one in found:
        if one.concerns and not one.problem.is_stated:
            names.setdefault(one.concerns, []).append(one.problem.quantity)
    for concerns, quantities in names.items():
        yield f"Note: not stated, and needed by {concerns}: {', '.join(quantities)}."
