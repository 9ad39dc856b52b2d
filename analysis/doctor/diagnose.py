"""Turns a `Case` into a `Diagnosis`: runs every check in the order of the ranked causes. Findings
keep that order until `costs` ranks them.
"""

import functools
from collections.abc import Callable

import msgspec

from analysis.doctor import (
    check_data,
    check_lengths,
    check_problems,
    check_scores,
    check_training,
)
from analysis.doctor.types import WORDS_BY_CHECK, Answer, Case, Diagnosis

# The check with a key is the function `check_<key>` in one of these modules.
_FUNCTIONS = (
    vars(check_data)
    | vars(check_scores)
    | vars(check_lengths)
    | vars(check_training)
    | vars(check_problems)
)
CHECKS: dict[str, Callable[[Case], Answer]] = {
    name: _FUNCTIONS[f"check_{name}"] for name in WORDS_BY_CHECK
}


def diagnose(case: Case) -> Diagnosis:
    """Return the findings on a run that its log, data-bin and translations support."""
    claim = case.claim
    score_once = functools.lru_cache(maxsize=8)(case.scorer)
    case = msgspec.structs.replace(case, scorer=lambda *sides: score_once(*map(tuple, sides)))
    outcomes = tuple(
        msgspec.structs.replace(check(case), check=name) for name, check in CHECKS.items()
    )
    data_bin = str(case.data.folder) if case.data else "none"
    paths = ", ".join(dict.fromkeys(output.path for output in case.translations))
    return Diagnosis(
        name=claim.name,
        scale=claim.target.scale,
        system=claim.target.system,
        corpus=claim.corpus.name,
        files={
            "log": case.log_path or "none",
            "data-bin": data_bin,
            "translations": paths or "none",
        },
        findings=tuple(finding for outcome in outcomes for finding in outcome.findings),
        outcomes=outcomes,
        notes=notes_of(case),
        not_judged=not_judged(case),
    )


def notes_of(case: Case) -> tuple[str, ...]:
    """Return a sentence for each file that was not read, for each note of the judge, and for each
    other number whose facts nothing states.
    """
    notes = list(case.not_read)
    unstated: dict[str, list[str]] = {}
    for subject, problems in case.problems.items():
        for one in problems:
            if not one.keeps_out:
                notes.append(f"Note: {one.text}.")
            elif not one.is_stated:
                number = check_problems.number_of(subject, one)
                unstated.setdefault(number, []).append(one.quantity)
    unstated.pop("", None)  # a BLEU's are a part of the answer
    for number, quantities in unstated.items():
        notes.append(f"Note: not stated, and needed by {number}: {', '.join(quantities)}.")
    return tuple(dict.fromkeys(notes))


def not_judged(case: Case) -> tuple[str, ...]:
    """Return the quantities that a BLEU requires and that the evidence does not state."""
    training = check_problems.unstated_quantities(case, "training")
    if case.training is None:
        training.insert(0, "the log of the training")
    translations = check_problems.unstated_quantities(case, "translation")
    if not case.translations:
        translations.insert(0, "a translation of the test set")
    return (*training, *translations)
