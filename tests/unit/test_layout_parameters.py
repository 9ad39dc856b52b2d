"""The printed counts of Table 3: the published sums, and which vocabulary each printed count
implies.
"""

import pytest

from paper_tables.tables.parameters import (
    BIG,
    TARGET_SPACE_ROWS,
    CountedRow,
    common_vocabulary_sizes,
    counted_rows,
)


@pytest.fixture(scope="module")
def row_by_name() -> dict[str, CountedRow]:
    return {row.system.name: row for row in counted_rows()}


def test_no_vocabulary_fits_both_base_and_big(row_by_name: dict[str, CountedRow]) -> None:
    others = [row for row in row_by_name.values() if row.system.name != BIG]
    assert len(others) == 10
    low, high = common_vocabulary_sizes(others)
    assert (low, high) == (40_932, 41_160)
    assert low <= 40_960 <= high
    # tensor2tensor's target-space embedding is as good as 32 more entries
    assert (low - TARGET_SPACE_ROWS, high - TARGET_SPACE_ROWS) == (40_900, 41_128)
    assert row_by_name[BIG].vocabulary_sizes == (35_296, 36_272)
    assert all(row.vocabulary_sizes[0] > 36_272 for row in others)
    low, high = common_vocabulary_sizes([row_by_name["base"], row_by_name[BIG]])
    assert low > high
