"""Decides which numbers of a folder of logs fill a system's row, which have a row of their own, and
which are averaged.

One training is one seed. Trainings of one system, configuration and version that differ only in
their seeds are averaged. Everything that keeps a number out of the system's row is part of the
configuration, so that no mean is over different configurations. Several translations by one
training are listed, not averaged.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from aiayn.logs.completeness import broken, generation_findings, training_findings
from aiayn.logs.evidence import LoggedFolder, LoggedTraining, metric_of_generation
from aiayn.logs.findings import Finding
from aiayn.logs.types import GenerationLog
from paper_tables.compare.decoding import BY_NAME, compare_generation
from paper_tables.compare.judgement import DECODING_GROUPS, TRAINING_GROUPS, Judgement, apart
from paper_tables.compare.systems import Match, PaperSystem, find_system, systems_for
from paper_tables.compare.training import compare_training

# What sets a BLEU apart, the definition, and a mark or the name of the translation.
ScoreKey = tuple[tuple[str, ...], str, str]
MAX_OTHERS = 3  # logs that are named in a message about several


class JudgedGeneration(msgspec.Struct, frozen=True, kw_only=True):
    """A scored translation with the judgement on each of its quantities and the checks that its log
    fails.
    """

    generation: GenerationLog
    judgements: tuple[Judgement, ...]
    findings: tuple[Finding, ...]

    @property
    def metric(self) -> str:
        """The definition of its BLEU."""
        return metric_of_generation(self.generation)

    @property
    def value(self) -> float | None:
        """Its BLEU in percent; None if there is none, if it is impossible, or if a check keeps it
        out.
        """
        is_kept_out = any(finding.severity == "error" for finding in self.findings)
        is_kept_out = is_kept_out or any(
            one.quantity == "bleu" and not one.is_good for one in self.judgements
        )
        return None if is_kept_out else self.generation.bleu

    @property
    def labels(self) -> tuple[str, ...]:
        """The quantities that keep its BLEU out of the row of its system."""
        return tuple(one.label for one in apart(self.judgements, DECODING_GROUPS))

    @property
    def is_by_name(self) -> bool:
        """Whether its average is known by the name of a file only."""
        return any(one.reason == BY_NAME for one in self.judgements)


class JudgedTraining(msgspec.Struct, frozen=True, kw_only=True):
    """A training with its system or the nearest one, the judgements, its translations, and the
    checks it fails.
    """

    training: LoggedTraining
    match: Match
    judgements: tuple[Judgement, ...]
    generations: tuple[JudgedGeneration, ...]
    findings: tuple[Finding, ...]

    @property
    def path(self) -> str:
        """The path of its log."""
        return self.training.path

    @property
    def seed(self) -> int | None:
        """Its seed, None if none is stated."""
        return self.training.seed

    @property
    def system(self) -> PaperSystem | None:
        """The system whose row, or whose neighbourhood, its numbers belong to; None if a check
        keeps them out.
        """
        is_kept_out = any(finding.severity == "error" for finding in self.findings)
        return None if is_kept_out else self.match.system

    @property
    def labels(self) -> tuple[str, ...]:
        """The quantities that keep its numbers out of the row of its system."""
        made = [finding.label for finding in self.findings if finding.severity == "apart"]
        return (*(one.label for one in apart(self.judgements, TRAINING_GROUPS)), *made)

    @property
    def perplexity_labels(self) -> tuple[str, ...]:
        """The quantities that keep its perplexity, and nothing else, out of the row of its
        system.
        """
        return tuple(one.label for one in apart(self.judgements, ("dev set",)))


class JudgedFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of logs after comparison: its trainings, and the translations that belong to
    none.
    """

    logs: LoggedFolder
    trainings: tuple[JudgedTraining, ...]
    others: tuple[JudgedGeneration, ...]


def judge_folder(logs: LoggedFolder, systems: Sequence[PaperSystem]) -> JudgedFolder:
    """Return the comparison of every training and translation of a folder with the system that it
    may be.
    """
    generations_by_path: dict[str, list[GenerationLog]] = {}
    for generation in logs.generations:
        generations_by_path.setdefault(generation.training_path, []).append(generation)
    trainings: list[JudgedTraining] = []
    for training in logs.trainings:
        match = find_system(
            training.symbols, training.language_pair, systems_for(training.log.arguments, systems)
        )
        generations: list[JudgedGeneration] = []
        for generation in generations_by_path.pop(training.path, ()):
            pair = training.language_pair
            generations.append(_judged_generation(generation, pair, match.system, generations))
        trainings.append(
            JudgedTraining(
                training=training,
                match=match,
                judgements=compare_training(training, match.system) if match.system else (),
                generations=tuple(generations),
                findings=tuple(training_findings(training)),
            )
        )
    others = [
        _judged_generation(generation, "", None, ())
        for generation in logs.generations
        if generation.training_path in generations_by_path
    ]
    return JudgedFolder(logs=logs, trainings=tuple(trainings), others=tuple(others))


def _judged_generation(
    generation: GenerationLog,
    language_pair: str,
    system: PaperSystem | None,
    earlier: Sequence[JudgedGeneration],
) -> JudgedGeneration:
    """Return a translation; a copy of an earlier one of its training is kept out by a finding."""
    findings = list(generation_findings(generation))
    copied = [one.generation.path for one in earlier if _is_copy(generation, one.generation)]
    if copied:
        line = generation.first_line
        findings.append(broken("one-log-a-generation", line=line, others=copied[0]))
    return JudgedGeneration(
        generation=generation,
        judgements=compare_generation(generation, language_pair, system) if system else (),
        findings=tuple(findings),
    )


