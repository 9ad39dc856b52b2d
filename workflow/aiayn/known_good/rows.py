"""Decides which numbers of a folder's jobs fill which row of the tables, and which trainings are
averaged.

One training is one seed. Trainings of the same row and version are averaged if their seeds differ.
A translation fills a row only if its training fits the row without problems.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from aiayn.facts.derived import facts_of_training, facts_of_translation
from aiayn.facts.jobs import Jobs, Training, Translation
from aiayn.facts.symbols import is_ours
from aiayn.facts.types import Fact, Section, perplexity_of, real, whole
from aiayn.known_good.judge import OF_TRAININGS, OF_TRANSLATIONS, Problem, find_row, judge
from aiayn.known_good.table import ANY
from aiayn.known_good.targets import Target
from aiayn.packed import is_file
from aiayn.printed import PAPER_SCALE, PERPLEXITY_METRIC
from aiayn.runs.attempts import ATTEMPTS_NAME, Event, Started, read_events, summarise_attempts
from aiayn.speeds import PRECISION_BY_NAME, published_range

# The published model with which the speed of a system is compared; none for other sizes.
MODEL_BY_SYSTEM = {"base": "base", "big": "big", "big_enfr": "big"}
VERSION_BY_FORM = {
    "print": "fairseq 0.9 or before",
    "namespace": "fairseq 0.10",
    "config": "fairseq 1.0.0a0 to 0.12",
    "": "fairseq, version unknown",
}


class JudgedTranslation(msgspec.Struct, kw_only=True):
    """A translation with its facts, and the problems and notes of its BLEU.

    `problems` includes the problems of its training, `owner`. A translation without a training does
    not have a row. `metric` is the definition of BLEU, and `bleu` is its value in percent. `value`
    equals `bleu` if the tables use it, otherwise None.
    """

    translation: Translation
    facts: list[Fact]
    target: Target | None
    owner: "JudgedTraining | None" = None
    problems: list[Problem] = []
    metric: str = ""
    bleu: float | None = None
    value: float | None = None

    @property
    def name(self) -> str:
        """The file of its log, with the line if needed."""
        return self.translation.name


class JudgedTraining(msgspec.Struct, kw_only=True):
    """A training with its facts, the target that it is compared with, and its problems and notes.

    If `has_row`, `target` is the training's row, otherwise the nearest row. `version` is the commit
    of this project for our runs, otherwise fairseq's version if the log states it. `gpu` is the
    kind of GPU, if the log states exactly one. `gpu_seconds` is the sum over all starts, None if
    the log does not cover all starts. `stated` contains all numbers by metric, `value_by_metric`
    the numbers that the tables use. `filled` contains the kinds of numbers that the tables use:
    `train`, `ppl`, `cost`.
    """

    training: Training
    facts: list[Fact]
    target: Target | None
    has_row: bool = False
    version: str = ""
    gpu: str = ""
    gpu_seconds: float | None = None
    problems: list[Problem] = []
    filled: set[str] = set()
    stated: dict[str, float] = {}
    value_by_metric: dict[str, float] = {}
    translations: list[JudgedTranslation] = []

    @property
    def name(self) -> str:
        """The file of its log, with the line if needed."""
        return self.training.name

    @property
    def row(self) -> Target | None:
        """The table row of the training, or None."""
        return self.target if self.has_row else None


_Judged = TypeVar("_Judged", JudgedTraining, JudgedTranslation)


class JudgedJobs(msgspec.Struct, kw_only=True):
    """The jobs of a folder after comparison; `others` are translations without a training."""

    jobs: Jobs
    trainings: list[JudgedTraining]
    others: list[JudgedTranslation]

    @property
    def translations(self) -> list[JudgedTranslation]:
        """All translations. The translations of a training are in its order."""
        found = [one for training in self.trainings for one in training.translations]
        return [*found, *self.others]


def judge_jobs(
    jobs: Jobs,
    targets: Sequence[Target],
    root: Path | None = None,
    *,
    is_claimed: bool = False,
) -> JudgedJobs:
    """Compare the jobs of a folder with the table rows. Return which numbers of the jobs belong in
    which row.

    `root` is the folder of the logs, where attempts.jsonl of our own runs may be. With
    `is_claimed`, every training is compared with all rows, including rows of smaller scales.

    Raises:
        RecordError: if an attempts.jsonl is malformed.
    """
    judged = []
    for training in jobs.trainings:
        ours = is_ours(training.arguments)
        # Only our own trainings are compared with smaller scales.
        own_targets = [one for one in targets if ours or is_claimed or one.scale == PAPER_SCALE]
        events = None if root is None or not ours else _events(training, root)
        judged.append(_first_judged(training, own_targets, events))
    _compare_seeds(judged)
    others: list[JudgedTranslation] = []
    owner_by_training = {id(one.training): one for one in judged}
    for translation in jobs.translations:
        owner = owner_by_training.get(id(translation.training))
        found = JudgedTranslation(
            translation=translation,
            facts=facts_of_translation(translation),
            target=owner.target if owner else next(iter(targets), None),
            owner=owner,
            metric=metric_of(translation.section),
            bleu=real(translation.section.value("bleu")),
        )
        _judge_translation(found)
        (owner.translations if owner else others).append(found)
    jobs_found = JudgedJobs(jobs=jobs, trainings=judged, others=others)
    _compare_translations(jobs_found)
    return jobs_found


def _first_judged(
    training: Training, targets: Sequence[Target], events: list[Event] | None
) -> JudgedTraining:
    """Return a training with its facts, row and problems, before it is compared with others."""
    commits = commits_of(events)
    facts = [*facts_of_training(training), *_facts_of_commits(training, commits)]
    target, has_row = find_row(facts, targets)
    judged = JudgedTraining(training=training, facts=facts, target=target, has_row=has_row)
    judged.version = VERSION_BY_FORM[training.last.form]
    if commits:
        commit, plus, dirty = commits[-1].partition("+")
        judged.version = f"commit {commit[:12]}{plus}{dirty}"
    gpus = {str(fact.value).strip() for fact in facts if fact.quantity == "gpu"}
    judged.gpu = gpus.pop() if len(gpus) == 1 else ""
    newest = {fact.quantity: real(fact.value) for fact in facts}
    values = {
        "steps": newest.get("updates") or 0.0,
        "num_parameters": newest.get("model_parameters"),
        PERPLEXITY_METRIC: perplexity_of(newest.get("final_nll_bits")),
    }
    judged.stated = {metric: value for metric, value in values.items() if value is not None}
    seconds, num_gpus = newest.get("wall_seconds"), newest.get("num_gpus")
    if events is not None:
        judged.gpu_seconds = summarise_attempts(events).gpu_seconds or None
    elif seconds and num_gpus and training.arguments.get("cpu") is not True:
        judged.gpu_seconds = seconds * num_gpus
    judge_training(judged)
    return judged


def _events(training: Training, root: Path) -> list[Event] | None:
    folder = (root / training.last.path).parent
    return read_events(folder) if is_file(folder / ATTEMPTS_NAME) else None


def commits_of(events: list[Event] | None) -> list[str]:
    """Return the commits of a run of ours, in their order; empty for other logs."""
    started = [event.commit for event in events or () if isinstance(event, Started)]
    return list(dict.fromkeys(started))


def _facts_of_commits(training: Training, commits: Sequence[str]) -> Iterator[Fact]:
    """Yield what the record of the attempts states."""
    if commits:
        yield training.last.fact("num_commits", len(commits))
    for commit in commits:
        if commit.endswith("+dirty"):
            yield training.last.fact("dirty_commit", commit)


def judge_training(judged: JudgedTraining) -> None:
    """Find the problems and notes of a training's facts, and which of its numbers fill."""
    speeds = _published_speeds(judged) or (ANY, ANY)
    values = {} if judged.target is None else dict(judged.target.values)
    values |= zip(("slowest_speed", "fastest_speed"), speeds, strict=True)
    judged.problems = judge(judged.facts, values, OF_TRAININGS)
    kept_out = {number for problem in judged.problems for number in problem.keeps_out}
    judged.filled = set()
    if judged.has_row and not kept_out & {"row", "train"}:
        judged.filled = {"train", "ppl", "cost"} - kept_out
    judged.value_by_metric = dict(judged.stated) if judged.filled else {}
    if "ppl" not in judged.filled:
        judged.value_by_metric.pop(PERPLEXITY_METRIC, None)


