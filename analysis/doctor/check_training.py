"""Checks of the training, from its log: batch, schedule, model, regularisation, updates."""

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np

from aiayn.cost import target_tokens_per_full_update
from aiayn.logs.evidence import dev_subset
from aiayn.printed import PUBLISHED_FOLDER, Text, read_rows
from aiayn.schedule import learning_rate
from aiayn.spec.system import TrainingSpec
from analysis.conclusions.contrasts import UNIFORM_BITS, UNIFORM_ENTROPY
from analysis.doctor.data_bin import DataBin
from analysis.doctor.types import Answer, Attending, Case, Claim, LoggedRate, Trained, fact, make_finding, outcome_of
from analysis.findings import Cost, Evidence, Finding
from analysis.logs.symbols import SYMBOL_RULES, Symbol, Symbols, are_equal, symbols_of_spec
from analysis.logs.types import TrainingLog

NO_LOG = "no log of a training was given"
NO_VALIDATION = "the log has no validation"
TOLERANCE = 0.05  # a learning rate further off than that is another one
PAPER_TOKENS_PER_UPDATE = 25_000  # section 5.1, of each language
MIN_BATCH_RATIO, MAX_BATCH_RATIO = 0.7, 1.4  # batches are never quite full: padding, whole sentences, the last one
MIN_PAPER_BATCH_RATIO = 0.8  # of 25,000 tokens, which count no padding
MIN_UPDATES_RATIO, MAX_UPDATES_RATIO = 0.95, 1.05
MAX_WRONG_RATES = 0.05  # of the printed ones
# A training that fell apart: perplexity in training above 1,000 after its best validation, or a validation that ends
# this much (in bits a subword) above its best. Both stood so in the published cases (fairseq #515, #1331).
DIVERGED_TRAIN_BITS, DIVERGED_DEV_BITS = 10.0, 2.0
SYMBOL_CHECKS = ("model", "norm_order", "dropout", "smoothing")  # which compare symbols alone
# A decoder that never began to read the source: by a record, each head's entropy over log S and the bits lost without
# attention (decision 0009, `analysis.conclusions.contrasts`); by a curve, a plateau: the best validation, in bits over
# log2 of the vocabulary, and its fall over the last third of the updates. These thresholds lie between trainings that
# started and others in one half of our logs, and hold in the other half (tests/doctor/test_start.py): plateaus at 0.31
# that fall by 0.05, while started trainings end below 0.25 or still fall by 0.4. A small or hard text has a plateau as
# high that is over-fitting: then training is far below it already when it is reached (flores #7, 7.6 BLEU: validation
# at 4.6 bits, training at 2.1; our unstarted big: 4.14 and 3.65). And no such model translates: big had 11.8 BLEU.
MIN_PLATEAU, MAX_PLATEAU_FALL, MIN_VALIDATIONS = 0.28, 0.14, 6
MAX_PLATEAU_GAP, MAX_UNSTARTED_BLEU = 1.0, 15.0
MAX_PAIR_RATIO = 1.3  # between tokens an update of two trainings whose rates can be compared


def expected_tokens_per_update(claim: Claim, data: DataBin | None) -> tuple[float, str] | None:
    """Return the target tokens an update that the spec makes of the text, and how that is known.

    A batch is filled up to the spec's number of positions on its longer side; the data-bin's
    lengths give the share of target tokens.
    """
    positions = target_tokens_per_full_update(claim.training)
    if data is not None:
        lengths = [side.lengths for side in data.sides_by_split["train"]]
        longer = int(np.maximum(lengths[0], lengths[1]).sum(dtype=np.int64))
        if longer:
            words = f"{positions:,} positions, of which the data-bin fills so many with target tokens"
            return positions * int(lengths[1].sum(dtype=np.int64)) / longer, words
    if claim.is_papers_corpus:
        return float(PAPER_TOKENS_PER_UPDATE), "section 5.1"
    return None


