"""Decides which numbers of a folder of logs fill a system's row, which have a row of their own, and
which are averaged.

One training is one seed. Trainings of one system, configuration and version that differ only in
their seeds are averaged. Everything that keeps a number out of the system's row is part of the
configuration, so that no mean is over different configurations. Several translations by one
training are listed, not averaged.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from aiayn.logs.completeness import broken, generation_findings, training_findings
from aiayn.logs.evidence import LoggedFolder, LoggedGeneration, LoggedTraining, metric_of_generation
from aiayn.logs.findings import Finding
from paper_tables.compare.decoding import BY_NAME, compare_generation
from paper_tables.compare.judgement import DECODING_GROUPS, TRAINING_GROUPS, Judgement, apart
from paper_tables.compare.systems import Match, PaperSystem, find_system, systems_for
from paper_tables.compare.training import compare_training

MAX_OTHERS = 3  # logs that are named in a message about several
_Rule = Callable[[list["JudgedTraining"]], Iterable[tuple["JudgedTraining", Finding]]]


class JudgedGeneration(msgspec.Struct, frozen=True, kw_only=True):
    """A scored translation with the judgement on each of its quantities and the checks that its log
    fails.
    """

    generation: LoggedGeneration
    judgements: tuple[Judgement, ...]
    findings: tuple[Finding, ...]

    @property
    def metric(self) -> str:
        """The definition of its BLEU."""
        return metric_of_generation(self.generation.log)

    @property
    def value(self) -> float | None:
        """Its BLEU in percent; None if there is none, if it is impossible, or if a check keeps it
        out.
        """
        bleu = self.generation.log.bleu
        is_kept_out = any(finding.severity == "error" for finding in self.findings)
        is_kept_out = is_kept_out or any(
            one.quantity == "bleu" and not one.is_good for one in self.judgements
        )
        return None if bleu is None or is_kept_out else bleu.value

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
    trainings: list[JudgedTraining] = []
    judged_paths: set[str] = set()
    for training in logs.trainings:
        match = find_system(
            training.symbols, training.language_pair, systems_for(training.log.arguments, systems)
        )
        generations: list[JudgedGeneration] = []
        for generation in logs.generations:
            if generation.training_path == training.path:
                judged = _judged_generation(generation, training.language_pair, match.system)
                generations.append(_without_copy(judged, generations))
                judged_paths.add(generation.path)
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
        _judged_generation(one, "", None)
        for one in logs.generations
        if one.path not in judged_paths
    ]
    return JudgedFolder(logs=logs, trainings=tuple(trainings), others=tuple(others))


def _judged_generation(
    generation: LoggedGeneration, language_pair: str, system: PaperSystem | None
) -> JudgedGeneration:
    judgements = compare_generation(generation, language_pair, system) if system else ()
    findings = tuple(generation_findings(generation))
    return JudgedGeneration(generation=generation, judgements=judgements, findings=findings)


def _without_copy(
    judged: JudgedGeneration, earlier: Sequence[JudgedGeneration]
) -> JudgedGeneration:
    """Return a translation; with a finding that keeps its BLEU out if an earlier one of the
    training is the same.
    """
    copied = next((one for one in earlier if _is_copy(judged.generation, one.generation)), None)
    if copied is None:
        return judged
    finding = broken(
        "one-log-a-generation", line=judged.generation.log.first_line, others=copied.generation.path
    )
    return msgspec.structs.replace(judged, findings=(*judged.findings, finding))


def _is_copy(one: LoggedGeneration, other: LoggedGeneration) -> bool:
    """Return whether two translations have the same content, wherever it is in a file.

    Without a score and a checkpoint's name, two logs that are alike may belong to different
    checkpoints.
    """
    if one.log.bleu is None and not one.log.model_path:
        return False
    contents = []
    for log in (one.log, other.log):
        bleu = None if log.bleu is None else msgspec.structs.replace(log.bleu, line=0)
        contents.append(msgspec.structs.replace(log, first_line=0, last_line=0, bleu=bleu))
    return contents[0] == contents[1]


class AveragedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a table: trainings that may be averaged, and in labels how they differ from the
    system.

    A line of translations that were searched, averaged or scored otherwise has no numbers of the
    training itself; a line of another dev set has its perplexity only.
    """

    system: PaperSystem
    language_pair: str
    configuration: tuple[str, ...]
    trainings: tuple[JudgedTraining, ...]
    generations: tuple[JudgedGeneration, ...] = ()
    has_training_numbers: bool = True
    has_perplexity: bool = True

    def scored(self, role: str) -> dict[tuple[str, str], list[JudgedGeneration]]:
        """Return the translations of a role by (metric, mark); each entry is averaged, and has a
        training once.
        """
        groups: dict[tuple[str, str], list[JudgedGeneration]] = {}
        for judged in self.generations:
            if judged.generation.role == role:
                mark = "average by name" if judged.is_by_name else ""
                groups.setdefault((judged.metric, mark), []).append(judged)
        listed: dict[tuple[str, str], list[JudgedGeneration]] = {}
        for (metric, mark), members in groups.items():
            paths = [judged.generation.training_path for judged in members]
            for judged in members if len(set(paths)) < len(paths) else ():
                settings = "; ".join(
                    filter(None, (mark, f"the translation of {judged.generation.path}"))
                )
                listed[metric, settings] = [judged]
            if len(set(paths)) == len(paths):
                listed[metric, mark] = members
        return listed


