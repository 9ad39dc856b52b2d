"""Checks decoding: which checkpoints, which search, and the lengths of the translations."""

from collections.abc import Iterator

import msgspec
import numpy as np
from sacrebleu.metrics.bleu import BLEU

from aiayn.paths import num_averaged
from aiayn.spec.system import DecodingSpec
from analysis.doctor.plain import plain
from analysis.doctor.types import Answer, Averaged, Case, Claim, Search, Translation, fact, found
from analysis.findings import Cost, Evidence, Finding

NO_TRANSLATIONS = "no translations were given"
MIN_RATIO, MAX_RATIO = 0.94, 1.06  # length ratios at which published replications had a fault: 0.946, 1.062, 1.138
MIN_CUT_SHARE = 0.05  # of lines that are exactly as long as the longest, and end in no punctuation
# How fairseq sets what is found in a search.
SEARCH_FLAGS = {
    "beam_size": "--beam {0:g}", "length_penalty_alpha": "--lenpen {0:g}", "max_length": "--max-len-a 1 --max-len-b 50"
}  # fmt: skip
FAIRSEQ_LIMIT = (0, 200)  # fairseq's own length limit, with which 29.29 and 43.2 were reached: no difference
SLIP_RATIO = 1.06  # longer than the references at a brevity penalty of 1: seen where text was tokenised otherwise


def check_wrong_checkpoints(case: Case) -> Answer:
    """Check that the averaged checkpoints are the last of the training."""
    if case.log is None:
        return Answer(missing="no log of a training was given")
    averages = {one.averaged.place: (one.average, one.averaged) for one in case.translations if one.averaged}
    if not averages:
        return Answer(missing="the averaged checkpoints are not recorded")
    wrong = [item for name, one in averages.values() for item in _not_the_last(case.log.last_update, name, one)]
    if wrong:
        return Answer(findings=(found("wrong-checkpoints", wrong),))
    seen = "; ".join(f"{name}: updates {', '.join(map(str, one.updates))}" for name, one in averages.values())
    return Answer(seen=seen)


def _not_the_last(last_update: int, average: str, averaged: Averaged) -> Iterator[Evidence]:
    updates = averaged.updates
    if len(updates) != num_averaged(average):
        yield fact(averaged.place, f"checkpoints averaged as {average}", len(updates), num_averaged(average))
    if max(updates, default=0) != last_update:
        yield fact(averaged.place, "newest update averaged", max(updates, default=0), f"{last_update}, the log's last")
    steps = set(np.diff(sorted(updates)).tolist())
    if len(steps) > 1:
        yield fact(averaged.place, "updates between those averaged", sorted(steps), "one interval")


def check_average(case: Case) -> Answer:
    """Check that each test set was translated with the average that its table uses."""
    if not case.translations:
        return Answer(missing=NO_TRANSLATIONS)
    wrong, seen, number = [], [], 0
    for testset in dict.fromkeys(one.testset for one in case.translations):
        of_testset = [one for one in case.translations if one.testset == testset]
        wanted = case.claim.averages_by_role.get(of_testset[0].role, frozenset())
        had = [one.average for one in of_testset if one.average]
        if not wanted or not had:
            continue
        if wanted & set(had):
            seen.append(f"{testset}: {', '.join(had)}")
        else:
            expected = f"{' or '.join(sorted(wanted))} (section 6)"
            words = of_testset[0].average_words or ", ".join(had)
            wrong.append(fact(of_testset[0].path, f"average of {testset}", words, expected, of_testset[0].line))
            number = num_averaged(had[0])
    if wrong:
        last = num_averaged(wrong[0].expected.split()[0])
        return Answer(findings=(found("other-average", wrong, amount=float(number) or None, last=last),))
    words = next((one.average_words for one in case.translations if one.average_words), "")
    missing = f"how many checkpoints {words} averages is not known" if words else "the decoded average is not recorded"
    missing = "" if seen else missing
    return Answer(seen="; ".join(seen), missing=missing)


def check_search(case: Case) -> Answer:
    """Compare the search that was run with the spec's, and look for translations that were cut at a length."""
    if not case.translations:
        return Answer(missing=NO_TRANSLATIONS)
    wrong = {item.what: item for one in case.translations for item in _wrong_search(case.claim, one)}
    cut = [item for one in case.translations for item in _cut_lines(one)]
    findings, search = [], _words(case.claim.decoding)
    for name, item in wrong.items():
        evidence = [item, *(cut if name == "max_length" else ())]
        flags = SEARCH_FLAGS.get(name, "").format(getattr(case.claim.decoding, name, ""))
        amount = float(item.found) if item.found.replace(".", "", 1).isdigit() else None
        flags = f" (fairseq: {flags})" if flags else ""
        finding = found(
            "other-search",
            evidence,
            what=name,
            amount=amount,
            setting=name,
            here=item.found,
            search=search,
            flags=flags,
        )
        findings.append(finding)
    if cut and "max_length" not in wrong:
        findings.append(found("cut", cut, search=search, flags=f" (fairseq: {SEARCH_FLAGS['max_length']})"))
    if findings:
        return Answer(findings=tuple(findings))
    known = [one.search for one in case.translations if one.search]
    if not known:
        return Answer(missing="the settings of the search are not recorded; no translation is cut")
    return Answer(seen=_words(known[0]))


