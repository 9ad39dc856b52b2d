"""Compares a training with a system: its arguments at every start, and what its log prints of
model, data and rates.
"""

import json
import math
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from aiayn.cost import num_parameters
from aiayn.facts.symbols import (
    MAX_FIRST_RATE,
    MIN_POSITIONS,
    OURS_ONLY,
    SYMBOL_RULES,
    Group,
    Symbol,
    are_equal,
    is_ours,
    symbols_of_arguments,
)
from aiayn.logs.arguments import KNOWN_ARGUMENTS, KnownArgument
from aiayn.logs.evidence import (
    LAST_CHECKPOINT,
    LoggedTraining,
    dev_subset,
    diverged_after,
    file_of,
    final_validation,
    real_number,
    whole_number,
)
from aiayn.logs.types import Argument, TrainingLog
from paper_tables.compare.judgement import (
    Judgement,
    Verdict,
    judge,
    show,
    verdict_of,
)
from paper_tables.compare.systems import PaperSystem

# Section 5.1: "about 4.5 million sentence pairs" and "36M sentences"; "about 37000 tokens" and
# "32000".
TRAINING_PAIRS_BY_LANGUAGE_PAIR = {"en-de": 4_500_000, "en-fr": 36_000_000}
VOCABULARY_BY_LANGUAGE_PAIR = {"en-de": 37_000, "en-fr": 32_000}
PAIRS_TOLERANCE, SAME_TOLERANCE = 0.15, 0.01
HARMLESS_VOCABULARY = (
    32_000,
    45_000,
)  # joint: fairseq's own of En-De and En-Fr have 32,768 and 44,512
DEV_PAIRS = 3000  # newstest2013, Table 3's; the paper names no dev set of En-Fr
LEAST_FILLED, MOST_FILLED = (
    0.5,
    1.05,
)  # target tokens of a batch over its positions: sentences of WMT14 fill 0.8 to 0.96
PAPER_TOKENS_PER_UPDATE = 25_000.0  # section 5.1, of each language
MIN_BATCH_RATIO, MAX_BATCH_RATIO = 0.8, 1.4  # to the system's tokens: batches are never quite full
RATE_TOLERANCE = 0.05
MAX_WRONG_RATES = 0.05  # of the printed rates
PARAMETERS_TOLERANCE = 0.005
SIZES = ("num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v")
NO_GPUS = (
    "the log does not state the number of GPUs, without which a batch and its rate cannot be judged"
)
OTHER_BATCH = "another number of GPUs after a restart makes another batch"
OTHER_ARGUMENTS = (
    "another batch: --update-freq, the GPUs or --batch-size are other than the arguments say"
)
GROUP_BY_ROLE: dict[str, dict[str, Group]] = {
    "train": {"data": "pairs", "dev": "dev set", "rows": "pairs", "first-rate": "rate"},
    "generate": {"data": "scoring", "scoring": "scoring"},
}


def compare_training(
    training: LoggedTraining, system: PaperSystem, expected_tokens: float | None = None
) -> tuple[Judgement, ...]:
    """Return the judgement on each quantity of a training; the first judgement on a quantity that
    differs counts.

    `expected_tokens` are the target tokens that the system's batches hold, if a data-bin tells;
    those of the paper's scale are 25,000 (section 5.1).
    """
    if system.has_papers_corpus and expected_tokens is None:
        expected_tokens = PAPER_TOKENS_PER_UPDATE
    found = [
        *_compare_symbols(training, system),
        *_compare_starts(training, system),
        *_compare_beginning(training),
        *_compare_gpus(training),
        *_compare_tokens(training, system, expected_tokens),
        *_compare_printed_rates(training),
        *_compare_parameters(training, system),
        *_compare_divergence(training),
        *(_compare_corpus(training) if system.has_papers_corpus else _assumed_corpus(training)),
    ]
    first_by_quantity: dict[str, Judgement] = {}
    for judgement in found:
        known = first_by_quantity.get(judgement.quantity)
        if known is None or (known.is_good and not judgement.is_good):
            first_by_quantity[judgement.quantity] = judgement
    asked = first_by_quantity.get("tokens_per_update")
    if asked is not None and not asked.is_good:
        first_by_quantity.pop("wpb", None)  # one difference, by its cause
    return tuple(first_by_quantity.values())


