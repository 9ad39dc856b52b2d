"""Which logged trainings are averaged: those of one row, one configuration and one version that differ in their seeds.

Whatever a rule of severity `apart` finds becomes part of the configuration, so that a mean is never over unlike
trainings; a seed that comes again makes a line of its own for each of its trainings.
"""

from collections.abc import Sequence

import msgspec

from analysis.logs.checks import Finding, Rule, broken_together
from analysis.logs.judged import LoggedEvaluation, LoggedTraining
from analysis.logs.rows import PaperRow


class AveragedLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a table: trainings that may be averaged, and in words what they have that the row has not."""

    row: PaperRow
    language_pair: str
    configuration: tuple[str, ...]
    trainings: tuple[LoggedTraining, ...]

    def values(self, metric: str) -> list[float]:
        """Return the values of a metric, in order of path."""
        return [one.value_by_metric[metric] for one in self.trainings if metric in one.value_by_metric]

    def evaluations(self, role: str) -> dict[tuple[str, str], list[LoggedEvaluation]]:
        """Return the evaluations of a role by (metric, settings): each is averaged by itself."""
        found: dict[tuple[str, str], list[LoggedEvaluation]] = {}
        for training in self.trainings:
            for evaluation in training.evaluations:
                if evaluation.role == role:
                    found.setdefault((evaluation.metric, evaluation.settings), []).append(evaluation)
        return found


def average_trainings(
    trainings: Sequence[LoggedTraining], rules: list[Rule]
) -> tuple[list[AveragedLine], dict[str, list[Finding]]]:
    """Return the lines of all trainings that fill a row, and what rules of a whole line found, by path."""
    groups: dict[tuple[str, str, str, tuple[str, ...]], list[LoggedTraining]] = {}
    for training in trainings:
        if training.row is not None:
            labels = tuple(finding.label for finding in training.findings if finding.severity == "apart")
            key = (training.row.scale, training.row.system, training.language_pair, labels)
            groups.setdefault(key, []).append(training)
    lines: list[AveragedLine] = []
    findings: dict[str, list[Finding]] = {}
    for (*_, labels), members in groups.items():
        for configuration, averaged in _split(members, labels, [rule for rule in rules if rule.of == "line"], findings):
            row = averaged[0].row
            if row is not None:
                lines.append(
                    AveragedLine(
                        row=row,
                        language_pair=averaged[0].language_pair,
                        configuration=configuration,
                        trainings=tuple(averaged),
                    )
                )
    return lines, findings


def _split(
    members: list[LoggedTraining], labels: tuple[str, ...], rules: Sequence[Rule], findings: dict[str, list[Finding]]
) -> list[tuple[tuple[str, ...], list[LoggedTraining]]]:
    """Return the groups that remain when each rule has taken apart what breaks it; notes what it found by path."""
    groups = [(labels, members)]
    for rule in rules:
        remaining = []
        for configuration, averaged in groups:
            broken = broken_together(rule, {one.path: one.facts for one in averaged})
            for path, finding in broken.items():
                findings.setdefault(path, []).append(finding)
            whole = [one for one in averaged if one.path not in broken]
            if whole:
                remaining.append((configuration, whole))
            if rule.severity == "apart":
                remaining += _apart(configuration, averaged, broken)
            elif rule.severity == "note":
                remaining[-1:] = [(configuration, averaged)]
        groups = remaining
    return groups


def _apart(
    configuration: tuple[str, ...], averaged: Sequence[LoggedTraining], broken: dict[str, Finding]
) -> list[tuple[tuple[str, ...], list[LoggedTraining]]]:
    """Return what breaks a rule in groups of one value each: those of one version stay together, of one seed not."""
    groups: dict[str, list[LoggedTraining]] = {}
    for training in averaged:
        finding = broken.get(training.path)
        if finding is not None:
            is_alone = finding.rule == "distinct-seeds"
            label = f"{finding.label} of {training.path}" if is_alone else finding.label
            groups.setdefault(label, []).append(training)
    return [((*configuration, label), members) for label, members in groups.items()]
