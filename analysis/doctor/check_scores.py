"""Checks of text and numbers after the search: pieces joined, references in their order, the definition of a score."""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from analysis.doctor.check_data import fact, found
from analysis.doctor.check_search import NO_TRANSLATIONS
from analysis.doctor.pieces import (
    has_escapes,
    has_marks,
    is_tokenised,
    joined,
    letters,
    only_letters,
    share,
    share_out_of_order,
)
from analysis.doctor.types import Case, Cost, Evidence, Finding, Outcome, Reported, Scorer, Translation
from analysis.logs.facts import DEV_PAIRS, TEST_PAIRS

PREFERRED_METRICS = ("bleu_tok_compound_split", "bleu_tok_moses", "bleu_as_given", "bleu_sacre_13a")
CASE_OF_SUFFIX = "_lc"
MAX_MARKED, MAX_MORE_TOKENISED = 0.01, 0.2  # shares of lines; names and numbers may stand apart in any text
MIN_EQUAL, MAX_OUT_OF_ORDER = 0.9, 0.5
MAX_DIFFERENCE = 0.05  # BLEU; a value printed to one decimal lies within it
MIN_CAPITALS = 0.01  # of letters, in references that have case
ORDER_SEED = 2014


def check_pieces(case: Case) -> Outcome:
    """See that translations are lines as the references are: no marks of pieces, no tokens, no escapes."""
    if not case.translations:
        return Outcome(check="pieces", missing=NO_TRANSLATIONS)
    findings = []
    for one in case.translations:
        wrong = [*_marks(one), *_tokens(one), *_not_of_its_pieces(one)]
        if wrong:
            title = "Translations are not joined to text as the references are"
            fix = "join the pieces, detokenise, then score: as `aiayn decode` (fairseq: --remove-bpe; detokenizer.perl)"
            costs = _joined_cost(one, case.scorer)
            findings.append(msgspec.structs.replace(found("pieces", title, wrong, fix), costs=costs))
    if findings:
        return Outcome(check="pieces", findings=tuple(findings[:1]))
    files = ", ".join(f"{len(one.lines):,} lines of {one.testset}" for one in case.translations)
    return Outcome(check="pieces", seen=f"{files}: no marks of pieces, no more tokens apart than in the references")


def _marks(one: Translation) -> Iterator[Evidence]:
    marked = [index for index, line in enumerate(one.lines, 1) if has_marks(line)]
    if len(marked) > MAX_MARKED * len(one.lines):
        what = f"lines with `@@ ` or \\u2581, the first: {one.lines[marked[0] - 1][:60]!r}"
        yield fact(one.path, what, f"{len(marked)} of {len(one.lines)}", "none", marked[0])


def _tokens(one: Translation) -> Iterator[Evidence]:
    references = one.references or ()
    for words, is_so in (("punctuation stands apart", is_tokenised), ("Moses' escapes are left", has_escapes)):
        mine = share(one.lines, [is_so(line) for line in one.lines])
        theirs = share(references, [is_so(line) for line in references])
        if references and mine > theirs + MAX_MORE_TOKENISED:
            yield fact(one.path, f"lines in which {words}", f"{mine:.0%}", f"{theirs:.0%}, as in the references")


def _not_of_its_pieces(one: Translation) -> Iterator[Evidence]:
    """Yield if the lines are not the pieces joined (the round trip), blanks and case left aside."""
    if one.pieces is None or len(one.pieces) != len(one.lines):
        return
    plain = [index for index, pieces in enumerate(one.pieces) if "<0x" not in pieces and "<unk>" not in pieces]
    wrong = [i for i in plain if letters(joined(one.lines[i])).casefold() != letters(joined(one.pieces[i])).casefold()]
    if len(wrong) > MAX_MARKED * max(1, len(plain)):
        what = f"lines that are not their pieces joined, the first: {one.lines[wrong[0]][:60]!r}"
        yield fact(one.path, what, f"{len(wrong)} of {len(plain)}", "none", wrong[0] + 1)


def _joined_cost(one: Translation, scorer: Scorer) -> tuple[Cost, ...]:
    if one.references is None or len(one.references) != len(one.lines):
        return ()
    return _difference(one.lines, [joined(line) for line in one.lines], one.references, one.references, scorer)


