"""Checks what a folder's logs state besides settings: whether their lines are whole, known, and
agree, by the judge that `aiayn tables --from-logs` asks.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from aiayn.facts.derived import facts_of_training, facts_of_translation
from aiayn.facts.jobs import join_jobs
from aiayn.facts.listing import list_folder
from aiayn.facts.reader import read_log
from aiayn.known_good.judge import Problem, problems
from aiayn.known_good.table import show
from analysis.doctor.types import Answer, Case, Finding, fact, outcome_of

# Settings, sizes and the search have checks of their own.
STATEMENTS = frozenset(
    (
        "bleu_error",
        "conflict",
        "broken_lines",
        "criterion_class",
        "data_of_starts",
        "decoded_after_training",
        "expert_parameters",
        "frozen_parameters",
        "missing_epochs",
        "missing_validations",
        "model_class",
        "module",
        "num_models",
        "num_skipped",
        "other_layers",
        "other_matrix",
        "pairs_of_an_epoch",
        "printed_model",
        "repeats",
        "spread_of_batches",
        "subset",
        "task_class",
        "unknown_line",
        "unsmoothed_loss",
        "code_of_user",
        "validated_last_update",
    )
)
FIX = "read the line; `aiayn tables --from-logs` sets the number apart for the same reason"


def statements_of_folder(folder: Path) -> tuple[Problem, ...]:
    """Return the problems of what the logs below a folder state, each once."""
    return tuple(dict.fromkeys(_statements(folder)))


def _statements(folder: Path) -> Iterator[Problem]:
    paths = [folder / path for path in list_folder(folder).log_paths]
    jobs = join_jobs([read_log(path, str(path)) for path in paths])
    found: list[Problem] = []
    for training in jobs.trainings:
        for number in ("train", "ppl"):
            found += problems(facts_of_training(training), {}, number)
    for translation in jobs.translations:
        found += problems(facts_of_translation(translation), {}, "bleu")
    for problem in found:
        if problem.is_stated and problem.quantity in STATEMENTS:
            yield problem


def check_facts(case: Case) -> Answer:
    """Check that lines are whole, known, and agree with each other."""
    if case.training is None and not case.translations:
        return Answer(missing="no log was given")
    by_quantity: dict[str, list[Problem]] = {}
    for problem in case.statements:
        by_quantity.setdefault(problem.quantity, []).append(problem)
    findings = [_finding(listed) for listed in by_quantity.values()]
    return outcome_of(findings, ["lines agree"], "")


def _finding(listed: list[Problem]) -> Finding:
    """Return the finding on a quantity, with all places that state it."""
    first, *others = [
        fact(one.path, one.quantity, show(one.value), one.expected, one.line) for one in listed
    ]
    fields = msgspec.structs.asdict(first) | {"reason": listed[0].why, "fix": FIX}
    title = f"The log states {first.quantity} {first.found}, expected {first.expected}"
    return Finding(**fields, title=title, also=tuple(others))
