"""Compares a scored translation with a system: search, average of checkpoints, and what the score
was counted on.
"""

from collections.abc import Iterator

from aiayn.logs.evidence import VALIDATION_BLEU, file_of, models_of, whole_number
from aiayn.logs.types import GenerationLog
from aiayn.paths import num_averaged
from paper_tables.compare.judgement import Judgement, Verdict, judge, show, verdict_of
from paper_tables.compare.systems import PaperSystem
from paper_tables.compare.training import DEV_PAIRS, judge_argument, judge_symbol

TEST_PAIRS = 3003  # newstest2014, full
MIN_LENGTH_LIMIT = 100  # output tokens; below it full sentences are cut
MIN_BLEU, MAX_BLEU = 1.0, 100.0  # percent; below 1 it may be a fraction
# Tokens of the references, whichever tokenizer or split of compounds; newstest2014 and
# newstest2013.
REFERENCE_TOKENS = {"en-de": (60_000, 72_000), "en-fr": (70_000, 92_000)}


def compare_generation(
    generation: GenerationLog, language_pair: str, system: PaperSystem
) -> tuple[Judgement, ...]:
    """Return the judgement on each quantity of a scored translation."""
    return (
        *_compare_search(generation, system),
        *_compare_average(generation, language_pair, system),
        *_compare_scoring(generation, language_pair, system),
    )


def _compare_search(generation: GenerationLog, system: PaperSystem) -> Iterator[Judgement]:
    arguments, path = generation.arguments, file_of(generation)
    stated, alpha = whole_number(arguments.get("beam")), arguments.get("lenpen")
    printed, line = generation.beam_size or stated, generation.bleu_line or None
    expected = system.decoding
    yield judge_symbol("beam_size", printed, expected["beam_size"], path, line)
    if stated is not None and printed != stated:
        yield judge(
            generation,
            "beam",
            "search",
            "contradictory",
            line=line,
            found=f"{stated} and {printed}",
            expected="one number",
            words="beam",
            reason="its argument, and the line of the score",
        )
    is_number = isinstance(alpha, int | float) and not isinstance(alpha, bool)
    value = float(alpha) if is_number else None  # type: ignore[arg-type]
    yield judge_symbol(
        "length_penalty_alpha", value, expected["length_penalty_alpha"], path, generation.first_line
    )
    is_validation = generation.bleu_name == VALIDATION_BLEU
    for key, argument in arguments.items() if not is_validation else ():
        judgement = judge_argument("generate", key, argument, path, generation.first_line)
        if judgement is not None:
            yield judgement
    by_input, fixed = (arguments.get(key) for key in ("max_len_a", "max_len_b"))
    has_factor = isinstance(by_input, int | float) and by_input >= 1
    if isinstance(fixed, int | float) and not has_factor and fixed != 200:
        verdict: Verdict = "different"
        reason = "longer sentences are cut"
        if fixed >= MIN_LENGTH_LIMIT:
            verdict, reason = "harmless", "100 output tokens or more cut no sentence"
        yield judge(
            generation,
            "max_len_b",
            "search",
            verdict,
            found=f"{show(by_input) or 0} x source + {show(fixed)}",
            expected="source + 50",
            words="length limit",
            reason=reason,
            source="section 6.1",
        )
    if (number := len(models_of(generation.model_path))) > 1:
        yield judge(
            generation,
            "models",
            "search",
            "different",
            found=show(number),
            expected="1",
            words="models in an ensemble",
            fix="decode one (averaged) checkpoint",
        )


def _compare_average(
    generation: GenerationLog, language_pair: str, system: PaperSystem
) -> Iterator[Judgement]:
    expected = system.average_by_use.get(f"{generation.role or 'test'}_{language_pair}")
    average = generation.average
    if expected is None or generation.bleu_name == VALIDATION_BLEU:
        yield judge(
            generation,
            "average",
            "average",
            "equal",
            found=average,
            expected="any: none is printed",
            line=generation.bleu_line or generation.first_line,
        )
        return
    verdict: Verdict = "different"
    reason = ""
    if not generation.model_path:
        verdict = "not stated"
    elif average == expected and generation.is_by_name:
        verdict, reason = "harmless", BY_NAME
    elif average == expected:
        verdict = "equal"
    yield judge(
        generation,
        "average",
        "average",
        verdict,
        found=average,
        expected=expected,
        words="average of checkpoints",
        reason=reason,
        source="section 6.1",
        fix="scripts/average_checkpoints.py --num-update-checkpoints, and keep what it prints",
        value=num_averaged(average),
    )


