"""Checks the course of a training in its log: whether it diverged, and whether its decoder began to
read the source.
"""

import math
from collections.abc import Sequence

from aiayn.facts.statistics import Statistics
from aiayn.facts.trainings import Problem, Training
from aiayn.facts.types import whole
from analysis.doctor.check_problems import NO_LOG
from analysis.doctor.types import Answer, Case, Cost, make_finding

NO_VALIDATION = "the log has no validation"
# A training that fell apart: its last validation is this much (in bits a subword) above its best,
# as in the published cases (fairseq #515, #1331).
DIVERGED_BITS = 2.0
# A decoder that never began to read the source has a plateau: the best validation, in bits over
# log2 of the vocabulary, and its fall over the last third of the updates. The thresholds were
# chosen on one half of our logs, where they separate trainings that started from the others, and
# they separate the other half, too (tests/doctor/test_start.py): plateaus at 0.31 that fall by
# 0.05, while started trainings end below 0.25 or still fall by 0.4. A small or hard text has a
# plateau as high that is over-fitting: then training is far below it already when it is reached
# (flores #7, 7.6 BLEU: validation at 4.6 bits, training at 2.1; our unstarted big: 4.14 and 3.65).
# And no such model translates: big had 11.8 BLEU.
MIN_PLATEAU, MAX_PLATEAU_FALL, MIN_VALIDATIONS = 0.28, 0.14, 6
MAX_PLATEAU_GAP, MAX_UNSTARTED_BLEU = 1.0, 15.0


def _validated(training: Training) -> list[Statistics]:
    return [validation for validation in training.validations if validation.nll_bits is not None]


def _bits(validation: Statistics) -> float:
    """Return the bits per subword of a validation. Return infinity if the printed loss is not a
    number.
    """
    bits = validation.nll_bits
    return bits if bits is not None and math.isfinite(bits) else math.inf


def check_divergence(case: Case) -> Answer:
    """Check that the training did not diverge: its last validation is near its best."""
    if case.training is None:
        return Answer(missing=NO_LOG)
    validations = _validated(case.training)
    if len(validations) < 2:
        return Answer(
            missing="fewer than two validations in the log" if validations else NO_VALIDATION
        )
    best, last = min(validations, key=_bits), validations[-1]
    if _bits(last) - _bits(best) <= DIVERGED_BITS:
        return Answer(seen=f"best validation {best.nll_bits:.2f} bits, last {last.nll_bits:.2f}")
    quantity = f"validation, bits a subword, at update {last.update:,}"
    expected = f"near its best, {best.nll_bits:.2f} (line {best.line})"
    evidence = [Problem(quantity, f"{last.nll_bits:.2f}", expected, case.log_path, last.line)]
    where = f"after update {best.update:,}"
    return Answer(findings=(make_finding("diverged", evidence, where=where),))


def check_start(case: Case) -> Answer:
    """Check that the decoder began to read the source, by the validation curve.

    A model with normalisation after each sub-layer (post-norm) may remain a pure language model of
    the target side. Then its loss falls and becomes flat, its gradients look normal, and its
    translations have little to do with their source.
    """
    if case.training is None:
        return Answer(missing=NO_LOG)
    return _start_by_curve(case, case.training)


def _start_by_curve(case: Case, training: Training) -> Answer:
    validations = [
        validation for validation in _validated(training) if math.isfinite(_bits(validation))
    ]
    sizes = [whole(size) or 0 for size in training.last.values("num_types")]
    if not any(sizes) or len(validations) < MIN_VALIDATIONS:
        words = (
            f"{len(validations)} validations with their nll_loss; {MIN_VALIDATIONS} are needed, and"
            " the vocabulary's size"
        )
        return Answer(missing=words if training.validations else NO_VALIDATION)
    begin, best = validations[-1].update * 2 / 3, min(map(_bits, validations))
    early = [_bits(validation) for validation in validations if validation.update <= begin]
    late = [_bits(validation) for validation in validations if validation.update > begin]
    level = best / math.log2(max(sizes))
    seen = f"best validation {best:.2f} bits, {level:.2f} of a random subword's"
    if not early:
        return Answer(missing=f"{seen}; no validation before two thirds of the updates")
    fall = min(early) - min(late)
    seen += f", {fall:.2f} below that at two thirds"
    warmup = training.last.symbols.get("warmup_steps")
    is_warm = not isinstance(warmup, int) or begin > warmup
    if not is_warm or level <= MIN_PLATEAU or check_divergence(case).findings:
        return Answer(seen=seen)
    started = _sign_of_start(training, validations, best)
    if started:
        return Answer(seen=f"{seen}; {started}")
    if fall >= MAX_PLATEAU_FALL:
        return Answer(
            missing=f"{seen}: as high as a plateau, and falling; it may not read its source yet"
        )
    expected = f"at most {MIN_PLATEAU}, or falling by {MAX_PLATEAU_FALL} bits or more"
    evidence = Problem("validation", seen, expected, case.log_path, validations[-1].line)
    words = (
        "most of the score: without its source the decoder writes what is likely in its language"
    )
    source = "0.0 BLEU for 93.8 in the demo, 11.8 for 34.5 on Multi30k (docs/doctor.md)"
    cost = Cost(words=words, source=source)
    return Answer(findings=(make_finding("unstarted", [evidence], cost=cost),))


def _sign_of_start(training: Training, validations: Sequence[Statistics], best: float) -> str:
    """Return evidence that a training on a plateau uses its source sentences, or '' without such
    evidence.
    """
    bleu = max((line.value_by_name.get("bleu", 0.0) for line in training.validations), default=0.0)
    if bleu > MAX_UNSTARTED_BLEU:
        return f"but a validation's BLEU is {bleu:.1f}"
    reached = next(line for line in validations if _bits(line) <= best + MAX_PLATEAU_FALL)
    later = [line for line in training.epochs if line.update >= reached.update and line.nll_bits]
    if later and _bits(reached) - _bits(later[0]) > MAX_PLATEAU_GAP:
        trained = f"{later[0].nll_bits:.2f}"
        return f"but training was at {trained} when it came there: it over-fits"
    return ""
