"""Checks the printed lengths of translations and the definition of their score. Settings are
checked elsewhere, and the text itself by `aiayn score`.
"""

from aiayn.facts.trainings import Problem
from aiayn.facts.types import Section, real
from aiayn.printed import METRIC_BY_PAIR
from analysis.doctor.costs import ALIKE
from analysis.doctor.types import Answer, Case, Cost, Finding, make_finding, outcome_of

# Length ratios at which published replications had a fault: 0.946, 1.062 and 1.138.
MIN_RATIO = 0.94
MAX_RATIO = 1.06


def check_lengths(case: Case) -> Answer:
    """Compare the printed lengths of translations and references: a symptom of many causes."""
    findings: list[Finding] = []
    seen = []
    for translation in case.translations:
        section = translation.section
        hypothesis = section.real("hypothesis_tokens")
        reference = section.real("reference_tokens")
        if hypothesis is None or not reference:
            continue
        ratio, penalty = hypothesis / reference, section.real("brevity_penalty") or 0.0
        words = f"length ratio {ratio:.3f}, brevity penalty {penalty:.3f}"
        if MIN_RATIO <= ratio <= MAX_RATIO:
            seen.append(words)
        elif not case.claim.is_papers_corpus:
            seen.append(f"{words}; bounds are published for WMT14 only")
        else:
            findings.append(_length_symptom(section, words, penalty))
    return outcome_of(findings[:1], seen, "no log has the lengths of a translation")


def _length_symptom(section: Section, words: str, penalty: float) -> Finding:
    expected = f"a ratio of {MIN_RATIO} to {MAX_RATIO}"
    bleu, cost = section.find("bleu"), None
    line = bleu.line if bleu else section.line
    evidence = Problem("lengths", words, expected, section.path, line)
    if bleu and 0 < penalty < 1:
        value = real(bleu.value) or 0.0
        lost = value / penalty - value
        source = f"the brevity penalty of {section.path}, on the same n-grams"
        cost = Cost(low=lost, high=lost, source=source)
    return make_finding("lengths", [evidence], cost=cost, size="short" if penalty < 1 else "long")


def check_definition(case: Case) -> Answer:
    """Check that a log's BLEU is computed by the same definition as the printed number."""
    printed = METRIC_BY_PAIR.get(case.claim.corpus.language_pair, "")
    seen = []
    for translation in case.translations:
        bleu = translation.section.find("bleu")
        if bleu is None:
            continue
        # fairseq-generate scores the tokens of its data-bin.
        metric = "bleu_fairseq" if translation.metric == "bleu_as_given" else translation.metric
        if printed in (metric, ALIKE.get(metric)):
            seen.append(f"as the printed number: {printed}")
        elif case.claim.is_papers_corpus:
            wrong = Problem("definition of the score", metric, printed, bleu.path, bleu.line)
            finding = make_finding("other-definition", [wrong], metric=metric, printed=printed)
            return Answer(findings=(finding,))
    return outcome_of((), seen, "no log has a BLEU")
