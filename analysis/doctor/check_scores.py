"""Checks text and scores after the search: pieces joined, references in order, the definition of a
score.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np

from aiayn.logs.findings import Cost, Evidence, Finding
from aiayn.printed import METRIC_BY_PAIR
from aiayn.scoring.definitions import CASE_SUFFIX
from aiayn.scoring.outputs.line_match import (
    MAX_OUT_OF_ORDER,
    MIN_DISTINCT,
    MIN_LANGUAGE,
    MIN_VARIETY,
    ORDER_SEED,
    share_out_of_order,
    variety,
    words_share,
)
from aiayn.scoring.outputs.repairs import best_repair
from aiayn.scoring.outputs.system_output import Share, form_of, joined
from analysis.doctor.check_data import DEV_PAIRS_BY_LANGUAGE_PAIR
from analysis.doctor.check_search import NO_TRANSLATIONS, generation_judgements
from analysis.doctor.check_training import check_divergence
from analysis.doctor.plain import letters, only_letters, plain
from analysis.doctor.types import (
    Answer,
    Case,
    Reported,
    Scorer,
    Translation,
    evidence_of,
    fact,
    make_finding,
    outcome_of,
)
from paper_tables.compare.decoding import TEST_PAIRS
from paper_tables.compare.training import DEV_PAIRS

AS_GIVEN = "bleu_as_given"
TESTSET_QUANTITIES = ("num_sentences", "reference_tokens")
PREFERRED_METRICS = (
    "bleu_tok_compound_split",
    "bleu_tok_moses",
    "bleu_fairseq",
    AS_GIVEN,
    "bleu_sacre_13a",
)
MAX_MARKED = 0.01  # of lines
MIN_EQUAL = 0.9
MAX_DIFFERENCE = 0.05  # BLEU; a value printed to one decimal lies within it
UNKNOWN_WORDS = ("<unk>", "\u2047")  # fairseq's, and what sentencepiece prints for it
MAX_UNKNOWN = 0.01  # of words, more than in the references
SAME_LENGTH, OTHER_LENGTH = 0.01, 0.02
MIN_SENTENCE = 4  # words; a shorter line may be a name, which is rightly copied
MAX_COPIED = 0.05  # of the sentences


def check_pieces(case: Case) -> Answer:
    """Check that translations are text as the references: no pieces, tokens, escapes, unknown words
    or source.
    """
    given = [output for output in case.translations if output.lines]
    if not given:
        return Answer(missing=NO_TRANSLATIONS)
    findings = []
    for output in given:
        wrong_by_name = {
            "in-pieces": list(_marks(output)),
            "tokens-on-one-side": list(_tokens(output)),
            "not-its-pieces": list(_not_of_its_pieces(output)),
        }
        if names := [name for name, items in wrong_by_name.items() if items]:
            wrong = [item for items in wrong_by_name.values() for item in items]
            costs = _corrected_cost(output, case)
            # Published costs do not matter where the cost is measured on these lines.
            rank, what = ("", "form") if costs else (None, "")
            findings.append(make_finding(names[0], wrong, rank=rank, what=what, costs=costs))
        else:
            findings += _repairable(case, output)
        findings += _unknown_words(case, output)
        findings += _not_translated(case, output)
    first_by_title = {finding.title: finding for finding in reversed(findings)}
    files = ", ".join(f"{len(output.lines):,} lines of {output.testset}" for output in given)
    seen = f"{files}: no marks of pieces, no more tokens apart than in the references"
    return outcome_of(tuple(reversed(first_by_title.values())), [seen], "")


def _repairable(case: Case, output: Translation) -> Iterator[Finding]:
    """Yield the repair that raises the score, as `aiayn score` names it, with both numbers."""
    if output.references is None:
        return
    scores = case.scorer(output.lines, output.references) if output.can_be_scored else {}
    metric = (
        AS_GIVEN
        if output.logged
        else next((name for name in PREFERRED_METRICS if name in scores), AS_GIVEN)
    )

    def score(lines: Sequence[str], references: Sequence[str]) -> float:
        return case.scorer(lines, references).get(metric, 0.0)

    language, given = case.claim.corpus.target_language, scores.get(metric)
    helpful = best_repair(output.lines, output.references, language, score, given)
    if helpful is not None and given is not None:
        repaired, value = helpful
        source = f"these lines, {metric}: {given:.2f} as given, {value:.2f} with {repaired.words}"
        evidence = fact(output.path, metric, f"{given:.2f}", f"{value:.2f} with {repaired.words}")
        costs = (Cost(low=value - given, high=value - given, source=source),)
        names = " ".join(repaired.name.split("+"))
        yield make_finding(
            "repairable",
            [evidence],
            rank="",
            what="form",
            costs=costs,
            words=repaired.words,
            names=names,
        )


def _marks(output: Translation) -> Iterator[Evidence]:
    form = form_of(output.lines)
    if form.marked_lines.value > MAX_MARKED:
        first = next(number for number, line in enumerate(output.lines, 1) if form.mark in line)
        what = f"lines with `@@ ` or \\u2581, the first: {output.lines[first - 1][:60]!r}"
        yield fact(
            output.path, what, f"{form.marked_lines.num} of {len(output.lines)}", "none", first
        )


def _tokens(output: Translation) -> Iterator[Evidence]:
    """Yield evidence if either translations or references are tokens, and the others plain text.

    Both sides of a log of fairseq-generate come from one data-bin: they are alike.
    """
    if output.references is None or output.references_path == output.path:
        return
    sides = (
        (output.path, form_of(output.lines)),
        (output.references_path, form_of(output.references)),
    )
    for (path, form), (_, other) in (sides, sides[::-1]):
        for words, mine, theirs in (
            ("full stops and commas apart from their word", form.apart, other.apart),
            ("quotes and the like that are Moses' escapes", form.escaped, other.escaped),
            ("hyphens that are ` @-@ `", form.hyphens_apart, other.hyphens_apart),
        ):
            if mine.is_most and not theirs.is_most:
                where = "the references" if path == output.path else "the translations"
                yield fact(path, words, str(mine), f"{theirs}, as in {where}")


def _not_of_its_pieces(output: Translation) -> Iterator[Evidence]:
    """Yield evidence if the lines are not the joined pieces (the round trip); blanks and case are
    ignored.
    """
    if output.pieces is None or len(output.pieces) != len(output.lines):
        return
    plain = [
        index
        for index, pieces in enumerate(output.pieces)
        if "<0x" not in pieces and "<unk>" not in pieces
    ]
    sides = [
        [letters(joined(line)).casefold() for line in side]
        for side in (output.lines, output.pieces)
    ]
    wrong = [index for index in plain if sides[0][index] != sides[1][index]]
    if len(wrong) > MAX_MARKED * max(1, len(plain)):
        what = f"lines that are not their pieces joined, the first: {output.lines[wrong[0]][:60]!r}"
        yield fact(output.path, what, f"{len(wrong)} of {len(plain)}", "none", wrong[0] + 1)


def _corrected_cost(output: Translation, case: Case) -> tuple[Cost, ...]:
    """Return the BLEU that a wrong form costs: by the log's own BLEU line if there is one, else on
    these lines.
    """
    corrected = plain(output, case.claim.corpus)
    if (
        output.references is None
        or corrected.references is None
        or len(output.references) != len(output.lines)
    ):
        return ()
    logged = output.logged
    if (
        logged
        and next((score.metric for score in output.reported if score.value == logged.value), "")
        == AS_GIVEN
    ):
        then = case.scorer(corrected.lines, corrected.references).get(AS_GIVEN)
        if then is None:
            return ()
        place, lost = f"{output.path}:{logged.line}", then - logged.value
        source = f"{place} has {logged.value:.2f}; the same lines corrected, {AS_GIVEN}: {then:.2f}"
        return (Cost(low=lost, high=lost, source=source),)
    metrics = (AS_GIVEN,) if corrected.is_tokens else PREFERRED_METRICS
    return _difference(
        output.lines, corrected.lines, output.references, corrected.references, case.scorer, metrics
    )


def _difference(
    lines: Sequence[str],
    corrected_lines: Sequence[str],
    given: Sequence[str],
    corrected: Sequence[str],
    scorer: Scorer,
    metrics: Sequence[str] = PREFERRED_METRICS,
) -> tuple[Cost, ...]:
    """Return what the fault costs on these lines: the score after correction minus the score as
    given.
    """
    now, then = scorer(lines, given), scorer(corrected_lines, corrected)
    metric = next((name for name in metrics if name in now), None)
    if metric is None:
        return ()
    lost = then[metric] - now[metric]
    source = f"these lines, {metric}: {now[metric]:.2f} as given, {then[metric]:.2f} corrected"
    return (Cost(low=lost, high=lost, source=source),)


def _unknown_words(case: Case, output: Translation) -> Iterator[Finding]:
    """Yield a finding if a larger share of the translations' words than of the references' is
    unknown.
    """
    read = plain(output, case.claim.corpus)
    mine, theirs = (
        Share(
            sum(line.count(word) for line in lines for word in UNKNOWN_WORDS),
            sum(len(line.split()) for line in lines),
        )
        for lines in (read.lines, read.references or ())
    )
    if mine.value - theirs.value <= MAX_UNKNOWN:
        return
    first = next(
        number
        for number, line in enumerate(read.lines, 1)
        if any(word in line for word in UNKNOWN_WORDS)
    )
    share = f"{mine.value:.1%} of {mine.total:,}"
    evidence = fact(
        output.path,
        "words that are `<unk>`",
        share,
        f"{theirs.value:.1%}, as in the references",
        first,
    )
    yield make_finding("unknown-words", [evidence])


def _not_translated(case: Case, output: Translation) -> Iterator[Finding]:
    """Yield a finding if lines copy their source; without a source, if they lack the references'
    frequent words.
    """
    read = plain(output, case.claim.corpus)
    sources = (
        _in_data_bin(case, output, "source") if output.source_lines is None else output.source_lines
    )
    evidence = None
    if sources is not None:
        pairs = [
            (only_letters(line), only_letters(joined(source)))
            for line, source in zip(read.lines, sources, strict=True)
            if len(source.split()) >= MIN_SENTENCE
        ]
        copied = Share(sum(line == source for line, source in pairs), len(pairs))
        if copied.value > MAX_COPIED:
            evidence = fact(
                output.path,
                "sentences that are their source",
                str(copied),
                f"at most {MAX_COPIED:.0%}",
            )
    else:
        shares = words_share(read.lines, read.references or ())
        is_repeated = len(set(read.lines)) < MIN_DISTINCT * len(
            read.lines
        )  # few words of any language
        if shares is not None and not is_repeated and shares[0] < MIN_LANGUAGE * shares[1]:
            what = "words that are among the most frequent of the references"
            evidence = fact(
                output.path,
                what,
                f"{shares[0]:.1%}",
                f"about {shares[1]:.1%}, as in the references",
            )
    if evidence is not None:
        yield make_finding("untranslated", [evidence])


def _in_data_bin(
    case: Case, output: Translation, role: Literal["source", "target"]
) -> list[str] | None:
    """Return the pieces of a test set's source or target in the data-bin; None if it has none of
    that size.
    """
    if case.data is None or output.split not in case.data.sides_by_split:
        return None
    pieces = case.data.pieces(output.split, role)
    return pieces if len(pieces) == len(output.lines) else None


def check_reference_order(case: Case) -> Answer:
    """Check that the references are the data-bin's, line by line; without one, that translations
    fit them.
    """
    scored = [
        output for output in case.translations if output.references is not None and output.lines
    ]
    if finding := _references_of_two_lengths(case.translations):
        return Answer(findings=(finding,))
    if not scored:
        return Answer(missing="no references were given")
    seen = []
    for output in scored:
        references = output.references or ()
        if len(references) != len(output.lines):
            wrong = fact(
                output.references_path,
                "lines",
                len(references),
                f"{len(output.lines)}, as {output.path}",
            )
            return Answer(findings=(_other_references(output, wrong),))
        read = plain(output, case.claim.corpus)
        normalised = msgspec.structs.replace(output, lines=read.lines, references=read.references)
        known = _known_references(case, output)
        finding = (
            _against_known(normalised, known, case.scorer)
            if known
            else _against_translations(case, normalised)
        )
        if finding is not None:
            return Answer(findings=(finding,))
        where = "the data-bin's, line by line" if known else "fit their translations"
        seen.append(f"{output.testset}: {where}")
    return Answer(seen="; ".join(seen))


def _references_of_two_lengths(translations: Sequence[Translation]) -> Finding | None:
    """Return a finding if two scores of one test set have outputs of one length, and references of
    two.
    """
    logged = [(output, output.logged) for output in translations if output.logged]
    for place, (output, mine) in enumerate(logged):
        for other, theirs in logged[:place]:
            lengths = sorted((mine.hypothesis_length, theirs.hypothesis_length))
            references = sorted((mine.reference_length, theirs.reference_length))
            is_one_output = output.testset == other.testset and lengths[1] <= lengths[0] * (
                1 + SAME_LENGTH
            )
            if is_one_output and references[1] > references[0] * (1 + OTHER_LENGTH):
                here = f"{mine.reference_length:,} and {theirs.reference_length:,} tokens"
                evidence = fact(output.path, "references", here, "one length", mine.line)
                return make_finding("two-lengths", [evidence])
    return None


def _known_references(case: Case, output: Translation) -> list[str] | None:
    """Return the data-bin's target side of a test set, joined; None if it has none of that size."""
    pieces = _in_data_bin(case, output, "target")
    return None if pieces is None else [joined(line) for line in pieces]


