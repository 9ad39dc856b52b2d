"""Diagnoses a run or a folder: the claim from the system's own file, every check, their costs.

The expected values are the spec of the system that a run claims to be, and the averages of the
paper's tables.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from aiayn.facts.trainings import ANY
from aiayn.known_good.targets import make_target
from aiayn.printed import PAPER_SCALE, evaluations_of, is_asked_for
from aiayn.records import read_train_record
from aiayn.spec.system import Overrides, overridden, read_corpus, read_system
from analysis.doctor import check_problems, check_training, check_translation
from analysis.doctor.collect import collect_folder, collect_run
from analysis.doctor.costs import add_costs
from analysis.doctor.types import WORDS_BY_CHECK, Answer, Case, Claim, Diagnosis

# Each check is a function `check_<key>` in one of these modules.
_FUNCTIONS = vars(check_training) | vars(check_translation) | vars(check_problems)
CHECKS: dict[str, Callable[[Case], Answer]] = {
    name: _FUNCTIONS[f"check_{name}"] for name in WORDS_BY_CHECK
}


def diagnose_run(
    results_folder: Path, runs_folder: Path, path: Path, overrides: Overrides
) -> Diagnosis:
    """Return the diagnosis of a run of ours by its record's path. Overrides of its scale replace
    its system's own values.
    """
    train = read_train_record(path, runs_folder)
    scale = path.relative_to(results_folder).parts[0]
    claim = make_claim(train.run, scale, train.system, train.corpus, overrides)
    case = collect_run(results_folder, train, claim)
    no_log = f"none: no {train.log_path}; name the folder that holds the run with --runs-folder"
    return add_costs(diagnose(case, "none" if case.not_read else no_log))


def diagnose_folder(folder: Path, claim: Claim) -> Diagnosis:
    """Return the diagnosis of any training, from the logs in a folder."""
    return add_costs(diagnose(collect_folder(folder, claim)))


def make_claim(name: str, scale: str, system: str, corpus_name: str, overrides: Overrides) -> Claim:
    """Return the system, scale and corpus that a run claims to be.

    Raises:
        ConfigError: if the scale, system or corpus does not exist.
    """
    spec = overridden(read_system(system, scale), overrides)
    corpus = read_corpus(corpus_name)
    pair = corpus.language_pair
    evaluations = evaluations_of(pair, system) if is_asked_for(pair, system) else []
    claim = Claim(
        name,
        corpus,
        make_target(
            scale,
            system,
            pair,
            spec.training,
            spec.decoding,
            {role: average for average, role in evaluations},
            is_papers_corpus=scale == PAPER_SCALE and corpus.name.startswith("wmt14_"),
        ),
    )
    if not claim.is_papers_corpus and not (corpus.subword and corpus.subword.joint):
        claim.target.values["num_dictionaries"] = ANY  # the corpus has no joint vocabulary
    return claim


def diagnose(case: Case, no_log: str = "none") -> Diagnosis:
    """Return the findings on a run that its evidence supports. They are in the order of the checks
    until `costs` ranks them. If there is no log, `no_log` replaces its path in the texts.
    """
    claim = case.claim
    outcomes = tuple(
        msgspec.structs.replace(check(case), check=name) for name, check in CHECKS.items()
    )
    return Diagnosis(
        name=claim.name,
        scale=claim.target.scale,
        system=claim.target.system,
        corpus=claim.corpus.name,
        files={
            "log": case.log_path or no_log,
            "translations": ", ".join(dict.fromkeys(case.translation_paths)) or "none",
        },
        findings=tuple(finding for outcome in outcomes for finding in outcome.findings),
        outcomes=outcomes,
        notes=notes_of(case),
        not_judged=not_judged(case),
    )


def notes_of(case: Case) -> tuple[str, ...]:
    """Return a sentence for each file that was not read, for each note of the judge, and for each
    other number without stated conditions.
    """
    notes = list(case.not_read)
    unstated: dict[str, list[str]] = {}
    for problems in case.problems.values():
        for problem in problems:
            if not problem.keeps_out:
                notes.append(f"Note: {problem.text}.")
            elif not problem.is_stated:
                number = check_problems.number_of(problem)
                unstated.setdefault(number, []).append(problem.quantity)
    unstated.pop("", None)  # a BLEU's are a part of the answer
    for number, quantities in unstated.items():
        names = ", ".join(dict.fromkeys(quantities))
        notes.append(f"Note: not stated, and needed by {number}: {names}.")
    return tuple(dict.fromkeys(notes))


def not_judged(case: Case) -> tuple[str, ...]:
    """Return the quantities that a BLEU requires and that the evidence does not state."""
    training = check_problems.unstated_quantities(case, "training")
    if case.training is None:
        training.insert(0, "the log of the training")
    translations = check_problems.unstated_quantities(case, "translation")
    if not case.translation_paths:
        translations.insert(0, "a translation of the test set")
    return (*training, *translations)
