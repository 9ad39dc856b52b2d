"""Checks text and scores after the search: the form of the text, references in their order, the
definition of each score.
"""

import functools
from collections.abc import Iterator, Sequence

from aiayn.known_good.judge import Problem
from aiayn.printed import METRIC_BY_PAIR
from aiayn.scoring.definitions import CASE_SUFFIX
from aiayn.scoring.outputs.form import FormFault, find_form_fault
from aiayn.scoring.outputs.line_match import (
    MAX_OUT_OF_ORDER,
    MIN_DISTINCT,
    MIN_VARIETY,
    find_other_language,
    find_shift,
    is_lower_cased,
    is_varied,
    match_lines,
    variety,
)
from analysis.doctor.check_problems import NO_TRANSLATIONS
from analysis.doctor.types import (
    Answer,
    Case,
    Cost,
    Finding,
    Translation,
    make_finding,
    outcome_of,
)

AS_GIVEN = "bleu_as_given"
# A cost is measured on the lines in the first of these definitions that was computed.
PREFERRED_METRICS = (
    "bleu_tok_compound_split",
    "bleu_tok_moses",
    "bleu_fairseq",
    AS_GIVEN,
    "bleu_sacre_13a",
)
MAX_DIFFERENCE = 0.05  # BLEU; a value printed to one decimal differs by no more
Lines = Sequence[str]


@functools.lru_cache(maxsize=8)
def _form_fault(
    lines: Lines, references: Lines, language: str, is_as_given: bool
) -> FormFault | None:
    return find_form_fault(lines, references, language=language, is_as_given=is_as_given)


def _metric_of(case: Case, output: Translation) -> str:
    """Return the definition in which a cost is measured: for a log of fairseq-generate the
    definition of its own score, else the preferred definition.
    """
    if output.log is not None:
        return AS_GIVEN
    scores = case.scorer(output.lines, output.references or ())
    return next(name for name in PREFERRED_METRICS if name in scores)


def _measured_cost(metric: str, given: float, value: float, words: str) -> Cost:
    source = f"these lines, {metric}: {given:.2f}, and {value:.2f} {words}"
    return Cost(low=value - given, high=value - given, source=source)


def check_pieces(case: Case) -> Answer:
    """Check that the form of the text does not decide the score, and that translations are in the
    language of the references.
    """
    outputs = [output for output in case.translations if output.lines]
    finding_by_title: dict[str, Finding] = {}
    for output in outputs:
        for finding in (*_wrong_form(case, output), *_other_language(case, output)):
            finding_by_title.setdefault(finding.title, finding)
    seen = [f"{len(output.lines):,} lines of {output.testset}" for output in outputs]
    return outcome_of(tuple(finding_by_title.values()), seen, NO_TRANSLATIONS)


def _wrong_form(case: Case, output: Translation) -> Iterator[Finding]:
    if not output.can_be_scored:
        return
    is_as_given = _metric_of(case, output) == AS_GIVEN
    language = case.claim.corpus.target_language
    fault = _form_fault(output.lines, output.references or (), language, is_as_given)
    if fault is None:
        return
    if output.log is not None and "pieces" in fault.words:
        return  # the arguments of the log say so
    path = output.references_path if fault.is_of_references else output.path
    found, expected = f"{fault.match:.1f} %", f"{fault.undone_match:.1f} %, as without this form"
    evidence = [Problem("n-grams that match", found, expected, path or output.path)]
    loss = max(0.0, fault.undone_match - fault.match)
    cost = Cost(low=loss, high=loss, source=f"these lines: {fault.figures}")
    yield make_finding(
        "in-pieces" if "pieces" in fault.words else "wrong-form",
        evidence,
        cost=cost,
        form=fault.words,
        command=fault.command or "write plain sentences, one a line",
    )


def _other_language(case: Case, output: Translation) -> Iterator[Finding]:
    shares = find_other_language(output.lines, output.references or ())
    if shares is not None:
        what = "words that are among the most frequent of the references"
        expected = f"about {shares[1]:.1%}, as in the references"
        yield make_finding(
            "untranslated", [Problem(what, f"{shares[0]:.1%}", expected, output.path)]
        )


def check_reference_order(case: Case) -> Answer:
    """Check that translations fit their references, line by line."""
    seen = []
    for output in case.translations:
        if output.references is None or not output.lines:
            continue
        if len(output.references) != len(output.lines):
            expected = f"{len(output.lines)}, as {output.path}"
            found = f"{len(output.references)}"
            wrong = [Problem("lines", found, expected, output.references_path)]
            finding = make_finding("other-references", wrong, testset=output.testset)
            return Answer(findings=(finding,))
        misfit = _misfit(case, output)
        if misfit is not None:
            return Answer(findings=(misfit,))
        seen.append(f"{output.testset}: fit their translations")
    return outcome_of((), seen, "no references were given")


