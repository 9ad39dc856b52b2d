"""Diagnoses a run or a folder: the claim from the system's own file, the checks, their costs.

The expected values are the spec of the system that a run claims to be, and the averages of the
paper's tables.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from aiayn.known_good.targets import make_target
from aiayn.printed import PAPER_SCALE, evaluations_of, is_asked_for
from aiayn.records import read_train_record
from aiayn.scoring.score import default_metrics, score_hypotheses
from aiayn.spec.system import CorpusSpec, Overrides, overridden, read_corpus, read_system
from analysis.doctor.collect import collect_folder, collect_run
from analysis.doctor.costs import add_costs
from analysis.doctor.diagnose import diagnose
from analysis.doctor.types import Claim, Diagnosis, Scorer


def diagnose_run(
    results_folder: Path, runs_folder: Path, path: Path, overrides: Overrides
) -> Diagnosis:
    """Return the diagnosis of a run of ours by its record's path; overrides of its scale replace
    its system's own values.
    """
    train = read_train_record(path, runs_folder)
    scale = path.relative_to(results_folder).parts[0]
    claim = make_claim(train.run, scale, train.system, train.corpus, overrides)
    case = collect_run(results_folder, train, claim, _corpus_scorer(claim.corpus))
    diagnosis = diagnose(case)
    if case.training is None and not case.not_read:
        missing = (
            f"none: no {train.log_path}; name the folder that holds the run with --runs-folder"
        )
        diagnosis = msgspec.structs.replace(diagnosis, files=diagnosis.files | {"log": missing})
    return add_costs(diagnosis)


def diagnose_folder(
    folder: Path, claim: Claim, *, hypotheses_path: Path | None, references_path: Path | None
) -> Diagnosis:
    """Return the diagnosis of any training, from the evidence in a folder."""
    case = collect_folder(
        folder,
        claim,
        _corpus_scorer(claim.corpus),
        hypotheses_path=hypotheses_path,
        references_path=references_path,
    )
    return add_costs(diagnose(case))


def make_claim(name: str, scale: str, system: str, corpus_name: str, overrides: Overrides) -> Claim:
    """Return the system, scale and corpus that a run claims to be.

    Raises:
        ConfigError: if the scale, system or corpus does not exist.
    """
    spec = overridden(read_system(system, scale), overrides)
    corpus = read_corpus(corpus_name)
    pair = corpus.language_pair
    evaluations = evaluations_of(pair, system) if is_asked_for(pair, system) else []
    target = make_target(
        scale,
        system,
        pair,
        spec.training,
        spec.decoding,
        {role: average for average, role in evaluations},
        is_papers_corpus=scale == PAPER_SCALE and corpus.name.startswith("wmt14_"),
    )
    return Claim(name, corpus, target)


def _corpus_scorer(corpus: CorpusSpec) -> Scorer:
    """Return what scores lines under every definition that applies to a corpus."""
    metrics = list(
        dict.fromkeys(
            [*default_metrics(corpus.target_language, corpus.is_segmented), "bleu_as_given"]
        )
    )  # bleu_as_given is what fairseq-generate prints

    def score(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        scores = score_hypotheses(
            hypotheses,
            references,
            metrics=metrics,
            target_language=corpus.target_language,
            hypotheses_sha256="",
            testset=corpus.test_testset,
        )
        return {one.metric: one.value for one in scores}

    return score
