"""Checks decoding: which checkpoints, which search, and the lengths of the translations."""

from collections.abc import Iterator

from sacrebleu.metrics.bleu import BLEU

from aiayn.data.text.detokenise import join_any_pieces
from aiayn.logs.findings import Cost, Evidence, Finding
from aiayn.paths import num_averaged
from analysis.doctor.check_settings import claimed_system
from analysis.doctor.plain import plain
from analysis.doctor.types import (
    Answer,
    Case,
    Translation,
    evidence_of,
    fact,
    make_finding,
    outcome_of,
    searched,
)
from paper_tables.compare.decoding import compare_generation
from paper_tables.compare.judgement import Group, Judgement

NO_TRANSLATIONS = "no translations were given"
# Length ratios at which published replications had a fault: 0.946, 1.062 and 1.138.
MIN_RATIO = 0.94
MAX_RATIO = 1.06
# How fairseq sets what is found in a search.
SEARCH_FLAGS = {
    "beam_size": "--beam {0:g}",
    "length_penalty_alpha": "--lenpen {0:g}",
    "max_length": "--max-len-a 1 --max-len-b 50",
}
# Translations that end at once: 99 of 1,014 in a shipped run that did not learn when to end, at
# most 0.5 % in others.
MAX_SHORT = 3  # words
MIN_WHOLE = 6  # words of a reference
MAX_SHORT_SHARE = 0.03
MIN_SHORT_LINES = 5


def check_average(case: Case) -> Answer:
    """Check that each test set was translated with the average that its table uses; one of several
    translations of a test set is enough.
    """
    if not case.translations:
        return Answer(missing=NO_TRANSLATIONS)
    judged_by_testset: dict[str, list[Judgement]] = {}
    for output in case.translations:
        for judgement in decoding_judgements(case, output):
            if judgement.group == "average" and judgement.verdict != "not stated":
                judged_by_testset.setdefault(output.testset, []).append(judgement)
    seen, wrong = [], []
    for testset, judged in judged_by_testset.items():
        good = next((one for one in judged if one.is_good), None)
        if good is not None:
            seen.append(f"{testset}: {good.found}{good.reason and f' ({good.reason})'}")
        else:
            wrong.append(judged[0])
    findings = []
    if wrong:
        amount = float(num_averaged(wrong[-1].found)) or None
        last = num_averaged(wrong[0].expected)
        evidence = [evidence_of(one) for one in wrong]
        findings.append(make_finding("other-average", evidence, amount=amount, last=last))
    return outcome_of(findings, seen, "the decoded average is not recorded")


def check_search(case: Case) -> Answer:
    """Compare the search that was run with the spec's."""
    if not case.translations:
        return Answer(missing=NO_TRANSLATIONS)
    wrong: dict[str, Judgement] = {}
    seen: list[str] = []
    for output in case.translations:
        for judgement in decoding_judgements(case, output):
            if judgement.group == "search" and judgement.is_good:
                seen.append(f"{judgement.words or judgement.quantity} {judgement.found}")
            elif judgement.group == "search" and judgement.verdict != "not stated":
                wrong[judgement.quantity] = judgement
    findings = []
    for name, judgement in wrong.items():
        flags, amount = "", None
        if name in SEARCH_FLAGS:
            value = getattr(case.claim.decoding, name, "")
            flags = f" (fairseq: {SEARCH_FLAGS[name].format(value)})"
        if judgement.found.replace(".", "", 1).isdigit():
            amount = float(judgement.found)
        findings.append(
            make_finding(
                "other-search",
                [evidence_of(judgement)],
                what=name,
                amount=amount,
                setting=name,
                here=judgement.found,
                search=", ".join(f"{key} {value}" for key, value in searched(case.claim.decoding)),
                flags=flags,
            )
        )
    return outcome_of(
        findings, list(dict.fromkeys(seen)), "the settings of the search are not recorded"
    )