def _against_known(output: Translation, known: list[str], scorer: Scorer) -> Finding | None:
    given = [only_letters(line) for line in output.references or ()]
    true = [only_letters(line) for line in known]
    plain = [index for index, line in enumerate(known) if "<unk>" not in line and "<0x" not in line]
    wrong = [index for index in plain if given[index] != true[index]]
    if len(plain) - len(wrong) >= MIN_EQUAL * len(plain):
        return None
    num_there = (Counter(given) & Counter(true[index] for index in plain)).total()
    first = wrong[0]
    what = (
        "references that differ from the data-bin's, the first:"
        f" {(output.references or ())[first][:50]!r}"
    )
    evidence = fact(
        output.references_path,
        what,
        f"{len(wrong)} of {len(plain)}",
        f"none; here {known[first][:50]!r}",
        first + 1,
    )
    if num_there < MIN_EQUAL * len(plain):
        return _other_references(output, evidence)
    costs = _difference(output.lines, output.lines, output.references or (), known, scorer)
    return make_finding("other-order", [evidence], costs=costs)


def _other_references(output: Translation, evidence: Evidence) -> Finding:
    return make_finding("other-references", [evidence], testset=output.testset or "the test set")


def _against_translations(case: Case, output: Translation) -> Finding | None:
    """Return a finding if translations fit their references no better than other lines: BLEU is
    then near 1.

    Outputs that repeat themselves come from a model that is not trained or diverged, different
    outputs of few words from a model that does not read its source; else the lines are of other
    sentences. In a log of fairseq-generate each hypothesis has its reference's number, so that no
    order can be wrong, and both sides come from one data-bin.
    """
    references = output.references or ()
    out_of_order = share_out_of_order(output.lines, references, np.random.default_rng(ORDER_SEED))
    if out_of_order <= MAX_OUT_OF_ORDER:
        return None
    what = "translations that fit their own reference no better than another line's"
    evidence = [
        fact(
            output.references_path,
            what,
            f"{min(1.0, out_of_order):.0%}",
            f"at most {MAX_OUT_OF_ORDER:.0%}",
        )
    ]
    distinct = len(set(output.lines)) / len(output.lines)
    words, is_generated = (
        variety(output.lines, references),
        output.source_lines is not None or bool(output.logged),
    )
    if distinct >= MIN_DISTINCT and words >= MIN_VARIETY and not is_generated:
        return make_finding("different-orders", evidence)
    evidence += [
        fact(
            output.path,
            "different lines among the translations",
            f"{distinct:.0%}",
            f"{MIN_DISTINCT:.0%}",
        ),
        fact(
            output.path,
            "different words beside the references",
            f"{words:.0%}",
            f"{MIN_VARIETY:.0%}",
        ),
    ]
    if check_divergence(case).findings:
        return make_finding("diverged-output", evidence)
    if distinct < MIN_DISTINCT:
        return make_finding("repeated-output", evidence)
    return make_finding("other-sides" if words >= MIN_VARIETY else "unread-source", evidence)


