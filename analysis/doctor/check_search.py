"""Checks decoding: which checkpoints, which search, and the lengths of the translations."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from aiayn.logs.findings import Cost, Evidence, Finding
from aiayn.paths import num_averaged
from aiayn.scoring.outputs.system_output import joined
from aiayn.spec.system import DecodingSpec
from analysis.doctor.check_settings import claimed_system
from analysis.doctor.plain import plain
from analysis.doctor.types import (
    Answer,
    Case,
    Claim,
    Search,
    Translation,
    evidence_of,
    fact,
    make_finding,
    outcome_of,
)
from paper_tables.compare.decoding import compare_generation
from paper_tables.compare.judgement import Judgement

NO_TRANSLATIONS = "no translations were given"
# Length ratios at which published replications had a fault: 0.946, 1.062 and 1.138.
MIN_RATIO = 0.94
MAX_RATIO = 1.06
MIN_CUT_SHARE = 0.05  # of lines that are exactly as long as the longest, and end in no punctuation
# How fairseq sets what is found in a search.
SEARCH_FLAGS = {
    "beam_size": "--beam {0:g}",
    "length_penalty_alpha": "--lenpen {0:g}",
    "max_length": "--max-len-a 1 --max-len-b 50",
}
FAIRSEQ_LIMIT = (
    0,
    200,
)  # fairseq's own length limit, with which 29.29 and 43.2 were reached: no difference
# Translations that end at once: 99 of 1,014 in a shipped run that did not learn when to end, at
# most 0.5 % in others.
MAX_SHORT, MIN_WHOLE, MAX_SHORT_SHARE, MIN_SHORT_LINES = 3, 6, 0.03, 5
# longer than the references at a brevity penalty of 1: seen where text was tokenised otherwise
SLIP_RATIO = 1.06


def check_average(case: Case) -> Answer:
    """Check that each test set was translated with the average that its table uses, of the last
    checkpoints.
    """
    if not case.translations:
        return Answer(missing=NO_TRANSLATIONS)
    wrong, seen, number = [], [], 0
    for testset in dict.fromkeys(output.testset for output in case.translations):
        outputs = [output for output in case.translations if output.testset == testset]
        first, had = outputs[0], [output.average for output in outputs if output.average]
        wanted = case.claim.averages_by_role.get(first.role, frozenset())
        if not wanted or not had:
            continue
        if wanted & set(had):
            seen.append(f"{testset}: {', '.join(had)}{_by_name(outputs)}")
        else:
            expected = f"{' or '.join(sorted(wanted))} (section 6)"
            wrong.append(fact(first.path, f"average of {testset}", ", ".join(had), expected))
            number = num_averaged(had[0])
    findings = (
        [make_finding("wrong-checkpoints", wrong_checkpoints)]
        if (wrong_checkpoints := list(_wrong_checkpoints(case)))
        else []
    )
    if wrong:
        last = num_averaged(wrong[0].expected.split()[0])
        findings.append(
            make_finding("other-average", wrong, amount=float(number) or None, last=last)
        )
    return outcome_of(findings, seen, "the decoded average is not recorded")


def _by_name(outputs: Sequence[Translation]) -> str:
    is_by_name = any(
        output.generation is not None and output.generation.average.is_by_name for output in outputs
    )
    return " (by the name of the checkpoint's file)" if is_by_name else ""


def _wrong_checkpoints(case: Case) -> Iterator[Evidence]:
    """Yield evidence if the averaged checkpoints, by a record, are not the last of the training."""
    for path, output in {
        output.averaged_path: output for output in case.translations if output.averaged_path
    }.items():
        average, updates = output.average, output.averaged_updates
        newest, steps = max(updates, default=0), sorted(set(np.diff(sorted(updates)).tolist()))
        if len(updates) != num_averaged(average):
            yield fact(
                path, f"checkpoints averaged as {average}", len(updates), num_averaged(average)
            )
        if case.log is not None and newest != case.log.last_update:
            yield fact(
                path, "newest update averaged", newest, f"{case.log.last_update}, the log's last"
            )
        if len(steps) > 1:
            yield fact(path, "updates between those averaged", steps, "one interval")


def check_search(case: Case) -> Answer:
    """Compare the search that was run with the spec's, and look for translations that were cut at a
    length.
    """
    if not case.translations:
        return Answer(missing=NO_TRANSLATIONS)
    judged = [one for output in case.translations for one in generation_judgements(case, output)]
    wrong = {
        item.what: item
        for output in case.translations
        for item in _wrong_search(case.claim, output)
    }
    wrong |= {
        one.quantity: evidence_of(one) for one in judged if one.group == "search" and _differs(one)
    }
    cut = [item for output in case.translations for item in _cut_lines(output)]
    findings, search = [], _words(case.claim.decoding)
    for name, item in wrong.items():
        evidence = [item, *(cut if name in ("max_length", "max_len_b") else ())]
        flags = SEARCH_FLAGS.get(name, "").format(getattr(case.claim.decoding, name, ""))
        amount = float(item.found) if item.found.replace(".", "", 1).isdigit() else None
        flags = f" (fairseq: {flags})" if flags else ""
        values: dict[str, Any] = {
            "setting": name,
            "here": item.found,
            "search": search,
            "flags": flags,
        }
        findings.append(make_finding("other-search", evidence, what=name, amount=amount, **values))
    if cut and not {"max_length", "max_len_b"} & wrong.keys():
        findings.append(
            make_finding(
                "cut", cut, search=search, flags=f" (fairseq: {SEARCH_FLAGS['max_length']})"
            )
        )
    seen = [_words(output.search) for output in case.translations if output.search][:1]
    seen += [
        f"{one.words or one.quantity} {one.found}"
        for one in judged
        if one.group == "search" and one.is_good
    ]
    return outcome_of(
        findings, seen, "the settings of the search are not recorded; no translation is cut"
    )


def generation_judgements(case: Case, output: Translation) -> tuple[Judgement, ...]:
    """Return the judgement on each quantity of a log of fairseq-generate; () for other
    translations.
    """
    if output.generation is None:
        return ()
    return compare_generation(
        output.generation, case.claim.corpus.language_pair, claimed_system(case.claim)
    )


def _differs(judgement: Judgement) -> bool:
    return judgement.verdict in ("different", "contradictory")


def _words(search: Search | DecodingSpec) -> str:
    texts = [
        f"beam {search.beam_size}",
        f"alpha {search.length_penalty_alpha} ({search.length_penalty_form})",
    ]
    if search.max_extra_tokens is not None:
        texts.append(
            f"at most {search.max_length_per_source_token:g} x source +"
            f" {search.max_extra_tokens} tokens"
        )
    return ", ".join(texts)


def _wrong_search(claim: Claim, translation: Translation) -> Iterator[Evidence]:
    """Yield the settings that differ; both numbers of the length limit are one setting."""
    search, expected = translation.search, claim.decoding
    if search is None:
        return
    for key in ("beam_size", "length_penalty_alpha", "length_penalty_form", "stop"):
        value, papers = getattr(search, key), getattr(expected, key)
        if value is not None and value != papers:
            here, there = (
                f"{one:g}" if isinstance(one, float) else str(one) for one in (value, papers)
            )
            yield fact(search.place, key, here, there)
    limits = [(one.max_length_per_source_token, one.max_extra_tokens) for one in (search, expected)]
    if None not in limits[0] and limits[0] not in (FAIRSEQ_LIMIT, limits[1]):
        here, there = (f"{factor:g} x source + {extra}" for factor, extra in limits)
        yield fact(search.place, "max_length", here, there)


def _cut_lines(translation: Translation) -> Iterator[Evidence]:
    """Yield evidence if many lines reach one same length and end in no punctuation; it reads the
    pieces alone.
    """
    if translation.pieces is None or not translation.references:
        return
    pieces = [line.split() for line in translation.pieces]
    longest = max(map(len, pieces), default=0)
    is_cut = [len(line) == longest and longest > 0 and line[-1][-1:].isalnum() for line in pieces]
    ends_open = np.mean([line[-1:].isalnum() for line in translation.references])
    num_cut = sum(is_cut)
    if num_cut >= MIN_CUT_SHARE * len(pieces) + ends_open * len(pieces):
        what = f"translations that break off at {longest} pieces"
        yield fact(
            translation.path, what, f"{num_cut} of {len(pieces)}", f"fewer than {MIN_CUT_SHARE:.0%}"
        )


def check_lengths(case: Case) -> Answer:
    """Compare the length of translations with that of the references; a symptom, whatever the
    cause.
    """
    findings, seen = [], []
    for output in case.translations:
        measured = _lengths(case, output)
        if measured is None:
            continue
        place, ratio, penalty, bleu = measured
        words = f"length ratio {ratio:.3f}, brevity penalty {penalty:.3f}"
        if MIN_RATIO <= ratio <= MAX_RATIO:
            seen.append(f"{output.testset}: {words}")
        elif not output.lines and ratio >= SLIP_RATIO and penalty >= 0.999:
            line = output.logged.line if output.logged else None
            evidence = fact(
                output.path,
                "length ratio",
                f"{ratio:g}",
                f"under {SLIP_RATIO} at penalty 1.0",
                line,
            )
            findings.append(make_finding("slip", [evidence], amount=ratio))
        else:
            findings.append(_length_finding(output, place, words, bleu, penalty))
        findings += _ends_early(output)
    return outcome_of(findings[:1], seen, "no translations with their references were given")


def _ends_early(output: Translation) -> Iterator[Finding]:
    """Yield a finding if many translations of whole sentences end after a few words."""
    if not output.can_be_scored:
        return
    pairs = [
        (len(joined(line).split()), len(joined(reference).split()))
        for line, reference in zip(output.lines, output.references or (), strict=True)
    ]
    whole = [(length, expected) for length, expected in pairs if expected >= MIN_WHOLE]
    num_short = sum(length <= MAX_SHORT for length, _ in whole)
    if num_short >= MIN_SHORT_LINES and num_short > MAX_SHORT_SHARE * len(whole):
        what = f"translations of at most {MAX_SHORT} words, of references of {MIN_WHOLE} or more"
        evidence = fact(
            output.path, what, f"{num_short} of {len(whole)}", f"at most {MAX_SHORT_SHARE:.0%}"
        )
        yield make_finding("ends-early", [evidence], share=num_short / len(whole), number=MAX_SHORT)


def _lengths(case: Case, output: Translation) -> tuple[str, float, float, float] | None:
    """Return place, length ratio, brevity penalty and BLEU: of the lines as they can be read, else
    as logged.
    """
    if output.can_be_scored:
        read = plain(output, case.claim.corpus)
        words = (
            [line.replace("<unk>", "unk") for line in side]
            for side in (read.lines, read.references or ())
        )
        hypotheses, references = words  # 13a makes three words of <unk>
        score = BLEU(tokenize="13a", force=True).corpus_score(hypotheses, [references])
        return output.path, score.sys_len / max(1, score.ref_len), score.bp, score.score
    if output.logged is not None and output.logged.reference_length:
        logged = output.logged
        ratio = logged.hypothesis_length / logged.reference_length
        return f"{output.path}:{logged.line}", ratio, logged.brevity_penalty, logged.value
    return None


def _length_finding(
    translation: Translation, place: str, words: str, bleu: float, penalty: float
) -> Finding:
    evidence = [
        fact(
            place,
            f"lengths on {translation.testset}",
            words,
            f"a ratio of {MIN_RATIO} to {MAX_RATIO}",
        )
    ]
    # both sides of a log of fairseq-generate come from one data-bin
    text = "; then the tokenisation of either side" if translation.logged is None else ""
    costs: tuple[Cost, ...] = ()
    if 0 < penalty < 1:
        lost = bleu / penalty - bleu
        source = f"the brevity penalty of {translation.path}, on the same n-grams"
        costs = (Cost(low=lost, high=lost, source=source),)
    return make_finding(
        "too-short" if penalty < 1 else "too-long",
        evidence,
        is_symptom=True,
        costs=costs,
        text=text,
    )
