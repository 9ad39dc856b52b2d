"""Checks the data-bin: numbers of pairs, ends of sentences, and whether training pairs are
translations.
"""

from collections.abc import Iterator

import numpy as np
from scipy import stats

from aiayn.facts.types import whole
from aiayn.known_good.judge import Problem
from analysis.doctor.alignment import MAX_SHARE, estimate_misaligned
from analysis.doctor.data_bin import END_OF_SENTENCE, DataBin
from analysis.doctor.types import Answer, Case, make_finding, outcome_of

NUM_LINES_LOOKED_AT = 2000
ALIGNMENT_SEED = 2017
NO_DATA = "no data-bin was given"


def check_data(case: Case) -> Answer:
    """Compare the numbers of pairs of the data-bin: both sides, and the training's log."""
    if case.data is None:
        return Answer(missing=NO_DATA)
    wrong = list(_wrong_counts(case, case.data))
    findings = [make_finding("other-data", wrong)] if wrong else []
    counts = {split: len(source) for split, (source, _) in case.data.sides_by_split.items()}
    return outcome_of(findings, [", ".join(f"{split} {n:,}" for split, n in counts.items())], "")


def _wrong_counts(case: Case, data: DataBin) -> Iterator[Problem]:
    """Yield evidence if the sides of a split have unequal lengths, or the log a different
    number.
    """
    section = case.training.training.last if case.training else None
    for split, (source, target) in data.sides_by_split.items():
        if len(source) != len(target):
            what = f"lines of {split}, source and target"
            found = f"{len(source):,} and {len(target):,}"
            yield Problem(what, found, "one number", str(target.path))
        logged = section.find(f"pairs_{split}") if section else None
        number = None if logged is None else whole(logged.value)
        if logged is not None and number not in (None, len(source)):
            expected = f"{len(source):,}, as in the data-bin"
            yield Problem(f"pairs_{split}", f"{number:,}", expected, case.log_path, logged.line)


def check_vocabulary(case: Case) -> Answer:
    """Check that lines end with the end of sentence."""
    if case.data is None:
        return Answer(missing=NO_DATA)
    unended = list(_unended(case.data))
    findings = [make_finding("unended", unended)] if unended else []
    return outcome_of(findings, [f"{len(case.data.dictionaries[0]):,} symbols"], "")


def _unended(data: DataBin) -> Iterator[Problem]:
    """Check a sample of lines for ends of sentences: a vocabulary without the end of sentence was
    the costliest published fault.
    """
    for side in data.sides_by_split["train"]:
        step = max(1, len(side) // NUM_LINES_LOOKED_AT)
        lines = [side.line(index) for index in range(0, len(side), step)]
        num_unended = sum(not len(line) or line[-1] != END_OF_SENTENCE for line in lines)
        if num_unended:
            what = "lines without their end of sentence"
            yield Problem(what, f"{num_unended} of {len(lines)}", "none", str(side.path))


def check_alignment(case: Case) -> Answer:
    """Estimate which share of the training pairs is misaligned, from their symbols alone."""
    if case.data is None:
        return Answer(missing=NO_DATA)
    source, target = case.data.sides_by_split["train"]
    estimate = estimate_misaligned(source, target, np.random.default_rng(ALIGNMENT_SEED))
    if estimate is None:
        few = f"{len(source):,} training pairs are too few for an estimate"
        return Answer(missing=f"{few}: a word occurs too rarely")
    share, num_compared = estimate.share, estimate.num_items
    low, high = stats.binomtest(estimate.num_worse, num_compared).proportion_ci(0.95)
    interval = f"{2 * low:.1%} to {min(1.0, 2 * high):.1%}"
    words = f"{share:.1%} of {num_compared:,} pairs drawn ({interval})"
    if share <= MAX_SHARE:
        return Answer(seen=f"misaligned: {words}")
    what, expected = "pairs whose sides are not of one sentence", f"at most {MAX_SHARE:.0%}"
    evidence = [Problem(what, words, expected, str(target.path))]
    return Answer(findings=(make_finding("misaligned", evidence, share=share),))