def check_batch(case: Case) -> Answer:
    """Compare the real target tokens of an update (fairseq's wpb: all GPUs, no padding) with the spec's."""
    trained = case.trained
    if trained is None:
        return Answer(missing=NO_LOG)
    line, number = tokens_per_update(trained)
    expected = expected_tokens_per_update(case.claim, case.data)
    if not number:
        return Answer(missing="no epoch's end with its wpb in the log")
    if expected is None:
        return Answer(missing="no data-bin to work out what the spec's batches hold")
    ratio = number / expected[0]
    lowest = MIN_BATCH_RATIO if case.data is not None else MIN_PAPER_BATCH_RATIO
    if lowest <= ratio <= MAX_BATCH_RATIO:
        return Answer(seen=f"{number:,.0f} target tokens an update, expected about {expected[0]:,.0f}")
    what, expected_words = "target tokens an update (wpb)", f"about {expected[0]:,.0f}: {expected[1]}"
    evidence = [fact(trained.path, what, f"{number:,.0f}", expected_words, line)]
    requested, positions = trained.symbols.get("tokens_per_update"), target_tokens_per_full_update(case.claim.training)
    if isinstance(requested, int) and requested != positions:
        what = "max_tokens x update_freq x GPUs"
        evidence.append(fact(trained.path, what, f"{requested:,}", f"{positions:,}", trained.log.first_line))
    total = ratio * trained.log.last_update / case.claim.training.updates
    if ratio < 1 and total < MIN_UPDATES_RATIO:
        evidence.append(fact(trained.path, "target tokens in all", f"{total:.0%} of the spec's", "all of them"))
    finding = make_finding(
        "smaller-batch" if ratio < 1 else "larger-batch", evidence, amount=ratio, times=max(ratio, 1 / ratio),
        frequency=max(2, round(1 / ratio)), positions=positions,
    )  # fmt: skip
    return Answer(findings=(finding,))


def tokens_per_update(trained: Trained) -> tuple[int | None, float]:
    """Return the last line that states the target tokens of an update, and their mean; 0 if no line states them.

    The mean is over all updates: the last epoch may be a few updates only.
    """
    ends = [epoch for epoch in trained.log.epochs if epoch.target_tokens_per_update]
    if not ends:
        return None, 0.0
    previous = [trained.log.first_update - 1, *(end.update for end in ends[:-1])]
    num_updates = [max(1, end.update - before) for end, before in zip(ends, previous, strict=True)]
    return ends[-1].line, float(np.average([end.target_tokens_per_update or 0.0 for end in ends], weights=num_updates))


def check_schedule(case: Case) -> Answer:
    """Compare each printed learning rate with that of the spec at its update."""
    trained, training = case.trained, case.claim.training
    if trained is None:
        return Answer(missing=NO_LOG)
    rates, of_spec = trained.rates, symbols_of_spec(training)
    evidence = list(_differences(trained, of_spec, ("schedule", "warmup_steps", "peak_learning_rate")).values())
    wrong = wrong_rates(training, rates)
    if rates and len(wrong) <= MAX_WRONG_RATES * len(rates):
        seen = f"{len(rates)} printed rates, updates {rates[0].update:,} to {rates[-1].update:,}, are the spec's"
        return Answer(seen=seen)
    if rates:
        worst = max(wrong, key=lambda rate: abs(deviation(training, rate) - 1))
        expected = f"{expected_rate(training, worst.update):.4g}, within {TOLERANCE:.0%}"
        what = f"learning rate at update {worst.update:,} ({len(wrong)} of {len(rates)} are off)"
        evidence.insert(0, fact(trained.path, what, f"{worst.rate:.4g}", expected, worst.line))
    elif "schedule" not in trained.symbols:
        return Answer(missing="no learning rate is printed, and no schedule is stated")
    elif not evidence:
        return Answer(seen="schedule, peak and warm-up as in the spec")
    symbol, amount = schedule_cause(trained.symbols, of_spec)
    if rates and symbol == "peak_learning_rate" and amount:
        num_explained = sum(abs(deviation(training, rate) / amount - 1) <= 2 * TOLERANCE for rate in wrong)
        if num_explained < (1 - 2 * MAX_WRONG_RATES) * len(wrong):
            symbol, amount = "schedule", None  # the rates are not those of the arguments
    peak = of_spec.get("peak_learning_rate", 0.0)
    flags = f"--lr-scheduler inverse_sqrt --lr {peak:.3g} --warmup-updates {training.warmup_steps}"
    if training.schedule == "constant":
        flags = f"--lr-scheduler fixed --lr {training.peak_learning_rate:g}"
    pairs = _published_rates(trained, case.claim)
    if reached := next((pair for pair in pairs if pair.outcome == "reached"), None):
        tokens = float(reached.target_tokens_per_update)
        flags += f"; published: {float(reached.peak_learning_rate):g} at {tokens:,.0f} tokens an update {reached.words}"
    costs = tuple(_known_pair(trained, pairs))
    finding = make_finding("other-rate", evidence, what=symbol, amount=amount, costs=costs, flags=flags)
    return Answer(findings=(finding,))


