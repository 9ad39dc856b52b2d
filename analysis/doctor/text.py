"""Renders a diagnosis for a terminal, at most 100 columns wide: findings with evidence, cost and
fix, then every check.
"""

from collections.abc import Iterable, Iterator

from aiayn.facts.types import show
from aiayn.terminal import entries, sections, titled, wrapped
from analysis.doctor.check_problems import shorten
from analysis.doctor.types import WORDS_BY_CHECK, Answer, Cost, Diagnosis, Finding

LABEL = 11  # columns of the labels of a finding
CHECK_COLUMN = 40
NEXT_STEP = (
    "Whether the text of the translations decides their score: `aiayn score`. What a BLEU means"
    " next to the paper's, without any run: `aiayn explain --bleu 26.9 --system base`."
)


def render_diagnosis(diagnosis: Diagnosis) -> str:
    """Return the whole answer as lines of at most `WIDTH` columns, each ended by LF. Paths are
    never broken.
    """
    claim = f"system {diagnosis.system} of scale {diagnosis.scale}, corpus {diagnosis.corpus}"
    title = f"{diagnosis.name}: is it {claim}?"
    return sections(
        ("", [*wrapped(title), titled(title)[1]]),
        ("", entries(tuple(diagnosis.files.items()), "  ")),
        (
            "",
            [line for text in (headline(diagnosis), *diagnosis.notes) for line in wrapped(text)],
        ),
        *(
            ("", list(_finding_lines(number, finding)))
            for number, finding in enumerate(diagnosis.findings, 1)
        ),
        ("", ["Checks"]),
        ("", [line for outcome in diagnosis.outcomes for line in _outcome_lines(outcome)]),
        ("", wrapped(NEXT_STEP)),
    )


def headline(diagnosis: Diagnosis) -> str:
    """Return in a sentence how many causes and symptoms were found, and what could not be
    judged.
    """
    counts = {"cause": 0, "symptom": 0, "gain": 0, "other number": 0}
    for finding in diagnosis.findings:
        if finding.concerns:
            counts["other number"] += 1
        elif finding.is_symptom:
            counts["symptom"] += 1
        elif finding.cost is not None and finding.cost.is_gain:
            counts["gain"] += 1
        else:
            counts["cause"] += 1
    counted = ", ".join(
        f"{number} {noun}{'s' * (number > 1)}" for noun, number in counts.items() if number
    )
    num_made = sum(not outcome.missing for outcome in diagnosis.outcomes)
    checks = f"{num_made} of {len(diagnosis.outcomes)} checks could be made"
    unknown = ""
    if diagnosis.not_judged:
        unknown = f"; not judged, as nothing states it: {shorten(diagnosis.not_judged)}"
    if counted:
        return f"Found: {counted}; {checks}{unknown}."
    if diagnosis.not_judged:
        return f"Nothing differs in what could be judged; {checks}{unknown}."
    return f"No difference from the claim is found; {checks}."


def _finding_lines(number: int, finding: Finding) -> Iterator[str]:
    yield from wrapped(f"{number}. {finding.title}", "", "   ")
    shown_place = ""
    for problem in finding.evidence:
        if problem.place != shown_place:
            shown_place = problem.place
            yield from _labelled("evidence", shown_place)
        why = f" ({problem.why})" if problem.why else ""
        yield from _labelled(
            "", f"{problem.quantity}: {show(problem.value)}; expected {problem.expected}{why}"
        )
    if finding.cost is not None:
        yield from _labelled("cost", words_of_cost(finding.cost))
    yield from _labelled("fix", finding.fix)


def words_of_cost(cost: Cost) -> str:
    """Return a cost with its source: `1.0 to 1.1 BLEU, confirmed: <source>`. If it raises the
    score, `adds ` precedes it. If its size is unknown, its words are returned.

    A cost of unknown size is its words.
    """
    if cost.low is None:
        return cost.words
    bounds = [cost.low, cost.high]
    if cost.is_gain:
        bounds = [abs(cost.high or 0.0), abs(cost.low)]
    amount = " to ".join(
        dict.fromkeys("all" if bound is None else f"{bound:.1f}" for bound in bounds)
    )
    how_sure = "".join(f", {words}" for words in (cost.words, cost.certainty) if words)
    return f"{'adds ' if cost.is_gain else ''}{amount} BLEU{how_sure}: {cost.source}"


def _outcome_lines(outcome: Answer) -> Iterator[str]:
    subject = WORDS_BY_CHECK[outcome.check]
    if outcome.findings:
        mark, text = "FOUND", "; ".join(finding.title for finding in outcome.findings)
    elif outcome.missing:
        mark, text = "-", f"not checked: {outcome.missing}"
    else:
        mark, text = "ok", outcome.seen
    yield from wrapped(f"{mark:<7}{subject:<{CHECK_COLUMN - 9}}{text}", "  ", " " * CHECK_COLUMN)


def _labelled(label: str, text: str) -> Iterable[str]:
    return wrapped(f"{label:<{LABEL}}{text}", "   ", " " * (LABEL + 3))
