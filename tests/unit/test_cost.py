"""Costs agree with the paper's own arithmetic and with sums done by hand; tests/engine compares with built models."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.cost import (
    LEARNED_POSITION_ROWS,
    attention_parameters,
    checkpoint_bytes,
    flops_per_token,
    full_batch_flops,
    layer_parameters,
    num_parameters,
    target_tokens_per_full_update,
    training_flops,
)
from aiayn.errors import ConfigError
from aiayn.spec.hardware import read_hardware
from aiayn.spec.system import TrainingSpec
from aiayn.train.fairseq_args import MAX_POSITIONS
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
    assert num_parameters(PAPER_TRAINING, 1000, joint=True, target_vocabulary_size=300) == joint
    assert num_parameters(PAPER_TRAINING, 1000, joint=False, target_vocabulary_size=300) == joint + 300 * 512


def test_untied_embeddings_are_three_matrices() -> None:
    untied = msgspec.structs.replace(PAPER_TRAINING, tied_embeddings=False)
    tied = num_parameters(PAPER_TRAINING, 1000, joint=True)
    assert num_parameters(untied, 1000, joint=True) == tied + 2 * 1000 * 512
    assert num_parameters(untied, 1000, joint=False, target_vocabulary_size=300) == tied + 2 * 300 * 512


@pytest.mark.parametrize(("architecture", "rows"), [("transformer", 1024), ("fairseq_transformer", 1026)])
def test_learned_positions_add_two_tables(architecture: str, rows: int) -> None:
    learned = msgspec.structs.replace(PAPER_TRAINING, architecture=architecture, positions="learned")
    difference = num_parameters(learned, 1000, joint=True) - num_parameters(PAPER_TRAINING, 1000, joint=True)
    assert difference == 2 * rows * 512


def test_as_many_positions_are_learned_as_sentences_may_be_long() -> None:
    assert LEARNED_POSITION_ROWS["transformer"] == LEARNED_POSITION_ROWS["fconv"] == MAX_POSITIONS
    assert LEARNED_POSITION_ROWS["fairseq_transformer"] == MAX_POSITIONS + 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # W^Q and W^K: 8 heads of 16 columns each; W^V and W^O: 8 of 64; 512 rows; a bias for each column
        ({"d_k": 16}, 513 * (128 + 128 + 512) + 513 * 512),
        ({"d_v": 32}, 513 * (512 + 512 + 256) + 257 * 512),
        ({"attention_biases": False}, 4 * 512 * 512),
        ({"attention": "additive"}, 4 * 513 * 512 + 8 * 64),  # a vector of d_k for each head
        ({"attention": "temperature"}, 4 * 513 * 512 + 1),
        ({"attention": "unscaled"}, 4 * 513 * 512),
        ({"attention": "sqrt_d_model"}, 4 * 513 * 512),
    ],
)
def test_an_attention_has_these_parameters(changes: dict[str, Any], expected: int) -> None:
    assert attention_parameters(msgspec.structs.replace(PAPER_TRAINING, **changes)) == expected


def test_pre_norm_adds_one_norm_after_either_stack() -> None:
    pre = msgspec.structs.replace(PAPER_TRAINING, norm_order="pre")
    assert layer_parameters(pre) == layer_parameters(PAPER_TRAINING) + 2 * (512 + 512)


@pytest.mark.parametrize("norm", ["layer_std", "batch"])
def test_every_norm_has_a_gain_and_a_bias(norm: str) -> None:
    other = msgspec.structs.replace(PAPER_TRAINING, norm=norm)
    assert num_parameters(other, 1000, joint=True) == num_parameters(PAPER_TRAINING, 1000, joint=True)


LSTM = msgspec.structs.replace(PAPER_TRAINING, architecture="lstm", num_layers=1, d_model=2, d_ff=3)
FCONV = msgspec.structs.replace(PAPER_TRAINING, architecture="fconv", num_layers=1, d_model=2, d_ff=3)


def test_an_lstm_of_words_two_wide_and_states_three_wide() -> None:
    encoder = 4 * 3 * (2 + 3 + 2)  # 4 gates of 3 states read a word, a state and two biases
    decoder = 4 * 3 * (2 + 3 + 3 + 2)  # and what attention gave for the last word
    attention = 3 * 3 + (3 + 3) * 3
    narrowing = 3 * 2 + 2
    assert num_parameters(LSTM, 10, joint=True) == encoder + decoder + attention + narrowing + 10 * 2
    assert num_parameters(LSTM, 10, joint=False, target_vocabulary_size=7) == 84 + 120 + 27 + 8 + (10 + 7) * 2
    untied = msgspec.structs.replace(LSTM, tied_embeddings=False)
    assert num_parameters(untied, 10, joint=True) == 84 + 120 + 27 + 8 + 3 * 10 * 2 + 10  # the output has a bias


def test_a_second_lstm_layer_reads_states() -> None:
    two = msgspec.structs.replace(LSTM, num_layers=2)
    assert num_parameters(two, 10, joint=True) - num_parameters(LSTM, 10, joint=True) == 2 * 4 * 3 * (3 + 3 + 2)


def test_an_fconv_of_words_two_wide_and_three_channels() -> None:
    into, out_of = 3 * (2 + 2), 2 * (3 + 2)  # each output has its inputs, a length and a bias
    convolution = 6 * (3 * 3 + 2)  # twice 3 outputs, for the gates, of 3 words of 3 channels
    layers = 2 * (into + convolution + out_of) + into + out_of  # the decoder's layer attends
    words = (10 + 10 + 2 * 1024) * 2  # source and target are never shared; positions are learned
    assert num_parameters(FCONV, 10, joint=True) == layers + words + 10  # the shared output has a bias of its own
    untied = msgspec.structs.replace(FCONV, tied_embeddings=False)
    assert num_parameters(untied, 10, joint=True) == layers + words + 10 * (2 + 2)


@pytest.mark.parametrize("training", [LSTM, FCONV])
def test_what_an_architecture_does_not_read_changes_no_count(training: TrainingSpec) -> None:
    changes: dict[str, Any] = {"num_heads": 1, "d_k": 7, "norm_order": "pre", "attention": "additive"}
    other = msgspec.structs.replace(training, **changes)
    assert num_parameters(other, 10, joint=True) == num_parameters(training, 10, joint=True)
    assert flops_per_token(other, 10) == flops_per_token(training, 10)


def test_flops_of_long_sentences_are_six_a_weight_and_attention() -> None:
    # without attention's own products: 6 operations for each weight of a matrix, encoder and decoder
    matrices = 6 * (3 * 4 * 512 * 512 + 2 * 2 * 512 * 2048) + 1000 * 512
    assert flops_per_token(PAPER_TRAINING, 1000, tokens_per_sentence=0) == 6 * matrices
    # 18 attentions, each 2 x 10 tokens x 512
    assert flops_per_token(PAPER_TRAINING, 1000, tokens_per_sentence=10) == 6 * (matrices + 18 * 2 * 10 * 512)


def test_additive_attention_has_a_tanh_more_for_each_pair_of_query_and_key() -> None:
    additive = msgspec.structs.replace(PAPER_TRAINING, attention="additive")
    difference = flops_per_token(additive, 1000, tokens_per_sentence=10) - flops_per_token(
        PAPER_TRAINING, 1000, tokens_per_sentence=10
    )
    assert difference == 6 * 18 * 10 * 512


def test_flops_of_an_lstm_are_eight_for_each_state_and_what_it_reads() -> None:
    assert flops_per_token(LSTM, 10, tokens_per_sentence=0) == 3 * (
        8 * 3 * (2 + 3) + 8 * 3 * (2 + 3 + 3) + 2 * (3 * 3 + 6 * 3) + 2 * (3 * 2) + 2 * (2 * 10)
    )
    # a sentence of 5 tokens: each state is compared with the query and weighted
    assert flops_per_token(LSTM, 10, tokens_per_sentence=5) - flops_per_token(LSTM, 10, tokens_per_sentence=0) == (
        6 * 2 * 5 * 3
    )


def test_flops_of_an_fconv_see_three_words_and_gates() -> None:
    one_stack = 2 * 3 + (3 * 3) * (2 * 3) + 3 * 2
    assert flops_per_token(FCONV, 10, tokens_per_sentence=0) == 6 * (2 * one_stack + 2 * (2 * 3) + 2 * 10)
    assert flops_per_token(FCONV, 10, tokens_per_sentence=5) - flops_per_token(FCONV, 10, tokens_per_sentence=0) == (
        6 * 2 * 5 * 2
    )


def test_a_full_update_holds_all_its_batches() -> None:
    assert target_tokens_per_full_update(PAPER_TRAINING) == 8 * 3125


def test_a_full_checkpoint_is_three_times_the_model() -> None:
    assert checkpoint_bytes(10, has_optimizer=False) == 40
    assert checkpoint_bytes(10, has_optimizer=True) == 120


def test_the_prediction_of_the_papers_base_training_is_near_its_twelve_hours() -> None:
    """PAPER_TRAINING has batches of 3,125 tokens, the system's file 3,250 (tests/unit/test_plan.py)."""
    seconds = full_batch_flops(PAPER_TRAINING, 37_000) / (8 * 9.5e12 * 0.302)
    assert seconds / 3600 == pytest.approx(12, abs=0.5)


def test_layers_dominate_the_count_of_big() -> None:
    assert layer_parameters(BIG) / num_parameters(BIG, 37_000, joint=True) == pytest.approx(0.82, abs=0.01)


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
    assert hardware.find_name("nvidia_h100_80gb_hbm3") == "H100"  # as Slurm's gres has it
    assert hardware.find_name("a100") == "A100"
    assert hardware.find_name("l40s") is None


def test_a_sustained_rate_above_its_peak_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hardware.yaml"
    value = "{value: %s, kind: vendor, source: a data sheet}"
    path.write_text(
        "gpu_by_name:\n  X1:\n"
        f"    sustained_flops_per_second: {value % '2.0e+12'}\n    peak_flops_per_second: {value % '1.0e+12'}\n"
        "    tf32_flops_per_second: null\n    bf16_flops_per_second: null\n"
        f"    watts: {value % '300.0'}\n    dollars_per_hour: null\nutilisations: []\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError, match=r"hardware.yaml:2: X1 sustains 2e\+12 FLOP/s, above its peak of 1e\+12"):
        read_hardware(path)
