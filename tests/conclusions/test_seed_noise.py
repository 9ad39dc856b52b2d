"""Tables seed_noise and one_run: the printed differences of Table 3 next to public seed noise, by a
second path.
"""

import math

import pytest

from aiayn.spec.system import CONFIG_FOLDER
from analysis.conclusions.one_run import (
    Noise,
    bits_noises,
    bleu_noises,
    half_unit,
    printed_differences,
)
from analysis.conclusions.tables.one_run import NO, ONLY_PLAIN, YES, answer
from analysis.conclusions.tables.seed_noise import lay_out_seed_noise, noise_lines
from paper_tables.frame import Frame
from paper_tables.scale_results import read_hardware


@pytest.fixture
def frame() -> Frame:
    return Frame(scale="paper", hardware=read_hardware(CONFIG_FOLDER / "hardware.yaml"))


def test_the_reach_is_of_two_single_runs_and_the_correction_divides_alpha() -> None:
    noise = Noise("known", 1.0, 1_000_000)
    assert noise.reach() == pytest.approx(1.96 * math.sqrt(2), abs=0.001)
    assert noise.reach(15) == pytest.approx(2.935 * math.sqrt(2), abs=0.001)  # z(1 - 0.05 / 30)
    assert [answer(size, noise, 15) for size in (4.2, 4.0, 2.7)] == [YES, ONLY_PLAIN, NO]


def test_rounding_is_taken_at_its_worst() -> None:
    assert [half_unit(text) for text in ("4.92", "25.8", "26")] == [0.005, 0.05, 0.5]
    one_head = next(line for line in printed_differences() if line.row == "table3_a_h1")
    assert one_head.bits == pytest.approx(math.log2(5.29 / 4.92))
    assert one_head.smallest_bits == pytest.approx(math.log2(5.285 / 4.925))
    assert (one_head.bleu, one_head.smallest_bleu) == (pytest.approx(-0.9), pytest.approx(0.8))
    learned = next(line for line in printed_differences() if line.row == "table3_e_learned")
    assert (learned.smallest_bits, learned.smallest_bleu) == (0.0, pytest.approx(0.0))


def test_each_source_has_its_pooled_line_and_algoperf_its_twelve_settings(frame: Frame) -> None:
    lines = noise_lines()
    assert [line.source for line in lines].count("AlgoPerf") == 13
    assert lines[0].sd_bits == "0.0038 (0.0014 to 0.0061)"
    assert next(line for line in lines if line.source == "MLPerf").sd_bits == ""
    assert lay_out_seed_noise(frame).rows
    assert [noise.degrees_of_freedom for noise in bits_noises()] == [47, 47]
    assert [round(noise.sd, 2) for noise in bleu_noises()] == [0.17, 0.29, 0.32]