class PublishedRate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A peak rate at its warm-up and target tokens an update, and what it came to; '' where that is not known."""

    system: Literal["base", "big"]
    language_pair: Text
    norm_order: Literal["post", "pre"]
    peak_learning_rate: Text
    warmup_steps: int
    target_tokens_per_update: str
    outcome: Literal["reached", "below", "diverged"]
    result: Text
    source: Text

    @property
    def words(self) -> str:
        """The outcome with its source."""
        return f"{self.outcome}: {self.result} ({self.source})"


def _published_rates(trained: Trained, claim: Claim) -> list[PublishedRate]:
    """Return the published rates of such a system at known tokens an update, the nearest pair first."""
    symbols, (_, tokens) = trained.symbols, tokens_per_update(trained)
    rate, warmup = symbols.get("peak_learning_rate"), symbols.get("warmup_steps")
    if not isinstance(rate, float) or not rate or not tokens or not claim.is_papers_corpus:
        return []
    kind = "big" if claim.system.startswith("big") else "base"
    key = (kind, claim.corpus.language_pair, symbols.get("norm_order", "post"), warmup)
    pairs = [
        pair
        for _, pair in read_rows(PUBLISHED_FOLDER / "rates.csv", PublishedRate)
        if (pair.system, pair.language_pair, pair.norm_order, pair.warmup_steps) == key
        and pair.target_tokens_per_update
    ]
    return sorted(
        pairs,
        key=lambda pair: (
            abs(math.log(float(pair.peak_learning_rate) / rate)) > TOLERANCE,
            abs(math.log(float(pair.target_tokens_per_update) / tokens)),
        ),
    )


def _known_pair(trained: Trained, pairs: Sequence[PublishedRate]) -> Iterator[Cost]:
    """Yield a cost of 0 if the rate reached the paper's BLEU at about these tokens, with all that it came to."""
    rate, (_, tokens) = trained.symbols.get("peak_learning_rate"), tokens_per_update(trained)
    near = [
        pair
        for pair in pairs
        if are_equal(float(pair.peak_learning_rate), rate or 0.0, TOLERANCE)
        and 1 / MAX_PAIR_RATIO <= float(pair.target_tokens_per_update) / tokens <= MAX_PAIR_RATIO
    ]
    if any(pair.outcome == "reached" for pair in near):
        words = (f"{float(pair.target_tokens_per_update):,.0f} tokens an update {pair.words}" for pair in near)
        yield Cost(low=0.0, high=0.0, source="; ".join(words), certainty="confirmed")


def expected_rate(training: TrainingSpec, update: int) -> float:
    """Return the rate of an update by the spec."""
    if training.schedule == "equation_3":
        return learning_rate(update, d_model=training.d_model, warmup_steps=training.warmup_steps)
    peak, initial = training.peak_learning_rate or 0.0, training.initial_learning_rate or 0.0
    if training.schedule == "constant":
        return peak
    if update < training.warmup_steps:
        return initial + (peak - initial) * update / training.warmup_steps
    return peak * math.sqrt(training.warmup_steps / update)


