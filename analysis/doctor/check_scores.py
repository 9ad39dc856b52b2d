"""Checks text and scores after the search: pieces joined, references in their order, the definition
of each score, and the size of the test set.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
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
from analysis.doctor.check_settings import decoding_judgements, settled
from analysis.doctor.check_training import check_divergence
from analysis.doctor.plain import only_letters, plain
from analysis.doctor.types import (
    Answer,
    Case,
    Cost,
    Finding,
    Translation,
    fact,
    make_finding,
    outcome_of,
)
from paper_tables.compare.decoding import TEST_PAIRS
from paper_tables.compare.judgement import Judgement, verdict_of

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
    name = "different-orders"
    if check_divergence(case).findings:
        name = "diverged-output"
    elif distinct < MIN_DISTINCT:
        name = "repeated-output"
    elif words < MIN_VARIETY:
        name = "unread-source"
    elif output.source_lines is not None or output.logged:
        name = "other-sides"
    misfit = "translations that fit their own reference no better than another line's"
    facts = (
        (misfit, min(1.0, out_of_order), f"at most {MAX_OUT_OF_ORDER:.0%}"),
        ("different lines among the translations", distinct, f"{MIN_DISTINCT:.0%}"),
        ("different words over the references'", words, f"{MIN_VARIETY:.0%}"),
    )
    evidence = [fact(output.path, what, f"{share:.0%}", limit) for what, share, limit in facts]
    return make_finding(name, evidence)


def check_definition(case: Case) -> Answer:
    """Check each reported score against its name, by signature and by scoring again, and that case
    is kept. An impossible BLEU, and arguments that change what is scored, come first.
    """
    judged = [
        one
        for _, one in decoding_judgements(case)
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
            continue
        for score in output.reported:
            # fairseq-generate scores the tokens of its data-bin.
            metric = "bleu_fairseq" if score.metric == AS_GIVEN else score.metric
            if metric == printed:
                seen.append(f"as the printed number: {printed}")
            elif case.claim.is_papers_corpus:
                wrong = fact(score.place, "definition of the score", metric, printed)
                finding = make_finding("other-definition", [wrong], metric=metric, printed=printed)
                return Answer(findings=(finding,))
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
        wrong = fact(score.place, score.metric, f"{score.value:.2f}", expected)
        if not is_lower and not (others and all(map(_ignores_case, others))):
            return make_finding("other-name", [wrong])
        cost = None
        if value is not None:
            source = (
                f"these lines, {score.metric}: {score.value:.2f} as reported, {value:.2f} again"
            )
            cost = Cost(low=value - score.value, high=value - score.value, source=source)
        return make_finding("without-case", [wrong], cost=cost)
    return None


def _ignores_case(metric: str) -> bool:
    return metric.endswith(CASE_SUFFIX)


def check_testset(case: Case) -> Answer:
    """Compare the number of translations with the test set's, and the languages of a log."""
    if not case.translations:
        return Answer(missing=NO_TRANSLATIONS)
    corpus = case.claim.corpus
    # A quiet log states the size of the test set itself.
    judged = [
        one
        for output, one in decoding_judgements(case)
        if one.quantity in TESTSET_QUANTITIES and not output.lines
    ]
    for output in case.translations:
        languages = output.generation.languages[:2] if output.generation else ()
        if languages not in ((), (corpus.source_language, corpus.target_language)):
            found = "-".join(languages)
            judged.append(fact(output.path, "languages", found, corpus.language_pair))
        expected = _expected_lines(case, output)
        if output.lines and expected:
            number, what = len(output.lines), f"lines of {output.testset}"
            counted = fact(output.path, what, f"{number:,}", f"{expected:,}")
            verdict = verdict_of(number, expected)
            judged.append(msgspec.structs.replace(counted, verdict=verdict, value=number))
    wrong = [one for one in judged if one.differs]
    if wrong:
        value = wrong[0].value
        amount = float(value) if isinstance(value, int) else None
        return Answer(findings=(make_finding("other-testset", wrong, amount=amount),))
    seen = [f"{one.words} {one.found}" for one in judged if one.is_good]
    return outcome_of((), seen, "the test set's number of lines is not known")


def _expected_lines(case: Case, output: Translation) -> int | None:
    if case.claim.is_papers_corpus:
        return TEST_PAIRS if output.role == "test" else None
    testsets = case.claim.corpus.testsets
    if case.data is None or output.testset not in testsets:
        return None
    # `aiayn binarize` names test sets by their order: valid, test, test1.
    place = testsets.index(output.testset)
    split = ("valid", "test")[place] if place < 2 else f"test{place - 1}"
    sides = case.data.sides_by_split.get(split)
    return len(sides[1]) if sides else None