def _published_speeds(judged: JudgedTraining) -> tuple[float, float] | None:
    """Return the slowest and the fastest published speed of the target's model on a training's
    card, with its precision and batch, or None if no speed is published.
    """
    section = judged.training.last
    num_gpus = whole(section.value("num_gpus"))
    tokens = whole(section.arguments.get("max_tokens"))
    precision = PRECISION_BY_NAME.get(str(section.symbols.get("precision")))
    model = "" if judged.target is None else MODEL_BY_SYSTEM.get(judged.target.system, "")
    if not judged.gpu or not num_gpus or not tokens or not model or not precision:
        return None
    return published_range(
        judged.gpu, num_gpus=num_gpus, precision=precision, model=model, tokens_per_gpu=tokens
    )


def _judge_translation(judged: JudgedTranslation) -> None:
    """Find the problems and notes of a translation, which needs what its training needs."""
    target, owner = judged.target, judged.owner
    values = {} if target is None else target.values_of_role(judged.translation.role)
    found = judge(judged.facts, values, OF_TRANSLATIONS)
    inherited = (
        [one for one in owner.problems if {"row", "train"} & {*one.keeps_out}] if owner else []
    )
    judged.problems = [*found, *(one for one in inherited if one not in found)]
    has_row = owner is not None and owner.has_row
    is_kept_out = any(one.keeps_out for one in judged.problems)
    judged.value = judged.bleu if has_row and not is_kept_out else None


# Several seeds


