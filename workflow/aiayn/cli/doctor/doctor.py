"""Find out why a BLEU is too low: compare a run's log, data-bin and translations with what its system should have.

WHAT is RUN, a run's name, any unique beginning of it or its folder (default: the newest finished run), or FOLDER, the
files of any fairseq training: its log, a data-bin, the output of fairseq-generate, or plain hypotheses and references.
Each finding has its evidence (file, line, value, expected value), its cost in BLEU with the source, and the fix. Costs
are published ones, of the run's own corpus and a difference of that size; their sum never exceeds what the run lacks to
the printed number. The likeliest cause comes first.

Before a training: --command FILE compares a fairseq-train line or script (fairseq-generate and averaging too) with the
paper's configuration of the nearest system, the costliest difference first. Give the GPUs of the training with
--num-gpus if the script does not say them. With --bleu, or a BLEU line in FILE, costs share what is missing, and the
likeliest difference comes first.

Exit code 0: nothing was found. 1: something was found, or an input is at fault. 2: usage.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from aiayn.cli.config import add_changes_argument, read_changed_scale
from aiayn.cli.flags import add_runs_folder_argument, positive
from aiayn.errors import AiaynError, UsageError
from aiayn.runs.attempts import ATTEMPTS_NAME
from aiayn.runs.names import match_run
from aiayn.spec.system import CorpusSpec, Overrides
from aiayn.terminal import json_text
from analysis.doctor.types import Diagnosis, Scorer
from analysis.scoring.score import default_metrics, score_hypotheses
from paper_tables.doctor.doctor import diagnose_commands, diagnose_folder, diagnose_run, list_run_names, make_claim
from paper_tables.doctor.doctor_text import headline, headline_of_commands, render_commands, render_diagnosis
from paper_tables.questions.reference import SCORE_METRICS

EXAMPLE = "aiayn doctor my_run/ --system base --corpus wmt14_en_de --hypotheses my_run/newstest2014.de"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn doctor`."""
    parser.add_argument("what", nargs="?", metavar="WHAT", help="RUN or FOLDER, see above")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="FOLDER", help="default: results")
    add_runs_folder_argument(parser, "where to look for RUN's log if it is not where its record says")
    parser.add_argument("--scale", help="for FOLDER: demo, multi30k or paper (default: paper)")
    parser.add_argument("--system", help="for FOLDER, --command: the system that it should be, such as base")
    parser.add_argument("--corpus", help="for FOLDER, --command: the corpus of the training, as wmt14_en_de")
    parser.add_argument("--hypotheses", type=Path, metavar="FILE", help="for FOLDER: translations of the test set")
    parser.add_argument("--references", type=Path, metavar="FILE", help="for FOLDER: references of the test set")
    parser.add_argument(
        "--configfile", type=Path, metavar="FILE",
        help="the scale's config file, needed if it sets `updates` or `precision`",
    )  # fmt: skip
    add_changes_argument(parser)
    parser.add_argument("--command", type=Path, metavar="FILE", help="a fairseq command or script, see above")
    parser.add_argument("--num-gpus", type=positive, metavar="N", help="for --command: GPUs of the training, all nodes")
    parser.add_argument("--bleu", type=float, metavar="BLEU", help="for --command: BLEU on newstest2014, in percent")
    parser.add_argument("--metric", help="for --bleu: its definition (default: that of the scoring in FILE)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> None:
    """Print the diagnosis.

    Raises:
        AiaynError: if something was found, so that the exit code is 1.
    """
    if args.command is not None:
        _diagnose_command(args)
        return
    for flag in ("num_gpus", "bleu", "metric"):
        if getattr(args, flag) is not None:
            raise UsageError(f"--{flag.replace('_', '-')}: belongs to --command FILE; omit it, or name that file")
    is_folder = args.what is not None and Path(args.what).is_dir()
    if is_folder and args.system is None and (Path(args.what) / ATTEMPTS_NAME).is_file():  # a run of ours
        args.what, is_folder = Path(args.what).resolve().name, False
    diagnosis = _diagnose_folder(args) if is_folder else _diagnose_run(args)
    print(json_text(diagnosis) if args.json else render_diagnosis(diagnosis), end="")
    if diagnosis.findings:
        raise AiaynError(headline(diagnosis))


def _diagnose_command(args: argparse.Namespace) -> None:
    for flag in ("what", "scale", "hypotheses", "references", "configfile"):
        if getattr(args, flag) is not None:
            name = "WHAT" if flag == "what" else f"--{flag}"
            raise UsageError(f"{name}: belongs to a run or folder; --command FILE reads the command alone: omit it")
    if args.bleu is not None and not 1 <= args.bleu <= 100:
        raise UsageError(f"--bleu {args.bleu:g}: expected percent, from 1 to 100")
    if args.metric is not None and args.metric not in SCORE_METRICS:
        raise UsageError(f"--metric {args.metric}: unknown; expected one of {', '.join(SCORE_METRICS)}")
    diagnoses = diagnose_commands(
        args.command, num_gpus=args.num_gpus, system=args.system, corpus=args.corpus, bleu=args.bleu,
        metric=args.metric,
    )  # fmt: skip
    print(json_text(diagnoses) if args.json else render_commands(diagnoses), end="")
    if any(diagnosis.findings for diagnosis in diagnoses):
        raise AiaynError(headline_of_commands(diagnoses))


def _diagnose_run(args: argparse.Namespace) -> Diagnosis:
    for flag in ("scale", "system", "corpus", "hypotheses", "references"):
        if getattr(args, flag) is not None:
            why = f"{args.what or 'the newest run'} is a run, whose records name its system"
            raise UsageError(f"--{flag}: belongs to a FOLDER; {why}; omit it")
    names = list_run_names(args.results)
    name = names[-1]
    if args.what is not None:
        name = match_run(args.what, names, place=str(args.results), unknown="is neither a folder nor a finished run")
    return diagnose_run(args.results, args.runs_folder, name, _overrides(args), _make_scorer)


def _diagnose_folder(args: argparse.Namespace) -> Diagnosis:
    for flag in ("system", "corpus"):
        if getattr(args, flag) is None:
            raise UsageError(f"--{flag}: is missing; the folder {args.what} does not say what it is; see --help")
    claim = make_claim(args.what, args.scale or "paper", args.system, args.corpus, _overrides(args))
    return diagnose_folder(
        Path(args.what), claim, _make_scorer, hypotheses_path=args.hypotheses, references_path=args.references
    )


def _overrides(args: argparse.Namespace) -> Overrides:
    """Return what the config sets for every system.

    Raises:
        UsageError: if keys of a config file are to be replaced, and none is named.
    """
    if args.configfile is None:
        if args.config:
            raise UsageError(f"--config {args.config[0]}: no file to change; add --configfile FILE")
        return Overrides()
    return read_changed_scale(args.configfile, args.config).overrides


def _make_scorer(corpus: CorpusSpec) -> Scorer:
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