def deviation(training: TrainingSpec, rate: LoggedRate) -> float:
    """Return the printed rate over the expected one, that of this or of the next update, whichever is nearer to it.

    fairseq sets the rate of the next step when a step ends: a line at update u prints that of u or of u + 1.
    """
    ratios = [rate.rate / expected_rate(training, update) for update in (rate.update, rate.update + 1)]
    return min(ratios, key=lambda ratio: abs(math.log(ratio)) if ratio > 0 else math.inf)


def wrong_rates(training: TrainingSpec, rates: Sequence[LoggedRate]) -> list[LoggedRate]:
    """Return the printed rates that are off by more than TOLERANCE."""
    return [rate for rate in rates if abs(deviation(training, rate) - 1) > TOLERANCE]


def schedule_cause(here: Symbols, of_spec: Symbols) -> tuple[str, float | None]:
    """Return which one of peak and warm-up differs, with its ratio; costs were published of one at a time."""
    ratios: dict[str, float] = {}
    for name in ("peak_learning_rate", "warmup_steps"):
        value, expected = here.get(name), of_spec.get(name)
        if not isinstance(value, int | float) or not isinstance(expected, int | float) or not expected:
            return "schedule", None
        if abs(value / expected - 1) > TOLERANCE:
            ratios[name] = value / expected
    if here.get("schedule", of_spec.get("schedule")) != of_spec.get("schedule") or len(ratios) != 1:
        return "schedule", None
    return next(iter(ratios.items()))


def check_divergence(case: Case) -> Answer:
    """Check that the training did not diverge: training and validation perplexity stay near their best."""
    log = case.log
    if log is None or case.trained is None:
        return Answer(missing=NO_LOG)
    subset = dev_subset(log)
    values = [(one.update, one.nll_bits or one.loss_bits, one.line) for one in log.validations if one.subset == subset]
    known = [(update, bits, line) for update, bits, line in values if bits is not None]
    if len(known) < 2:
        return Answer(missing="fewer than two validations in the log" if log.validations else NO_VALIDATION)
    best_update, best_bits, best_line = min(known, key=lambda one: one[1] if one[1] == one[1] else np.inf)
    last_update, last_bits, last_line = known[-1]
    later = [(epoch.nll_bits, epoch) for epoch in log.epochs if epoch.update > best_update and epoch.nll_bits]
    worst_bits, worst = max(later, key=lambda pair: pair[0], default=(0.0, None))
    if last_bits - best_bits <= DIVERGED_DEV_BITS and worst_bits <= DIVERGED_TRAIN_BITS:  # false of NaN
        return Answer(seen=f"best validation {best_bits:.2f} bits, last {last_bits:.2f}")
    path, what = case.trained.path, f"validation, bits a subword, at update {last_update:,}"
    evidence = [fact(path, what, f"{last_bits:.2f}", f"near its best, {best_bits:.2f} (line {best_line})", last_line)]
    if worst is not None and worst_bits > DIVERGED_TRAIN_BITS:
        what = f"perplexity in training at update {worst.update:,}"
        evidence.append(fact(path, what, f"{2**worst_bits:,.0f}", "under 1,000 once it has learnt", worst.line))
    warmup_steps = case.trained.symbols.get("warmup_steps")
    where = f"after update {best_update:,}"
    if isinstance(warmup_steps, int) and warmup_steps and best_update <= 1.25 * warmup_steps:
        where += f", near the peak of the learning rate (warm-up {warmup_steps:,})"
    return Answer(findings=(make_finding("diverged", evidence, where=where),))


def check_start(case: Case) -> Answer:
    """Check that the decoder began to read the source: by its attention where a record has it, else by its curve.

    A training with normalisation after each sub-layer may stay for good at what its target language alone tells: its
    loss falls and is flat, no gradient is unusual, and its translations have little to do with their source.
    """
    if case.attending is not None:
        return _start_by_attention(case.attending)
    if case.log is None or case.trained is None:
        return Answer(missing=NO_LOG)
    return _start_by_curve(case, case.trained, case.log)


