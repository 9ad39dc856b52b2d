"""Test whether two systems differ on the same sentences by more than the choice of sentences explains.

Each system is given as a file (detokenised translations, one a line) or as a run (its name or any unique beginning of
it). The tests are sacreBLEU's: paired bootstrap resampling, or approximate randomisation.
"""

import logging
from pathlib import Path
from typing import Literal

from aiayn.cli.flags import JSON, RESULTS, flag
from aiayn.terminal import json_text
from analysis.questions.outputs import read_compared_outputs
from analysis.questions.significance import compare_segments
from analysis.scoring.definitions import SACREBLEU_METRIC_BY_LANGUAGE
from analysis.scoring.score import count_segments, make_scorer, score_hypotheses
from paper_tables.questions.comparison import NamedComparison, render_comparison

EXAMPLE = "aiayn compare --baseline base.de --system big.de --references newstest2014.de"
METRIC = "bleu_sacre_13a"


class Flags:
    baseline: str = flag("the system that the other is compared with", "FILE|RUN")
    system: str = flag("the system that is compared", "FILE|RUN")
    references: Path | None = flag("references (default: for runs, those of their corpus)", "FILE")
    testset: str | None = flag("test set: which one of a run, or a public one for files")
    average: str | None = flag("last1, last5, ... of a run (default: the average of most checkpoints)")
    language_pair: str = flag("of files (default: en-de)", "XX-YY", default="en-de")
    metric: str | None = flag("a definition, as `aiayn score` names it (default: bleu_sacre_13a)")
    method: Literal["bootstrap", "randomisation"] = flag("the test (default: bootstrap)", default="bootstrap")
    resamples: int | None = flag("default: bootstrap 1000, randomisation 10000", "N")
    seed: int = flag("seed of the resampling, 1 or more (default: 12345)", default=12345)
    results: Path = RESULTS
    json: bool = JSON


def run(args: Flags) -> None:
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
