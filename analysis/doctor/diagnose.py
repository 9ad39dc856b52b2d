"""Diagnoses a run or a folder: the claim from the system's own file, every check, their costs.

The expected values are the spec of the system that a run claims to be, and the averages of the
paper's tables.
"""

from collections.abc import Callable
from pathlib import Path

from aiayn.facts.trainings import ANY
from aiayn.known_good.targets import make_target
from aiayn.printed import PAPER_SCALE, evaluations_of, is_asked_for
from aiayn.records import read_train_record
from aiayn.spec.system import Overrides, overridden, read_corpus, read_system
from analysis.doctor.check_problems import check_problems, concerns_bleu
from analysis.doctor.check_training import check_divergence, check_start
from analysis.doctor.check_translation import check_definition, check_lengths
from analysis.doctor.collect import collect_folder, collect_run
from analysis.doctor.costs import add_costs
from analysis.doctor.types import Case, Checked, Claim, Diagnosis, Finding

# Their order decides between findings of equal cost.
CHECKS: tuple[Callable[[Case], Checked], ...] = (
    check_problems,
    check_divergence,
    check_start,
    check_lengths,
    check_definition,
)


def diagnose_run(
    results_folder: Path, runs_folder: Path, path: Path, overrides: Overrides
) -> Diagnosis:
    """Return the diagnosis of a run of ours by its record's path. Overrides of its scale replace
    its system's own values.
    """
    train = read_train_record(path, runs_folder)
    # The folder of a record has the name of its scale.
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
    # The system's own file counts, and not the spec in the record, which may have the fault.
    spec = overridden(read_system(system, scale), overrides)
    corpus = read_corpus(corpus_name)
    pair = corpus.language_pair
    # A system that the paper does not print has no average to compare with.
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
    findings: list[Finding] = []
    unchecked = []
    for check in CHECKS:
        answer = check(case)
        if isinstance(answer, str):
            unchecked.append(answer)
        else:
            findings += answer
    notes = [*case.not_read, *notes_of(case)]
    if unchecked:
        notes.append(f"Not checked: {'; '.join(unchecked)}.")
    return Diagnosis(
        name=claim.name,
        scale=claim.target.scale,
        system=claim.target.system,
        corpus=claim.corpus.name,
        files={
            "log": case.log_path or no_log,
            "translations": ", ".join(dict.fromkeys(case.translation_paths)) or "none",
        },
        findings=tuple(findings),
        notes=tuple(dict.fromkeys(notes)),
        not_judged=not_judged(case),
    )


def notes_of(case: Case) -> list[str]:
    """Return a sentence for each note of the judge, and for each problem of a perplexity or a
    training cost only.
    """
    return [f"Note: {problem.text}." for problem in case.problems if not concerns_bleu(problem)]


def not_judged(case: Case) -> tuple[str, ...]:
    """Return the quantities that a BLEU requires and that the evidence does not state."""
    names = [] if case.training is not None else ["the log of the training"]
    names += [] if case.translation_paths else ["a translation of the test set"]
    for problem in case.problems:
        if concerns_bleu(problem) and not problem.is_stated:
            names.append(problem.quantity)
    return tuple(dict.fromkeys(names))
