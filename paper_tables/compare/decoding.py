"""Compares a scored translation with a system: search, average of checkpoints, and what the score
was counted on.
"""

from collections.abc import Iterator

from aiayn.logs.evidence import VALIDATION_BLEU, file_of, models_of, real_number, whole_number
from aiayn.logs.types import GenerationLog
from aiayn.paths import num_averaged
from paper_tables.compare.judgement import Judgement, Verdict, judge, show, verdict_of
from paper_tables.compare.systems import PaperSystem
from paper_tables.compare.training import DEV_PAIRS, judge_arguments, judge_symbol

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
    arguments, path, first_line = generation.arguments, file_of(generation), generation.first_line
    stated, alpha = whole_number(arguments.get("beam")), real_number(arguments.get("lenpen"))
    printed, line = generation.beam_size or stated, generation.bleu_line or None
    yield judge_symbol("beam_size", printed, system.decoding["beam_size"], path, line)
    if stated is not None and printed != stated:
        yield judge(generation, "beam", "contradictory", f"{stated} and {printed}", line=line)
    expected_alpha = system.decoding["length_penalty_alpha"]
    yield judge_symbol("length_penalty_alpha", alpha, expected_alpha, path, first_line)
    if generation.bleu_name != VALIDATION_BLEU:
        yield from judge_arguments("generate", arguments, path, first_line)
    by_input, fixed = (real_number(arguments.get(key)) for key in ("max_len_a", "max_len_b"))
    if fixed not in (None, 200) and (by_input or 0) < 1:
        found = f"{by_input or 0:g} x source + {fixed:g}"
        if fixed >= MIN_LENGTH_LIMIT:
            yield judge(generation, "max_len_b", "harmless", found, reason=LONG_ENOUGH)
        else:
            yield judge(generation, "max_len_b", "different", found)
    if (number := len(models_of(generation.model_path))) > 1:
        yield judge(generation, "models", "different", show(number))


def _compare_average(
    generation: GenerationLog, language_pair: str, system: PaperSystem
) -> Iterator[Judgement]:
    expected = system.average_by_use.get(f"{generation.role or 'test'}_{language_pair}")
    average, line = generation.average, generation.first_line
    verdict: Verdict = "different"
    reason = ""
    if expected is None or generation.bleu_name == VALIDATION_BLEU:
        verdict, expected, line = "equal", "any: none is printed", generation.bleu_line or line
    elif not generation.model_path:
        verdict = "not stated"
    elif average == expected:
        verdict = "harmless" if generation.is_by_name else "equal"
        reason = BY_NAME if generation.is_by_name else ""
    fields = {"expected": expected, "reason": reason, "value": num_averaged(average)}
    yield judge(generation, "average", verdict, average, line=line, **fields)


LONG_ENOUGH = "100 output tokens or more cut no sentence"
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
    is_possible = MIN_BLEU <= value <= MAX_BLEU or value == 0
    verdict: Verdict = "equal" if is_possible else "contradictory"
    yield judge(generation, "bleu", verdict, f"{value:g}", line=line)
    is_as_given = generation.bleu_name == "BLEU4"
    if generation.has_piece_marks:
        yield judge(generation, "unit", "different", "pieces", line=line)
    elif is_as_given and generation.arguments.get("tokenizer") == "moses":
        # fairseq-generate undoes the tokens of both sides before it counts.
        found, fix = "plain text, not tokens", "omit --tokenizer"
        yield judge(generation, "unit", "different", found, line=line, fix=fix)
    else:
        verdict = "equal" if counts_words(generation) else "not stated"
        yield judge(generation, "unit", verdict, "words", line=line)
    languages = [generation.arguments.get(key) for key in ("source_lang", "target_lang")]
    expected = language_pair.split("-")
    if len(expected) == 2 and any(
        stated and stated != own for stated, own in zip(languages, expected, strict=True)
    ):
        found = "-".join(str(language or "?") for language in languages)
        yield judge(generation, "language_pair", "different", found, expected=language_pair)
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
    line = generation.bleu_line
    scored = generation.num_sentences or generation.num_hypotheses or None
    is_filtered = scored == 2737 and language_pair == "en-de"
    yield judge(
        generation,
        "num_sentences",
        verdict_of(scored, expected),
        show(scored),
        line=line,
        expected=show(expected),
        words=f"sentences of `{generation.subset}`",
        value=scored,
        reason="the filtered newstest2014" if is_filtered else "",
    )
    low, high = REFERENCE_TOKENS.get(language_pair, (0, 10**9))
    number = generation.reference_length
    if number and not low <= number <= high:
        bounds = f"{show(low)} to {show(high)}"
        yield judge(
            generation, "reference_tokens", "different", show(number), line=line, expected=bounds
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