def check_definition(case: Case) -> Answer:
    """Check each reported score against its name, by signature and by scoring again, and that case
    is kept.
    """
    if impossible := list(_impossible(case)):
        return Answer(findings=tuple(impossible))
    printed = METRIC_BY_PAIR.get(case.claim.corpus.language_pair, "")
    for output in case.translations:
        if not output.lines and output.metric not in ("", printed) and case.claim.is_papers_corpus:
            evidence = [fact(output.path, "definition of the score", output.metric, printed)]
            what, metric = f"definition {output.metric}", output.metric
            finding = make_finding(
                "other-definition", evidence, what=what, metric=metric, printed=printed
            )
            return Answer(findings=(finding,))
    given = [output for output in case.translations if output.lines]
    if not given:
        words = (
            f"as the printed number: {printed}"
            if any(output.metric for output in case.translations)
            else ""
        )
        return Answer(seen=words, missing="" if words else NO_TRANSLATIONS)
    seen = []
    for output in given:
        lower = list(_lower_cased(case, output))
        is_asked_for = output.can_be_scored and (lower or output.reported)
        scores = case.scorer(output.lines, output.references or ()) if is_asked_for else {}
        wrong = [
            *lower,
            *(item for score in output.reported for item in _not_as_named(score, scores)),
        ]
        if wrong:
            return Answer(findings=(_case_or_name(case, output, lower, wrong, scores),))
        if output.reported and scores:
            names = ", ".join(dict.fromkeys(score.metric for score in output.reported))
            seen.append(
                f"{output.testset}: {len(output.reported)} scores match their names, scored again"
                f" ({names})"
            )
    return outcome_of((), seen, "no reported scores with references to score again")


