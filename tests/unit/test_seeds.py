"""Means and t-intervals over seeds, by hand."""

import pytest

from aiayn.scoring.seeds import paired_differences, summarise_seeds


@pytest.mark.parametrize(
    ("values", "mean", "sd", "half_width"),
    [
        ([27.0, 28.0, 29.0], 28.0, 1.0, 4.303 / 3**0.5),  # t(0.975, 2 df) = 4.303
        ([1.0, 2.0, 3.0, 4.0], 2.5, (5 / 3) ** 0.5, 3.182 * (5 / 12) ** 0.5),  # t(0.975, 3 df)
        ([0.1, 0.1, 0.1], 0.1, 0.0, 0.0),
        ([24.0, 26.0], 25.0, 2**0.5, None),
        ([27.3], 27.3, None, None),
    ],
)
def test_seeds_have_a_mean_and_three_of_them_the_textbook_interval(
    values: list[float], mean: float, sd: float | None, half_width: float | None
) -> None:
    summary = summarise_seeds(values)
    assert summary.num_seeds == len(values)
    assert summary.mean == pytest.approx(mean)
    assert summary.sd == (None if sd is None else pytest.approx(sd, abs=1e-9))
    assert summary.half_width == (
        None if half_width is None else pytest.approx(half_width, abs=0.001)
    )


def test_differences_are_taken_seed_by_seed_of_the_common_seeds() -> None:
    """Both spread by 10 from seed to seed, the differences by 1."""
    ours, base = {3: 33.0, 1: 11.0, 2: 22.0, 4: 5.0}, {1: 10.0, 2: 20.0, 3: 30.0, 5: 0.0}
    assert paired_differences(ours, base) == [1.0, 2.0, 3.0]
