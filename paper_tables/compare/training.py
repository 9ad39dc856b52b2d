"""Compares a training with a system: its arguments at every start, and what its log prints of
model, data and rates.
"""

import math
import posixpath
from collections.abc import Iterator, Mapping

from aiayn.logs.arguments import KNOWN_ARGUMENTS, KnownArgument
from aiayn.logs.evidence import (
    LAST_CHECKPOINT,
    LoggedTraining,
    dev_subset,
    diverged_after,
    file_of,
    final_validation,
    whole_number,
)
from aiayn.logs.symbols import (
    MAX_FIRST_RATE,
    MIN_POSITIONS,
    OURS_ONLY,
    SYMBOL_RULES,
    Symbol,
    are_equal,
    is_ours,
    symbols_of_arguments,
)
from aiayn.logs.types import Argument, Start, TrainingLog
from paper_tables.compare.judgement import (
    Group,
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
SCALING_NMT = "fairseq, examples/scaling_nmt/README.md"
GROUP_BY_CHECK: dict[str, Group] = {
    "schedule": "rate",
    "updates": "updates",
    "batch": "batch",
    "precision": "model",
    "search": "search",
    "average": "average",
}
GROUP_BY_ROLE: dict[str, Group] = {
    "data": "pairs",
    "dev": "dev set",
    "rows": "pairs",
    "first-rate": "rate",
}
# Symbols with values that published runs show to be harmless: the values, why, and the source.
HARMLESS_VALUES: dict[str, tuple[tuple[Symbol, ...], str, str]] = {
    "adam_epsilon": ((1e-8,), "29.29 and 43.2 were reached with it", SCALING_NMT),
    "precision": (
        ("fp32", "fp16", "bf16", "amp", "tf32"),
        "29.29 and 43.2 were reached with fp16",
        SCALING_NMT,
    ),
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
        *_compare_parameters(training),
        *_compare_divergence(training),
        *(_compare_corpus(training) if system.has_papers_corpus else _assumed_corpus(training)),
    ]
    first_by_quantity: dict[str, Judgement] = {}
    for judgement in found:
        known = first_by_quantity.get(judgement.quantity)
        if known is None or (known.is_good and not judgement.is_good):
            first_by_quantity[judgement.quantity] = judgement
    if (
        "tokens_per_update" in first_by_quantity
        and not first_by_quantity["tokens_per_update"].is_good
    ):
        first_by_quantity.pop("wpb", None)  # one difference, by its cause
    return tuple(first_by_quantity.values())


def judge_symbol(
    symbol: str, value: Symbol | None, expected: Symbol, path: str, line: int | None
) -> Judgement:
    """Return the judgement on one of the paper's symbols, by the rule of symbols.csv and the
    harmless values.
    """
    rule = SYMBOL_RULES[symbol]
    verdict: Verdict = "different"
    reason, source = "", rule.source
    if value is None:
        verdict = "not stated"
    elif are_equal(value, expected, rule.tolerance):
        verdict, source = "equal", ""
    elif symbol == "peak_learning_rate" and are_equal(value, expected, RATE_TOLERANCE):
        verdict, reason = "harmless", "within 5 % of the schedule's peak"
    elif symbol in HARMLESS_VALUES and value in HARMLESS_VALUES[symbol][0]:
        verdict, (_, reason, source) = "harmless", HARMLESS_VALUES[symbol]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    has_ratio = is_number and isinstance(expected, int | float) and bool(expected)
    ratio = value / expected if has_ratio else None  # type: ignore[operator]
    flags = rule.flags.format(show(expected).replace(",", ""))
    return Judgement(
        quantity=symbol,
        group=GROUP_BY_CHECK.get(rule.check, "model"),
        verdict=verdict,
        found=show(value),
        expected=show(expected),
        path=path,
        line=line,
        words=rule.words,
        reason=reason,
        source=source,
        value=value,
        fix="" if verdict in ("equal", "harmless") else flags,
        ratio=ratio,
    )


def _compare_symbols(training: LoggedTraining, system: PaperSystem) -> Iterator[Judgement]:
    """Yield the judgements on the symbols of the last start; batch, rate and updates need the
    number of GPUs.
    """
    log, path = training.log, file_of(training)
    symbols = dict(training.symbols)
    if log.last_update:  # --max-epoch or --patience may end before --max-update
        symbols["updates"] = log.last_update
    for symbol, expected in system.symbols.items():
        if symbol in OURS_ONLY and (symbol not in symbols or not is_ours(log.arguments)):
            # fairseq's own models have no choice of these, also where this project trains them
            continue
        value = symbols.get(symbol)
        is_unknown = symbol == "updates" and value == 0  # fairseq's default: no limit
        judgement = judge_symbol(
            symbol, None if is_unknown else value, expected, path, log.first_line
        )
        if judgement.group in ("batch", "rate", "updates") and _num_gpus(training) is None:
            reason = (
                "the log does not state the number of GPUs, without which a batch and its rate"
                " cannot be judged"
            )
            judgement = judge(
                training,
                symbol,
                judgement.group,
                "not stated",
                found="",
                expected=show(expected),
                words=judgement.words,
                reason=reason,
            )
        yield judgement


def _num_gpus(training: LoggedTraining) -> int | None:
    stated = whole_number(training.log.arguments.get("distributed_world_size"))
    return stated if training.log.num_gpus is None else training.log.num_gpus


def _compare_starts(training: LoggedTraining, system: PaperSystem) -> Iterator[Judgement]:
    """Yield what the arguments of any start change: other symbols than the system's, and arguments
    of other roles.
    """
    starts = [start for start in training.log.starts if start.arguments]
    for start in starts:
        if start is not starts[-1]:
            symbols = symbols_of_arguments(start.arguments, start.num_gpus)
            for symbol, expected in system.symbols.items():
                value = symbols.get(symbol)
                if value is not None and symbol != "updates" and symbol not in OURS_ONLY:
                    yield judge_symbol(symbol, value, expected, file_of(training), start.line)
        yield from _compare_arguments(training, start)
    folders = {posixpath.normpath(str(start.arguments.get("data"))): start.line for start in starts}
    if len(folders) > 1:
        names, line = " then ".join(folders), max(folders.values())
        yield judge(
            training,
            "data",
            "pairs",
            "different",
            found=names,
            expected="one data-bin",
            line=line,
            words="data folder",
            reason="a start of the training read another data-bin",
        )


def _compare_arguments(training: LoggedTraining, start: Start) -> Iterator[Judgement]:
    """Yield a judgement on each argument of a start that is neither one of the symbols nor harmless
    with any value.
    """
    is_known_model = training.symbols.get("architecture") == "transformer"
    for key, value in start.arguments.items():
        if value is None and key not in KNOWN_ARGUMENTS["train"]:
            continue
        judgement = judge_argument("train", key, value, file_of(training), start.line)
        is_of_other_model = (
            judgement is not None and judgement.reason == FORK and not is_known_model
        )
        if judgement is not None and not is_of_other_model:
            yield judgement


FORK = (
    "no fairseq from 0.6 to 0.12 has this argument: it belongs to changed code, whose effect is not"
    " known"
)


def judge_argument(
    program: str, key: str, value: Argument, path: str, line: int
) -> Judgement | None:
    """Return the judgement on an argument that arguments.csv compares; None for symbols and for
    harmless arguments.
    """
    known = KNOWN_ARGUMENTS[program].get(key)
    group: Group = "model" if program == "train" else "search"
    reason, fix = FORK, ""
    expected, is_good = "absent", False
    if known is not None:
        reason, fix = known.reason, "leave it out"
        if program == "train":
            group = GROUP_BY_ROLE.get(known.role, group)
        elif known.role in ("scoring", "data"):
            group = "scoring"
        expected, is_good = _compare_allowed(known, value)
    if is_good:
        return None
    return Judgement(
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
        is_good = not isinstance(value, int | float) or value <= MAX_FIRST_RATE
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
        if path and (is_reset or not start.resumed_update or not is_own):
            is_new = is_reset or not start.resumed_update
            yield judge(
                training,
                "beginning",
                "model",
                "different",
                found=posixpath.basename(path),
                expected="nothing",
                line=start.line,
                words="began from the weights of",
                fix="train from nothing; or put the log of what came before above it, in one file",
                reason=f"{path}, update {show(start.resumed_update) or 'unknown'}"
                + (
                    ", with a new optimizer"
                    if is_new
                    else ", which is not known to belong to this training"
                ),
            )
            return
        reached = max(reached, start.last_update)


def _compare_gpus(training: LoggedTraining) -> Iterator[Judgement]:
    log = training.log
    stated, printed = whole_number(log.arguments.get("distributed_world_size")), log.num_gpus
    number = _num_gpus(training)
    by_start = {start.num_gpus: start.line for start in log.starts if start.num_gpus is not None}
    verdict: Verdict = "equal"
    found, reason, line = show(number), "", log.first_line
    if number is None:
        verdict = "not stated"
    elif len(by_start) > 1:
        verdict, found, line = (
            "different",
            " then ".join(map(show, by_start)),
            max(by_start.values()),
        )
        reason = "another number of GPUs after a restart makes another batch"
    elif stated and printed and stated != printed:
        verdict, found = "contradictory", f"{stated} and {printed}"
        reason = "distributed_world_size, and the line `training on ... GPUs`"
    yield judge(
        training,
        "num_gpus",
        "GPUs",
        verdict,
        found=found,
        expected="stated, and one number",
        line=line,
        words="GPUs",
        reason=reason,
    )


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
    verdict: Verdict = "equal"
    expected, reason = f"about {show(round(expected_tokens or 0))}", ""
    if not LEAST_FILLED <= tokens / asked <= MOST_FILLED:
        verdict, expected = "contradictory", f"{show(asked)} positions"
        reason = (
            "another batch: --update-freq, the GPUs or --batch-size are other than the"
            " arguments say"
        )
    elif expected_tokens is not None and not MIN_BATCH_RATIO <= ratio <= MAX_BATCH_RATIO:
        verdict = "different"
    yield judge(
        training,
        "wpb",
        "batch",
        verdict,
        found=show(round(tokens)),
        expected=expected,
        line=line,
        words="target tokens an update, printed,",
        reason=reason,
        ratio=ratio,
    )


def _compare_printed_rates(training: LoggedTraining) -> Iterator[Judgement]:
    """Yield a contradiction between the printed learning rates and the schedule of the
    arguments.
    """
    peak, warmup = training.symbols.get("peak_learning_rate"), training.symbols.get("warmup_steps")
    rates, schedule = training.log.rates, training.symbols.get("schedule")
    if (
        schedule != "inverse_sqrt"
        or not isinstance(peak, float)
        or not isinstance(warmup, int)
        or not rates
    ):
        return
    initial = training.log.arguments.get("warmup_init_lr")
    first = float(initial) if isinstance(initial, int | float) and initial > 0 else 0.0
    off = []
    for rate in rates:
        if not rate.update or _rate(peak, warmup, first, rate.update) <= 0:
            continue
        # fairseq's versions print the rate of this update or of the next update.
        ratios = (
            rate.rate / _rate(peak, warmup, first, rate.update),
            rate.rate / _rate(peak, warmup, first, rate.update + 1),
        )
        off.append((rate, min(ratios, key=lambda ratio: abs(ratio - 1))))
    wrong = [(rate, ratio) for rate, ratio in off if abs(ratio - 1) > RATE_TOLERANCE]
    if len(wrong) > MAX_WRONG_RATES * len(off):
        worst, ratio = max(wrong, key=lambda pair: abs(pair[1] - 1))
        expected = _rate(peak, warmup, first, worst.update)
        yield judge(
            training,
            "printed_rates",
            "rate",
            "contradictory",
            found=f"{worst.rate:.4g}",
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


def _compare_parameters(training: LoggedTraining) -> Iterator[Judgement]:
    """Yield a contradiction between the printed number of parameters and that of the arguments and
    dictionaries.
    """
    log = training.log
    expected = (
        None if is_ours(log.arguments) else count_parameters(training.symbols, log.vocabulary_sizes)
    )
    if expected is None or log.num_parameters is None:
        return
    if not are_equal(log.num_parameters, expected, PARAMETERS_TOLERANCE):
        yield judge(
            training,
            "num_parameters",
            "model",
            "contradictory",
            found=show(log.num_parameters),
            expected=f"{show(expected)}, by its arguments and dictionaries",
            words="parameters",
            reason="the code or the dictionaries are other than the log says",
        )


def count_parameters(
    symbols: Mapping[str, Symbol], vocabulary_sizes: tuple[int, ...]
) -> int | None:
    """Return the parameters of fairseq's transformer; None if its sizes are not known."""
    sizes = [symbols.get(name) for name in ("num_layers", "d_model", "d_ff")]
    if symbols.get("architecture") != "transformer" or not all(
        isinstance(size, int) for size in sizes
    ):
        return None
    if len(vocabulary_sizes) < 2:
        return None
    num_layers, d_model, d_ff = (int(size) for size in sizes if size is not None)
    source, target = vocabulary_sizes[:2]
    attention, norm = 4 * d_model * (d_model + 1), 2 * d_model
    ffn = 2 * d_model * d_ff + d_ff + d_model
    layers = num_layers * (3 * attention + 2 * ffn + 5 * norm)
    tied = symbols.get("tied_embeddings")
    if tied is True:
        rows = source
    elif tied == "of the decoder":
        rows = source + target
    else:
        rows = source + 2 * target
    final_norms = 2 * norm if symbols.get("norm_order") == "pre" else 0
    learned = 2 * 1026 * d_model if symbols.get("positions") == "learned" else 0
    return layers + rows * d_model + final_norms + learned


def _compare_divergence(training: LoggedTraining) -> Iterator[Judgement]:
    update, last = diverged_after(training.log), final_validation(training.log)
    if last is not None and last.nll_bits is not None and last.nll_bits < 0:
        yield judge(
            training,
            "nll_loss",
            "dev set",
            "contradictory",
            found=show(last.nll_bits),
            expected="0 or more",
            line=last.line,
            words="the last nll_loss",
            reason="no loss of this kind is negative",
        )
    elif update is not None:
        yield judge(
            training,
            "diverged",
            "model",
            "different",
            found=f"after update {update:,}",
            expected="a finite loss",
            line=training.log.validations[-1].line,
            fix="find where the loss stops being a number; resume before it with a lower rate",
        )


def _assumed_corpus(training: LoggedTraining) -> Iterator[Judgement]:
    """Yield the corpus of a smaller scale as equal: its data-bin has a record, whose digest names
    the run.
    """
    groups: dict[str, Group] = {
        "train_pairs": "pairs",
        "dictionaries": "dictionaries",
        "dev_pairs": "dev set",
    }
    for quantity, group in groups.items():
        yield judge(
            training,
            quantity,
            group,
            "equal",
            found="by its record",
            expected="the scale's",
        )


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
    yield judge(
        training,
        "dev_pairs",
        "dev set",
        verdict,
        found=show(dev),
        expected=expected,
        words=f"pairs of `{subset}`",
        value=dev,
        fix="binarize newstest2013 as --validpref; fairseq's own script splits its dev set off"
        " the training text",
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
        "pairs",
        verdict,
        found=show(number),
        expected=f"about {show(expected)}",
        words="training pairs",
        reason=reason,
        source="section 5.1",
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
    found = " and ".join(show(size) for size in dict.fromkeys(sizes))
    return judge(
        training,
        "dictionaries",
        "dictionaries",
        verdict,
        found=found,
        expected=f"about {show(expected)}, joint",
        words="types of the dictionary",
        reason=reason,
        source="section 5.1",
        value=max(sizes, default=None),
    )