def _misfit(case: Case, output: Translation) -> Finding | None:
    """Return a finding if translations fit their references no better than other lines (BLEU is
    then near 1), or if a part of them is shifted.

    Lines that repeat themselves or have few words come from a model that does not read its source.
    In a log of fairseq-generate each hypothesis has the number of its reference, so that the order
    cannot be wrong.
    """
    lines, references = output.lines, output.references or ()
    shift = find_shift(lines, references)
    if shift is not None:
        expected = "no line, each fits its own reference"
        evidence = [Problem("moved from line", f"{shift.first_line}", expected, output.path)]
        return make_finding("different-orders", evidence)
    share = match_lines(lines, references).share
    if share <= MAX_OUT_OF_ORDER:
        return None
    is_one_log = output.references_path == output.path
    name = "other-sentences"
    if is_varied(lines, references) and not is_one_log:
        name = "different-orders"
    misfit = "translations that fit their own reference no better than another line's"
    distinct, words = len(set(lines)) / len(lines), variety(lines, references)
    facts = (
        (misfit, min(1.0, share), f"at most {MAX_OUT_OF_ORDER:.0%}"),
        ("different lines among the translations", distinct, f"{MIN_DISTINCT:.0%}"),
        ("different words over the references'", words, f"{MIN_VARIETY:.0%}"),
    )
    evidence = [Problem(what, f"{found:.0%}", limit, output.path) for what, found, limit in facts]
    return make_finding(name, evidence)


def check_definition(case: Case) -> Answer:
    """Check each reported score against its name, by signature and by scoring again, and that case
    is kept.
    """
    printed = METRIC_BY_PAIR.get(case.claim.corpus.language_pair, "")
    seen = []
    for output in case.translations:
        if output.lines:
            finding = _lower_cased(case, output) or _not_as_named(case, output)
            if finding is not None:
                return Answer(findings=(finding,))
            if output.reported and output.can_be_scored:
                scores = [f"{score.metric} {score.value:.2f}" for score in output.reported]
                seen.append(f"{output.testset}, scored again: {', '.join(scores)}")
            continue
        for score in output.reported:
            # fairseq-generate scores the tokens of its data-bin.
            metric = "bleu_fairseq" if score.metric == AS_GIVEN else score.metric
            if metric == printed:
                seen.append(f"as the printed number: {printed}")
            elif case.claim.is_papers_corpus:
                wrong = Problem("definition of the score", metric, printed, score.place)
                finding = make_finding("other-definition", [wrong], metric=metric, printed=printed)
                return Answer(findings=(finding,))
    missing = "no reported scores with references to score again"
    return outcome_of((), seen, missing if case.translations else NO_TRANSLATIONS)


def _lower_cased(case: Case, output: Translation) -> Finding | None:
    """Return a finding if one side has no capitals and the other has some, with its cost on these
    lines.
    """
    if not output.can_be_scored:
        return None
    lines, references = output.lines, output.references or ()
    sides = (
        ("Translations are", output.path, lines, references),
        ("The references are", output.references_path, references, lines),
    )
    for side, path, text, other in sides:
        if is_lower_cased(text, other):
            metric = _metric_of(case, output)
            given = case.scorer(lines, references)[metric]
            lower = [list(map(str.lower, one)) for one in (lines, references)]
            cost = _measured_cost(metric, given, case.scorer(*lower)[metric], "without case")
            wrong = Problem(
                "case of letters", "no capitals", "capitals, as on the other side", path
            )
            return make_finding("lower-cased", [wrong], cost=cost, side=side)
    return None


def _not_as_named(case: Case, output: Translation) -> Finding | None:
    """Return a finding on the first score whose signature ignores case, or that scoring again does
    not give; its cost is measured on these lines.
    """
    scores: dict[str, float] = {}
    if output.can_be_scored and output.reported:
        scores = case.scorer(output.lines, output.references or ())
    for score in output.reported:
        value = scores.get(score.metric)
        others = [
            name for name, other in scores.items() if abs(other - score.value) <= MAX_DIFFERENCE
        ]
        is_lower = "case:lc" in score.signature.split("|") and not _ignores_case(score.metric)
        if not is_lower and (value is None or score.metric in others):
            continue
        expected = "mixed case, by its name" if value is None else f"{value:.2f}"
        if others:
            expected += f"; {score.value:.2f} is {' or '.join(others)}"
        wrong = Problem(score.metric, f"{score.value:.2f}", expected, score.place)
        if not is_lower and not (others and all(map(_ignores_case, others))):
            return make_finding("other-name", [wrong])
        cost = None
        if value is not None:
            cost = _measured_cost(score.metric, score.value, value, "again")
        return make_finding("without-case", [wrong], cost=cost)
    return None


def _ignores_case(metric: str) -> bool:
    return metric.endswith(CASE_SUFFIX)
