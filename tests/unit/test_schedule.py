"""Equation (3) of section 5.3."""

import pytest

from aiayn.schedule import learning_rate


def test_the_rate_peaks_at_the_last_warm_up_step() -> None:
    """Base: 512^-0.5 * 4000^-0.5 = 6.98771e-4 at step 4,000."""
    assert learning_rate(4000, d_model=512, warmup_steps=4000) == pytest.approx(
        6.98771242968684e-4, rel=1e-12
    )
    rates = [learning_rate(step, d_model=512, warmup_steps=4000) for step in (3999, 4000, 4001)]
    assert max(rates) == rates[1]


def test_the_rate_rises_in_proportion_and_falls_with_the_root() -> None:
    """d_model 4 and 16 warm-up steps: at step 8 half of the peak 1/2 * 1/4, at step 64 half of it
    again.
    """
    assert learning_rate(16, d_model=4, warmup_steps=16) == 0.125
    assert learning_rate(8, d_model=4, warmup_steps=16) == 0.0625
    assert learning_rate(64, d_model=4, warmup_steps=16) == 0.0625


def test_steps_count_from_one() -> None:
    assert learning_rate(1, d_model=512, warmup_steps=4000) > 0
    with pytest.raises(ValueError, match=r"step 0: equation \(3\) counts from 1"):
        learning_rate(0, d_model=512, warmup_steps=4000)