def _compare_seeds(judged: Sequence[JudgedTraining]) -> None:
    """Add facts about trainings that have the same seed, or the same losses, as another
    training.
    """
    whole = [one for one in judged if "train" in one.filled]

    def seed_of(one: JudgedTraining) -> object:
        target = one.target
        seed = one.training.seed
        return None if seed is None or target is None else (target.name, one.version, seed)

    _state_equals(whole, "same_seed", seed_of)
    _state_equals(whole, "same_losses", _losses)


def _losses(judged: JudgedTraining) -> object:
    """Return the losses of all validations, or None if there are fewer than two."""
    validations = judged.training.validations
    if len(validations) < 2:
        return None
    return tuple(one.losses for one in validations)


def _equal_groups(
    judged: Iterable[_Judged], key: Callable[[_Judged], object]
) -> list[list[_Judged]]:
    """Return the groups of two or more items with equal keys. Items with the key None are left
    out.
    """
    groups: dict[object, list[_Judged]] = {}
    for one in judged:
        if (value := key(one)) is not None:
            groups.setdefault(value, []).append(one)
    return [group for group in groups.values() if len(group) > 1]


def _others(group: Sequence[_Judged], one: _Judged) -> str:
    return f"that of {', '.join(other.name for other in group if other is not one)}"


def _state_equals(
    judged: Sequence[JudgedTraining], quantity: str, key: Callable[[JudgedTraining], object]
) -> None:
    for group in _equal_groups(judged, key):
        for one in group:
            one.facts.append(one.training.last.fact(quantity, _others(group, one)))
            judge_training(one)


def _compare_translations(found: JudgedJobs) -> None:
    """Add that they are copies to translations of different trainings with the same score."""
    names = ("bleu", "precisions", "hypothesis_tokens", "reference_tokens", "brevity_penalty")

    def score_of(judged: JudgedTranslation) -> object:
        section = judged.translation.section
        if judged.value is None or section.value("precisions") is None:
            return None
        return tuple(map(section.value, names))

    for group in _equal_groups(found.translations, score_of):
        if len({id(one.owner) for one in group}) > 1:
            for one in group:
                fact = one.translation.section.fact("same_translation", _others(group, one))
                one.facts.append(fact)
                _judge_translation(one)


class AveragedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a table: the trainings of one row and version that contribute a number to it."""

    target: Target
    version: str
    trainings: tuple[JudgedTraining, ...]

    def scored(self, role: str) -> dict[tuple[str, str], list[JudgedTranslation]]:
        """Return the translations of a role (dev or test) that the tables use, by metric and mark.

        Each entry contains a training once. If a training has a second translation, the mark of the
        second is its name.
        """
        groups: dict[tuple[str, str], list[JudgedTranslation]] = {}
        for training in self.trainings:
            filling: dict[tuple[str, str], list[JudgedTranslation]] = {}
            for judged in training.translations:
                if judged.translation.role == role and judged.value is not None:
                    filling.setdefault((judged.metric, _mark(judged)), []).append(judged)
            for (metric, mark), members in filling.items():
                for judged in members:
                    name = f"the translation of {judged.name}" if len(members) > 1 else ""
                    key = metric, "; ".join(filter(None, (mark, name)))
                    groups.setdefault(key, []).append(judged)
        return groups


def _mark(judged: JudgedTranslation) -> str:
    words = {"average_known_by": "average by name", "time_unknown": "time unknown"}
    found = {words[one.quantity] for one in judged.problems if one.quantity in words}
    return "; ".join(sorted(found))


def average_trainings(trainings: Sequence[JudgedTraining]) -> list[AveragedLine]:
    """Return the lines of all trainings that fill a row, in the order of their logs."""
    groups: dict[tuple[str, str], list[JudgedTraining]] = {}
    for judged in trainings:
        if judged.target is not None and "train" in judged.filled:
            groups.setdefault((judged.target.name, judged.version), []).append(judged)
    lines = []
    for (_, version), members in groups.items():
        target = members[0].target
        if target is not None:
            lines.append(AveragedLine(target=target, version=version, trainings=tuple(members)))
    return lines


# BLEU


def metric_of(section: Section) -> str:
    """Return the definition of a translation's BLEU.

    `bleu_as_given` is fairseq's arithmetic on the tokens of the data. `bleu_sacre_13a` is
    sacreBLEU's on detokenised text, and `bleu_sacre_on_tokens` on text that may still be tokens.
    """
    arguments, name = section.arguments, section.value("bleu_name") or "BLEU4"
    if name == "BLEU4":
        return "bleu_as_given"
    is_joined = bool(arguments.get("tokenizer")) or arguments.get("bpe") in (
        "sentencepiece",
        "gpt2",
    )
    is_13a = arguments.get("sacrebleu_tokenizer") in (None, "13a")
    is_13a = is_13a and not arguments.get("sacrebleu_lowercase")
    return "bleu_sacre_13a" if is_joined and is_13a else "bleu_sacre_on_tokens"
