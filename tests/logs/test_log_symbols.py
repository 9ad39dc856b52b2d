"""fairseq's arguments back to the paper's symbols, and the row that they are of."""

import re
from pathlib import Path
from typing import Any

import pytest

from aiayn.facts.symbols import (
    SYMBOL_RULES,
    Symbols,
    are_equal,
    symbols_of_arguments,
    symbols_of_spec,
)
from aiayn.logs.completeness import LANGUAGE_PAIRS
from aiayn.spec.system import CONFIG_FOLDER, SCALES, TrainingSpec, read_system
from aiayn.train.fairseq_args import TrainingData, train_flags
from paper_tables.compare.systems import PaperSystem, find_system, read_systems
from tests.logs.factory import BASE

DATA = TrainingData(folder="data-bin", source_language="en", target_language="de", is_joint=True)
SYSTEMS = read_systems(["paper"])
PRINTED = [(scale, row.system) for scale in SCALES for row in read_systems([scale])]
FAIRSEQS = [
    (path.parent.name, path.stem)
    for path in sorted((CONFIG_FOLDER / "systems").glob("*/*.yaml"))
    if "architecture: fairseq_transformer" in path.read_text(encoding="utf-8")
]
# fairseq's defaults that a flag switches on.
SWITCHES = (
    "encoder_learned_pos",
    "decoder_learned_pos",
    "encoder_normalize_before",
    "decoder_normalize_before",
)


def arguments_of(training: TrainingSpec) -> dict[str, Any]:
    """Return what fairseq would print for the command line of a training, of the keys that its
    flags set.
    """
    flags = train_flags(training, DATA, seed=1, save_folder="checkpoints", device="cuda")[1:]
    arguments: dict[str, Any] = {"distributed_world_size": 1, "fp16": False}
    if training.architecture == "fairseq_transformer":
        arguments |= dict.fromkeys(SWITCHES, False)
    while flags:
        key = flags.pop(0).removeprefix("--").replace("-", "_")
        value = flags.pop(0) if flags and not flags[0].startswith("--") else True
        arguments[key] = value if isinstance(value, bool) else number(value)
    if training.architecture == "transformer":
        arguments.setdefault("attention_biases", False)
    return arguments


