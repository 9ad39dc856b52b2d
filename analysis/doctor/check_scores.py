"""Checks text and scores after the search: pieces joined, references in their order, the definition
of each score, and the size of the test set.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from aiayn.data.text.detokenise import join_any_pieces
from aiayn.printed import METRIC_BY_PAIR
from aiayn.scoring.definitions import CASE_SUFFIX
from aiayn.scoring.outputs.line_match import (
    MAX_OUT_OF_ORDER,
    MIN_DISTINCT,
    MIN_LANGUAGE,
    MIN_VARIETY,
    ORDER_SEED,
    is_varied,
    share_out_of_order,
    variety,
    words_share,
)
from aiayn.scoring.outputs.repairs import best_repair
from aiayn.scoring.outputs.system_output import Share, form_of
from analysis.doctor.check_settings import settled
from analysis.doctor.check_training import check_divergence
from analysis.doctor.plain import only_letters, plain
from analysis.doctor.types import (
    Answer,
    Case,
    Cost,
    Finding,
    Reported,
    Translation,
    fact,
    make_finding,
    outcome_of,
)
from paper_tables.compare.decoding import TEST_PAIRS
from paper_tables.compare.judgement import Judgement

NO_TRANSLATIONS = "no translations were given"
TESTSET_QUANTITIES = ("num_sentences", "reference_tokens")
AS_GIVEN = "bleu_as_given"
# A cost is measured on the lines in the first of these definitions that was computed.
PREFERRED_METRICS = (
    "bleu_tok_compound_split",
    "bleu_tok_moses",
    "bleu_fairseq",
    AS_GIVEN,
    "bleu_sacre_13a",
)
MAX_MARKED = 0.01  # of lines
MAX_DIFFERENCE = 0.05  # BLEU; a value printed to one decimal differs by no more
UNKNOWN_WORDS = ("<unk>", "\u2047")  # fairseq's, and what sentencepiece prints for it
MAX_UNKNOWN = 0.01  # of words, more than in the references
MIN_SENTENCE = 4  # words; a shorter line may be a name, which is rightly copied
MAX_COPIED = 0.05  # of the sentences
Lines = Sequence[str]


def check_pieces(case: Case) -> Answer:
    """Check that translations are text as the references are: no pieces, tokens, escapes, unknown
    words, and not the source.
    """
    outputs = [output for output in case.translations if output.lines]
    if not outputs:
        return Answer(missing=NO_TRANSLATIONS)
    finding_by_title: dict[str, Finding] = {}
    for output in outputs:
        for finding in (
            *_wrong_form(case, output),
            *_unknown_words(case, output),
            *_not_translated(case, output),
        ):
            finding_by_title.setdefault(finding.title, finding)
    files = ", ".join(f"{len(output.lines):,} lines of {output.testset}" for output in outputs)
    seen = f"{files}: no marks of pieces, no more tokens apart than in the references"
    return outcome_of(tuple(finding_by_title.values()), [seen], "")


def _wrong_form(case: Case, output: Translation) -> Iterator[Finding]:
    """Yield a finding for lines in pieces; else the repair that raises the score, as `aiayn score`
    names it.
    """
    marks = _marks(output)
    if marks is not None:
        cost = None
        text = plain(output, case.claim.corpus)
        if output.can_be_scored and text.references is not None:
            is_as_given = text.is_tokens or output.logged is not None
            cost = _measured_cost(case, output, text.lines, text.references, is_as_given)
        yield make_finding("in-pieces", [marks], cost=cost)
        return
    if output.references is None or not output.can_be_scored:
        return
    scores = case.scorer(output.lines, output.references)
    metric = _metric_of(scores, output.logged is not None)
    if not metric:
        return
    given = scores[metric]
    helpful = best_repair(
        output.lines,
        output.references,
        case.claim.corpus.target_language,
        lambda lines, references: case.scorer(lines, references).get(metric, 0.0),
        given,
    )
    if helpful is not None:
        repaired, value = helpful
        expected = f"{value:.2f} with {repaired.words}"
        source = f"these lines, {metric}: {given:.2f} as given, {expected}"
        yield make_finding(
            "repairable",
            [fact(output.path, metric, f"{given:.2f}", expected)],
            cost=Cost(low=value - given, high=value - given, source=source),
            repair=repaired.words,
            names=" ".join(repaired.name.split("+")),
        )


def _metric_of(scores: Mapping[str, float], is_as_given: bool) -> str:
    """Return the definition in which a cost is measured; '' if it was not computed."""
    metrics = (AS_GIVEN,) if is_as_given else PREFERRED_METRICS
    return next((name for name in metrics if name in scores), "")


def _marks(output: Translation) -> Judgement | None:
    form = form_of(output.lines)
    if form.marked_lines.value <= MAX_MARKED:
        return None
    first = next(number for number, line in enumerate(output.lines, 1) if form.mark in line)
    what = f"lines with `@@ ` or \\u2581, the first: {output.lines[first - 1][:60]!r}"
    share = f"{form.marked_lines.num} of {len(output.lines)}"
    return fact(output.path, what, share, "none", first)


def _measured_cost(
    case: Case, output: Translation, lines: Lines, references: Lines, is_as_given: bool
) -> Cost | None:
    """Return what a fault costs on these lines: the score of corrected lines and references minus
    the score as given.
    """
    given = case.scorer(output.lines, output.references or ())
    metric = _metric_of(given, is_as_given)
    if not metric:
        return None
    corrected = case.scorer(lines, references)[metric]
    source = f"these lines, {metric}: {given[metric]:.2f} as given, {corrected:.2f} corrected"
    return Cost(low=corrected - given[metric], high=corrected - given[metric], source=source)


def _unknown_words(case: Case, output: Translation) -> Iterator[Finding]:
    """Yield a finding if more of the translations' words than of the references' are unknown."""
    text = plain(output, case.claim.corpus)
    here, there = (_share_of_unknown(lines) for lines in (text.lines, text.references or ()))
    if here - there > MAX_UNKNOWN:
        expected = f"{there:.1%}, as in the references"
        evidence = fact(output.path, "words that are `<unk>`", f"{here:.1%}", expected)
        yield make_finding("unknown-words", [evidence])


def _share_of_unknown(lines: Lines) -> float:
    text = " ".join(lines)
    return sum(map(text.count, UNKNOWN_WORDS)) / max(1, len(text.split()))


def _not_translated(case: Case, output: Translation) -> Iterator[Finding]:
    """Yield a finding if lines copy their source; if the source is not known, if they lack the
    references' frequent words.
    """
    text = plain(output, case.claim.corpus)
    if output.source_lines is not None:
        is_copy = [
            only_letters(line) == only_letters(join_any_pieces(source))
            for line, source in zip(text.lines, output.source_lines, strict=True)
            if len(source.split()) >= MIN_SENTENCE
        ]
        copied = Share(sum(is_copy), len(is_copy))
        if copied.value > MAX_COPIED:
            expected = f"at most {MAX_COPIED:.0%}"
            evidence = fact(output.path, "sentences that are their source", copied, expected)
            yield make_finding("untranslated", [evidence])
        return
    shares = words_share(text.lines, text.references or ())
    if shares is None or not is_varied(text.lines, text.references or ()):
        return  # repeated lines have few words of any language
    if shares[0] < MIN_LANGUAGE * shares[1]:
        what = "words that are among the most frequent of the references"
        expected = f"about {shares[1]:.1%}, as in the references"
        yield make_finding("untranslated", [fact(output.path, what, f"{shares[0]:.1%}", expected)])


def check_reference_order(case: Case) -> Answer:
    """Check that translations fit their references, line by line."""
    seen = []
    for output in case.translations:
        if output.references is None or not output.lines:
            continue
        if len(output.references) != len(output.lines):
            expected = f"{len(output.lines)}, as {output.path}"
            wrong = [fact(output.references_path, "lines", len(output.references), expected)]
            finding = make_finding("other-references", wrong, testset=output.testset)
            return Answer(findings=(finding,))
        misfit = _against_translations(case, output)
        if misfit is not None:
            return Answer(findings=(misfit,))
        seen.append(f"{output.testset}: fit their translations")
    return outcome_of((), seen, "no references were given")


def _against_translations(case: Case, output: Translation) -> Finding | None:
    """Return a finding if translations fit their references no better than other lines: BLEU is
    then near 1.

    Translations that repeat themselves come from a model that is not trained or diverged, different
    translations of few words from a model that does not read its source. In a log of
    fairseq-generate each hypothesis has the number of its reference, so that the order cannot be
    wrong; then source and target of the data-bin are not aligned.
    """
    text = plain(output, case.claim.corpus)
    lines, references = text.lines, text.references or ()
    out_of_order = share_out_of_order(lines, references, np.random.default_rng(ORDER_SEED))
    if out_of_order <= MAX_OUT_OF_ORDER:
        return None
    distinct, words = len(set(lines)) / len(lines), variety(lines, references)
    if check_divergence(case).findings:
        name = "diverged-output"
    elif distinct < MIN_DISTINCT:
        name = "repeated-output"
    elif words < MIN_VARIETY:
        name = "unread-source"
    elif output.source_lines is not None or output.logged:
        name = "other-sides"
    else:
        name = "different-orders"
    what = "translations that fit their own reference no better than another line's"
    facts = (
        (output.references_path, what, min(1.0, out_of_order), f"at most {MAX_OUT_OF_ORDER:.0%}"),
        (output.path, "different lines among the translations", distinct, f"{MIN_DISTINCT:.0%}"),
        (output.path, "different words over the references'", words, f"{MIN_VARIETY:.0%}"),
    )
    shown = facts[:1] if name == "different-orders" else facts
    evidence = [fact(path, what, f"{share:.0%}", limit) for path, what, share, limit in shown]
    return make_finding(name, evidence)


def check_definition(case: Case) -> Answer:
    """Check each reported score against its name, by signature and by scoring again, and that case
    is kept. An impossible BLEU, and arguments that change what is scored, come first.
    """
    judged = [
        one
        for output in case.translations
        for one in output.judgements
        if one.group == "scoring" and one.quantity not in (*TESTSET_QUANTITIES, "unit")
    ]
    if findings := settled(judged).findings:
        return Answer(findings=findings[:1])
    printed = METRIC_BY_PAIR.get(case.claim.corpus.language_pair, "")
    seen = []
    for output in case.translations:
        if output.lines:
            finding = _lower_cased(case, output) or _not_as_named(case, output)
            if finding is not None:
                return Answer(findings=(finding,))
            if output.reported and output.can_be_scored:
                names = ", ".join(dict.fromkeys(score.metric for score in output.reported))
                number = len(output.reported)
                seen.append(
                    f"{output.testset}: {number} scores match their names, scored again ({names})"
                )
        elif output.metric not in ("", printed) and case.claim.is_papers_corpus:
            wrong = fact(output.path, "definition of the score", output.metric, printed)
            finding = make_finding(
                "other-definition", [wrong], metric=output.metric, printed=printed
            )
            return Answer(findings=(finding,))
        elif output.metric:
            seen.append(f"as the printed number: {printed}")
    missing = "no reported scores with references to score again"
    return outcome_of((), seen, missing if case.translations else NO_TRANSLATIONS)


def _lower_cased(case: Case, output: Translation) -> Finding | None:
    """Return a finding if one side has no capitals and the other has some, with its cost on these
    lines.
    """
    sides = (
        ("Translations are", output.path, form_of(output.lines)),
        ("The references are", output.references_path, form_of(output.references or ())),
    )
    for (side, path, form), (_, _, other) in (sides, sides[::-1]):
        if form.is_lower_beside(other):
            here, there = (f"{one.capitals.value:.1%} of letters" for one in (form, other))
            expected = f"{there}, as on the other side"
            text = plain(output, case.claim.corpus)
            lines = [line.lower() for line in text.lines]
            references = [line.lower() for line in text.references or ()]
            return make_finding(
                "lower-cased",
                [fact(path, "case of letters: capitals", here, expected)],
                cost=_measured_cost(case, output, lines, references, text.is_tokens),
                side=side,
            )
    return None


def _not_as_named(case: Case, output: Translation) -> Finding | None:
    """Return a finding if a score's signature ignores case, or scoring again gives another value.

    The gain of a score without case is measured on these lines.
    """
    scores: dict[str, float] = {}
    if output.can_be_scored and output.reported:
        scores = case.scorer(output.lines, output.references or ())
    evidence = [item for score in output.reported for item in _other_value(score, scores)]
    if not evidence:
        return None
    if not any("case" in item.words for item in evidence):
        return make_finding("other-name", evidence)
    metric = "bleu_sacre_13a"
    cost = None
    with_case, without_case = scores.get(metric), scores.get(f"{metric}{CASE_SUFFIX}")
    if with_case is not None and without_case is not None:
        gain = with_case - without_case
        source = f"{metric}: {with_case:.2f} with its case, {without_case:.2f} lower-cased"
        cost = Cost(low=gain, high=gain, source=f"these lines, {source}")
    return make_finding("without-case", evidence, cost=cost)


def _other_value(score: Reported, value_by_metric: dict[str, float]) -> Iterator[Judgement]:
    """Yield evidence if a score's signature ignores case, or scoring again gives another value."""
    if "case:lc" in score.signature.split("|") and not score.metric.endswith(CASE_SUFFIX):
        yield fact(score.place, f"case, by the signature of {score.metric}", "lc", "mixed")
        return
    value = value_by_metric.get(score.metric, score.value)
    if abs(value - score.value) <= MAX_DIFFERENCE:
        return
    others = [
        name
        for name, other in value_by_metric.items()
        if abs(other - score.value) <= MAX_DIFFERENCE
    ]
    expected, what = f"{value:.2f}", score.metric
    if others:
        expected += f"; {score.value:.2f} is {' or '.join(others)}"
        if all(name.endswith(CASE_SUFFIX) for name in others):
            what += ", without case"
    yield fact(score.place, what, f"{score.value:.2f}", expected)


