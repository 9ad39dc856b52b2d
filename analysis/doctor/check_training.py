"""Checks of the training, from its log alone: batch, schedule, model, regularisation, updates."""

from collections.abc import Iterator, Mapping

import numpy as np

from analysis.doctor.check_data import fact, found
from analysis.doctor.data_bin import DataBin
from analysis.doctor.rates import TOLERANCE, deviation, expected_rate, fitted_warmup, wrong_rates
from analysis.doctor.types import Case, Claim, Evidence, Outcome, Trained
from analysis.logs.symbols import Symbol, are_equal, symbols_of_spec

NO_LOG = "no log of a training was given"
LARGER_RANK = "A5"  # larger batches or more steps: they raise the score
PAPER_TOKENS_PER_UPDATE = 25_000  # section 5.1, of each language
MIN_BATCH_RATIO, MAX_BATCH_RATIO = 0.7, 1.4  # batches are never quite full: padding, whole sentences, the last one
MIN_UPDATES_RATIO, MAX_UPDATES_RATIO = 0.95, 1.05
MAX_WRONG_RATES = 0.05  # of the printed ones
# Which symbols of `analysis.logs.symbols` each check looks at; `model` has all that no other has.
SYMBOLS_BY_CHECK: Mapping[str, tuple[str, ...]] = {
    "norm_order": ("norm_order",),
    "dropout": ("p_drop", "p_drop_attention", "p_drop_ffn"),
    "smoothing": ("eps_ls",),
}
# What is published is the cost of none at all.
PUBLISHED_AT = {"dropout": "0", "smoothing": "0"}
_ELSEWHERE = ("tokens_per_update", "updates", "warmup_steps", "peak_learning_rate", "schedule", "precision")
TITLES = {
    "norm_order": "Normalised before each sub-layer, not after it",
    "dropout": "Another dropout",
    "smoothing": "Another label smoothing",
    "model": "Another model or optimiser",
}
FIXES = {
    "norm_order": "norm_order: post in the system file (fairseq: without --encoder-normalize-before and its like)",
    "dropout": "p_drop as in the system file (fairseq: --dropout; --attention-dropout and --activation-dropout 0)",
    "smoothing": "eps_ls: 0.1 (fairseq: --criterion label_smoothed_cross_entropy --label-smoothing 0.1)",
    "model": "train the system as its file says; `aiayn describe SYSTEM` prints it",
}


def expected_tokens_per_update(claim: Claim, data: DataBin | None) -> tuple[float, str] | None:
    """Return the target tokens an update that the spec makes of the text, and how that is known.

    A batch is filled up to the spec's number of positions on its longer side; what of that are target tokens, the
    data-bin's lengths say.
    """
    positions = claim.training.max_tokens_per_batch * claim.training.batches_per_update
    if data is not None:
        lengths = [data.side_by_place["train", role].lengths for role in ("source", "target")]
        longer = int(np.maximum(lengths[0], lengths[1]).sum(dtype=np.int64))
        if longer:
            words = f"{positions:,} positions, of which the data-bin fills so many with target tokens"
            return positions * int(lengths[1].sum(dtype=np.int64)) / longer, words
    if claim.is_papers_corpus:
        return float(PAPER_TOKENS_PER_UPDATE), "section 5.1"
    return None


def check_batch(case: Case) -> Outcome:
    """Compare the real target tokens of an update (fairseq's wpb: all GPUs, no padding) with the spec's."""
    if case.trained is None:
        return Outcome(check="batch", missing=NO_LOG)
    ends = [epoch for epoch in case.trained.log.epochs if epoch.target_tokens_per_update]
    expected = expected_tokens_per_update(case.claim, case.data)
    if not ends or expected is None:
        why = (
            "no epoch's end with its wpb in the log"
            if not ends
            else "no data-bin to work out what the spec's batches hold"
        )
        return Outcome(check="batch", missing=why)
    last = ends[-1]
    number = last.target_tokens_per_update or 0.0
    ratio = number / expected[0]
    seen = f"{number:,.0f} target tokens an update, expected about {expected[0]:,.0f}"
    if MIN_BATCH_RATIO <= ratio <= MAX_BATCH_RATIO:
        return Outcome(check="batch", seen=seen)
    evidence = [
        fact(
            case.trained.path,
            "target tokens an update (wpb)",
            f"{number:,.0f}",
            f"about {expected[0]:,.0f}: {expected[1]}",
            last.line,
        ),
        *_knobs(case.trained, case.claim),
    ]
    size = "smaller" if ratio < 1 else "larger"
    title = f"The effective batch is {_times(ratio)} {size} than the system's"
    fix = (
        f"max_tokens_per_batch x batches_per_update = {_positions(case.claim):,} positions over all GPUs "
        "(fairseq: --max-tokens x --update-freq x GPUs)"
    )
    rank = "3" if ratio < 1 else LARGER_RANK
    return Outcome(check="batch", findings=(found("batch", title, evidence, fix, rank=rank),))


def _times(ratio: float) -> str:
    return f"{max(ratio, 1 / ratio):.1f} times"


def _positions(claim: Claim) -> int:
    return claim.training.max_tokens_per_batch * claim.training.batches_per_update


