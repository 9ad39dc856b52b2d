"""Test whether two systems differ on the same sentences by more than the choice of sentences explains.

Each system is given as a file (detokenised translations, one a line) or as a run (its name or any unique beginning of
it). The tests are sacreBLEU's: paired bootstrap resampling, or approximate randomisation.
"""

import argparse
import logging
from pathlib import Path

from aiayn.terminal import json_text
from analysis.questions.compared_outputs import read_compared_outputs
from analysis.questions.significance import compare_segments
from analysis.scoring.score import SACREBLEU_METRIC_BY_LANGUAGE, count_segments, make_scorer, score_hypotheses
from paper_tables.questions.comparison import NamedComparison, render_comparison

EXAMPLE = "aiayn compare --baseline base.de --system big.de --references newstest2014.de"
METRIC = "bleu_sacre_13a"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn compare`."""
    parser.add_argument(
        "--baseline", required=True, metavar="FILE|RUN", help="the system that the other is compared with"
    )
    parser.add_argument("--system", required=True, metavar="FILE|RUN", help="the system that is compared")
    parser.add_argument(
        "--references", type=Path, metavar="FILE", help="references (default: for runs, those of their corpus)"
    )
    parser.add_argument("--testset", help="test set: which one of a run, or a public one for files")
    parser.add_argument("--average", help="last1, last5, ... of a run (default: the average of most checkpoints)")
    parser.add_argument("--language-pair", default="en-de", metavar="XX-YY", help="of files (default: en-de)")
    parser.add_argument("--metric", help=f"a definition, as `aiayn score` names it (default: {METRIC})")
    parser.add_argument(
        "--method", choices=("bootstrap", "randomisation"), default="bootstrap", help="the test (default: bootstrap)"
    )
    parser.add_argument("--resamples", type=int, metavar="N", help="default: bootstrap 1000, randomisation 10000")
    parser.add_argument("--seed", type=int, default=12345, help="seed of the resampling, 1 or more (default: 12345)")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="FOLDER", help="default: results")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> None:
    """Compare, and print the answer."""
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)  # it reports each step
    baseline, system, references = read_compared_outputs(
        (args.baseline, args.system), references_path=args.references, testset=args.testset, average=args.average,
        language_pair=args.language_pair, results_folder=args.results,
    )  # fmt: skip
    language = references.target_language
    usual = SACREBLEU_METRIC_BY_LANGUAGE.get(language, METRIC)
    metric = args.metric or ("bleu_as_given" if references.is_segmented else usual)
    scored = score_hypotheses(
        baseline.lines, references.lines, metrics=[metric], target_language=language,
        hypotheses_sha256=baseline.sha256, testset=references.testset,
    )[0]  # fmt: skip
    rows = [
        count_segments(metric, side.lines, references.lines, target_language=language) for side in (baseline, system)
    ]
    comparison = compare_segments(
        *rows, scorer=make_scorer(metric), metric=metric, signature=scored.signature, method=args.method,
        num_resamples=args.resamples, seed=args.seed,
    )  # fmt: skip
    named = NamedComparison(
        testset=references.testset, baseline_name=baseline.name, baseline_sha256=baseline.sha256,
        baseline_search=baseline.search, system_name=system.name, system_sha256=system.sha256,
        system_search=system.search, comparison=comparison,
    )  # fmt: skip
    print(json_text(named) if args.json else render_comparison(named), end="")
