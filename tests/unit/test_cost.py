"""Costs agree with the paper's own arithmetic and with fairseq's own count."""

from pathlib import Path

import msgspec
import pytest

from aiayn.cost import (
    LEARNED_POSITION_ROWS,
    attention_parameters,
    checkpoint_bytes,
    flops_per_token,
    layer_parameters,
    num_parameters,
    predicted_training_seconds,
    training_flops,
)
from aiayn.errors import ConfigError
from aiayn.hardware import read_hardware
from tests.records_factory import PAPER_TRAINING

BIG = msgspec.structs.replace(PAPER_TRAINING, d_model=1024, d_ff=4096, num_heads=16)
TABLE_3_VOCABULARY = 40_960  # the size that all rows of Table 3 but big agree with


def test_base_training_cost_is_the_papers() -> None:  # 12 h on 8 P100 at 9.5 TFLOP/s
    assert training_flops(12 * 3600 * 8, 9.5e12) == pytest.approx(3.3e18, rel=0.01)


def test_big_training_cost_is_the_papers() -> None:  # 3.5 days on 8 P100
    assert training_flops(3.5 * 24 * 3600 * 8, 9.5e12) == pytest.approx(2.3e19, rel=0.01)


def test_one_attention_of_width_two_has_twenty_four_parameters() -> None:
    tiny = msgspec.structs.replace(PAPER_TRAINING, d_model=2, num_heads=1, d_k=2, d_v=2)
    assert attention_parameters(tiny) == 4 * (2 * 2 + 2)


@pytest.mark.parametrize(
    ("changes", "printed_millions"),
    [
        ({}, 65),
        ({"d_k": 16}, 58),
        ({"d_k": 32}, 60),
        ({"num_layers": 2}, 36),
        ({"num_layers": 4}, 50),
        ({"num_layers": 8}, 80),
        ({"d_model": 256, "d_k": 32, "d_v": 32}, 28),
        ({"d_model": 1024, "d_k": 128, "d_v": 128}, 168),
        ({"d_ff": 1024}, 53),
        ({"d_ff": 4096}, 90),
    ],
)
def test_the_count_rounds_to_table_3(changes: dict[str, int], printed_millions: int) -> None:
    training = msgspec.structs.replace(PAPER_TRAINING, **changes)
    # within a million: N = 2 comes to 35.7 and is printed as 36
    assert num_parameters(training, TABLE_3_VOCABULARY, joint=True) / 1e6 == pytest.approx(printed_millions, abs=0.55)


def test_big_with_fairseqs_vocabulary_is_the_known_210_million() -> None:
    assert num_parameters(BIG, 32_768, joint=True) == pytest.approx(209.9e6, rel=0.001)


def test_two_vocabularies_add_one_matrix() -> None:
    joint = num_parameters(PAPER_TRAINING, 1000, joint=True)
    assert num_parameters(PAPER_TRAINING, 1000, joint=False) == joint + 1000 * 512
    assert num_parameters(PAPER_TRAINING, 1000, joint=False, target_vocabulary_size=300) == joint + 300 * 512


def test_learned_positions_add_two_tables() -> None:
    learned = msgspec.structs.replace(PAPER_TRAINING, positions="learned")
    assert LEARNED_POSITION_ROWS == 1024 + 1 + 1
    difference = num_parameters(learned, 1000, joint=True) - num_parameters(PAPER_TRAINING, 1000, joint=True)
    assert difference == 2 * 1026 * 512


def test_flops_of_long_sentences_are_six_a_weight_and_attention() -> None:
    # without attention's own products: 6 operations for each weight of a matrix, encoder and decoder
    matrices = 6 * (3 * 4 * 512 * 512 + 2 * 2 * 512 * 2048) + 1000 * 512
    assert flops_per_token(PAPER_TRAINING, 1000, tokens_per_sentence=0) == 6 * matrices
    # 18 attentions, each 2 x 10 tokens x 512
    assert flops_per_token(PAPER_TRAINING, 1000, tokens_per_sentence=10) == 6 * (matrices + 18 * 2 * 10 * 512)


def test_a_full_checkpoint_is_three_times_the_model() -> None:
    assert checkpoint_bytes(10, has_optimizer=False) == 40
    assert checkpoint_bytes(10, has_optimizer=True) == 120


def test_the_prediction_of_the_papers_base_training_is_near_its_twelve_hours() -> None:
    seconds = predicted_training_seconds(PAPER_TRAINING, 37_000, flops_per_second=8 * 9.5e12)
    assert seconds / 3600 == pytest.approx(12, abs=1.5)


def test_layers_dominate_the_count_of_big() -> None:
    assert layer_parameters(BIG) / num_parameters(BIG, 37_000, joint=True) == pytest.approx(0.82, abs=0.01)


@pytest.mark.parametrize(
    "changes",
    [{}, {"num_layers": 3, "d_model": 64, "num_heads": 4, "d_k": 16, "d_v": 16, "positions": "learned"}],
)
@pytest.mark.parametrize("joint", [True, False])
def test_fairseq_builds_a_model_of_exactly_that_size(changes: dict[str, object], joint: bool) -> None:
    from tests.fairseq_counting import count_fairseq_parameters  # loads torch: for this test only

    training = msgspec.structs.replace(PAPER_TRAINING, **({"num_layers": 2, "d_ff": 128} | changes))
    counted = count_fairseq_parameters(training, source_symbols=50, target_symbols=50 if joint else 40, joint=joint)
    assert counted == num_parameters(training, 54, joint=joint, target_vocabulary_size=54 if joint else 44)


def test_the_footnotes_rates_are_in_hardware_yaml() -> None:
    hardware = read_hardware()
    rate_by_name = {"K80": 2.8e12, "K40": 3.7e12, "M40": 6.0e12, "P100": 9.5e12}  # footnote 5
    for name, rate in rate_by_name.items():
        assert hardware.gpu_by_name[name].sustained_flops_per_second.value == rate
        assert hardware.gpu_by_name[name].sustained_flops_per_second.kind == "paper"
    assert {"V100", "A100", "H100", "H200"} <= set(hardware.gpu_by_name)


def test_a_gpu_is_found_by_a_whole_word_of_its_product_name() -> None:
    hardware = read_hardware()
    assert hardware.find_gpu("Tesla P100-SXM2-16GB") is hardware.gpu_by_name["P100"]
    assert hardware.find_gpu("NVIDIA H200") is hardware.gpu_by_name["H200"]
    assert hardware.find_gpu("NVIDIA GH200 480GB") is None
    assert hardware.find_gpu("") is None


def test_a_sustained_rate_above_its_peak_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hardware.yaml"
    value = "{value: %s, kind: vendor, source: a data sheet}"
    path.write_text(
        "gpu_by_name:\n  X1:\n"
        f"    sustained_flops_per_second: {value % '2.0e+12'}\n    peak_flops_per_second: {value % '1.0e+12'}\n"
        f"    watts: {value % '300.0'}\n    dollars_per_hour: null\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError, match=r"hardware.yaml:2: X1 sustains 2e\+12 FLOP/s, above its peak of 1e\+12"):
        read_hardware(path)