def number(text: str) -> Any:
    """Return a number if a text is one."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", text) else text


@pytest.mark.parametrize(("scale", "system"), PRINTED + FAIRSEQS)
def test_the_one_table_is_inverted_for_every_row(scale: str, system: str) -> None:
    training = read_system(system, scale).training
    found, expected = symbols_of_arguments(arguments_of(training)), symbols_of_spec(training)
    if (scale, system) in FAIRSEQS:  # which have no argument for some symbols
        expected = {key: value for key, value in expected.items() if key in found}
    differing = [
        key
        for key, value in expected.items()
        if key not in found or not are_equal(found[key], value)
    ]
    assert differing == []


@pytest.mark.parametrize(
    ("changes", "symbol", "expected"),
    [
        ({"encoder_layers": 12}, "num_layers", "12 and 6"),
        ({"decoder_learned_pos": True}, "positions", "False and True"),
        ({"encoder_normalize_before": True, "decoder_normalize_before": True}, "norm_order", "pre"),
        ({"arch": "lightconv_wmt_en_de"}, "architecture", "lightconv_wmt_en_de"),
        ({"criterion": "cross_entropy"}, "eps_ls", 0.0),
        (
            {"share_all_embeddings": False, "share_decoder_input_output_embed": True},
            "tied_embeddings",
            "of the decoder",
        ),
        ({"lr_scheduler": "fixed"}, "schedule", "constant"),
        ({"lr_scheduler": "polynomial_decay"}, "schedule", "polynomial_decay"),
        (
            {"lr_scheduler": "equation_3", "schedule_d_model": 512},
            "peak_learning_rate",
            0.0006987712429686843,
        ),
        ({"fp16": True}, "precision", "fp16"),
        ({"bf16": True}, "precision", "bf16"),
        ({"update_freq": 2}, "tokens_per_update", 52_000),
    ],
)
def test_a_key_becomes_its_symbol(changes: dict[str, Any], symbol: str, expected: object) -> None:
    assert (
        symbols_of_arguments(BASE | {"update_freq": 1, "lr": 0.0007} | changes)[symbol] == expected
    )


def test_a_symbol_that_the_arguments_do_not_state_is_omitted() -> None:
    assert symbols_of_arguments({}) == {}
    assert "p_drop_ffn" not in symbols_of_arguments({"arch": "transformer", "dropout": 0.1})
    assert (
        symbols_of_arguments({"arch": "transformer", "relu_dropout": 0.1})["p_drop_ffn"] == 0.1
    )  # before 0.7


def test_numbers_are_equal_within_a_tolerance_and_words_exactly() -> None:
    assert are_equal(0.0007, 0.00069877, 0.01)
    assert not are_equal(0.0005, 0.00069877, 0.01)
    assert are_equal(0, 0.0)
    assert not are_equal(True, 1)
    assert not are_equal("12 and 6", 6)


@pytest.mark.parametrize("row", [row.system for row in SYSTEMS])
def test_every_row_finds_itself_and_no_other(row: str) -> None:
    (expected,) = [one for one in SYSTEMS if one.system == row]
    match = find_system(expected.symbols, expected.language_pairs[0], SYSTEMS)
    assert match.system is expected
    assert match.differences == ()


def test_big_is_another_row_in_each_language_pair() -> None:
    big, big_enfr = (read_system(name, "paper").training for name in ("big", "big_enfr"))
    found = [
        find_system(symbols_of_spec(training), pair, SYSTEMS).system
        for training in (big, big_enfr)
        for pair in LANGUAGE_PAIRS
    ]
    assert [row.system if row else None for row in found] == ["big", None, None, "big_enfr"]


def test_what_matches_no_row_has_the_nearest_and_the_keys_that_differ() -> None:
    symbols = symbols_of_spec(read_system("base", "paper").training) | {
        "p_drop": 0.3,
        "num_layers": 5,
    }
    match = find_system(symbols, "en-de", SYSTEMS)
    assert match.system is None
    assert match.nearest is not None
    assert match.nearest.system == "table3_d_pdrop02"


def test_the_nearest_is_the_one_whose_sizes_are_nearest() -> None:
    symbols = symbols_of_spec(read_system("base", "paper").training) | {"num_layers": 9}
    match = find_system(symbols, "en-de", SYSTEMS)
    assert match.nearest is not None
    assert match.nearest.system == "table3_c_n8"


def test_a_symbol_that_the_log_does_not_state_matches_nothing() -> None:
    symbols: Symbols = dict(SYSTEMS[0].symbols)
    del symbols["eps_ls"]
    match = find_system(symbols, "en-de", SYSTEMS)
    assert match.system is None


def test_the_rows_are_those_that_the_paper_prints(tmp_path: Path) -> None:
    assert len(SYSTEMS) == 21
    base = next(row for row in SYSTEMS if row.system == "base")
    assert (
        base.language_pairs,
        base.average_by_use["test_en-de"],
        base.average_by_use["dev_en-de"],
    ) == (
        ("en-de", "en-fr"),
        "last5",
        "last1",
    )
    assert base.decoding["beam_size"] == 4
    assert isinstance(base, PaperSystem)
    assert read_systems(["paper"], tmp_path) == []


def test_no_key_of_a_spec_can_differ_unseen() -> None:
    spec = read_system("base", "paper").training
    compared = symbols_of_spec(spec).keys()
    # What two symbols hold together, what is not trained with, and what only says when to stop or
    # save.
    elsewhere = {
        "max_tokens_per_batch",
        "batches_per_update",
        "initial_learning_rate",
        "device",
        "save_interval_updates",
        "patience_epochs",
    }
    assert set(spec.__struct_fields__) - compared == elsewhere
    assert compared - SYMBOL_RULES.keys() == set()