def _impossible(case: Case) -> Iterator[Finding]:
    """Yield a finding for each BLEU that is none in percent, and for arguments that change what is
    scored.
    """
    for output in case.translations:
        for one in generation_judgements(case, output):
            if one.quantity == "bleu" and not one.is_good:
                value = output.logged.value if output.logged else 0.0
                yield make_finding("impossible-bleu", [evidence_of(one)], value=value)
            elif (
                one.group == "scoring" and one.verdict == "different" and one.fix == "leave it out"
            ):
                yield make_finding(
                    "other-scoring",
                    [evidence_of(one)],
                    what=one.quantity,
                    words=one.words or one.quantity,
                    found=one.found,
                    fix=one.fix,
                )


def _case_or_name(
    case: Case,
    output: Translation,
    lower: list[Evidence],
    wrong: list[Evidence],
    values: dict[str, float],
) -> Finding:
    """Return the finding. Lower case in one file lowers BLEU, in both raises it; else the name of a
    score is wrong.
    """
    lower_paths = {item.path for item in lower}
    if lower and lower_paths != {output.path, output.references_path}:
        side = "Translations are" if output.path in lower_paths else "The references are"
        return make_finding(
            "lower-cased", wrong, costs=_case_cost(case, output, values, is_lost=True), side=side
        )
    if any("case" in item.what for item in wrong):
        return make_finding(
            "without-case",
            wrong,
            costs=() if lower else _case_cost(case, output, values, is_lost=False),
        )
    return make_finding("other-name", wrong)