BY_NAME = (
    "by name: only the name of the checkpoint's file says so, and no log of the averaging is there"
)


def _compare_scoring(
    generation: GenerationLog, language_pair: str, system: PaperSystem
) -> Iterator[Judgement]:
    """Yield judgements on the score: a BLEU in percent, counted on words, on all sentences of the
    test set.
    """
    value, line = generation.bleu, generation.bleu_line
    if value is None:
        return
    verdict: Verdict = "equal"
    reason = ""
    if not MIN_BLEU <= value <= MAX_BLEU and value != 0:
        verdict, reason = "contradictory", "such a BLEU is impossible here"
    yield judge(
        generation,
        "bleu",
        "scoring",
        verdict,
        line=line,
        found=f"{value:g}",
        expected="1 to 100, in percent",
        words="BLEU",
        reason=reason,
    )
    verdict, unit = "not stated", "words"
    fix = "run fairseq-generate with --remove-bpe (--post-process subword_nmt or sentencepiece)"
    if generation.has_piece_marks:
        verdict, unit = "different", "pieces"
    elif generation.bleu_name == "BLEU4" and generation.arguments.get("tokenizer") == "moses":
        # fairseq-generate undoes the tokens of both sides before it counts.
        verdict, unit, fix = "different", "plain text, not tokens", "omit --tokenizer"
    elif counts_words(generation):
        verdict = "equal"
    yield judge(
        generation,
        "unit",
        "scoring",
        verdict,
        line=line,
        found=unit,
        expected="words",
        words="BLEU counts",
        fix=fix,
    )
    languages = [generation.arguments.get(key) for key in ("source_lang", "target_lang")]
    expected = language_pair.split("-")
    if len(expected) == 2 and any(
        stated and stated != own for stated, own in zip(languages, expected, strict=True)
    ):
        yield judge(
            generation,
            "language_pair",
            "scoring",
            "different",
            found="-".join(str(language or "?") for language in languages),
            expected=language_pair,
            words="translated languages",
            fix="decode a test set of the training's own languages",
        )
    if system.has_papers_corpus and generation.bleu_name != VALIDATION_BLEU:
        yield from _compare_test_set(generation, language_pair)


def _compare_test_set(generation: GenerationLog, language_pair: str) -> Iterator[Judgement]:
    """Yield judgements on the size of newstest2014, or of newstest2013 for a dev set of En-De."""
    num_sentences_by_role = {"test": TEST_PAIRS}
    if language_pair != "en-fr":
        num_sentences_by_role["dev"] = DEV_PAIRS
    expected = num_sentences_by_role.get(generation.role)
    if expected is None:
        return
    scored = generation.num_sentences or generation.num_hypotheses or None
    is_filtered = scored == 2737 and language_pair == "en-de"
    yield judge(
        generation,
        "num_sentences",
        "scoring",
        verdict_of(scored, expected),
        line=generation.bleu_line,
        found=show(scored),
        expected=show(expected),
        words=f"sentences of `{generation.subset}`",
        value=scored,
        reason="the filtered newstest2014" if is_filtered else "",
        fix="decode the full set, newstest2014 (dev: newstest2013)",
    )
    low, high = REFERENCE_TOKENS.get(language_pair, (0, 10**9))
    num_tokens = generation.reference_length
    if num_tokens and not low <= num_tokens <= high:
        yield judge(
            generation,
            "reference_tokens",
            "scoring",
            "different",
            line=generation.bleu_line,
            found=show(num_tokens),
            expected=f"{show(low)} to {show(high)}",
            words="tokens of the references",
            reason="another test set, or other references",
        )


def counts_words(log: GenerationLog) -> bool:
    """Return whether the arguments or the printed hypotheses show that BLEU was counted on words.

    `--remove-bpe` or `--post-process` join pieces, for strings of sacreBLEU also `--bpe`. Printed
    hypotheses without any mark of pieces are words as well.
    """
    arguments = log.arguments
    is_joined = any(
        arguments.get(key) not in (None, False, "", "none")
        for key in ("remove_bpe", "post_process")
    )
    is_decoded = arguments.get("bpe") is not None and log.bleu_name not in ("", "BLEU4")
    return is_joined or is_decoded or log.num_hypotheses > 0