def _words(search: Search | DecodingSpec) -> str:
    texts = [f"beam {search.beam_size}", f"alpha {search.length_penalty_alpha} ({search.length_penalty_form})"]
    if search.max_extra_tokens is not None:
        texts.append(f"at most {search.max_length_per_source_token:g} x source + {search.max_extra_tokens} tokens")
    return ", ".join(texts)


def _wrong_search(claim: Claim, translation: Translation) -> Iterator[Evidence]:
    """Yield the settings that differ; both numbers of the length limit are one setting."""
    search, expected = translation.search, claim.decoding
    if search is None:
        return
    for key in ("beam_size", "length_penalty_alpha", "length_penalty_form", "stop"):
        value, papers = getattr(search, key), getattr(expected, key)
        if value is not None and value != papers:
            here, there = (f"{one:g}" if isinstance(one, float) else str(one) for one in (value, papers))
            yield fact(search.place, key, here, there, search.line)
    limits = [(one.max_length_per_source_token, one.max_extra_tokens) for one in (search, expected)]
    if None not in limits[0] and limits[0] not in (FAIRSEQ_LIMIT, limits[1]):
        here, there = (f"{factor:g} x source + {extra}" for factor, extra in limits)
        yield fact(search.place, "max_length", here, there, search.line)


def _cut_lines(translation: Translation) -> Iterator[Evidence]:
    """Yield evidence if many lines reach one same length and end in no punctuation; it reads the pieces alone."""
    if translation.pieces is None or not translation.references:
        return
    pieces = [line.split() for line in translation.pieces]
    longest = max(map(len, pieces), default=0)
    is_cut = [len(line) == longest and longest > 0 and line[-1][-1:].isalnum() for line in pieces]
    ends_open = np.mean([line[-1:].isalnum() for line in translation.references])
    num_cut = sum(is_cut)
    if num_cut >= MIN_CUT_SHARE * len(pieces) + ends_open * len(pieces):
        what = f"translations that break off at {longest} pieces"
        yield fact(translation.path, what, f"{num_cut} of {len(pieces)}", f"fewer than {MIN_CUT_SHARE:.0%}")


def check_lengths(case: Case) -> Answer:
    """Compare the length of translations with that of the references; a symptom, whatever the cause."""
    findings, seen = [], []
    for one in case.translations:
        measured = _lengths(case, one)
        if measured is None:
            continue
        place, ratio, penalty, bleu = measured
        words = f"length ratio {ratio:.3f}, brevity penalty {penalty:.3f}"
        if MIN_RATIO <= ratio <= MAX_RATIO:
            seen.append(f"{one.testset}: {words}")
        elif not one.lines and ratio >= SLIP_RATIO and penalty >= 0.999:
            evidence = fact(one.path, "length ratio", f"{ratio:g}", f"under {SLIP_RATIO} at penalty 1.0")
            evidence = msgspec.structs.replace(evidence, line=one.logged.line if one.logged else None)
            findings.append(found("slip", [evidence], amount=ratio))
        else:
            findings.append(_length_finding(one, place, words, bleu, penalty))
    if findings:
        return Answer(findings=tuple(findings[:1]))
    missing = "" if seen else "no translations with their references were given"
    return Answer(seen="; ".join(seen), missing=missing)


def _lengths(case: Case, one: Translation) -> tuple[str, float, float, float] | None:
    """Return place, length ratio, brevity penalty and BLEU: of the lines as they can be read, else as logged."""
    if one.lines and one.references is not None and len(one.references) == len(one.lines):
        read = plain(one, case.claim.corpus)
        words = ([line.replace("<unk>", "unk") for line in side] for side in (read.lines, read.references or ()))
        hypotheses, references = words  # 13a makes three words of <unk>
        score = BLEU(tokenize="13a", force=True).corpus_score(hypotheses, [references])
        return one.path, score.sys_len / max(1, score.ref_len), score.bp, score.score
    if one.logged is not None and one.logged.reference_length:
        logged = one.logged
        ratio = logged.hypothesis_length / logged.reference_length
        return f"{one.path}:{logged.line}", ratio, logged.brevity_penalty, logged.value
    return None


def _length_finding(translation: Translation, place: str, words: str, bleu: float, penalty: float) -> Finding:
    evidence = [fact(place, f"lengths on {translation.testset}", words, f"a ratio of {MIN_RATIO} to {MAX_RATIO}")]
    # both sides of a log of fairseq-generate come from one data-bin
    text = "; then the tokenisation of either side" if translation.logged is None else ""
    costs: tuple[Cost, ...] = ()
    if 0 < penalty < 1:
        lost = bleu / penalty - bleu
        source = f"the brevity penalty of {translation.path}, on the same n-grams"
        costs = (Cost(low=lost, high=lost, words="", source=source),)
    return found("too-short" if penalty < 1 else "too-long", evidence, is_symptom=True, costs=costs, text=text)
