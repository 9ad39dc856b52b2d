"""Tables seed_noise and one_run: the printed differences of Table 3 next to public seed noise, by a
second path.
"""

import csv
import math
import statistics
from collections import defaultdict

import pytest
from scipy import stats

from aiayn.printed import PUBLISHED_FOLDER
from aiayn.spec.system import CONFIG_FOLDER
from analysis.conclusions.one_run import (
    Noise,
    bits_noises,
    bleu_noises,
    half_unit,
    printed_differences,
)
from analysis.conclusions.tables.one_run import NO, ONLY_PLAIN, YES, answer, lay_out_one_run
from analysis.conclusions.tables.seed_noise import lay_out_seed_noise, noise_lines
from paper_tables.frame import Frame
from paper_tables.layout import Table
from paper_tables.scale_results import read_hardware

NOT_COUNTED = {"base", "table3_a_h4", "table3_a_h16", "table3_d_pdrop02", "table3_d_els02"}


@pytest.fixture
def frame() -> Frame:
    return Frame(scale="paper", hardware=read_hardware(CONFIG_FOLDER / "hardware.yaml"))


def printed_by_row(column: str) -> dict[str, float]:
    """Return a column of Table 3 with only the csv module."""
    with (PUBLISHED_FOLDER / "table3.csv").open(encoding="utf-8", newline="") as lines:
        return {
            line["row"]: float(line["value"])
            for line in csv.DictReader(lines)
            if line["column"] == column
        }


def algoperf_sd(column: str) -> tuple[float, int]:
    """Return AlgoPerf's pooled sd and degrees of freedom with only the csv and statistics modules."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    with (PUBLISHED_FOLDER / "public_seeds.csv").open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            if (
                line["source"].startswith("algoperf")
                and line["updates"] == "133333"
                and float(line["bleu_test"]) > 1
            ):
                values[line["source"] + line["system"], line["setting"]].append(float(line[column]))
    groups = [group for group in values.values() if len(group) >= 3]
    df = sum(len(group) - 1 for group in groups)
    return (
        math.sqrt(sum(statistics.variance(group) * (len(group) - 1) for group in groups) / df),
        df,
    )


def texts(table: Table, column: str) -> list[str]:
    """Return a column of a table as shown."""
    index = [one.name for one in table.columns].index(column)
    return ["".join(part.text for part in row.cells[index].parts) for row in table.rows]


def test_13_of_15_printed_differences_are_distinguishable_in_bits_and_6_in_bleu(
    frame: Frame,
) -> None:
    sd, df = algoperf_sd("bits_dev")
    reach = stats.t.ppf(0.975, df) * sd * math.sqrt(2)
    perplexities = printed_by_row("ppl_dev")
    smallest = {}
    for row, perplexity in perplexities.items():
        higher, lower = max(perplexity, perplexities["base"]), min(perplexity, perplexities["base"])
        smallest[row] = math.log2((higher - 0.005) / (lower + 0.005))
    counted = {row: size for row, size in smallest.items() if row not in NOT_COUNTED}
    assert len(counted) == 15
    assert {row for row, size in counted.items() if size <= reach} == {
        "table3_c_n8",
        "table3_e_learned",
    }
    table = lay_out_one_run(frame)
    rows = texts(table, "row")
    assert set(rows) == set(counted)
    by_row = dict(zip(rows, texts(table, "algoperf_bits"), strict=True))
    assert {row for row, shown in by_row.items() if shown == NO} == {
        "table3_c_n8",
        "table3_e_learned",
    }
    assert [texts(table, name).count(NO) for name in ("algoperf_bleu", "mlperf_bleu")] == [9, 12]
    assert (
        "13 of 15 differences between one run and one run are distinguishable"
        in table.notes[0].text
    )


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