def _is_copy(one: GenerationLog, other: GenerationLog) -> bool:
    """Return whether two translations have the same content, wherever it is.

    Without a score and a checkpoint's name, two logs that are alike may belong to different
    checkpoints.
    """
    if one.bleu is None and not one.model_path:
        return False
    moved = msgspec.structs.replace(
        other,
        path=one.path,
        first_line=one.first_line,
        last_line=one.last_line,
        bleu_line=one.bleu_line,
    )
    return one == moved


class AveragedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a table: trainings that may be averaged, and in labels how they differ from the
    system.
    """

    system: PaperSystem
    language_pair: str
    configuration: tuple[str, ...]
    trainings: tuple[JudgedTraining, ...]

    @property
    def generations(self) -> list[JudgedGeneration]:
        """The translations of its trainings that have a BLEU."""
        generations = [one for training in self.trainings for one in training.generations]
        return [one for one in generations if one.value is not None]

    def scored(self, role: str) -> dict[ScoreKey, list[JudgedGeneration]]:
        """Return the translations of a role by (labels, metric, mark): `labels` say how they were
        searched, averaged or scored otherwise. Each entry is averaged, and has a training once.
        """
        groups: dict[ScoreKey, list[JudgedGeneration]] = {}
        for judged in self.generations:
            if judged.generation.role == role:
                mark = "average by name" if judged.is_by_name else ""
                groups.setdefault((judged.labels, judged.metric, mark), []).append(judged)
        listed: dict[ScoreKey, list[JudgedGeneration]] = {}
        for (labels, metric, mark), members in groups.items():
            if len({judged.generation.training_path for judged in members}) == len(members):
                listed[labels, metric, mark] = members
                continue
            for judged in members:
                named = f"the translation of {judged.generation.path}"
                listed[labels, metric, "; ".join(filter(None, (mark, named)))] = [judged]
        return listed


def average_trainings(
    trainings: Sequence[JudgedTraining],
) -> tuple[list[AveragedLine], dict[str, list[Finding]]]:
    """Return the lines of all trainings that belong to a system, and what is wrong with a training
    next to others, by path.

    A copy counts once. A training of another version, or of a repeated seed, has a line of its own.
    """
    groups: dict[tuple[str, ...], tuple[PaperSystem, list[JudgedTraining]]] = {}
    for judged in trainings:
        if (system := judged.system) is not None:
            key = (system.scale, system.system, judged.training.language_pair, *judged.labels)
            groups.setdefault(key, (system, []))[1].append(judged)
    lines: list[AveragedLine] = []
    findings: dict[str, list[Finding]] = {}
    for (_, _, language_pair, *labels), (system, members) in groups.items():
        for configuration, averaged in _taken_apart(members, tuple(labels), findings):
            lines.append(
                AveragedLine(
                    system=system,
                    language_pair=language_pair,
                    configuration=configuration,
                    trainings=tuple(averaged),
                )
            )
    return lines, findings


def _taken_apart(
    members: list[JudgedTraining], labels: tuple[str, ...], findings: dict[str, list[Finding]]
) -> Iterator[tuple[tuple[str, ...], list[JudgedTraining]]]:
    """Yield the groups that may be averaged; add what each check found to `findings`."""
    copied = _conflicts("one-log-a-training", "identity", members, findings)
    once = [one for one in members if one.path not in copied]
    mixed = _conflicts("one-version", "version", once, findings)
    groups: dict[tuple[str, ...], list[JudgedTraining]] = {}
    for one in once:
        configuration = (*labels, mixed[one.path].label) if one.path in mixed else labels
        groups.setdefault(configuration, []).append(one)
    for configuration, group in groups.items():
        repeated = _conflicts("distinct-seeds", "seed", group, findings)
        if whole := [one for one in group if one.path not in repeated]:
            yield configuration, whole
        for one in group:
            if one.path in repeated:
                yield (*configuration, f"{repeated[one.path].label} of {one.path}"), [one]


def _conflicts(
    check: str, name: str, members: Sequence[JudgedTraining], findings: dict[str, list[Finding]]
) -> dict[str, Finding]:
    """Return the trainings that fail a check next to others, by path: a copy of an earlier one, a
    version unlike the others, or a repeated seed. Add them to `findings`.
    """
    groups: dict[object, list[JudgedTraining]] = {}
    for judged in members:
        if (value := getattr(judged.training, name)) is not None:
            groups.setdefault(value, []).append(judged)
    found = {}
    for value, same in groups.items():
        others = same
        if name == "version":
            others = [one for one in members if one.training.version != value]
        for judged in same[1:] if name == "identity" else same:
            paths = [one.path for one in others if one is not judged]
            if paths:
                words = ", ".join(paths[:MAX_OTHERS])
                words += " and others" if len(paths) > MAX_OTHERS else ""
                values: dict[str, Any] = {name: value, "others": words}
                found[judged.path] = broken(check, label=name, found=value, **values)
                findings.setdefault(judged.path, []).append(found[judged.path])
    return found
