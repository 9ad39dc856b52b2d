"""A report of measured steps: sums, rates, extrapolations and verdicts that can be checked by hand."""

import msgspec
import pytest

from tests.benchmarks.data_report import NUM_EN_FR_KEPT_PAIRS, NUM_EN_FR_PAIRS, StepCost, line_through, report


def cost(name: str, num_pairs: int, wall_seconds: float, peak_mib: float = 100.0, **others: object) -> StepCost:
    """Return a measured step of ours on the paper's recipe."""
    values = {"route": "wmt14_en_de", "side": "ours", "what": f"aiayn {name}", "num_processes": 2,
              "cpu_seconds": 2 * wall_seconds, "is_equal": None, "commit": "abc", "name": name, "num_pairs": num_pairs,
              "wall_seconds": wall_seconds, "peak_mib": peak_mib}  # fmt: skip
    return msgspec.convert({**values, **others}, StepCost)


def test_a_line_goes_through_the_last_two_points() -> None:
    line = line_through([(100, 5.0), (1, 77.0), (300, 9.0)])  # a slope of 0.02 from (0, 3)
    assert [line(at) for at in (0, 300, 1_000)] == pytest.approx([3.0, 9.0, 23.0])


def test_one_point_is_in_proportion_and_nothing_begins_below_zero() -> None:
    assert line_through([(100, 5.0)])(1_000) == 50.0
    assert line_through([(100, 1.0), (200, 5.0)])(1_000) == 25.0  # not 37: that line would be below 0 at 0
    assert line_through([(100, 5.0), (200, 4.0)])(1_000) == 4.0  # an uneven machine, not a negative rate


def test_rates_sums_and_peaks_are_of_what_was_measured() -> None:
    peer = cost("encode", 100_000, 20.0, side="peer", what="sentencepiece", is_equal=False)
    text = report([cost("clean", 100_000, 10.0, 300.0), cost("segment", 100_000, 40.0, 900.0), peer])
    rows = [" ".join(line.split()) for line in text.split("\n")]
    assert "wmt14_en_de ours aiayn clean 10,000 10.0 20.0 300" in rows
    assert "wmt14_en_de ours all of them 2,000 50.0 100.0 900" in rows
    assert "wmt14_en_de peer encode: sentencepiece 5,000 20.0 40.0 100 NO" in rows
    assert "wmt14_en_de: not judged, as not all of its steps are measured" in rows


def test_goals_are_judged_by_what_was_measured_at_their_size() -> None:
    segment = cost("segment", 4_500_000, 400.0, 5_000.0, learning_seconds=300.0)
    steps = [cost("clean", 4_500_000, 100.0, 1024.0), segment, cost("binarize", 4_500_000, 100.0, 900.0)]
    text = report(steps)
    assert "wmt14_en_de: 10 minutes: met, 10.0 (5.0 without BPE learning), measured" in text
    assert "wmt14_en_de: 1024 MiB outside BPE learning: met, 1,024" in text
    missed = report([*steps[:2], cost("binarize", 4_500_000, 101.0, 1_025.0)])
    assert "10 minutes: NOT MET" in missed
    assert "1024 MiB outside BPE learning: NOT MET, 1,025" in missed


def test_goals_at_another_size_are_said_to_be_extrapolated() -> None:
    steps = [cost(name, 100_000, 4.0) for name in ("clean", "segment", "binarize")]  # 3 x 45 x 4 s
    assert "10 minutes: met, 9.0 (9.0 without BPE learning), extrapolated from 100,000 pairs" in report(steps)


def test_en_fr_is_on_the_line_through_two_sizes() -> None:
    steps = [cost("clean", 100_000, 2.0), cost("clean", 1_100_000, 12.0)]  # 10 s a million pairs, 1 s at first
    text = report(steps)
    hours = (1 + NUM_EN_FR_PAIRS / 100_000) / 3600
    assert hours == pytest.approx(0.1137, abs=1e-4)
    assert "through those of 100,000 and 1,100,000 pairs" in text
    assert "0.1 h (clean 0.11), 0.2 CPU-h" in text
    assert NUM_EN_FR_KEPT_PAIRS < NUM_EN_FR_PAIRS


def test_learning_from_a_sample_takes_no_longer_once_that_is_full() -> None:
    # 100 s of learning at half of the sample, so 200 s for the whole of it; 50 s of other work at 500,000 pairs.
    segment = cost("segment", 500_000, 150.0, learning_seconds=100.0, most_learnt_pairs=1_000_000)
    hours = (200 + 50 * NUM_EN_FR_KEPT_PAIRS / 500_000) / 3600
    assert hours == pytest.approx(1.056, abs=1e-3)
    assert "1.1 h (segment 1.06)" in report([segment])
    full = cost("segment", 1_000_000, 300.0, learning_seconds=200.0, most_learnt_pairs=1_000_000)
    larger = cost("segment", 2_000_000, 400.0, learning_seconds=200.0, most_learnt_pairs=1_000_000)
    assert "1.1 h (segment 1.06)" in report([full, larger])  # 200 s, and 100 s a million pairs


def test_no_line_is_no_report() -> None:
    assert report([]) == "nothing is measured yet"