def _lower_cased(case: Case, output: Translation) -> Iterator[Evidence]:
    """Yield evidence for translations or references without capitals where the corpus, or the other
    file, has some.
    """
    sides = [
        (output.path, form_of(output.lines)),
        (output.references_path, form_of(output.references or ())),
    ]
    known = _known_references(case, output)
    with_case = [form for _, form in sides] if known is None else [form_of(known)]
    for path, form in sides:
        expected = next((other for other in with_case if form.is_lower_beside(other)), None)
        if expected is not None:
            where = "as on the other side" if known is None else "as in the corpus"
            here, there = (f"{side.capitals.value:.1%} of letters" for side in (form, expected))
            yield fact(path, "case of letters: capitals", here, f"{there}, {where}")


def _not_as_named(score: Reported, value_by_metric: dict[str, float]) -> Iterator[Evidence]:
    fields = dict(field.split(":", 1) for field in score.signature.split("|") if ":" in field)
    keeps_case = not score.metric.endswith(CASE_SUFFIX)
    if keeps_case and fields.get("case", "mixed") != "mixed":
        yield fact(
            score.place, f"case, by the signature of {score.metric}", fields["case"], "mixed"
        )
        return
    mine = value_by_metric.get(score.metric)
    if mine is None or abs(mine - score.value) <= MAX_DIFFERENCE:
        return
    others = [
        name
        for name, value in value_by_metric.items()
        if abs(value - score.value) <= MAX_DIFFERENCE
    ]
    expected = f"{mine:.2f}" + (f"; {score.value:.2f} is {' or '.join(others)}" if others else "")
    is_lower = bool(others) and all(name.endswith(CASE_SUFFIX) for name in others)
    yield fact(
        score.place,
        f"{score.metric}{', without case' if is_lower else ''}",
        f"{score.value:.2f}",
        expected,
    )