def judge_symbol(
    symbol: str, value: Symbol | None, expected: Symbol, path: str, line: int | None
) -> Judgement:
    """Return the judgement on one of the paper's symbols, by its row in symbols.csv."""
    rule = SYMBOL_RULES[symbol]
    verdict: Verdict = "different"
    reason, source = "", rule.source
    fix = rule.flags.format(show(expected).replace(",", ""))
    if value is None:
        verdict = "not stated"
    elif are_equal(value, expected, rule.tolerance):
        verdict, source, fix = "equal", "", ""
    elif are_equal(value, expected, rule.harmless_tolerance) or value in json.loads(rule.harmless):
        verdict, fix = "harmless", ""
        reason, source = rule.harmless_reason, rule.harmless_source
    number, own = real_number(value), real_number(expected)
    return Judgement(
        quantity=symbol,
        group=rule.group,
        verdict=verdict,
        found=show(value),
        expected=show(expected),
        path=path,
        line=line,
        words=rule.words,
        reason=reason,
        source=source,
        value=value,
        fix=fix,
        ratio=number / own if number is not None and own else None,
    )


def _compare_symbols(training: LoggedTraining, system: PaperSystem) -> Iterator[Judgement]:
    """Yield the judgements on the symbols of the last start; batch, rate and updates need the
    number of GPUs.
    """
    log, path = training.log, file_of(training)
    symbols = dict(training.symbols)
    if log.last_update:  # --max-epoch or --patience may end before --max-update
        symbols["updates"] = log.last_update
    has_gpus = _num_gpus(training) is not None
    for symbol, expected in system.symbols.items():
        if symbol in OURS_ONLY and (symbol not in symbols or not is_ours(log.arguments)):
            # fairseq's own models have no choice of these, also where this project trains them
            continue
        if has_gpus or SYMBOL_RULES[symbol].group not in ("batch", "rate", "updates"):
            yield judge_symbol(symbol, symbols.get(symbol), expected, path, log.first_line)
        else:
            judgement = judge_symbol(symbol, None, expected, path, log.first_line)
            yield msgspec.structs.replace(judgement, reason=NO_GPUS, source="", fix="")


def _num_gpus(training: LoggedTraining) -> int | None:
    stated = whole_number(training.log.arguments.get("distributed_world_size"))
    return stated if training.log.num_gpus is None else training.log.num_gpus


def _compare_starts(training: LoggedTraining, system: PaperSystem) -> Iterator[Judgement]:
    """Yield what the arguments of any start change: other symbols than the system's, and arguments
    of other roles.
    """
    starts = [start for start in training.log.starts if start.arguments]
    path, is_known_model = file_of(training), training.symbols.get("architecture") == "transformer"
    for start in starts:
        if start is not starts[-1]:
            symbols = symbols_of_arguments(start.arguments, start.num_gpus)
            for symbol, expected in system.symbols.items():
                value = symbols.get(symbol)
                if value is not None and symbol != "updates" and symbol not in OURS_ONLY:
                    yield judge_symbol(symbol, value, expected, path, start.line)
        for judgement in judge_arguments("train", start.arguments, path, start.line):
            if is_known_model or judgement.reason != FORK:
                yield judgement
    folders = {posixpath.normpath(str(start.arguments.get("data"))): start.line for start in starts}
    if len(folders) > 1:
        names, line = " then ".join(folders), max(folders.values())
        yield judge(training, "data", "different", names, line=line)


FORK = (
    "no fairseq from 0.6 to 0.12 has this argument: it belongs to changed code, whose effect is not"
    " known"
)