def decoding_judgements(case: Case, output: Translation) -> tuple[Judgement, ...]:
    """Return the judgement on each quantity of a translation, by the log of fairseq-generate or by
    its record; () without either.
    """
    system = claimed_system(case.claim)
    if output.generation is not None:
        return compare_generation(output.generation, case.claim.corpus.language_pair, system)
    average = system.average_by_use.get(f"{output.role}_{case.claim.corpus.language_pair}", "")
    stated: list[tuple[Group, str, str, str]] = []
    if output.average and average:
        stated.append(("average", "average", output.average, average))
    elif output.average:
        stated.append(("average", "average", output.average, output.average))
    expected = dict(searched(case.claim.decoding))
    stated += [("search", name, found, expected[name]) for name, found in output.search]
    return tuple(
        Judgement(
            quantity=name,
            group=group,
            verdict="equal" if found == wanted else "different",
            found=found,
            expected=wanted,
            path=output.recorded_path or output.path,
        )
        for group, name, found, wanted in stated
    )


def check_lengths(case: Case) -> Answer:
    """Compare the lengths of translations and references, a symptom of many causes, and look for
    translations that end too early.
    """
    findings: list[Finding] = []
    seen = []
    for output in case.translations:
        logged = output.logged
        place = output.path
        if output.can_be_scored:
            text = plain(output, case.claim.corpus)
            # The tokenizer 13a would make three words of <unk>.
            hypotheses = [line.replace("<unk>", "unk") for line in text.lines]
            references = [line.replace("<unk>", "unk") for line in text.references or ()]
            score = BLEU(tokenize="13a", force=True).corpus_score(hypotheses, [references])
            ratio, penalty, bleu = score.sys_len / max(1, score.ref_len), score.bp, score.score
        elif logged is not None and logged.reference_length:
            place = f"{output.path}:{logged.line}"
            ratio = logged.hypothesis_length / logged.reference_length
            penalty, bleu = logged.brevity_penalty, logged.value
        else:
            continue
        words = f"length ratio {ratio:.3f}, brevity penalty {penalty:.3f}"
        if MIN_RATIO <= ratio <= MAX_RATIO:
            seen.append(f"{output.testset}: {words}")
        elif not case.claim.is_papers_corpus:
            seen.append(f"{output.testset}: {words}; bounds are published for WMT14 only")
        elif not output.lines and ratio > MAX_RATIO and penalty >= 0.999:
            expected = f"under {MAX_RATIO} at penalty 1.0"
            evidence = fact(place, "length ratio", f"{ratio:g}", expected)
            findings.append(make_finding("slip", [evidence], amount=ratio))
        else:
            expected = f"a ratio of {MIN_RATIO} to {MAX_RATIO}"
            evidence = fact(place, f"lengths on {output.testset}", words, expected)
            findings.append(_length_symptom(output, evidence, bleu, penalty))
        findings += _ends_early(output)
    return outcome_of(findings[:1], seen, "no translations with their references were given")


def _length_symptom(
    output: Translation, evidence: Evidence, bleu: float, penalty: float
) -> Finding:
    costs: tuple[Cost, ...] = ()
    if 0 < penalty < 1:
        lost = bleu / penalty - bleu
        source = f"the brevity penalty of {output.path}, on the same n-grams"
        costs = (Cost(low=lost, high=lost, source=source),)
    name = "too-short" if penalty < 1 else "too-long"
    return make_finding(name, [evidence], costs=costs, is_symptom=True)


def _ends_early(output: Translation) -> Iterator[Finding]:
    """Yield a finding if many translations of whole sentences end after a few words."""
    if not output.can_be_scored:
        return
    lengths = [
        len(join_any_pieces(line).split())
        for line, reference in zip(output.lines, output.references or (), strict=True)
        if len(join_any_pieces(reference).split()) >= MIN_WHOLE
    ]
    num_short = sum(length <= MAX_SHORT for length in lengths)
    if num_short >= MIN_SHORT_LINES and num_short > MAX_SHORT_SHARE * len(lengths):
        what = f"translations of at most {MAX_SHORT} words, of references of {MIN_WHOLE} or more"
        found, expected = f"{num_short} of {len(lengths)}", f"at most {MAX_SHORT_SHARE:.0%}"
        evidence = [fact(output.path, what, found, expected)]
        yield make_finding("ends-early", evidence, share=num_short / len(lengths), number=MAX_SHORT)
