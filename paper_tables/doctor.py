"""Asks the doctor about a run or a folder: the claim from the system's own file, the checks, the costs of findings.

The expectation is the spec of the system that a run claims to be, and the averages that the paper's tables ask of it.
"""

from collections.abc import Callable
from pathlib import Path

from aiayn.errors import RecordError
from aiayn.spec import CorpusSpec, Overrides, overridden, read_corpus, read_system
from analysis.doctor.collect_folder import collect_folder
from analysis.doctor.collect_run import collect_run, list_runs, scale_of
from analysis.doctor.diagnose import diagnose
from analysis.doctor.types import Claim, Diagnosis, Scorer
from paper_tables.costs import add_costs
from paper_tables.published import evaluations_of, is_asked_for

__all__ = ["Claim", "Diagnosis", "Scorer", "diagnose_folder", "diagnose_run", "list_run_names", "make_claim"]
MakeScorer = Callable[[CorpusSpec], Scorer]


def list_run_names(results_folder: Path) -> list[str]:
    """Return the finished runs below a results folder, the newest last.

    Raises:
        RecordError: if there is none.
    """
    names = [train.run for _, train in list_runs(results_folder)]
    if not names:
        raise RecordError(f"{results_folder}: no finished run; give its folder with --results, or a FOLDER of logs")
    return names


def diagnose_run(results_folder: Path, name: str, overrides: Overrides, make_scorer: MakeScorer) -> Diagnosis:
    """Return what is wrong with a run of ours; what its scale overrides stands for its system's own values."""
    path, train = next((path, train) for path, train in list_runs(results_folder) if train.run == name)
    claim = make_claim(name, scale_of(results_folder, path), train.system, train.corpus, overrides)
    case = collect_run(results_folder, path, train, claim, make_scorer(claim.corpus))
    return add_costs(diagnose(case))


def diagnose_folder(
    folder: Path, claim: Claim, make_scorer: MakeScorer, *, hypotheses_path: Path | None, references_path: Path | None
) -> Diagnosis:
    """Return what is wrong with a training of anybody's, as far as a folder shows it."""
    case = collect_folder(
        folder, claim, make_scorer(claim.corpus), hypotheses_path=hypotheses_path, references_path=references_path
    )
    return add_costs(diagnose(case))


def make_claim(name: str, scale: str, system: str, corpus_name: str, overrides: Overrides) -> Claim:
    """Return what a run claims to be.

    Raises:
        ConfigError: if there is no such scale, system or corpus.
    """
    spec = overridden(read_system(system, scale), overrides)
    corpus = read_corpus(corpus_name)
    pair = corpus.language_pair
    asked = evaluations_of(pair, system) if is_asked_for(pair, system) else []
    averages = {role: frozenset(average for average, of_role in asked if of_role == role) for role in ("dev", "test")}
    return Claim(name, scale, system, corpus, spec.training, spec.decoding, averages)
