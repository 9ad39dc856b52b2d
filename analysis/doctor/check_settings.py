"""Checks the settings of a training: the judgements of `paper_tables.compare`, as findings with
their published costs.

`aiayn tables --from-logs` fills or sets apart a row by the same judgements, in the same words.
"""

from collections.abc import Iterator, Sequence

import msgspec

from aiayn.cost import target_tokens_per_full_update
from aiayn.logs.findings import Finding
from aiayn.logs.symbols import symbols_of_spec
from aiayn.printed import PAPER_SCALE
from analysis.doctor.types import Answer, Case, Claim, evidence_of, make_finding
from paper_tables.compare.judgement import Judgement
from paper_tables.compare.systems import PaperSystem
from paper_tables.compare.training import compare_training, tokens_per_update

NO_LOG = "no log of a training was given"
MIN_RATIO, MAX_RATIO = 0.95, 1.05  # of updates, or of the tokens in them, to the spec's
NAME_BY_QUANTITY = {"norm_order": "norm_order", "p_drop": "dropout", "eps_ls": "smoothing"}


def claimed_system(claim: Claim) -> PaperSystem:
    """Return the system that a run claims to be, as a comparison needs it."""
    decoding = claim.decoding
    return PaperSystem(
        scale=PAPER_SCALE if claim.is_papers_corpus else "other",
        system=claim.system,
        language_pairs=(claim.corpus.language_pair,),
        symbols=symbols_of_spec(claim.training),
        decoding={
            "beam_size": decoding.beam_size,
            "length_penalty_alpha": decoding.length_penalty_alpha,
        },
        average_by_use={
            f"{role}_{claim.corpus.language_pair}": max(averages)
            for role, averages in claim.averages_by_role.items()
            if averages
        },
    )


def training_judgements(case: Case) -> tuple[Judgement, ...]:
    """Return the judgement on each quantity of the training; () without a log."""
    if case.training is None:
        return ()
    return compare_training(case.training, claimed_system(case.claim), expected_tokens(case))


def expected_tokens(case: Case) -> float | None:
    """Return the target tokens of a full update of the spec on the data-bin's text; None without a
    data-bin.

    A batch is filled up to the spec's number of positions on its longer side.
    """
    share = None if case.data is None else case.data.target_share
    return None if share is None else share * target_tokens_per_full_update(case.claim.training)


def check_model(case: Case) -> Answer:
    """Compare the model, the regularisation and the optimizer with the spec's."""
    if case.training is None:
        return Answer(missing=NO_LOG)
    if not case.training.symbols:
        return Answer(missing="the log prints no arguments")
    judged = [one for one in training_judgements(case) if one.group == "model"]
    wrong = {one.quantity: one for one in judged if one.verdict in ("different", "contradictory")}
    follow: set[str] = set()  # quantities that differ because another one does
    if {"num_heads", "d_model"} & wrong.keys():
        follow = {"d_k", "d_v"}
    elif "d_k" in wrong:
        follow = {"d_v"}
    findings = []
    for quantity, judgement in wrong.items():
        if quantity not in follow and quantity != "diverged":  # another check finds the divergence
            followers = [wrong[name] for name in sorted(follow & wrong.keys())]
            findings.append(_model_finding(judgement, followers))
    if findings:
        return Answer(findings=tuple(findings))
    return _seen(judged)


def _model_finding(judgement: Judgement, followers: Sequence[Judgement]) -> Finding:
    value = judgement.value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    name, what = NAME_BY_QUANTITY.get(judgement.quantity, "model"), judgement.quantity
    if isinstance(value, str) and " and " in value:
        # Encoder and decoder differ: published costs are for a change of both.
        name, what = "model", f"{judgement.quantity} of one side"
    return make_finding(
        name,
        [evidence_of(one) for one in (judgement, *followers)],
        what=what,
        amount=float(value) if is_number else None,  # type: ignore[arg-type]
        words=judgement.words or judgement.quantity,
        flags=judgement.fix or judgement.reason,
    )


def _seen(judged: Sequence[Judgement]) -> Answer:
    """Return the outcome of quantities that are equal or harmless; what is not stated was not
    checked.
    """
    unstated = [one.words or one.quantity for one in judged if one.verdict == "not stated"]
    if unstated or not judged:
        reasons = dict.fromkeys(
            one.reason for one in judged if one.verdict == "not stated" and one.reason
        )
        return Answer(missing="; ".join([f"not stated: {', '.join(unstated)}", *reasons]))
    harmless = [f"harmless: {one.statement}" for one in judged if one.verdict == "harmless"]
    explained = [one.statement for one in judged if one.verdict == "equal" and one.reason]
    return Answer(
        seen="; ".join([f"{len(judged)} quantities as in the spec", *explained, *harmless])
    )


