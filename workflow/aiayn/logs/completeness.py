"""Finds what a log lacks: a number counts only if the log of its training, and of its translation,
is complete.

An `error` keeps a number out of the tables, `apart` gives it a line of its own, a `note` is printed
next to it. checks.csv has the words of each check. This module does not look at settings, which
`paper_tables.compare` judges.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiayn.logs.evidence import (
    LoggedTraining,
    dev_subset,
    dev_validations,
    final_validation,
    whole_number,
)
from aiayn.logs.findings import Finding, LogCheck
from aiayn.logs.types import GenerationLog, TrainingLog
from aiayn.printed import read_rows

LANGUAGE_PAIRS = ("en-de", "en-fr")  # of Table 2; Table 3 has en-de only
NEVER = 10**6  # an interval of so many updates or more never comes: `aiayn train` gives 10^9


LOG_CHECKS = {
    check.check: check for _, check in read_rows(Path(__file__).parent / "checks.csv", LogCheck)
}


def broken(
    name: str, /, *, line: int = 0, label: str = "", found: object = "", **values: Any
) -> Finding:
    """Return the finding of a check that failed; `label` and `found` name it in a line of a
    table.
    """
    check = LOG_CHECKS[name]
    return Finding(
        check=name,
        severity=check.severity,
        title=check.title.format(**values),
        fix=check.fix.format(**values),
        line=line,
        label=f"{label or name} {found}",
    )


def training_findings(training: LoggedTraining) -> Iterator[Finding]:
    """Yield the checks that the log of a training fails."""
    yield from _check_completeness(training.log)
    yield from _check_languages(training)
    yield from _check_making(training)


def _check_completeness(log: TrainingLog) -> Iterator[Finding]:
    """Yield the parts of a complete training's log that this log lacks."""
    if not log.arguments:
        yield broken("start-line", line=log.first_line)
    if log.conflict is not None:
        yield broken("one-training", line=log.conflict.line, text=log.conflict.text)
    if log.truncated_line is not None:
        yield broken("whole-last-line", line=log.truncated_line)
    if log.damaged_lines:
        yield broken("whole-lines", line=log.damaged_lines[0], number=len(log.damaged_lines))
    if not log.last_update:
        yield broken("updates-begun", line=log.last_line)
    else:
        yield from _check_end(log)
    if missing := _missing_epochs(log):
        yield broken("every-epoch", number=len(missing), first=missing[0])
    if missing := _missing_validations(log):
        yield broken("every-validation", number=len(missing), first=missing[0])
    if log.first_update:
        yield broken("whole-history", update=log.first_update)
    if log.arguments and not log.num_parameters:
        yield broken("parameters-line")
    if log.num_repeated_lines:
        yield broken("repeated-lines", number=log.num_repeated_lines)


def _check_end(log: TrainingLog) -> Iterator[Finding]:
    """Yield what a whole training ends with and this log lacks, Table 3's perplexity among it."""
    max_update = _max_update(log)
    if max_update is not None and log.last_update < max_update:
        yield broken(
            "last-update", line=log.last_line, update=log.last_update, max_update=max_update
        )
    if not log.is_done:
        yield broken("done-line", line=log.last_line)
    final = final_validation(log)
    if final is None:
        newest = (
            f"; the newest is at {log.validations[-1].update:,}"
            if log.validations
            else "; there is none at all"
        )
        yield broken(
            "final-validation", subset=dev_subset(log), update=log.last_update, newest=newest
        )
    elif final.nll_bits is None:
        yield broken("dev-nll")


def _check_languages(training: LoggedTraining) -> Iterator[Finding]:
    pair = training.language_pair
    if pair and pair not in LANGUAGE_PAIRS:
        yield broken("language-pair", pair=pair)
    elif not pair and training.log.arguments:
        yield broken("language-pair-known")


def _check_making(training: LoggedTraining) -> Iterator[Finding]:
    """Yield what prevents a repetition of the training: commits, and the seed."""
    commits = training.commits
    if dirty := ", ".join(commit for commit in commits or () if commit.endswith("+dirty")):
        yield broken("clean-commit", label="commit", found=dirty, commits=dirty)
    if commits is not None and len(commits) != 1:
        yield broken(
            "one-commit",
            label="commits",
            found=len(commits),
            number=len(commits),
            commits=", ".join(commits),
        )
    if training.seed is None and training.log.arguments:
        yield broken("seed-known")


def _max_update(training: TrainingLog) -> int | None:
    """Return the update at which the training was to end; None if something else was to end it, and
    did.
    """
    max_update = whole_number(training.arguments.get("max_update"))
    last_epoch = whole_number(training.arguments.get("max_epoch"))
    if training.is_stopped_early or not max_update:
        return None
    has_all_epochs = bool(last_epoch) and any(
        epoch.epoch >= (last_epoch or 0) for epoch in training.epochs
    )
    return None if has_all_epochs else max_update


def _missing_epochs(training: TrainingLog) -> list[int]:
    """Return the epochs without their last line, from the first that the log can have to the last
    that it has.
    """
    numbers = {epoch.epoch for epoch in training.epochs}
    if not numbers:
        return []
    first = 1 if not training.first_update else min(numbers)
    return [number for number in range(first, max(numbers)) if number not in numbers]


def _missing_validations(training: TrainingLog) -> list[int]:
    """Return the updates (for ends of epochs, their update) at which a validation was due and is
    not in the log.
    """
    arguments = training.arguments
    if arguments.get("disable_validation") is True or not training.validations:
        return []
    updates = {validation.update for validation in dev_validations(training)}
    due: list[int] = []
    for key in ("validate_interval_updates", "save_interval_updates"):
        interval = whole_number(arguments.get(key)) or 0
        if 0 < interval < NEVER:
            begin = training.first_update // interval + 1
            due += [
                interval * index for index in range(begin, training.last_update // interval + 1)
            ]
    every = whole_number(arguments.get("validate_interval")) or 1
    if every < NEVER:
        due += [epoch.update for epoch in training.epochs if epoch.epoch % every == 0]
    return sorted({update for update in due if update not in updates})


def generation_findings(log: GenerationLog) -> Iterator[Finding]:
    """Yield the checks that the log of a translation fails."""
    if log.bleu is None:
        yield broken("bleu-line", line=log.last_line)
    if log.truncated_line is not None:
        yield broken("whole-generation", line=log.truncated_line)
    if not log.training_path:
        model = log.model_path or "a checkpoint that is not named"
        yield broken("known-training", model=model)
    if (
        log.num_hypotheses
        and log.num_sentences is not None
        and log.num_hypotheses != log.num_sentences
    ):
        yield broken(
            "every-sentence",
            line=log.last_line,
            number=log.num_hypotheses,
            translated=log.num_sentences,
        )