def judge_arguments(
    program: str, arguments: Mapping[str, Argument], path: str, line: int
) -> Iterator[Judgement]:
    """Yield a judgement on each argument that arguments.csv compares and whose value is not
    allowed; symbols are judged apart.
    """
    default: Group = "model" if program == "train" else "search"
    for key, value in arguments.items():
        known = KNOWN_ARGUMENTS[program].get(key)
        if known is None:
            group, reason, fix = default, FORK, ""
            expected, is_good = "absent", value is None and program == "train"
        else:
            group = GROUP_BY_ROLE[program].get(known.role, default)
            reason, fix = known.reason, "leave it out"
            expected, is_good = _compare_allowed(known, value)
        if not is_good:
            yield Judgement(
                quantity=key,
                group=group,
                verdict="different",
                found=show(value),
                expected=expected,
                path=path,
                line=line,
                reason=reason,
                fix=fix,
                value=value,
            )


def _compare_allowed(known: KnownArgument, value: Argument) -> tuple[str, bool]:
    """Return the allowed values of an argument in words, and whether its value is allowed."""
    if known.role == "rows":
        number = whole_number(value)
        return f"{MIN_POSITIONS} or more", number is None or number >= MIN_POSITIONS
    if known.role == "first-rate":
        is_good = (real_number(value) or 0.0) <= MAX_FIRST_RATE
        return f"at most {MAX_FIRST_RATE:g}", is_good
    if known.allowed_values is None:
        return "", True
    return show(known.allowed_values[0]) or "none", value in known.allowed_values


def _compare_beginning(training: LoggedTraining) -> Iterator[Judgement]:
    """Yield a judgement on a start that took its weights from another training.

    A checkpoint belongs to this training if its optimizer was kept, and if it is in the folder
    where this training saves, in a folder of that name (the folder was moved), or if the start
    before it had reached its update.
    """
    log, reached = training.log, 0
    is_reset = log.arguments.get("reset_optimizer") is True
    home = posixpath.basename(
        posixpath.normpath(str(log.arguments.get("save_dir") or "checkpoints"))
    )
    for start in log.starts:
        path = start.loaded_path
        if (
            start.resumed_update is None and is_reset
        ):  # its lines are not there: the argument counts
            path = str(log.arguments.get("restore_file") or "")
            path = "" if path == LAST_CHECKPOINT else path
        folder = posixpath.basename(posixpath.dirname(path))
        is_own = folder == home or 0 < (start.resumed_update or 0) <= reached
        is_new = is_reset or not start.resumed_update
        if path and (is_new or not is_own):
            reason = f"{path}, update {show(start.resumed_update) or 'unknown'}, " + (
                "with a new optimizer"
                if is_new
                else "which is not known to belong to this training"
            )
            name = posixpath.basename(path)
            yield judge(training, "beginning", "different", name, line=start.line, reason=reason)
            return
        reached = max(reached, start.last_update)


def _compare_gpus(training: LoggedTraining) -> Iterator[Judgement]:
    log, number = training.log, _num_gpus(training)
    stated, printed = whole_number(log.arguments.get("distributed_world_size")), log.num_gpus
    by_start = {start.num_gpus: start.line for start in log.starts if start.num_gpus is not None}
    if number is None:
        yield judge(training, "num_gpus", "not stated", "")
    elif len(by_start) > 1:
        found, line = " then ".join(map(show, by_start)), max(by_start.values())
        yield judge(training, "num_gpus", "different", found, line=line, reason=OTHER_BATCH)
    elif stated and printed and stated != printed:
        yield judge(training, "num_gpus", "contradictory", f"{stated} and {printed}")
    else:
        yield judge(training, "num_gpus", "equal", show(number))


def tokens_per_update(log: TrainingLog) -> tuple[int | None, float]:
    """Return the last line that states the target tokens of an update (fairseq's wpb), and their
    mean; 0 without any.

    The mean is over all updates: the last epoch may be a few updates only.
    """
    ends = [epoch for epoch in log.epochs if epoch.target_tokens_per_update]
    if not ends:
        return None, 0.0
    previous, total, num_updates = log.first_update, 0.0, 0
    for end in ends:
        total += (end.target_tokens_per_update or 0.0) * max(1, end.update - previous)
        num_updates += max(1, end.update - previous)
        previous = end.update
    return ends[-1].line, total / num_updates


