"""Diagnoses a run, a folder or a file of commands: the claim from the system's own file, the checks, their costs.

The expected values are the spec of the system that a run claims to be, and the averages of the paper's tables.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from aiayn.errors import CommandError, RecordError
from aiayn.printed import evaluations_of, is_asked_for
from aiayn.records import read_train_record
from aiayn.spec.system import CorpusSpec, Overrides, overridden, read_corpus, read_system
from analysis.doctor.before_training import (
    MIN_SLIP,
    Settings,
    corpus_of,
    findings_of,
    is_translation,
    nearest_system,
    settings_of,
    slip_finding,
    trials_of,
    unstated_settings,
)
from analysis.doctor.collect import collect_folder, collect_run, list_runs, scale_of
from analysis.doctor.diagnose import diagnose
from analysis.doctor.fairseq_commands import read_command_file
from analysis.doctor.types import Claim, Diagnosis, Missing, Scorer
from paper_tables.doctor.costs import PAPER_CORPORA, add_costs, by_cost, missing_bleu

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


def diagnose_run(
    results_folder: Path, runs_folder: Path, name: str, overrides: Overrides, make_scorer: MakeScorer
) -> Diagnosis:
    """Return the diagnosis of a run of ours; overrides of its scale replace its system's own values."""
    path = next(path for path, train in list_runs(results_folder) if train.run == name)
    train = read_train_record(path, runs_folder)
    claim = make_claim(name, scale_of(results_folder, path), train.system, train.corpus, overrides)
    case = collect_run(results_folder, train, claim, make_scorer(claim.corpus))
    diagnosis = diagnose(case)
    if case.trained is None:
        missing = f"none: no {train.log_path}; name the folder that holds the run with --runs-folder"
        diagnosis = msgspec.structs.replace(diagnosis, files=diagnosis.files | {"log": missing})
    return add_costs(diagnosis)


def diagnose_folder(
    folder: Path, claim: Claim, make_scorer: MakeScorer, *, hypotheses_path: Path | None, references_path: Path | None
) -> Diagnosis:
    """Return the diagnosis of any training, from the evidence in a folder."""
    case = collect_folder(
        folder, claim, make_scorer(claim.corpus), hypotheses_path=hypotheses_path, references_path=references_path
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
    trials = trials_of(commands)
    later_lines = [trial.line for trial in trials[1:]]
    diagnoses = []
    for trial, first, end in zip(trials, [0, *later_lines], [*later_lines, math.inf], strict=True):
        bleus = [one for one in file.bleus if first <= one.line < end]  # those between it and the next
        settings = settings_of(trial, str(path), bleus)
        settings = msgspec.structs.replace(settings, metric=metric or settings.metric)
        if trial.training is None and all(command.program != "generate" for command in trial.others):
            continue
        taken = corpus_of(trial)
        notes = unstated_settings(settings, trial)
        if not corpus and not taken.is_stated:
            pair = {"wmt14_en_fr": "En-Fr"}.get(taken.name, "En-De")
            by = taken.stated_by or "the file"
            notes.insert(0, f"{by} names no known corpus: assumed WMT14 {pair}; name another by --corpus.")
        diagnosis = diagnose_settings(
            settings, system=system, corpus=corpus or taken.name, bleu=bleu, missing=missing, notes=notes,
        )  # fmt: skip
        name = f"{path}:{trial.line}"
        diagnoses.append(msgspec.structs.replace(diagnosis, name=name))
    return diagnoses


def diagnose_settings(
    settings: Settings,
    *,
    corpus: str,
    system: str | None = None,
    bleu: float | None = None,
    role: str = "test",
    missing: Missing | None = None,
    notes: Sequence[str] = (),
) -> Diagnosis:
    """Return what differs from a system of the paper, with costs; `missing` overrides what follows from a BLEU.

    Where something is missing, findings are ranked by likelihood, else by published cost. A corpus that is neither of
    the paper's is compared with the settings of En-De, and has none of their costs.
    """
    paper_corpus = corpus if corpus in PAPER_CORPORA else "wmt14_en_de"
    nearest = system or nearest_system(settings.symbols, PAPER_CORPORA[paper_corpus])
    claim = make_claim(settings.place, "paper", nearest, paper_corpus, Overrides())
    findings = findings_of(settings, claim)
    if corpus != paper_corpus:
        notes = ("The corpus is none of the paper's: costs measured on WMT14 do not count here.", *notes)
    model = str(settings.symbols.get("architecture", "transformer"))
    if model != "transformer" and not model.startswith("transformer with "):
        notes = (f"The model is {model}: costs measured with the paper's do not count here.", *notes)
        corpus = "other"
    bleu = settings.bleu if bleu is None else bleu
    if missing is None and bleu is not None:
        missing = missing_bleu(corpus, nearest, role, bleu, settings.metric)
    diagnosis = Diagnosis(
        name=settings.place, scale="paper", system=nearest, corpus=corpus, files={"commands": settings.place},
        findings=tuple(findings), outcomes=(), notes=tuple(notes),
    )  # fmt: skip
    answer = add_costs(diagnosis, missing)
    if _is_unaccounted(answer):
        unexplained = msgspec.structs.replace(diagnosis, findings=(*findings, slip_finding(settings)))
        answer = add_costs(unexplained, missing)
    if missing is None:
        answer = msgspec.structs.replace(answer, findings=by_cost(answer.findings))
    return answer


def _is_unaccounted(diagnosis: Diagnosis) -> bool:
    """Return whether several BLEU are missing that no difference of known cost explains."""
    missing = diagnosis.missing
    if missing is None or not missing.is_known or missing.high < MIN_SLIP:
        return False
    if any(finding.what == "slip" for finding in diagnosis.findings):
        return False
    known = sum(
        finding.costs[0].high or 0.0 for finding in diagnosis.findings if finding.likelihood in ("likely", "possible")
    )
    return missing.high - known > MIN_SLIP


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
