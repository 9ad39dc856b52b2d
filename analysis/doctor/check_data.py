"""Checks the data: numbers of pairs, vocabulary, and whether training pairs are translations."""

import re
from collections.abc import Iterator

import numpy as np
from scipy import stats

from analysis.doctor.alignment import MAX_SHARE, estimate_misaligned
from analysis.doctor.check_settings import (
    described_training,
    setting_finding,
    settled,
    training_judgements,
)
from analysis.doctor.data_bin import END_OF_SENTENCE, DataBin
from analysis.doctor.types import Answer, Case, fact, make_finding, outcome_of
from paper_tables.compare.judgement import Judgement

NUM_LINES_LOOKED_AT = 2000
ALIGNMENT_SEED = 2017
# The 3.96 million pairs that fairseq's script leaves of 4.5 are too few (fairseq #202).
MAX_PAIRS_DEVIATION = 0.1
NO_DATA = "no data-bin was given"
NO_COUNTS = f"{NO_DATA}, and no log that counts its pairs"


def check_data(case: Case) -> Answer:
    """Compare languages and numbers of pairs: log, data-bin, and what the corpus holds."""
    training, expected = described_training(case), case.claim.corpus.language_pair
    if training is None:
        return Answer(missing=NO_COUNTS)
    if training.language_pair not in ("", expected):
        what, line = "source and target language", training.log.first_line
        wrong = fact(training.path, what, training.language_pair, expected, line)
        return Answer(findings=(make_finding("other-languages", [wrong]),))
    findings = []
    folder = str(training.log.arguments.get("data") or "").lower()
    if case.claim.corpus.name == "wmt14_en_de" and re.search(r"wmt.?17", folder):
        wrong = fact(training.path, "data", "WMT17's text", "WMT14's")
        findings.append(make_finding("wmt17", [wrong]))
    if other_counts := list(_wrong_counts(case)):
        findings.append(make_finding("other-data", other_counts))
    for judgement in training_judgements(case):
        is_far = judgement.ratio is not None and abs(judgement.ratio - 1) > MAX_PAIRS_DEVIATION
        if judgement.group == "pairs" and (judgement.differs or is_far):
            findings.append(setting_finding([judgement]))
    counts = training.log.num_pairs_by_split
    seen = [f"{split} {number:,}" for split, number in counts.items()]
    return outcome_of(findings, [", ".join(seen)], NO_COUNTS)


def _wrong_counts(case: Case) -> Iterator[Judgement]:
    """Yield evidence if the sides of a split have unequal lengths, or the log another number."""
    logged = case.log.num_pairs_by_split if case.log else {}
    for split, (source, target) in case.data.sides_by_split.items() if case.data else ():
        if len(source) != len(target):
            what = f"lines of {split}, source and target"
            yield fact(target.path, what, f"{len(source):,} and {len(target):,}", "one number")
        if logged.get(split, len(source)) != len(source):
            what, there = f"pairs of {split} in the log", f"{len(source):,}, as in the data-bin"
            yield fact(case.place, what, f"{logged[split]:,}", there)


def check_vocabulary(case: Case) -> Answer:
    """Check the dictionary: joint if the corpus has one vocabulary, of the right size, with the end
    of sentence.
    """
    if other := _other_dictionary(case):
        return Answer(findings=(make_finding("other-dictionary", [other]),))
    training = described_training(case)
    if training is None or len(training.log.vocabulary_sizes) < 2:
        return Answer(missing=f"{NO_DATA}, and no log that counts its symbols")
    found = " and ".join(f"{size:,}" for size in sorted(set(training.log.vocabulary_sizes)))
    subword, is_joint = case.claim.corpus.subword, " and " not in found
    if case.data is not None:
        is_joint = case.data.dictionaries[0] == case.data.dictionaries[1]
    if subword is not None and subword.joint and not is_joint:
        what, expected = "dictionaries of both languages", "one and the same (section 5.1)"
        wrong = fact(training.path, what, f"{found} symbols", expected)
        return Answer(findings=(make_finding("separate-vocabularies", [wrong]),))
    unended = list(_unended(case.data)) if case.data else []
    if unended:
        return Answer(findings=(make_finding("unended", unended),))
    judged = [one for one in training_judgements(case) if one.group == "dictionaries"]
    findings = settled(judged).findings
    return outcome_of(findings, [f"{found} symbols"], "")


def _other_dictionary(case: Case) -> Judgement | None:
    """Return evidence of a translation whose dictionaries are not those of the training, by their
    sizes.
    """
    trained = case.log.vocabulary_sizes[:2] if case.log else ()
    for output in case.translations:
        sizes = output.generation.vocabulary_sizes[:2] if output.generation else ()
        if len(sizes) == len(trained) == 2 and sizes != trained:
            here, there = (f"{source:,} and {target:,}" for source, target in (sizes, trained))
            return fact(output.path, "types of its dictionaries", here, f"{there}, as in training")
    return None


def _unended(data: DataBin) -> Iterator[Judgement]:
    """Check a sample of lines for ends of sentences: a vocabulary without the end of sentence was
    the costliest published fault.
    """
    for side in data.sides_by_split["train"]:
        step = max(1, len(side) // NUM_LINES_LOOKED_AT)
        lines = [side.line(index) for index in range(0, len(side), step)]
        num_unended = sum(not len(line) or line[-1] != END_OF_SENTENCE for line in lines)
        if num_unended:
            what = "lines without their end of sentence"
            yield fact(side.path, what, f"{num_unended} of {len(lines)}", "none")


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
    evidence = [fact(target.path, what, words, expected)]
    return Answer(findings=(make_finding("misaligned", evidence, share=share),))