def _start_by_attention(attending: Attending) -> Answer:
    lowest = [min(heads) for heads in attending.entropies]
    seen = (
        f"entropy of cross-attention over log S, lowest head a layer: {', '.join(f'{one:.2f}' for one in lowest)}; "
        f"without attention a subword loses {attending.bits_lost:.2f} bits"
    )
    if min(lowest) <= UNIFORM_ENTROPY or attending.bits_lost >= UNIFORM_BITS:
        return Answer(seen=seen)
    expected = f"a head below {UNIFORM_ENTROPY}, or {UNIFORM_BITS} bits lost"
    return _unstarted(fact(attending.place, "cross-attention", seen, expected))


def _start_by_curve(case: Case, trained: Trained, log: TrainingLog) -> Answer:
    known = [
        (one.update, one.nll_bits, one.line)
        for one in log.validations
        if one.subset == dev_subset(log) and one.nll_bits is not None and math.isfinite(one.nll_bits)
    ]
    if not log.vocabulary_sizes or len(known) < MIN_VALIDATIONS:
        words = f"{len(known)} validations with their nll_loss; {MIN_VALIDATIONS} are needed, and the vocabulary's size"
        return Answer(missing=words if log.validations else NO_VALIDATION)
    begin, best = known[-1][0] * 2 / 3, min(bits for _, bits, _ in known)
    early, late = ([bits for update, bits, _ in known if (update > begin) == is_late] for is_late in (False, True))
    level = best / math.log2(max(log.vocabulary_sizes))
    seen = f"best validation {best:.2f} bits, {level:.2f} of a random subword's"
    if not early or not late:
        return Answer(missing=f"{seen}; no validation {'after' if early else 'before'} two thirds of the updates")
    fall = min(early) - min(late)
    seen += f", {fall:.2f} below that at two thirds"
    warmup = trained.symbols.get("warmup_steps")
    is_warm = not isinstance(warmup, int) or begin > warmup
    if not is_warm or level <= MIN_PLATEAU or check_divergence(case).findings:
        return Answer(seen=seen)
    started = _sign_of_start(log, known, best)
    if started:
        return Answer(seen=f"{seen}; {started}")
    if fall >= MAX_PLATEAU_FALL:
        return Answer(missing=f"{seen}: as high as a plateau, and falling; it may not read its source yet")
    expected = f"at most {MIN_PLATEAU}, or falling by {MAX_PLATEAU_FALL} bits or more"
    return _unstarted(fact(trained.path, "validation", seen, expected, known[-1][2]))


def _sign_of_start(log: TrainingLog, known: Sequence[tuple[int, float, int]], best: float) -> str:
    """Return what shows that a training on a plateau reads its source for all that; '' if nothing does."""
    bleu = max((one.bleu for one in log.validations if one.bleu is not None), default=0.0)
    if bleu > MAX_UNSTARTED_BLEU:
        return f"but a validation's BLEU is {bleu:.1f}"
    reached, bits, _ = next(one for one in known if one[1] <= best + MAX_PLATEAU_FALL)
    trained = (one.nll_bits for one in log.epochs if one.update >= reached and one.nll_bits is not None)
    trained_bits = next(trained, math.inf)
    is_far_below = bits - trained_bits > MAX_PLATEAU_GAP
    return f"but training was at {trained_bits:.2f} when it came there: it over-fits" if is_far_below else ""


def _unstarted(evidence: Evidence) -> Answer:
    words = "most of the score: without its source the decoder writes what is likely in its language"
    cost = Cost(words=words, source="0.0 BLEU for 93.8 in the demo, 11.8 for 34.5 on Multi30k (docs/doctor.md)")
    return Answer(findings=(make_finding("unstarted", [evidence], costs=(cost,)),))