def _compare_tokens(
    training: LoggedTraining, system: PaperSystem, expected_tokens: float | None
) -> Iterator[Judgement]:
    """Yield the judgement on the printed target tokens of an update, by the positions asked for and
    the system's.
    """
    line, tokens = tokens_per_update(training.log)
    asked = training.symbols.get("tokens_per_update", system.symbols.get("tokens_per_update"))
    if not tokens or not isinstance(asked, int | float) or not asked:
        return
    ratio = tokens / (expected_tokens or float(system.symbols.get("tokens_per_update", asked)))
    found, expected = show(round(tokens)), f"about {show(round(expected_tokens or 0))}"
    fields = {"line": line, "expected": expected, "ratio": ratio}
    if not LEAST_FILLED <= tokens / asked <= MOST_FILLED:
        fields |= {"expected": f"{show(asked)} positions", "reason": OTHER_ARGUMENTS}
        yield judge(training, "wpb", "contradictory", found, **fields)
    elif expected_tokens is not None and not MIN_BATCH_RATIO <= ratio <= MAX_BATCH_RATIO:
        yield judge(training, "wpb", "different", found, **fields)
    else:
        yield judge(training, "wpb", "equal", found, **fields)


def _compare_printed_rates(training: LoggedTraining) -> Iterator[Judgement]:
    """Yield a contradiction between the printed learning rates and the schedule of the
    arguments.
    """
    symbols, log = training.symbols, training.log
    peak = real_number(symbols.get("peak_learning_rate")) or 0.0
    warmup = whole_number(symbols.get("warmup_steps"))
    if symbols.get("schedule") != "inverse_sqrt" or warmup is None or peak <= 0:
        return
    first = max(0.0, real_number(log.arguments.get("warmup_init_lr")) or 0.0)
    off = []
    for rate in log.rates:
        if rate.update:
            # fairseq's versions print the rate of this update or of the next update.
            updates = (rate.update, rate.update + 1)
            ratios = [rate.rate / _rate(peak, warmup, first, update) for update in updates]
            off.append((rate, min(ratios, key=lambda ratio: abs(ratio - 1))))
    wrong = [(rate, ratio) for rate, ratio in off if abs(ratio - 1) > RATE_TOLERANCE]
    if len(wrong) > MAX_WRONG_RATES * len(off):
        worst, ratio = max(wrong, key=lambda pair: abs(pair[1] - 1))
        expected = _rate(peak, warmup, first, worst.update)
        yield judge(
            training,
            "printed_rates",
            "contradictory",
            f"{worst.rate:.4g}",
            expected=f"{expected:.4g}",
            line=worst.line,
            words=f"learning rate printed at update {worst.update:,}",
            ratio=ratio,
            reason=f"{len(wrong)} of {len(off)} printed rates are not those of the arguments",
        )


def _rate(peak: float, warmup: int, first: float, update: int) -> float:
    if update < warmup:
        return first + (peak - first) * update / warmup
    return peak * math.sqrt(max(warmup, 1) / update)


def _compare_parameters(training: LoggedTraining, system: PaperSystem) -> Iterator[Judgement]:
    """Yield a contradiction between the printed number of parameters and that of the arguments and
    dictionaries.
    """
    log = training.log
    if is_ours(log.arguments) or log.num_parameters is None:
        return
    expected = count_parameters(training.symbols, log.vocabulary_sizes, system)
    if expected and not are_equal(log.num_parameters, expected, PARAMETERS_TOLERANCE):
        counted = f"{show(expected)}, by its arguments and dictionaries"
        found = show(log.num_parameters)
        yield judge(training, "num_parameters", "contradictory", found, expected=counted)


def count_parameters(
    symbols: Mapping[str, Symbol], vocabulary_sizes: tuple[int, ...], system: PaperSystem
) -> int | None:
    """Return the parameters of fairseq's transformer; None if its sizes are not known."""
    sizes: dict[str, Any] = {name: whole_number(symbols.get(name)) for name in SIZES}
    is_known = symbols.get("architecture") == "transformer" and None not in sizes.values()
    if not is_known or len(vocabulary_sizes) < 2:
        return None
    source, target = vocabulary_sizes[:2]
    tied = symbols.get("tied_embeddings")
    sizes |= {name: symbols.get(name) for name in ("norm_order", "positions")}
    training = msgspec.structs.replace(
        system.training,
        architecture="fairseq_transformer",
        attention="scaled",
        attention_biases=True,
        tied_embeddings=bool(tied),
        **sizes,
    )
    return num_parameters(training, source, tied is True, target)


