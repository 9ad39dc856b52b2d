"""Formats a diagnosis as text for a terminal, at most 100 columns wide. The text has the evidence,
the cost and the fix of each finding.
"""

from collections.abc import Iterable, Iterator

from aiayn.facts.types import show
from aiayn.terminal import entries, sections, titled, wrapped
from analysis.doctor.types import Cost, Diagnosis, Finding

LABEL = 11  # columns of the labels of a finding
MAX_NAMES = 6  # quantities that the headline lists
NEXT_STEP = (
    "Whether the text of the translations decides their score: `aiayn score`. What a BLEU means"
    " next to the paper's, without any run: `aiayn explain --bleu 26.9 --system base`."
)


def render_diagnosis(diagnosis: Diagnosis) -> str:
    """Return the whole diagnosis as lines of at most `WIDTH` columns, each ended by LF. Paths are
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
        ("", wrapped(NEXT_STEP)),
    )


def headline(diagnosis: Diagnosis) -> str:
    """Return a sentence with the number of differences that were found, and with the settings that
    could not be checked.
    """
    number, unstated = len(diagnosis.findings), diagnosis.not_judged
    # Only if everything was stated may the answer be "no difference".
    if not number and not unstated:
        return "No difference from the claim is found."
    text = "Nothing differs in what could be checked"
    if number:
        text = f"Found: {number} difference{'s' if number > 1 else ''}"
    if unstated:
        names = list(unstated[:MAX_NAMES])
        if len(unstated) > MAX_NAMES:
            names.append(f"and {len(unstated) - MAX_NAMES} more")
        text += f"; not checked, because the files do not state it: {', '.join(names)}"
    return f"{text}."


def _finding_lines(number: int, finding: Finding) -> Iterator[str]:
    yield from wrapped(f"{number}. {finding.title}", "", "   ")
    shown_place = ""
    for problem in finding.evidence:
        # Several problems may be on one line of a log. The line is printed once.
        if problem.place != shown_place:
            shown_place = problem.place
            yield from _labelled("evidence", shown_place)
        why = f" ({problem.why})" if problem.why else ""
        yield from _labelled(
            "", f"{problem.name}: {show(problem.value)}; expected {problem.expected}{why}"
        )
    if finding.cost is not None:
        yield from _labelled("cost", words_of_cost(finding.cost))
    yield from _labelled("fix", finding.fix)


def words_of_cost(cost: Cost) -> str:
    """Return a cost in BLEU with its source: `1.0 to 1.1 BLEU, confirmed: <source>`. For a
    difference that raises the score, the text begins with `adds `. For a cost of unknown size, the
    text is only `cost.words`.
    """
    if cost.low is None:
        return cost.words
    bounds = [cost.low, cost.high]
    if cost.is_gain:
        # A gain has negative bounds. The word `adds` replaces the sign, and the smaller number
        # comes first.
        bounds = [abs(cost.high or 0.0), abs(cost.low)]
    # `fromkeys` drops the second of two equal bounds: `1.3 BLEU`, not `1.3 to 1.3`.
    amount = " to ".join(
        dict.fromkeys("all" if bound is None else f"{bound:.1f}" for bound in bounds)
    )
    how_sure = "".join(f", {words}" for words in (cost.words, cost.certainty) if words)
    return f"{'adds ' if cost.is_gain else ''}{amount} BLEU{how_sure}: {cost.source}"


def _labelled(label: str, text: str) -> Iterable[str]:
    return wrapped(f"{label:<{LABEL}}{text}", "   ", " " * (LABEL + 3))
