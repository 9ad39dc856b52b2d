"""Diagnoses a run, a folder or a file of commands: the claim from the system's own file, the checks, their costs.

The expected values are the spec of the system that a run claims to be, and the averages of the paper's tables.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from aiayn.errors import CommandError, RecordError
from aiayn.printed import evaluations_of, is_asked_for
from aiayn.records import read_train_record
from aiayn.spec.system import CorpusSpec, Overrides, overridden, read_corpus, read_system
from analysis.doctor.before_training import (
    corpus_of,
    is_translation,
    nearest_system,
    trained_of,
    translations_of,
    trials_of,
)
from analysis.doctor.collect import collect_folder, collect_run, list_runs, scale_of
from analysis.doctor.diagnose import diagnose
from analysis.doctor.fairseq_commands import read_command_file
from analysis.doctor.types import Case, Claim, Diagnosis, Missing, Reported, Scorer, Trained, Translation
from analysis.scoring.score import default_metrics, score_hypotheses
from paper_tables.doctor.costs import PAPER_CORPORA, add_costs


def list_run_names(results_folder: Path) -> list[str]:
    """Return the finished runs below a results folder, the newest last.

    Raises:
        RecordError: if there is none.
    """
    names = [train.run for _, train in list_runs(results_folder)]
    if not names:
        raise RecordError(f"{results_folder}: no finished run; give its folder with --results, or a FOLDER of logs")
    return names


def diagnose_run(results_folder: Path, runs_folder: Path, name: str, overrides: Overrides) -> Diagnosis:
    """Return the diagnosis of a run of ours; overrides of its scale replace its system's own values."""
    path = next(path for path, train in list_runs(results_folder) if train.run == name)
    train = read_train_record(path, runs_folder)
    claim = make_claim(name, scale_of(results_folder, path), train.system, train.corpus, overrides)
    case = collect_run(results_folder, train, claim, _corpus_scorer(claim.corpus))
    diagnosis = diagnose(case)
    if case.trained is None:
        missing = f"none: no {train.log_path}; name the folder that holds the run with --runs-folder"
        diagnosis = msgspec.structs.replace(diagnosis, files=diagnosis.files | {"log": missing})
    return add_costs(diagnosis)


def diagnose_folder(
    folder: Path, claim: Claim, *, hypotheses_path: Path | None, references_path: Path | None
) -> Diagnosis:
    """Return the diagnosis of any training, from the evidence in a folder."""
    case = collect_folder(
        folder, claim, _corpus_scorer(claim.corpus), hypotheses_path=hypotheses_path, references_path=references_path
    )
    return add_costs(diagnose(case))


