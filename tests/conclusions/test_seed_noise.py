"""Tables seed_noise and one_run: the reach of one run, and rounding at its worst."""

import math

import pytest

from analysis.conclusions.one_run import (
    Noise,
    bits_noises,
    bleu_noises,
    half_unit,
    printed_differences,
)
from analysis.conclusions.tables.one_run import NO, ONLY_PLAIN, YES, answer


def test_the_reach_is_of_two_single_runs_and_the_correction_divides_alpha() -> None:
    noise = Noise("known", 1.0, 1_000_000)
    assert noise.reach() == pytest.approx(1.96 * math.sqrt(2), abs=0.001)
    assert noise.reach(15) == pytest.approx(2.935 * math.sqrt(2), abs=0.001)  # z(1 - 0.05 / 30)
    assert [answer(size, noise, 15) for size in (4.2, 4.0, 2.7)] == [YES, ONLY_PLAIN, NO]


def test_the_noisiest_setting_has_the_degrees_of_freedom_of_its_own_five_runs() -> None:
    counts = []
    for noises, size in ((bits_noises(), "smallest_bits"), (bleu_noises(), "smallest_bleu")):
        noisiest = noises[1]
        assert (noisiest.name, noisiest.degrees_of_freedom) == ("AlgoPerf's noisiest setting", 4)
        sizes = [getattr(difference, size) for difference in printed_differences()]
        for reach in (noisiest.reach(), noisiest.reach(len(sizes))):
            counts.append(sum(value > reach for value in sizes))
    assert counts == [11, 10, 2, 0]


def test_rounding_is_taken_at_its_worst() -> None:
    assert [half_unit(text) for text in ("4.92", "25.8", "26")] == [0.005, 0.05, 0.5]
    one_head = next(line for line in printed_differences() if line.row == "table3_a_h1")
    assert one_head.bits == pytest.approx(math.log2(5.29 / 4.92))
    assert one_head.smallest_bits == pytest.approx(math.log2(5.285 / 4.925))
    assert (one_head.bleu, one_head.smallest_bleu) == (pytest.approx(-0.9), pytest.approx(0.8))
    learned = next(line for line in printed_differences() if line.row == "table3_e_learned")
    assert (learned.smallest_bits, learned.smallest_bleu) == (0.0, pytest.approx(0.0))
