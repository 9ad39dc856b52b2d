"""Checks settings of training and search: the judgements of `paper_tables.compare`, as findings.

`aiayn tables --from-logs` fills or sets apart a row by the same judgements, in the same words.
"""

from collections.abc import Sequence

import msgspec

from aiayn.cost import target_tokens_per_full_update
from aiayn.facts.symbols import symbols_of_spec
from aiayn.logs.evidence import LoggedTraining
from aiayn.logs.types import Start, TrainingLog
from aiayn.printed import PAPER_SCALE
from analysis.doctor.types import (
    Answer,
    Case,
    Claim,
    Finding,
    Translation,
    make_finding,
    outcome_of,
)
from paper_tables.compare.decoding import compare_generation
from paper_tables.compare.judgement import Judgement
from paper_tables.compare.systems import PaperSystem
from paper_tables.compare.training import (
    PAPER_TOKENS_PER_UPDATE,
    compare_training,
    tokens_per_update,
)

NO_LOG = "no log of a training was given"
MIN_RATIO, MAX_RATIO = 0.95, 1.05  # of updates, or of the tokens in them, to the spec's
MAX_SHOWN = 3  # quantities that are as in the spec; more are counted
# Costs of these are published by the ratio to the system's value, of others by the value itself.
RATIO_QUANTITIES = (
    "tokens_per_update",
    "updates",
    "peak_learning_rate",
    "warmup_steps",
    "train_pairs",
)
# Quantities that differ because another quantity does.
FOLLOWERS = {"num_heads": ("d_k", "d_v"), "d_model": ("d_k", "d_v"), "d_k": ("d_v",)}


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
        average_by_use=claim.average_by_use,
        training=claim.training,
    )


def described_training(case: Case) -> LoggedTraining | None:
    """Return the training with the pairs and dictionaries of its data-bin where its log states
    none; None without either.
    """
    if case.data is None:
        return case.training
    training = case.training or LoggedTraining(
        path=case.place, log=TrainingLog(starts=(Start(line=0),)), events=None, symbols={}
    )
    log, corpus, sides = training.log, case.claim.corpus, case.data.sides_by_split
    languages = (corpus.source_language, corpus.target_language)
    sizes = dict(zip(languages, map(len, case.data.dictionaries), strict=True))
    counts = {split: len(source) for split, (source, _) in sides.items()}
    log = msgspec.structs.replace(
        log,
        size_by_language=log.size_by_language or sizes,
        num_pairs_by_split=log.num_pairs_by_split or counts,
    )
    return msgspec.structs.replace(training, log=log)


def training_judgements(case: Case) -> tuple[Judgement, ...]:
    """Return the judgement on each quantity of the training; () without a log and a data-bin."""
    training = described_training(case)
    if training is None:
        return ()
    return compare_training(training, claimed_system(case.claim), expected_tokens(case))


def expected_tokens(case: Case) -> float | None:
    """Return the target tokens of a full update of the spec on the data-bin's text; None without a
    data-bin.

    A batch is filled up to the spec's number of positions on its longer side.
    """
    share = None if case.data is None else case.data.target_share
    return None if share is None else share * target_tokens_per_full_update(case.claim.training)


def decoding_judgements(case: Case) -> tuple[tuple[Translation, Judgement], ...]:
    """Return the judgement on each quantity of the translations that have a log or a record."""
    pair, system = case.claim.corpus.language_pair, claimed_system(case.claim)
    return tuple(
        (output, judgement)
        for output in case.translations
        if output.generation is not None
        for judgement in compare_generation(output.generation, pair, system)
    )


def check_model(case: Case) -> Answer:
    """Compare the model, the regularisation and the optimizer with the spec's."""
    if case.training is None:
        return Answer(missing=NO_LOG)
    if not case.training.symbols:
        return Answer(missing="the log prints no arguments")
    # Another check finds a divergence.
    judged = {
        one.quantity: one
        for one in training_judgements(case)
        if one.group == "model" and one.quantity != "diverged"
    }
    wrong = [name for name, one in judged.items() if one.differs]
    followers = {name for leader in wrong for name in FOLLOWERS.get(leader, ())}
    return settled([one for name, one in judged.items() if name not in followers])