def check_testset(case: Case) -> Answer:
    """Compare the number of translations with the test set's, and the languages of a log."""
    if not case.translations:
        return Answer(missing=NO_TRANSLATIONS)
    wrong, seen = [], []
    corpus = case.claim.corpus
    for output in case.translations:
        log = output.generation.log if output.generation else None
        languages = log.languages[:2] if log else ()
        if languages not in ((), (corpus.source_language, corpus.target_language)):
            wrong.append(fact(output.path, "languages", "-".join(languages), corpus.language_pair))
        if output.lines:
            num_lines, expected = len(output.lines), _expected_lines(case, output)
            if expected and num_lines != expected:
                wrong.append(fact(output.path, f"lines of {output.testset}", num_lines, expected))
            elif expected:
                seen.append(f"{output.testset}: {expected:,} lines")
            continue
        # A quiet log: its own lines state the size of the test set.
        for judgement in output.judgements:
            if judgement.quantity in TESTSET_QUANTITIES:
                if judgement.differs:
                    wrong.append(judgement)
                elif judgement.is_good:
                    seen.append(f"{output.testset}: {judgement.found} {judgement.words}")
    findings = []
    if wrong:
        number = wrong[0].found.replace(",", "")
        amount = float(number) if number.isdigit() else None
        findings.append(make_finding("other-testset", wrong, amount=amount))
    return outcome_of(findings, seen, "the test set's number of lines is not known")


def _expected_lines(case: Case, output: Translation) -> int | None:
    if case.claim.is_papers_corpus:
        return TEST_PAIRS if output.role == "test" else None
    if case.data is not None and output.split in case.data.sides_by_split:
        return len(case.data.sides_by_split[output.split][1])
    return None