def average_trainings(
    trainings: Sequence[JudgedTraining],
) -> tuple[list[AveragedLine], dict[str, list[Finding]]]:
    """Return the lines of all trainings that belong to a system, and what rules of a whole line
    found, by path.
    """
    groups: dict[tuple[str, str, str, tuple[str, ...]], list[JudgedTraining]] = {}
    for judged in trainings:
        if (system := judged.system) is not None:
            key = (system.scale, system.system, judged.training.language_pair, judged.labels)
            groups.setdefault(key, []).append(judged)
    lines: list[AveragedLine] = []
    findings: dict[str, list[Finding]] = {}
    for (*_, labels), members in groups.items():
        for configuration, averaged in _taken_apart(members, labels, findings):
            lines += _lines_of(configuration, averaged)
    return lines, findings


def _lines_of(
    configuration: tuple[str, ...], averaged: Sequence[JudgedTraining]
) -> Iterator[AveragedLine]:
    """Yield the line of some trainings, then those of their numbers that differ in something of
    their own.
    """
    system, pair = averaged[0].match.system, averaged[0].training.language_pair
    if system is None:
        return
    by_labels: dict[tuple[str, ...], list[JudgedGeneration]] = {(): []}
    by_perplexity: dict[tuple[str, ...], list[JudgedTraining]] = {}
    for judged in averaged:
        by_perplexity.setdefault(judged.perplexity_labels, []).append(judged)
        for generation in judged.generations:
            if generation.value is not None:
                by_labels.setdefault(generation.labels, []).append(generation)
    line = AveragedLine(
        system=system,
        language_pair=pair,
        configuration=configuration,
        trainings=tuple(averaged),
        generations=tuple(by_labels.pop(())),
        has_perplexity=set(by_perplexity) == {()},
    )
    yield line
    for labels, members in by_perplexity.items() if not line.has_perplexity else ():
        yield msgspec.structs.replace(
            line,
            configuration=(*configuration, *labels),
            trainings=tuple(members),
            generations=(),
            has_training_numbers=False,
            has_perplexity=True,
        )
    for labels, generations in by_labels.items():
        yield msgspec.structs.replace(
            line,
            configuration=(*configuration, *labels),
            generations=tuple(generations),
            has_training_numbers=False,
            has_perplexity=False,
        )


def copies(members: Sequence[JudgedTraining]) -> Iterator[tuple[JudgedTraining, Finding]]:
    """Yield the trainings of a line that are copies of an earlier one, each with its finding."""
    for same in _by_value(members, "identity").values():
        for judged in same[1:]:
            yield judged, broken("one-log-a-training", others=_named(same, judged))


def mixed_versions(members: Sequence[JudgedTraining]) -> Iterator[tuple[JudgedTraining, Finding]]:
    """Yield all trainings of a line if they were made with several versions, each with its
    finding.
    """
    by_version = _by_value(members, "version")
    for version, same in by_version.items() if len(by_version) > 1 else ():
        others = _named([one for one in members if one.training.version != version])
        for judged in same:
            yield (
                judged,
                broken(
                    "one-version", label="version", found=version, version=version, others=others
                ),
            )


def repeated_seeds(members: Sequence[JudgedTraining]) -> Iterator[tuple[JudgedTraining, Finding]]:
    """Yield the trainings of a line whose seed another has too, each with its finding."""
    for seed, same in _by_value(members, "seed").items():
        for judged in same if len(same) > 1 else ():
            yield (
                judged,
                broken(
                    "distinct-seeds",
                    label="seed",
                    found=seed,
                    seed=seed,
                    others=_named(same, judged),
                ),
            )


def _by_value(
    members: Sequence[JudgedTraining], name: str
) -> dict[str | int, list[JudgedTraining]]:
    """Return the trainings by value, in order; those without a value are omitted."""
    groups: dict[str | int, list[JudgedTraining]] = {}
    for judged in members:
        if (value := getattr(judged.training, name)) is not None:
            groups.setdefault(value, []).append(judged)
    return groups


def _named(members: Sequence[JudgedTraining], without: JudgedTraining | None = None) -> str:
    """Return the first few paths in words."""
    paths = [one.path for one in members if one is not without]
    return ", ".join(paths[:MAX_OTHERS]) + (" and others" if len(paths) > MAX_OTHERS else "")


def _taken_apart(
    members: list[JudgedTraining], labels: tuple[str, ...], findings: dict[str, list[Finding]]
) -> Iterator[tuple[tuple[str, ...], list[JudgedTraining]]]:
    """Yield the groups that may be averaged; note what each rule found by path."""

    def found_by(rule: _Rule, group: list[JudgedTraining]) -> dict[str, Finding]:
        found = {judged.path: finding for judged, finding in rule(group)}
        for path, finding in found.items():
            findings.setdefault(path, []).append(finding)
        return found

    copied = found_by(copies, members)
    once = [one for one in members if one.path not in copied]
    mixed = found_by(mixed_versions, once)
    groups: dict[tuple[str, ...], list[JudgedTraining]] = {}
    for one in once:
        configuration = (*labels, mixed[one.path].label) if one.path in mixed else labels
        groups.setdefault(configuration, []).append(one)
    for configuration, group in groups.items():
        by_path = {one.path: one for one in group}
        repeated = found_by(repeated_seeds, group)
        if whole := [one for one in group if one.path not in repeated]:
            yield configuration, whole
        for path, finding in repeated.items():
            yield (*configuration, f"{finding.label} of {path}"), [by_path[path]]