def _compare_divergence(training: LoggedTraining) -> Iterator[Judgement]:
    update, last = diverged_after(training.log), final_validation(training.log)
    if last is not None and last.nll_bits is not None and last.nll_bits < 0:
        found = show(last.nll_bits)
        yield judge(training, "nll_loss", "contradictory", found, line=last.line)
    elif update is not None:
        line = training.log.validations[-1].line
        yield judge(training, "diverged", "different", f"after update {update:,}", line=line)


def _assumed_corpus(training: LoggedTraining) -> Iterator[Judgement]:
    """Yield the corpus of a smaller scale as equal: its data-bin has a record, whose digest names
    the run.
    """
    for quantity in ("train_pairs", "dictionaries", "dev_pairs"):
        yield judge(training, quantity, "equal", "by its record", expected="the scale's")


def _compare_corpus(training: LoggedTraining) -> Iterator[Judgement]:
    """Yield judgements on pairs, dictionaries and dev set. That the text is WMT14's no log can
    prove.
    """
    pair, log = training.language_pair, training.log
    yield _pairs(training, TRAINING_PAIRS_BY_LANGUAGE_PAIR.get(pair, 0))
    yield _dictionaries(training, VOCABULARY_BY_LANGUAGE_PAIR.get(pair, 0))
    subset = dev_subset(log)
    dev = log.num_pairs_by_split.get(subset)
    verdict: Verdict = "equal"
    expected = "any: the paper names none"
    if pair == "en-de":
        verdict, expected = verdict_of(dev, DEV_PAIRS), f"{show(DEV_PAIRS)}, newstest2013"
    words = f"pairs of `{subset}`"
    yield judge(
        training, "dev_pairs", verdict, show(dev), expected=expected, words=words, value=dev
    )


def _pairs(training: LoggedTraining, expected: int) -> Judgement:
    splits = training.log.num_pairs_by_split
    folders = str(training.log.arguments.get("data") or "").replace(":\\", "").split(":")
    verdict: Verdict = "different"
    parts = [split for split in splits if split.rstrip("0123456789") == "train"]
    reason = f"{', '.join(parts)} are read as one corpus" if len(parts) > 1 else ""
    number = sum(splits[split] for split in parts) or None
    if number is None:
        verdict = "not stated"
    elif len(folders) > 1:
        reason = f"{len(folders)} data folders, of which each epoch reads another"
    elif are_equal(number, expected, SAME_TOLERANCE):
        verdict = "equal"
    elif are_equal(number, expected, PAIRS_TOLERANCE):
        verdict, reason = (
            "harmless",
            "within 15 %: others' copies of WMT14 have 3.9 to 4.6 million pairs",
        )
    return judge(
        training,
        "train_pairs",
        verdict,
        show(number),
        expected=f"about {show(expected)}",
        reason=reason,
        value=number,
        ratio=number / expected if number and expected else None,
    )


def _dictionaries(training: LoggedTraining, expected: int) -> Judgement:
    sizes = training.log.vocabulary_sizes[:2]
    verdict: Verdict = "different"
    reason, low, high = "", *HARMLESS_VOCABULARY
    if len(sizes) < 2:
        verdict = "not stated"
    elif len(set(sizes)) > 1:
        reason = "two dictionaries in place of a joint one"
    elif are_equal(sizes[0], expected, SAME_TOLERANCE):
        verdict = "equal"
    elif low <= sizes[0] <= high:
        verdict, reason = (
            "harmless",
            "a joint dictionary of 32,000 to 45,000 types reached the paper's numbers",
        )
    return judge(
        training,
        "dictionaries",
        verdict,
        " and ".join(show(size) for size in dict.fromkeys(sizes)),
        expected=f"about {show(expected)}, joint",
        reason=reason,
        value=max(sizes, default=None),
    )
