"""Checks two things in the logs of a translation: the lengths of translations and references, and
the definition of the BLEU.

`check_problems.py` checks the settings of the decoding. `aiayn score` checks the text of the
translations.
"""

from aiayn.facts.trainings import Problem
from aiayn.facts.types import Section
from aiayn.printed import METRIC_BY_PAIR
from analysis.doctor.types import Case, Checked, Cost, Finding, make_finding
from paper_tables.published_data import counted_alike

# Published replications with a fault had length ratios of 0.946, 1.062 and 1.138.
MIN_RATIO = 0.94
MAX_RATIO = 1.06


def check_lengths(case: Case) -> Checked:
    """Compare the total lengths of translations and references in the logs. A wrong ratio of the
    lengths is a symptom with many possible causes.
    """
    has_lengths = False
    for generation in case.generations:
        section = generation.section
        hypothesis, reference = map(section.real, ("hypothesis_tokens", "reference_tokens"))
        if hypothesis is None or not reference:
            continue
        has_lengths = True
        ratio = hypothesis / reference
        # Ratios of good translations are published for WMT14 only.
        if case.claim.is_papers_corpus and not MIN_RATIO <= ratio <= MAX_RATIO:
            return [_length_symptom(section, ratio)]
    return [] if has_lengths else "the length of translations (no log has it)"


def _length_symptom(section: Section, ratio: float) -> Finding:
    bleu, penalty = section.real("bleu"), section.real("brevity_penalty") or 0.0
    evidence = Problem(
        "lengths",
        f"length ratio {ratio:.3f}, brevity penalty {penalty:.3f}",
        f"a ratio of {MIN_RATIO} to {MAX_RATIO}",
        section.path,
        section.line_of("bleu") or section.line,
    )
    cost = None
    # BLEU is the precision times the brevity penalty, so without the penalty it would be BLEU /
    # penalty. For long translations the cost is not known: the penalty is 1.
    if bleu is not None and 0 < penalty < 1:
        lost = bleu / penalty - bleu
        source = f"the brevity penalty of {section.path}, on the same n-grams"
        cost = Cost(low=lost, high=lost, source=source)
    return make_finding("lengths", evidence, cost=cost, size="short" if penalty < 1 else "long")


def check_definition(case: Case) -> Checked:
    """Check that the BLEU in a log has the same definition as the BLEU in the paper."""
    printed = METRIC_BY_PAIR.get(case.claim.corpus.language_pair, "")
    has_bleu = False
    for generation in case.generations:
        bleu = generation.section.find("bleu")
        if bleu is None:
            continue
        has_bleu = True
        # The tokens of a data-bin are assumed to be Moses' tokens, as in fairseq's recipes.
        metric = generation.metric
        if case.claim.is_papers_corpus and printed not in counted_alike(metric):
            evidence = Problem("definition of the score", metric, printed, bleu.path, bleu.line)
            return [make_finding("definition", evidence, metric=metric, printed=printed)]
    return [] if has_bleu else "the definition of the score (no log has a BLEU)"