def diagnose_commands(
    path: Path,
    *,
    num_gpus: int | None = None,
    system: str | None = None,
    corpus: str | None = None,
    bleu: float | None = None,
    metric: str | None = None,
    missing: Missing | None = None,
) -> list[Diagnosis]:
    """Return for each training of a file of commands its differences from the nearest configuration of the paper.

    `bleu` (percent, in `metric`, by default that of the file's own scoring) is what the training got, if it was run;
    without it a BLEU line in the file counts.

    Raises:
        CommandError: if the file is no text, cut, or holds no translation by fairseq.
        ConfigError: if there is no such system or corpus.
    """
    if corpus is not None:
        read_corpus(corpus)
    file = read_command_file(path)
    commands = [command for command in file.commands if is_translation(command)]
    if num_gpus is not None:
        commands = [msgspec.structs.replace(command, num_gpus=num_gpus) for command in commands]
    if not any(command.program in ("train", "generate") for command in commands):
        tasks = ", ".join(
            dict.fromkeys(str(command.arguments["task"]) for command in file.commands if command.arguments.get("task"))
        )
        raise CommandError(
            f"{path}:{file.commands[0].line}: task {tasks}: not translation; the paper's configurations are of "
            "translation; give a command that trains it"
        )
    trials = [trial for trial in trials_of(commands) if trial.training or trial.generates]
    ends = [*(trial.line for trial in trials[1:]), math.inf]
    given = None if bleu is None else Reported("--bleu", metric or "", bleu, "")
    diagnoses = []
    for trial, end in zip(trials, ends, strict=True):
        first = trial.line if trial is not trials[0] else 0
        bleus = [one for one in file.bleus if first <= one[1].line < end]  # those between it and the next
        known, stated_by, is_stated = corpus_of(trial)
        name = corpus or known
        paper_corpus = name if name in PAPER_CORPORA else "wmt14_en_de"
        trained = trained_of(trial.training, str(path)) if trial.training else None
        translations = translations_of(trial, str(path), read_corpus(paper_corpus), bleus, given)
        notes = trial.notes()
        if bleu is not None and metric is None and translations and translations[0].metric:
            notes.append(f"No --metric is given: --bleu {bleu:g} is taken as {translations[0].metric}.")
        if not corpus and not is_stated:
            pair = {"wmt14_en_fr": "En-Fr"}.get(known, "En-De")
            note = f"{stated_by or 'the file'} names no known corpus: assumed WMT14 {pair}; name another by --corpus."
            notes.insert(0, note)
        diagnosis = diagnose_like_the_papers(
            f"{path}:{trial.line}", name, trained, translations, system=system, missing=missing, notes=notes
        )
        diagnoses.append(diagnosis)
    return diagnoses


def diagnose_like_the_papers(
    name: str,
    corpus: str,
    trained: Trained | None,
    translations: tuple[Translation, ...],
    *,
    system: str | None = None,
    missing: Missing | None = None,
    notes: Sequence[str] = (),
) -> Diagnosis:
    """Return what differs from a system of the paper, the nearest if none is named; `missing` overrides the scores'.

    A corpus that is neither of the paper's is compared with the settings of En-De, and has none of their costs.
    """
    paper_corpus = corpus if corpus in PAPER_CORPORA else "wmt14_en_de"
    symbols = trained.symbols if trained else {}
    nearest = system or nearest_system(symbols, PAPER_CORPORA[paper_corpus])
    claim = make_claim(name, "paper", nearest, paper_corpus, Overrides())
    if corpus != paper_corpus:
        notes = ("The corpus is none of the paper's: costs measured on WMT14 do not count here.", *notes)
    model = str(symbols.get("architecture", "transformer"))
    if model != "transformer" and not model.startswith("transformer with "):
        notes = (f"The model is {model}: costs measured with the paper's do not count here.", *notes)
        corpus = "other"
    case = Case(claim, trained, None, translations, lambda hypotheses, references: {})
    return add_costs(msgspec.structs.replace(diagnose(case), corpus=corpus, notes=tuple(notes)), missing)


def make_claim(name: str, scale: str, system: str, corpus_name: str, overrides: Overrides) -> Claim:
    """Return the system, scale and corpus that a run claims to be.

    Raises:
        ConfigError: if there is no such scale, system or corpus.
    """
    spec = overridden(read_system(system, scale), overrides)
    corpus = read_corpus(corpus_name)
    pair = corpus.language_pair
    evaluations = evaluations_of(pair, system) if is_asked_for(pair, system) else []
    averages = {
        role: frozenset(average for average, of_role in evaluations if of_role == role) for role in ("dev", "test")
    }
    return Claim(name, scale, system, corpus, spec.training, spec.decoding, averages)


def _corpus_scorer(corpus: CorpusSpec) -> Scorer:
    """Return what scores lines under every definition that applies to a corpus."""
    metrics = list(
        dict.fromkeys([*default_metrics(corpus.target_language, corpus.is_segmented), "bleu_as_given"])
    )  # bleu_as_given is what fairseq-generate prints

    def score(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        scores = score_hypotheses(
            hypotheses, references, metrics=metrics, target_language=corpus.target_language, hypotheses_sha256="",
            testset=corpus.test_testset,
        )  # fmt: skip
        return {one.metric: one.value for one in scores}

    return score
