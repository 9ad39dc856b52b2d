"""Groups logged trainings for averaging: those of one row, configuration and version that differ only in their seeds.

A finding of severity `apart` becomes part of the configuration, so no mean is over different configurations. Each
training of a repeated seed has a line of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from analysis.findings import Finding
from analysis.logs.logged import LoggedEvaluation, LoggedTraining
from analysis.logs.rows import PaperRow
from analysis.logs.rules import copies, mixed_versions, repeated_seeds

_Rule = Callable[[list[LoggedTraining]], Iterable[tuple[LoggedTraining, Finding]]]


class AveragedLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a table: trainings that may be averaged, and in words how they differ from the row."""

    row: PaperRow
    language_pair: str
    configuration: tuple[str, ...]
    trainings: tuple[LoggedTraining, ...]

    def evaluations(self, role: str) -> dict[tuple[str, str], list[LoggedEvaluation]]:
        """Return the evaluations of a role by (metric, settings): each is averaged by itself."""
        found: dict[tuple[str, str], list[LoggedEvaluation]] = {}
        for training in self.trainings:
            for evaluation in training.evaluations:
                if evaluation.role == role:
                    found.setdefault((evaluation.metric, evaluation.settings), []).append(evaluation)
        return found


def average_trainings(trainings: Sequence[LoggedTraining]) -> tuple[list[AveragedLine], dict[str, list[Finding]]]:
    """Return the lines of all trainings that fill a row, and what rules of a whole line found, by path."""
    groups: dict[tuple[str, str, str, tuple[str, ...]], list[LoggedTraining]] = {}
    for training in trainings:
        if (row := training.row) is not None:
            labels = tuple(finding.label for finding in training.findings if finding.severity == "apart")
            groups.setdefault((row.scale, row.system, training.language_pair, labels), []).append(training)
    lines: list[AveragedLine] = []
    findings: dict[str, list[Finding]] = {}
    for (*_, labels), members in groups.items():
        for configuration, averaged in _taken_apart(members, labels, findings):
            row, pair = averaged[0].match.row, averaged[0].language_pair
            if row is not None:
                lines.append(AveragedLine(
                    row=row, language_pair=pair, configuration=configuration, trainings=tuple(averaged)
                ))  # fmt: skip
    return lines, findings


def _taken_apart(
    members: list[LoggedTraining], labels: tuple[str, ...], findings: dict[str, list[Finding]]
) -> Iterator[tuple[tuple[str, ...], list[LoggedTraining]]]:
    """Yield the groups that may be averaged; notes what each rule found by path."""

    def found_by(rule: _Rule, group: list[LoggedTraining]) -> dict[str, Finding]:
        found = {training.path: finding for training, finding in rule(group)}
        for path, finding in found.items():
            findings.setdefault(path, []).append(finding)
        return found

    copied = found_by(copies, members)
    once = [one for one in members if one.path not in copied]
    mixed = found_by(mixed_versions, once)
    groups: dict[tuple[str, ...], list[LoggedTraining]] = {}
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