def check_batch(case: Case) -> Answer:
    """Compare batch, learning rate and updates with the spec's, together. Without the number of
    GPUs they cannot be judged.
    """
    if case.training is None:
        return Answer(missing=NO_LOG)
    judged = [
        one
        for one in training_judgements(case)
        if one.group in ("GPUs", "batch", "rate", "updates")
    ]
    wrong = [one for one in judged if one.verdict in ("different", "contradictory")]
    updates = [one for one in wrong if one.group == "updates"]
    findings = [
        *_batch_finding(case, [one for one in wrong if one.group in ("GPUs", "batch")]),
        *_rate_finding(case, [one for one in wrong if one.group == "rate"]),
        *_updates_finding(case, updates),
    ]
    if findings:
        return Answer(findings=tuple(findings))
    # The same number of tokens in fewer, larger updates is not a difference.
    return _seen([one if one not in updates else _as_seen(one, case) for one in judged])


def _as_seen(judgement: Judgement, case: Case) -> Judgement:
    if _is_stopped_by_patience(case):
        return msgspec.structs.replace(
            judgement,
            verdict="equal",
            expected=f"at most {judgement.expected}",
            reason=f"the spec's patience of {case.claim.training.patience_epochs} epochs ended it",
            source="",
        )
    is_near = judgement.ratio is not None and MIN_RATIO <= judgement.ratio <= MAX_RATIO
    reason = "within 5 %" if is_near else "as many tokens in updates of another size"
    return msgspec.structs.replace(judgement, verdict="harmless", reason=reason, source="")


def _batch_finding(case: Case, wrong: Sequence[Judgement]) -> Iterator[Finding]:
    if not wrong:
        return
    printed = [one for one in training_judgements(case) if one.quantity == "wpb"]
    ratios = [_tokens_ratio(case), *(one.ratio for one in (*wrong, *printed))]
    ratio = next((ratio for ratio in ratios if ratio), None)
    if ratio is None:
        yield make_finding("other-gpus", [evidence_of(one) for one in wrong])
        return
    name = "smaller-batch" if ratio < 1 else "larger-batch"
    if MIN_RATIO <= ratio <= MAX_RATIO:
        name = "unlike-batch"
    yield make_finding(
        name,
        [evidence_of(one) for one in wrong],
        amount=ratio,
        times=max(ratio, 1 / ratio),
        frequency=max(2, round(1 / ratio)),
        positions=target_tokens_per_full_update(case.claim.training),
    )


def _tokens_ratio(case: Case) -> float | None:
    """Return the printed target tokens of an update over the spec's; None if either is not
    known.
    """
    expected = expected_tokens(case) or (25_000.0 if case.claim.is_papers_corpus else None)
    tokens = tokens_per_update(case.training.log)[1] if case.training else 0.0
    return tokens / expected if tokens and expected else None


def _rate_finding(case: Case, wrong: Sequence[Judgement]) -> Iterator[Finding]:
    """Yield one finding for all differences of the rate; costs were published only for the peak and
    the warm-up.
    """
    if not wrong:
        return
    (first, *others), training = wrong, case.claim.training
    what, amount = "schedule", None
    if not others and first.quantity in ("peak_learning_rate", "warmup_steps"):
        what, amount = first.quantity, first.ratio
    peak = symbols_of_spec(training).get("peak_learning_rate", 0.0)
    flags = f"--lr-scheduler inverse_sqrt --lr {peak:.3g} --warmup-updates {training.warmup_steps}"
    if training.schedule == "constant":
        flags = f"--lr-scheduler fixed --lr {training.peak_learning_rate:g}"
    yield make_finding(
        "other-rate",
        [evidence_of(one) for one in wrong],
        what=what,
        amount=amount,
        flags=flags,
    )


def _is_stopped_by_patience(case: Case) -> bool:
    """Return whether the training was ended by the patience that the spec has."""
    patience = case.claim.training.patience_epochs
    if case.training is None or not patience:
        return False
    log = case.training.log
    return log.is_stopped_early and log.arguments.get("patience") == patience


def _updates_finding(case: Case, wrong: Sequence[Judgement]) -> Iterator[Finding]:
    """Yield a finding if a training had too few or too many updates, by their number and by their
    tokens.

    Fewer updates of more tokens each are not too few; as many updates of fewer tokens each are a
    small batch. A training that stopped early is whole if it is the spec's own patience that ended
    it.
    """
    if not wrong or case.training is None or _is_stopped_by_patience(case):
        return
    (judgement,), training = wrong, case.claim.training
    ratio, tokens_ratio = judgement.ratio or 0.0, _tokens_ratio(case)
    both = (ratio, ratio if tokens_ratio is None else ratio * tokens_ratio)
    is_short, is_long = max(both) < MIN_RATIO, min(both) > MAX_RATIO
    if is_short or is_long:
        evidence = [evidence_of(judgement)]
        if tokens_ratio is not None:
            of_tokens = msgspec.structs.replace(
                judgement,
                words="target tokens in all",
                found=f"{both[1]:.0%} of the spec's",
                expected="100%",
            )
            evidence.append(evidence_of(of_tokens))
        name = "too-few-updates" if is_short else "too-many-updates"
        yield make_finding(name, evidence, amount=both[1], ratio=ratio, updates=training.updates)
