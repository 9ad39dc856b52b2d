"""Costs agree with the paper's own arithmetic and sums done by hand. tests/engine compares them
with built models.
"""

from pathlib import Path

import msgspec
import pytest

from aiayn.cost import (
    flops_per_token,
    num_parameters,
    training_flops,
)
from aiayn.errors import ConfigError
from aiayn.spec.hardware import read_hardware
from aiayn.spec.system import CONFIG_FOLDER, TrainingSpec
from tests.records_factory import PAPER_TRAINING

BIG = msgspec.structs.replace(PAPER_TRAINING, d_model=1024, d_ff=4096, num_heads=16)


def test_big_training_cost_is_the_papers() -> None:  # named by claim V-24f
    """3.5 days (section 5.2) on 8 P100 of 9.5 TFLOP/s (footnote 5)."""
    assert training_flops(3.5 * 24 * 3600 * 8, 9.5e12) == pytest.approx(2.3e19, rel=0.01)


def test_big_with_fairseqs_vocabulary_is_the_known_210_million() -> None:
    assert num_parameters(BIG, 32_768, joint=True) == pytest.approx(209.9e6, rel=0.001)


LSTM = msgspec.structs.replace(PAPER_TRAINING, architecture="lstm", num_layers=1, d_model=2, d_ff=3)
FCONV = msgspec.structs.replace(
    PAPER_TRAINING, architecture="fconv", num_layers=1, d_model=2, d_ff=3
)


@pytest.mark.parametrize("training", [LSTM, FCONV])
def test_what_an_architecture_does_not_read_changes_no_count(training: TrainingSpec) -> None:
    changed = msgspec.structs.replace(
        training, num_heads=1, d_k=7, norm_order="pre", attention="additive"
    )
    assert num_parameters(changed, 10, joint=True) == num_parameters(training, 10, joint=True)
    assert flops_per_token(changed, 10) == flops_per_token(training, 10)


def attention_flops(training: TrainingSpec) -> float:
    """Return what attention in sentences of 10 tokens adds to the operations for a token."""
    with_attention = flops_per_token(training, 1000, tokens_per_sentence=10)
    return with_attention - flops_per_token(training, 1000, tokens_per_sentence=0)


def test_flops_are_six_a_weight_and_attention() -> None:
    # without attention's own products: 6 operations for each weight of a matrix, encoder and
    # decoder
    matrices = 6 * (3 * 4 * 512 * 512 + 2 * 2 * 512 * 2048) + 1000 * 512
    assert flops_per_token(PAPER_TRAINING, 1000, tokens_per_sentence=0) == 6 * matrices
    # 18 attentions, each 2 x 10 tokens x 512; the additive one has a tanh for each pair of query
    # and key
    assert attention_flops(PAPER_TRAINING) == 6 * 18 * 2 * 10 * 512
    additive = msgspec.structs.replace(PAPER_TRAINING, attention="additive")
    assert attention_flops(additive) == 6 * 18 * 3 * 10 * 512


def test_the_footnotes_rates_are_in_hardware_yaml() -> None:
    hardware = read_hardware()
    rate_by_name = {"K80": 2.8e12, "K40": 3.7e12, "M40": 6.0e12, "P100": 9.5e12}  # footnote 5
    for name, rate in rate_by_name.items():
        assert hardware.gpu_by_name[name].sustained_flops_per_second.value == rate
        assert hardware.gpu_by_name[name].sustained_flops_per_second.kind == "paper"
    assert {"V100", "A100", "H100", "H200"} <= set(hardware.gpu_by_name)


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("Tesla P100-SXM2-16GB", "P100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GH200 480GB", None),
        ("", None),
        ("nvidia_h100_80gb_hbm3", "H100"),  # as Slurm's gres has it
        ("a100", "A100"),
        ("l40s", "L40S"),
        ("NVIDIA L40", None),
        ("NVIDIA A10G", None),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("nvidia_geforce_rtx_5090", "RTX5090"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_a_gpu_is_found_by_a_whole_word_of_its_product_name(product: str, name: str | None) -> None:
    hardware = read_hardware()
    assert hardware.find_name(product) == name
    assert hardware.find_gpu(product) is (hardware.gpu_by_name[name] if name else None)


def test_hardware_that_cannot_be_is_refused_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "hardware.yaml"
    text = (CONFIG_FOLDER / "hardware.yaml").read_text(encoding="utf-8")
    path.write_text(
        text.replace("dollars_per_hour: {value: 0.45", "dollars_per_hour: {value: 0.0"),
        encoding="utf-8",
    )
    message = r"yaml:\d+: gpu_by_name\.K80\.dollars_per_hour\.value: 0\.0: Expected `float` > 0\.0"
    with pytest.raises(ConfigError, match=message):
        read_hardware(path)