def _knobs(trained: Trained, claim: Claim) -> Iterator[Evidence]:
    asked = trained.symbols.get("tokens_per_update")
    if isinstance(asked, int) and asked != _positions(claim):
        what = "max_tokens x update_freq x GPUs"
        yield fact(trained.path, what, f"{asked:,}", f"{_positions(claim):,}", trained.log.first_line)


def check_schedule(case: Case) -> Outcome:
    """Compare each printed learning rate with that of the spec at its update."""
    if case.trained is None or not case.trained.rates:
        return Outcome(check="schedule", missing=NO_LOG if case.trained is None else "the log prints no learning rate")
    training, rates = case.claim.training, case.trained.rates
    wrong = wrong_rates(training, rates)
    if len(wrong) <= MAX_WRONG_RATES * len(rates):
        words = f"{len(rates)} printed rates, updates {rates[0].update:,} to {rates[-1].update:,}, are the spec's"
        return Outcome(check="schedule", seen=words)
    worst = max(wrong, key=lambda rate: abs(deviation(training, rate) - 1))
    expected = f"{expected_rate(training, worst.update):.4g}, within {TOLERANCE:.0%}"
    what = f"learning rate at update {worst.update:,} ({len(wrong)} of {len(rates)} are off)"
    evidence = [fact(case.trained.path, what, f"{worst.rate:.4g}", expected, worst.line)]
    fitted = fitted_warmup(rates, training.d_model) if training.schedule == "equation_3" else None
    if fitted is not None and abs(fitted / training.warmup_steps - 1) > TOLERANCE:
        what = "warm-up steps, as the rates rise"
        evidence.append(fact(case.trained.path, what, f"about {fitted:,}", f"{training.warmup_steps:,}"))
    evidence += _differences(case, ("schedule", "warmup_steps", "peak_learning_rate"), tolerance=0.01)
    steps = f"{training.warmup_steps:,} warm-up steps"
    fix = f"schedule {training.schedule} with {steps} (fairseq has base's equation 3 with --lr 7e-4)"
    return Outcome(
        check="schedule", findings=(found("schedule", "Another learning rate than the spec's", evidence, fix),)
    )


def check_symbols(case: Case, check: str) -> Outcome:
    """Compare the arguments that the log prints, in the paper's symbols, with the spec's."""
    if case.trained is None or not case.trained.symbols:
        return Outcome(check=check, missing=NO_LOG if case.trained is None else "the log prints no arguments")
    names = SYMBOLS_BY_CHECK.get(check) or _other_symbols(case.claim)
    wrong = list(_differences(case, names))
    if wrong:
        title = TITLES[check] if check != "model" else f"{TITLES[check]}: {', '.join(one.what for one in wrong)}"
        rank = None if check not in PUBLISHED_AT or PUBLISHED_AT[check] in [one.found for one in wrong] else ""
        return Outcome(check=check, findings=(found(check, title, wrong, FIXES[check], rank=rank),))
    known = [name for name in names if name in case.trained.symbols]
    if not known:
        return Outcome(check=check, missing=f"the log does not tell {', '.join(names)}")
    if check == "model":
        return Outcome(check=check, seen=f"{len(known)} symbols as in the spec")
    return Outcome(check=check, seen=", ".join(f"{name} {case.trained.symbols[name]}" for name in known))


def _other_symbols(claim: Claim) -> tuple[str, ...]:
    elsewhere = {*_ELSEWHERE, *(name for names in SYMBOLS_BY_CHECK.values() for name in names)}
    return tuple(name for name in symbols_of_spec(claim.training) if name not in elsewhere)


def _differences(case: Case, names: tuple[str, ...], tolerance: float = 0.0) -> Iterator[Evidence]:
    if case.trained is None:
        return
    expected = symbols_of_spec(case.claim.training)
    for name in names:
        value = case.trained.symbols.get(name)
        if value is not None and name in expected and not are_equal(value, expected[name], tolerance):
            line = case.trained.log.first_line
            yield fact(case.trained.path, name, _shown(value), _shown(expected[name]), line)


def _shown(value: Symbol) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def check_updates(case: Case) -> Outcome:
    """Compare the last update of the log with the spec's number."""
    if case.trained is None:
        return Outcome(check="updates", missing=NO_LOG)
    log, asked = case.trained.log, case.claim.training.updates
    if MIN_UPDATES_RATIO <= log.last_update / asked <= MAX_UPDATES_RATIO:
        return Outcome(check="updates", seen=f"{log.last_update:,} of {asked:,}")
    evidence = [fact(case.trained.path, "updates", f"{log.last_update:,}", f"{asked:,}", log.last_line)]
    set_to = log.arguments.get("max_update")
    if isinstance(set_to, int) and set_to and set_to != asked:
        evidence.append(fact(case.trained.path, "max_update", f"{set_to:,}", f"{asked:,}", log.first_line))
    is_short = log.last_update < asked
    title = f"Trained for {log.last_update / asked:.0%} of the updates"
    fix = (
        "resume it: the same command goes on, once `updates` is the system's own"
        if is_short
        else "compare at equal updates"
    )
    rank = "6" if is_short else LARGER_RANK
    return Outcome(check="updates", findings=(found("updates", title, evidence, fix, rank=rank),))
