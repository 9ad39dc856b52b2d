"""Diagnoses a run or a folder of logs: makes the claim, calls every check, and adds the costs in
BLEU.

A claim is the system and the corpus that a training should have. The expected values come from the
config file of the system and from the numbers of averaged checkpoints in the paper.
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

# Findings of equal cost keep the order of these checks.
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
    """Return the diagnosis of one of our runs. `path` is the path of the run's training record.

    `overrides` are the values that the config of the scale sets for all systems, such as `updates`.
    """
    train = read_train_record(path, runs_folder)
    # `results/paper/train/wmt14_en_de/base/seed1.json` is of scale paper.
    scale = path.relative_to(results_folder).parts[0]
    claim = make_claim(train.run, scale, train.system, train.corpus, overrides)
    case = collect_run(results_folder, train, claim)
    no_log = f"none: no {train.log_path}; name the folder that holds the run with --runs-folder"
    return add_costs(diagnose(case, "none" if case.not_read else no_log))


def diagnose_folder(folder: Path, claim: Claim) -> Diagnosis:
    """Return the diagnosis of any training, from the logs in a folder."""
    return add_costs(diagnose(collect_folder(folder, claim)))


def make_claim(name: str, scale: str, system: str, corpus_name: str, overrides: Overrides) -> Claim:
    """Return the claim of a run: its system, scale and corpus, with the expected values.

    Raises:
        ConfigError: if the scale, system or corpus does not exist.
    """
    # The expected values come from the system's file. The spec in the record may have the fault.
    spec = overridden(read_system(system, scale), overrides)
    corpus = read_corpus(corpus_name)
    pair = corpus.language_pair
    # The paper's tables fix the average. For a system that the paper does not print, any is
    # allowed.
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
    # Section 5.1 requires a joint vocabulary for WMT14 En-De. Other corpora may have two.
    if not claim.is_papers_corpus and not (corpus.subword and corpus.subword.joint):
        claim.target.values["num_dictionaries"] = ANY  # the corpus has no joint vocabulary
    return claim


def diagnose(case: Case, no_log: str = "none") -> Diagnosis:
    """Return the diagnosis of a run. Its findings do not have published costs yet, and are in the
    order of the checks.

    If the run has no log, the texts of the diagnosis have `no_log` where the log's path would be.
    """
    claim = case.claim
    findings: list[Finding] = []
    unchecked = []
    for check in CHECKS:
        answer = check(case)
        # A check without its evidence returns what it could not check. This must not look like "no
        # finding".
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
        # Several starts or translations repeat a note. It is shown once.
        notes=tuple(dict.fromkeys(notes)),
        not_judged=not_judged(case),
    )


def notes_of(case: Case) -> list[str]:
    """Return a sentence for each note of `aiayn.known_good`, and for each problem that changes a
    perplexity or a training cost but not the BLEU.
    """
    return [f"Note: {problem.text}." for problem in case.problems if not concerns_bleu(problem)]


def not_judged(case: Case) -> tuple[str, ...]:
    """Return the settings that must be known before the BLEU can be compared, but that no log or
    record states.
    """
    names = [] if case.training is not None else ["the log of the training"]
    names += [] if case.translation_paths else ["a translation of the test set"]
    for problem in case.problems:
        if concerns_bleu(problem) and not problem.is_stated:
            names.append(problem.name)
    return tuple(dict.fromkeys(names))
