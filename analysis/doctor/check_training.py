"""Checks the course of a training in its log: whether the training diverged, and whether its
decoder learnt to attend to the source.
"""

import math
from collections.abc import Sequence

from aiayn.facts.statistics import Statistics
from aiayn.facts.trainings import Problem, Training
from aiayn.facts.types import whole
from analysis.doctor.types import Case, Checked, Cost, make_finding

# A training has diverged if its last validation is this much (in bits a subword) above its best, as
# in the published cases (fairseq #515, #1331).
DIVERGED_BITS = 2.0
# If a decoder never began to read the source, its validation curve has a high plateau. Its height
# is the best validation in bits, divided by log2 of the vocabulary (1 is a random subword). Its
# fall is the difference over the last third of the updates. The limits were chosen on one half of
# our logs and also separate the other half (tests/doctor/test_start.py). There the plateaus without
# a start are at 0.31 and fall by 0.05. Trainings that started end below 0.25 or still fall by 0.4.
#
# On a small or hard text, an over-fitting training has an equally high plateau. Then the training
# loss is far below the validation when the plateau is reached: 2.1 and 4.6 bits in flores #7 (7.6
# BLEU), but 3.65 and 4.14 bits in our big without a start. Nor can a model without a start
# translate: our big had 11.8 BLEU.
MIN_PLATEAU, MAX_PLATEAU_FALL, MIN_VALIDATIONS = 0.28, 0.14, 6
MAX_PLATEAU_GAP, MAX_UNSTARTED_BLEU = 1.0, 15.0


def _validated(training: Training) -> list[Statistics]:
    return [validation for validation in training.validations if validation.nll_bits is not None]


def _bits(validation: Statistics) -> float:
    """Return the bits per subword of a validation, or infinity if its loss in the log is nan or
    infinite.
    """
    bits = validation.nll_bits
    return bits if bits is not None and math.isfinite(bits) else math.inf


def check_divergence(case: Case) -> Checked:
    """Check that the training did not diverge: its last validation loss is near its best validation
    loss.
    """
    validations = _validated(case.training) if case.training else []
    if len(validations) < 2:
        return "divergence (fewer than two validations in the log)"
    # As infinity, a loss of nan is never the best validation, and always a divergence as the last.
    best, last = min(validations, key=_bits), validations[-1]
    if _bits(last) - _bits(best) <= DIVERGED_BITS:
        return []
    evidence = Problem(
        f"validation, bits a subword, at update {last.update:,}",
        f"{last.nll_bits:.2f}",
        f"near its best, {best.nll_bits:.2f} (line {best.line})",
        case.log_path,
        last.line,
    )
    return [make_finding("divergence", evidence, where=f"after update {best.update:,}")]


def check_start(case: Case) -> Checked:
    """Check in the validation curve that the decoder learnt to attend to the source sentence.

    A model with normalisation after each sub-layer (post-norm) may remain a pure language model of
    the target side. The loss of such a model falls and becomes flat, its gradients look normal, and
    its translations have little to do with their source.
    """
    validations: list[Statistics] = []
    sizes: list[int] = []
    training = case.training
    if training is not None:
        validations = [line for line in _validated(training) if math.isfinite(_bits(line))]
        sizes = [whole(size) or 0 for size in training.last.values("num_types")]
    if training is None or not any(sizes) or len(validations) < MIN_VALIDATIONS:
        return f"the start ({MIN_VALIDATIONS} validations and the vocabulary's size are needed)"
    begin, best = validations[-1].update * 2 / 3, min(map(_bits, validations))
    # The fall is from the best validation of the first two thirds to the best of the last third.
    early = [_bits(line) for line in validations if line.update <= begin]
    late = [_bits(line) for line in validations if line.update > begin]
    if not early:
        return "the start (no validation before two thirds of the updates)"
    # With the larger of two vocabularies, the level is too low rather than too high.
    level, fall = best / math.log2(max(sizes)), min(early) - min(late)
    # During the warm-up every training is at such a level. A training that diverged is a different
    # finding. A log without `warmup_steps` is treated as past its warm-up.
    warmup = whole(training.last.symbols.get("warmup_steps"))
    is_warm = warmup is None or begin > warmup
    if not is_warm or level <= MIN_PLATEAU or check_divergence(case):
        return []
    if _reads_its_source(training, validations, best):
        return []
    # A loss that still falls may start later, so this is neither a finding nor a clean answer.
    if fall >= MAX_PLATEAU_FALL:
        return "the start (the loss is as high as a plateau, and still falls)"
    evidence = Problem(
        "validation",
        f"best {best:.2f} bits, {level:.2f} of a random subword's, {fall:.2f} below that at two"
        " thirds",
        f"at most {MIN_PLATEAU}, or falling by {MAX_PLATEAU_FALL} bits or more",
        case.log_path,
        validations[-1].line,
    )
    cost = Cost(
        words="most of the score: without its source the decoder writes what is likely in its"
        " language",
        source="0.0 BLEU for 93.8 in the demo, 11.8 for 34.5 on Multi30k (docs/doctor.md)",
    )
    return [make_finding("start", evidence, cost=cost)]


def _reads_its_source(training: Training, validations: Sequence[Statistics], best: float) -> bool:
    """Return whether a training with a flat loss uses its source after all: a validation has a BLEU
    that a language model cannot reach, or the training over-fits.
    """
    # fairseq prints a BLEU of the validation only with `--eval-bleu`.
    for line in training.validations:
        if line.value_by_name.get("bleu", 0.0) > MAX_UNSTARTED_BLEU:
            return True
    # Over-fitting: the training loss is far below the validation when the plateau is reached.
    reached = next(line for line in validations if _bits(line) <= best + MAX_PLATEAU_FALL)
    later = [line for line in training.epochs if line.update >= reached.update and line.nll_bits]
    return bool(later) and _bits(reached) - _bits(later[0]) > MAX_PLATEAU_GAP
