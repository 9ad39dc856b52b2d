"""Checks the lengths of translations."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace
from sacrebleu.metrics.bleu import BLEU

from aiayn.facts.types import real
from aiayn.known_good.judge import Problem
from analysis.doctor.types import (
    Answer,
    Case,
    Cost,
    Finding,
    Translation,
    make_finding,
    outcome_of,
)

# Length ratios at which published replications had a fault: 0.946, 1.062 and 1.138.
MIN_RATIO = 0.94
MAX_RATIO = 1.06
# Translations that end at once: 99 of 1,014 in a shipped run that did not learn when to end, at
# most 0.5 % in others.
MAX_SHORT = 3  # words
MIN_WHOLE = 6  # words of a reference
MAX_SHORT_SHARE = 0.03
MIN_SHORT_LINES = 5


def check_lengths(case: Case) -> Answer:
    """Compare the lengths of translations and references, a symptom of many causes, and look for
    translations that end too early.
    """
    findings: list[Finding] = []
    seen = []
    for output in case.translations:
        logged = output.log
        if output.can_be_scored:
            lines, references = output.lines, output.references or ()
            score = BLEU(tokenize="none", force=True).corpus_score(lines, [references])
            ratio, penalty, bleu = score.sys_len / max(1, score.ref_len), score.bp, score.score
            findings += _ends_early(output.path, lines, references)
        elif logged is not None and real(logged.value("reference_tokens")):
            names = ("hypothesis_tokens", "reference_tokens", "brevity_penalty", "bleu")
            hypothesis, reference, penalty, bleu = (
                real(logged.value(name)) or 0.0 for name in names
            )
            ratio = hypothesis / reference
        else:
            continue
        words = f"length ratio {ratio:.3f}, brevity penalty {penalty:.3f}"
        if MIN_RATIO <= ratio <= MAX_RATIO:
            seen.append(f"{output.testset}: {words}")
        elif not case.claim.is_papers_corpus:
            seen.append(f"{output.testset}: {words}; bounds are published for WMT14 only")
        elif not output.lines and ratio > MAX_RATIO and penalty >= 0.999:
            expected = f"under {MAX_RATIO} at penalty 1.0"
            evidence = Problem("length ratio", f"{ratio:g}", expected, output.path)
            findings.append(replace(make_finding("slip", [evidence]), amount=ratio))
        else:
            expected = f"a ratio of {MIN_RATIO} to {MAX_RATIO}"
            evidence = Problem(f"lengths on {output.testset}", words, expected, output.path)
            findings.append(_length_symptom(output, evidence, bleu, penalty))
    return outcome_of(findings[:1], seen, "no translations with their references were given")


def _length_symptom(output: Translation, evidence: Problem, bleu: float, penalty: float) -> Finding:
    cost = None
    if 0 < penalty < 1:
        lost = bleu / penalty - bleu
        source = f"the brevity penalty of {output.path}, on the same n-grams"
        cost = Cost(low=lost, high=lost, source=source)
    return make_finding("lengths", [evidence], cost=cost, size="short" if penalty < 1 else "long")


def _ends_early(path: str, lines: Sequence[str], references: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding if many translations of whole sentences end after a few words."""
    lengths = [
        len(line.split())
        for line, reference in zip(lines, references, strict=True)
        if len(reference.split()) >= MIN_WHOLE
    ]
    num_short = sum(length <= MAX_SHORT for length in lengths)
    if num_short >= MIN_SHORT_LINES and num_short > MAX_SHORT_SHARE * len(lengths):
        what = f"translations of at most {MAX_SHORT} words, of references of {MIN_WHOLE} or more"
        found, expected = f"{num_short} of {len(lengths)}", f"at most {MAX_SHORT_SHARE:.0%}"
        evidence = [Problem(what, found, expected, path)]
        yield make_finding("ends-early", evidence, share=num_short / len(lengths), number=MAX_SHORT)
