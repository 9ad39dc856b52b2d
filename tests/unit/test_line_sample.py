"""A sample of lines has the size asked for, and each line the same chance."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import aiayn.data.text.line_sample
from aiayn.data.text.line_sample import sample_lines
from aiayn.data.text.lines import write_lines
from aiayn.errors import CorpusError


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a file of lines 0 to 6 and one of 7 to 9, read in blocks of 4."""
    monkeypatch.setattr(aiayn.data.text.line_sample, "LINES_PER_DRAW", 4)
    write_lines(map(str, range(7)), tmp_path / "first")
    write_lines(map(str, range(7, 10)), tmp_path / "second")
    return [tmp_path / "first", tmp_path / "second"]


@pytest.mark.parametrize("num_samples", [0, 1, 5, 9, 10])
def test_a_sample_has_its_size_and_the_order_of_the_text(paths: list[Path], num_samples: int) -> None:
    drawn = [int(line) for line in sample_lines(paths, [7, 3], num_samples, np.random.default_rng(1))]
    assert len(drawn) == num_samples
    assert drawn == sorted(set(drawn))


def test_more_than_there_are_is_all(paths: list[Path]) -> None:
    assert list(sample_lines(paths, [7, 3], 99, np.random.default_rng(1))) == [str(number) for number in range(10)]


def test_each_line_is_drawn_as_often_as_any_other(paths: list[Path]) -> None:
    """2,000 samples of 3 from 10: 600 times each, with a standard deviation of 20; 5 of these are allowed."""
    rng = np.random.default_rng(1)
    counts = Counter(line for _ in range(2000) for line in sample_lines(paths, [7, 3], 3, rng))
    assert len(counts) == 10
    assert all(500 <= count <= 700 for count in counts.values())


@pytest.mark.parametrize("num_lines", [[6, 3], [8, 3], [7, 2]])
def test_another_number_of_lines_than_recorded_is_refused(paths: list[Path], num_lines: list[int]) -> None:
    with pytest.raises(CorpusError, match=r"another number of lines than the \d recorded; rerun `aiayn clean`"):
        list(sample_lines(paths, num_lines, 3, np.random.default_rng(1)))
