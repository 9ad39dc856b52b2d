"""Explain what a BLEU means next to the paper's. A single BLEU is explained by published numbers,
and the BLEUs of several seeds by a verdict.

For a single BLEU, the answer is the paper's number in the same definition, published numbers near
yours, and what to check next. The answer uses only published numbers, each with its source. Your
BLEU is not converted to a different definition. The paper's number is given as a range in your
definition.

For several BLEUs, one for each seed, the answer is the verdict by the project's rule
(docs/conclusions.md), with the interval and the number of seeds that would decide. The answer also
says whether the paper's number, itself from a single run, is in the 95 % prediction interval of
your runs. The sd over seeds is computed from your BLEUs. For the mean of another paper, give
--mean, --sd and --num-seeds. --from-logs and --results take the BLEUs from fairseq's logs or from
our records. --system may be a published replication, such as revisit_tiny. For three seeds:

  aiayn explain --bleu 28.1 28.5 27.9 --system big --expect reproduced

Exit code 0: any verdict. Exit code 4: the verdict is not the verdict of --expect, or NOT
COMPARABLE. Exit codes 1 and 2: the input is wrong.
"""

from pathlib import Path
from typing import Literal

from aiayn.cli.flags import JSON, flag
from aiayn.errors import UsageError
from aiayn.printed import PAPER_SCALE, read_replications
from aiayn.terminal import json_text
from analysis.reported.explain import explain, render_explanation

EXAMPLE = "aiayn explain --bleu 26.9 --metric bleu_sacre_13a --testset newstest2014 --system big"
EXIT_UNEXPECTED = 4


class Flags:
    bleu: list[float] | None = flag(
        "your number, such as 26.9, or a number for each seed", "PERCENT", excludes="source"
    )
    from_logs: Path | None = flag(
        "a folder of logs or of records, such as paper_tables/measured/multi30k",
        "FOLDER",
        excludes="source",
    )
    results: Path | None = flag("our results folder", "FOLDER", excludes="source")
    mean: float | None = flag(
        "the mean of several seeds, with --sd and --num-seeds", "PERCENT", excludes="source"
    )
    system: str = flag("base, big, a row of Table 3 (`aiayn list systems`), or a replication")
    metric: str | None = flag(
        "its definition, as `aiayn score` names it, or sacrebleu (default: the printed number's)"
    )
    testset: str | None = flag(
        "its test set (default: newstest2014, all 3,003 lines; newstest2013 for rows of Table 3)"
    )
    language_pair: str = flag("en-de or en-fr (default: en-de)", default="en-de")
    scale: str | None = flag(
        "for several values: demo, multi30k or paper (default: paper, or the files' own)"
    )
    edition: Literal["neurips2017", "arxiv"] | None = flag(
        "for several values: only this edition's number"
    )
    sd: float | None = flag("for --mean: the sd over seeds (n - 1)", "BLEU")
    num_seeds: int | None = flag("for --mean: the number of seeds", "N")
    expect: Literal["reproduced", "not-reproduced"] | None = flag(
        "exit with 4 on any other verdict"
    )
    json: bool = JSON


def run(args: Flags) -> int:
    """Print the explanation of one BLEU, or the verdict on several seeds. Return the exit code."""
    if args.metric == "sacrebleu":  # the usual name
        args.metric = "bleu_sacre_13a"
    # A single number of a system of the paper is compared with many published numbers. These flags
    # are about several seeds. A replication has one published number.
    is_of_replication = args.system in {replication.row for replication in read_replications()}
    if args.bleu is not None and len(args.bleu) == 1 and not is_of_replication:
        for name in ("scale", "edition", "sd", "num_seeds", "expect"):
            if getattr(args, name) is not None:
                shown = f"--{name.replace('_', '-')} {getattr(args, name)}"
                raise UsageError(
                    f"{shown}: --bleu has a single value, which cannot be judged; give a value for"
                    " each seed"
                )
        explanation = explain(
            bleu=args.bleu[0],
            metric=args.metric,
            testset=args.testset,
            language_pair=args.language_pair,
            system=args.system,
        )
        print(json_text(explanation) if args.json else render_explanation(explanation), end="")
        return 0
    # This module loads pandas and scipy. A single number was answered above, in a fraction of the
    # time.
    from analysis.reported.seeds import (
        GivenMean,
        explain_seeds,
        printed_numbers,
        question_of_folder,
        question_of_values,
        render_seeds,
    )

    given_mean = None
    if args.mean is not None:
        if args.sd is None or args.num_seeds is None:
            raise UsageError("--mean: expected also --sd and --num-seeds, over the same seeds")
        given_mean = GivenMean(args.mean, args.sd, args.num_seeds)
    elif args.sd is not None or args.num_seeds is not None:
        raise UsageError(
            "--sd and --num-seeds: expected with --mean; otherwise they follow from the values"
        )
    folder = args.from_logs or args.results
    # Given values of a different scale are on a test set of that scale. The paper's number keeps
    # its own.
    is_printed_testset = folder is not None or args.scale in (None, PAPER_SCALE)
    numbers = printed_numbers(
        args.system,
        args.language_pair,
        testset=args.testset if is_printed_testset else None,
        metric=args.metric,
        edition=args.edition,
    )
    printed_testset = numbers[0].conditions.testset
    if folder is not None and args.testset not in (None, printed_testset):
        raise UsageError(
            f"--testset {args.testset}: a folder's values are on the set of its scale that stands"
            f" for {printed_testset}; omit it"
        )
    named = {"scale": args.scale, "testset": args.testset, "metric": args.metric}
    if folder is not None:
        question = question_of_folder(folder, numbers[0], scale=args.scale, metric=args.metric)
    else:
        values = args.bleu or []
        question = question_of_values(values, numbers[0], given_mean=given_mean, **named)
    # A script that gives --expect needs exactly one verdict, and values that can decide it.
    if args.expect is not None and (len(question.judged) == 1 or len(numbers) > 1):
        reason = "a single value cannot be judged; give a value for each seed"
        if len(numbers) > 1:
            editions = ", ".join(number.edition for number in numbers)
            reason = f"the editions print different numbers; add --edition ({editions})"
        raise UsageError(f"--expect {args.expect}: {reason}")
    answer = explain_seeds(question, numbers)
    print(json_text(answer) if args.json else render_seeds(answer), end="")
    # NOT REPRODUCED becomes `not-reproduced`, the spelling of the flag.
    outcome = answer.verdicts[0].verdict.outcome.lower().replace(" ", "-")
    return EXIT_UNEXPECTED if args.expect not in (None, outcome) else 0