def _difference(
    lines: Sequence[str], mended_lines: Sequence[str], given: Sequence[str], mended: Sequence[str], scorer: Scorer
) -> tuple[Cost, ...]:
    """Return what the fault costs on these very lines: the score once it is mended, less the score as it stands."""
    now, then = scorer(lines, given), scorer(mended_lines, mended)
    metric = next((name for name in PREFERRED_METRICS if name in now), None)
    if metric is None:
        return ()
    lost = then[metric] - now[metric]
    source = f"these lines, {metric}: {now[metric]:.2f} as they stand, {then[metric]:.2f} mended"
    return (Cost(low=lost, high=lost, words="", source=source),)


def check_reference_order(case: Case) -> Outcome:
    """See that the references are the data-bin's, line by line; without one, that they fit their translations."""
    scored = [one for one in case.translations if one.references is not None]
    if not scored:
        return Outcome(check="reference_order", missing="no references were given")
    seen = []
    for one in scored:
        references = one.references or ()
        if len(references) != len(one.lines):
            wrong = fact(one.references_path, "lines", len(references), f"{len(one.lines)}, as {one.path}")
            return Outcome(check="reference_order", findings=(_other_references(one, wrong),))
        known = _known_references(case, one)
        finding = _against_known(one, known, case.scorer) if known else None
        if finding is None and not known:
            finding = _against_translations(one, references)
        if finding is not None:
            return Outcome(check="reference_order", findings=(finding,))
        where = "the data-bin's, line by line" if known else "fit their translations"
        seen.append(f"{one.testset}: {where}")
    return Outcome(check="reference_order", seen="; ".join(seen))


def _known_references(case: Case, one: Translation) -> list[str] | None:
    """Return the data-bin's target side of a test set, joined; None if it has none of that size."""
    if case.data is None or one.split not in case.data.splits:
        return None
    data, num_lines = case.data, len(case.data.side_by_place[one.split, "target"])
    if num_lines != len(one.lines):
        return None
    return [joined(" ".join(data.pieces(one.split, "target", index))) for index in range(num_lines)]


def _against_known(one: Translation, known: list[str], scorer: Scorer) -> Finding | None:
    given = [only_letters(line) for line in one.references or ()]
    true = [only_letters(line) for line in known]
    plain = [index for index, line in enumerate(known) if "<unk>" not in line and "<0x" not in line]
    wrong = [index for index in plain if given[index] != true[index]]
    if len(plain) - len(wrong) >= MIN_EQUAL * len(plain):
        return None
    num_there = (Counter(given) & Counter(true[index] for index in plain)).total()
    first = wrong[0]
    what = f"references unlike the data-bin's, the first: {(one.references or ())[first][:50]!r}"
    evidence = fact(
        one.references_path, what, f"{len(wrong)} of {len(plain)}", f"none; here {known[first][:50]!r}", first + 1
    )
    if num_there < MIN_EQUAL * len(plain):
        return _other_references(one, evidence)
    fix = "score against the references as published: `aiayn score --testset NAME` checks their MD5; sort neither side"
    finding = found("reference_order", "The references stand in another order than the source", [evidence], fix)
    costs = _difference(one.lines, one.lines, one.references or (), known, scorer)
    return msgspec.structs.replace(finding, costs=costs)


def _other_references(one: Translation, evidence: Evidence) -> Finding:
    fix = f"score against the published references of {one.testset or 'the test set'}: `aiayn score` checks their MD5"
    return found("reference_order", "Scored against other references than the test set's", [evidence], fix)


def _against_translations(one: Translation, references: Sequence[str]) -> Finding | None:
    out_of_order = share_out_of_order(one.lines, references, np.random.default_rng(ORDER_SEED))
    if out_of_order <= MAX_OUT_OF_ORDER:
        return None
    what = "translations that fit their own reference no better than another line's"
    evidence = fact(one.references_path, what, f"{min(1.0, out_of_order):.0%}", f"at most {MAX_OUT_OF_ORDER:.0%}")
    fix = "put both files into the order of the source; fairseq-generate writes by length: sort its H- lines by number"
    return found("reference_order", "Translations and references stand in unlike orders", [evidence], fix)