def settled(judged: Sequence[Judgement], missing: str = "") -> Answer:
    """Return the outcome of judgements: a finding for each quantity that differs, else what was
    seen. A quantity that is not stated was not checked.
    """
    wrong: dict[str, list[Judgement]] = {}
    for one in judged:
        if one.differs:
            # Differences of the rate share a cause: its peak follows from the warm-up.
            wrong.setdefault("rate" if one.group == "rate" else one.quantity, []).append(one)
    if wrong:
        return Answer(findings=tuple(map(setting_finding, wrong.values())))
    unstated = [one for one in judged if one.verdict == "not stated"]
    if unstated:
        names = ", ".join(dict.fromkeys(one.words or one.quantity for one in unstated))
        reasons = filter(None, dict.fromkeys(one.reason for one in unstated))
        return Answer(missing="; ".join([f"not stated: {names}", *reasons]))
    seen = [f"{len(judged)} quantities as in the spec"]
    if len(judged) <= MAX_SHOWN:
        seen = [f"{one.words or one.quantity} {one.found}" for one in judged]
    explained = [one.statement for one in judged if one.reason]
    return outcome_of((), list(dict.fromkeys([*seen, *explained])) if judged else [], missing)


def setting_finding(judged: Sequence[Judgement]) -> Finding:
    """Return the finding on judgements with one cause, with the fixes that they name."""
    first = judged[0]
    is_one = all(one.quantity == first.quantity for one in judged)
    quantity = first.quantity if is_one else "schedule"
    if isinstance(first.value, str) and " and " in first.value:
        # Encoder and decoder differ: published costs are for a change of both.
        quantity = f"{quantity} of one side"
    fixes = filter(None, dict.fromkeys(one.fix for one in judged))
    amount = first.ratio if quantity in RATIO_QUANTITIES else first.value
    return make_finding(
        "setting",
        judged,
        quantity=quantity,
        fix="; ".join(fixes)
        or first.reason
        or "use the system's value, or state yours next to the number",
        amount=float(amount) if isinstance(amount, int | float) else None,
    )


def check_batch(case: Case) -> Answer:
    """Compare batch, learning rate and updates with the spec's, together. Without the number of
    GPUs they cannot be judged.
    """
    if case.training is None:
        return Answer(missing=NO_LOG)
    groups = ("GPUs", "batch", "rate", "updates")
    judged = [one for one in training_judgements(case) if one.group in groups]
    return settled([_judged_by_tokens(case, one) for one in judged])


def _judged_by_tokens(case: Case, judgement: Judgement) -> Judgement:
    """Return a judgement; a batch that differs has the ratio of its printed tokens, and updates
    that differ are judged by their tokens as well.

    Fewer updates of more tokens each are not too few; as many updates of fewer tokens each are a
    small batch. A training that stopped early is whole if the spec's own patience ended it.
    """
    if not judgement.differs or judgement.group not in ("batch", "updates"):
        return judgement
    ratio, tokens_ratio = judgement.ratio, _tokens_ratio(case)
    if judgement.group == "batch":
        return msgspec.structs.replace(
            judgement, quantity="tokens_per_update", ratio=tokens_ratio or ratio
        )
    if _is_stopped_by_patience(case):
        reason = f"the spec's patience of {case.claim.training.patience_epochs} epochs ended it"
        return msgspec.structs.replace(judgement, verdict="equal", reason=reason, source="")
    both = ((ratio or 0.0), (ratio or 0.0) * (tokens_ratio or 1.0))
    if max(both) < MIN_RATIO or min(both) > MAX_RATIO:
        reason = f"{both[1]:.0%} of the target tokens"
        return msgspec.structs.replace(judgement, ratio=both[1], reason=reason)
    reason = "as many tokens in updates of another size"
    return msgspec.structs.replace(judgement, verdict="harmless", reason=reason, source="")


def _tokens_ratio(case: Case) -> float | None:
    """Return the printed target tokens of an update over the spec's; None if either is not
    known.
    """
    known = PAPER_TOKENS_PER_UPDATE if case.claim.is_papers_corpus else None
    expected = expected_tokens(case) or known
    tokens = tokens_per_update(case.training.log)[1] if case.training else 0.0
    return tokens / expected if tokens and expected else None


def _is_stopped_by_patience(case: Case) -> bool:
    """Return whether the training was ended by the patience that the spec has."""
    patience, log = case.claim.training.patience_epochs, case.log
    if log is None or not patience:
        return False
    return log.is_stopped_early and log.arguments.get("patience") == patience


def check_average(case: Case) -> Answer:
    """Check that each test set was translated with the average that its table uses; one of several
    translations of a test set is enough.
    """
    judged = [pair for pair in decoding_judgements(case) if pair[1].group == "average"]
    reached = {output.testset for output, one in judged if one.is_good}
    kept = [one for output, one in judged if one.is_good or output.testset not in reached]
    return settled(kept, "the decoded average is not recorded")


def check_search(case: Case) -> Answer:
    """Compare the search that was run with the spec's."""
    judged = [one for _, one in decoding_judgements(case) if one.group == "search"]
    return settled(judged, "the settings of the search are not recorded")
