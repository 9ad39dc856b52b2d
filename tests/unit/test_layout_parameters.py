"""The 20 rows of Table 3 counted: the published sums, and which vocabulary each printed count implies."""

import shutil
from pathlib import Path

import pytest

from aiayn.spec.system import CONFIG_FOLDER, read_scale
from paper_tables.tables.parameters import (
    BIG,
    TARGET_SPACE_ROWS,
    CountedRow,
    common_vocabulary_sizes,
    counted_rows,
    lay_out_parameters,
)
from tests.laid_out import rows_of


@pytest.fixture(scope="module")
def row_by_name() -> dict[str, CountedRow]:
    return {row.system.name: row for row in counted_rows()}


@pytest.fixture(scope="module")
def line_by_system() -> dict[str, dict[str, str]]:
    return {line["system"]: line for line in rows_of(lay_out_parameters())}


def test_every_row_of_table_3_has_one_line(row_by_name: dict[str, CountedRow]) -> None:
    scale = read_scale(CONFIG_FOLDER / "paper.yaml")
    assert len(row_by_name) == 20
    assert list(row_by_name) == ["base", *scale.ablation_systems, "big"]


@pytest.mark.parametrize(
    ("system", "printed", "at_37000", "at_40960"),
    [
        ("base", "65", "63.08", "65.11"),
        ("table3_b_dk16", "58", "55.99", "58.02"),
        ("table3_c_n2", "36", "33.66", "35.68"),
        ("table3_c_dmodel1024", "168", "163.89", "167.94"),
        ("big", "213", "214.25", "218.30"),
        ("table3_a_h1", "65 [a]", "63.08", "65.11"),  # as many heads as one likes: h d_k stays 512
        ("table3_e_learned", "65 [a]", "64.13", "66.16"),  # 2 x 1,024 x 512 more than base
    ],
)
def test_a_row_has_its_printed_count_and_ours(
    line_by_system: dict[str, dict[str, str]], system: str, printed: str, at_37000: str, at_40960: str
) -> None:
    line = line_by_system[system]
    assert (line["printed"], line["ours_37000"], line["ours_40960"]) == (printed, at_37000, at_40960)


def test_the_count_of_base_is_this_sum(row_by_name: dict[str, CountedRow]) -> None:
    # a layer pair: 3 attentions of 4 matrices, 2 feed-forward networks, 5 norms; biases are the + 1
    layer_pair = 3 * 4 * 513 * 512 + 2 * (513 * 2048 + 2049 * 512) + 5 * 2 * 512
    assert row_by_name["base"].count(37_000) == 6 * layer_pair + 37_000 * 512


def test_the_vocabularies_of_base_are_the_last_that_round_to_65_million(row_by_name: dict[str, CountedRow]) -> None:
    base = row_by_name["base"]
    assert base.vocabulary_sizes == (39_769, 41_721)
    millions = [base.count(size) / 1e6 for size in (39_768, 39_769, 41_721, 41_722)]
    assert [round(value) for value in millions] == [64, 65, 65, 66]


def test_no_vocabulary_fits_both_base_and_big(row_by_name: dict[str, CountedRow]) -> None:
    others = [row for row in row_by_name.values() if row.is_own and row.system.name != BIG]
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


def test_a_spec_of_another_size_has_no_common_vocabulary(tmp_path: Path) -> None:
    shutil.copytree(CONFIG_FOLDER / "systems" / "paper", tmp_path / "systems" / "paper")
    path = tmp_path / "systems" / "paper" / "table3_c_n2.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("num_layers: 2", "num_layers: 3"), encoding="utf-8")
    rows = counted_rows(tmp_path)
    low, high = common_vocabulary_sizes([row for row in rows if row.is_own and row.system.name != BIG])
    assert low > high  # 3 layers are 7.4 million more than 2: no vocabulary makes up for it