def _case_cost(
    case: Case, output: Translation, values: dict[str, float], *, is_lost: bool
) -> tuple[Cost, ...]:
    """Return the BLEU that case is worth on these lines: lost if one file has none, gained if the
    score ignores it.

    Lower-cased text scored without case estimates the score with case, up to errors of case.
    """
    read = plain(output, case.claim.corpus)
    if is_lost and read.references is not None:
        lower = [[line.lower() for line in side] for side in (read.lines, read.references)]
        metrics = (AS_GIVEN,) if read.is_tokens else PREFERRED_METRICS
        return _difference(
            output.lines, lower[0], output.references or (), lower[1], case.scorer, metrics
        )
    for metric in ("bleu_sacre_13a", "bleu_tok_moses"):
        cased, without = values.get(metric), values.get(f"{metric}{CASE_SUFFIX}")
        if cased is not None and without is not None:
            source = f"these lines, {metric}: {cased:.2f} with its case, {without:.2f} lower-cased"
            return (Cost(low=cased - without, high=cased - without, source=source),)
    return ()


def check_testset(case: Case) -> Answer:
    """Compare the number of translations with the test set's."""
    if not case.translations:
        return Answer(missing=NO_TRANSLATIONS)
    wrong, seen = [], []
    claimed_languages = (case.claim.corpus.source_language, case.claim.corpus.target_language)
    for output in case.translations:
        expected: int | None = None
        if case.claim.is_papers_corpus:
            expected = {"dev": DEV_PAIRS, "test": TEST_PAIRS}.get(output.role)
            known = DEV_PAIRS_BY_LANGUAGE_PAIR.get(case.claim.corpus.language_pair, ())
            expected = (
                len(output.lines)
                if output.role == "dev" and len(output.lines) in known
                else expected
            )
        elif case.data is not None and output.split in case.data.sides_by_split:
            expected = len(case.data.sides_by_split[output.split][1])
        num_lines = len(output.lines)
        of_log = [
            one for one in generation_judgements(case, output) if one.quantity in TESTSET_QUANTITIES
        ]
        if not num_lines and of_log:  # a quiet log: its own lines state the size of the test set
            wrong += [evidence_of(one) for one in of_log if one.verdict == "different"]
            seen += [f"{output.testset}: {one.found} {one.words}" for one in of_log if one.is_good]
            if output.generation and output.generation.log.languages[:2] not in (
                (),
                claimed_languages,
            ):
                here = "-".join(output.generation.log.languages[:2])
                wrong.append(fact(output.path, "languages", here, case.claim.corpus.language_pair))
        if expected is not None and num_lines and num_lines != expected:
            wrong.append(
                fact(output.path, f"lines of {output.testset}", len(output.lines), expected)
            )
        elif expected is not None and num_lines:
            seen.append(f"{output.testset}: {expected:,} lines")
    amount = (
        float(wrong[0].found.replace(",", ""))
        if wrong and wrong[0].found.replace(",", "").isdigit()
        else None
    )
    findings = [make_finding("other-testset", wrong, amount=amount)] if wrong else []
    return outcome_of(findings, seen, "the test set's number of lines is not known")