def check_symbols(case: Case, check: str) -> Answer:
    """Compare the arguments of the training, in the paper's symbols, with the spec's."""
    trained = case.trained
    if trained is None or not trained.symbols:
        return Answer(missing=NO_LOG if trained is None else "the log prints no arguments")
    of_spec = symbols_of_spec(case.claim.training)
    names = tuple(name for name in of_spec if SYMBOL_RULES[name].check == check)
    findings = list(_symbol_findings(check, trained, of_spec, names))
    if check == "model" and trained.symbols.get("precision") == "fp16":
        evidence = [fact(trained.path, "precision", "fp16", "fp32", trained.log.first_line)]
        findings.append(make_finding("model", evidence, what="precision_fp16", words="precision", flags="none needed"))
    known = [f"{name} {trained.symbols[name]}" for name in names if name in trained.symbols]
    seen = f"{len(known)} symbols as in the spec" if check == "model" and known else ", ".join(known)
    return outcome_of(findings, [seen], f"not stated: {', '.join(names)}")


def _symbol_findings(check: str, trained: Trained, of_spec: Symbols, names: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding for each symbol that differs; d_k and d_v follow from others where these differ too."""
    wrong = _differences(trained, of_spec, names)
    follow = {"d_k", "d_v"} if {"num_heads", "d_model"} & wrong.keys() else {"d_v"} if "d_k" in wrong else set()
    for name in (name for name in wrong if name not in follow):
        facts = [wrong[name], *(wrong[other] for other in sorted(follow & wrong.keys()))]
        rule, value = SYMBOL_RULES[name], trained.symbols[name]
        amount = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        place = "" if name == "p_drop" else f": {rule.words}"
        flags = rule.flags.format(_shown(of_spec[name]))
        yield make_finding(check, facts, what=name, amount=amount, words=rule.words, place=place, flags=flags)


def _differences(trained: Trained, of_spec: Symbols, names: Sequence[str]) -> dict[str, Evidence]:
    """Return the known symbols whose values differ from the spec's."""
    wrong = {}
    for name in names:
        value, expected = trained.symbols.get(name), of_spec.get(name)
        tolerance = TOLERANCE if name == "peak_learning_rate" else 0.0
        if value is not None and expected is not None and not are_equal(value, expected, tolerance):
            words = SYMBOL_RULES[name].words
            wrong[name] = fact(trained.path, words, _shown(value), _shown(expected), trained.log.first_line)
    return wrong


def _shown(value: Symbol) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def check_updates(case: Case) -> Answer:
    """Compare the last update with the spec's number, by updates and by their target tokens.

    Fewer updates of more tokens each are not too few; as many updates of fewer tokens each are a small batch. A
    training that stopped early is whole if it is the spec's own patience that ended it.
    """
    trained, claim = case.trained, case.claim
    if trained is None:
        return Answer(missing=NO_LOG)
    log, spec_updates = trained.log, claim.training.updates
    asked = trained.symbols.get("updates")
    updates = log.last_update
    _, number = tokens_per_update(trained)
    expected = expected_tokens_per_update(claim, case.data)
    tokens_ratio = updates * number / (spec_updates * expected[0]) if number and expected else None
    if not updates:
        return Answer(missing="the log has no update")
    ratio = updates / spec_updates
    seen = f"{updates:,} of {spec_updates:,}" + ("" if tokens_ratio is None else f", {tokens_ratio:.0%} of the tokens")
    both = (ratio, ratio if tokens_ratio is None else tokens_ratio)
    is_short, is_long = max(both) < MIN_UPDATES_RATIO, min(both) > MAX_UPDATES_RATIO
    patience = claim.training.patience_epochs
    if is_short and patience and log.is_stopped_early and log.arguments.get("patience") == patience:
        seen += f": stopped early, after {patience} epochs without a better validation loss, as the spec has it"
        is_short = False
    if not is_short and not is_long:
        return Answer(seen=seen)
    evidence = [fact(trained.path, "updates", f"{updates:,}", f"{spec_updates:,}", log.last_line)]
    if tokens_ratio is not None:
        evidence.append(fact(trained.path, "target tokens in all", f"{tokens_ratio:.0%} of the spec's", "100%"))
    if isinstance(asked, int) and asked and asked != spec_updates:
        evidence.append(fact(trained.path, "max_update", f"{asked:,}", f"{spec_updates:,}", log.first_line))
    name, amount = "too-few-updates" if is_short else "too-many-updates", both[1]
    return Answer(findings=(make_finding(name, evidence, amount=amount, ratio=ratio, updates=spec_updates),))