def check_definition(case: Case) -> Outcome:
    """See that each reported score is what its name says, by signature and by scoring anew, and that case is kept."""
    if not case.translations:
        return Outcome(check="definition", missing=NO_TRANSLATIONS)
    seen = []
    for one in case.translations:
        values = {}
        if one.references is not None and len(one.references) == len(one.lines):
            values = case.scorer(one.lines, one.references)
        wrong = [*_lower_cased(case, one), *(item for score in one.reported for item in _not_as_named(score, values))]
        if wrong:
            is_lower = any("case" in item.what for item in wrong)
            title = "Scored with its case thrown away" if is_lower else "A score is not what its name says"
            fix = "score again, every definition side by side: `aiayn score --hypotheses FILE --testset NAME`"
            finding = found("definition", title, wrong, fix, rank="A2" if is_lower else "4")
            costs = _case_cost(values) if is_lower else ()
            return Outcome(check="definition", findings=(msgspec.structs.replace(finding, costs=costs),))
        if one.reported and values:
            seen.append(f"{one.testset}: {len(one.reported)} scores are what their names say, scored anew")
    missing = "" if seen else "no reported scores with references to score anew"
    return Outcome(check="definition", seen="; ".join(seen), missing=missing)


def _lower_cased(case: Case, one: Translation) -> Iterator[Evidence]:
    """Yield if translations, or the references, have no capital where the corpus has some."""
    known = _known_references(case, one) or list(one.references or ())
    for path, lines in ((one.path, one.lines), (one.references_path, one.references or ())):
        if lines and _capitals(known) > MIN_CAPITALS and not _capitals(lines):
            yield fact(
                path, "case of letters: capitals", "none", f"{_capitals(known):.1%} of letters, as in the corpus"
            )


def _capitals(lines: Sequence[str]) -> float:
    text = "".join(lines)
    return sum(letter.isupper() for letter in text) / max(1, sum(letter.isalpha() for letter in text))


def _not_as_named(score: Reported, value_by_metric: dict[str, float]) -> Iterator[Evidence]:
    fields = dict(field.split(":", 1) for field in score.signature.split("|") if ":" in field)
    keeps_case = not score.metric.endswith(CASE_OF_SUFFIX)
    if keeps_case and fields.get("case", "mixed") != "mixed":
        yield fact(score.place, f"case, by the signature of {score.metric}", fields["case"], "mixed")
        return
    mine = value_by_metric.get(score.metric)
    if mine is None or abs(mine - score.value) <= MAX_DIFFERENCE:
        return
    others = [name for name, value in value_by_metric.items() if abs(value - score.value) <= MAX_DIFFERENCE]
    expected = f"{mine:.2f}" + (f"; {score.value:.2f} is {' or '.join(others)}" if others else "")
    is_lower = bool(others) and all(name.endswith(CASE_OF_SUFFIX) for name in others)
    yield fact(score.place, f"{score.metric}{', case thrown away' if is_lower else ''}", f"{score.value:.2f}", expected)


def _case_cost(value_by_metric: dict[str, float]) -> tuple[Cost, ...]:
    """Return what lower-casing adds on these lines: negative, as it raises the score."""
    for metric in ("bleu_sacre_13a", "bleu_tok_moses"):
        cased, lower = value_by_metric.get(metric), value_by_metric.get(f"{metric}{CASE_OF_SUFFIX}")
        if cased is not None and lower is not None:
            source = f"these lines, {metric}: {cased:.2f} with its case, {lower:.2f} lower-cased"
            return (Cost(low=cased - lower, high=cased - lower, words="", source=source),)
    return ()


def check_testset(case: Case) -> Outcome:
    """Compare the number of translations with the test set's."""
    if not case.translations:
        return Outcome(check="testset", missing=NO_TRANSLATIONS)
    wrong, seen = [], []
    for one in case.translations:
        expected: int | None = None
        if case.claim.is_papers_corpus:
            expected = {"dev": DEV_PAIRS, "test": TEST_PAIRS}.get(one.role)
        elif case.data is not None and one.split in case.data.splits:
            expected = len(case.data.side_by_place[one.split, "target"])
        if expected is not None and len(one.lines) != expected:
            wrong.append(fact(one.path, f"lines of {one.testset}", len(one.lines), expected))
        elif expected is not None:
            seen.append(f"{one.testset}: {expected:,} lines")
    if wrong:
        fix = "translate the full test set; 2,737 lines are the filtered newstest2014 that sacreBLEU calls wmt14"
        return Outcome(check="testset", findings=(found("testset", "Another test set", wrong, fix),))
    missing = "" if seen else "nothing says how many lines the test set has"
    return Outcome(check="testset", seen="; ".join(seen), missing=missing)
