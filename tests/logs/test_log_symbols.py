"""fairseq's arguments back to the paper's symbols, and the row that they are of."""

import re
from pathlib import Path
from typing import Any

import pytest

from aiayn.facts.symbols import (
    SYMBOL_RULES,
    Symbols,
    symbols_of_arguments,
    symbols_of_spec,
)
from aiayn.facts.types import Fact
from aiayn.known_good.judge import find_row
from aiayn.known_good.table import are_equal
from aiayn.known_good.targets import Target, read_targets
from aiayn.spec.system import CONFIG_FOLDER, SCALES, TrainingSpec, read_system
from aiayn.train.fairseq_args import train_flags
from tests.logs.factory import BASE

DATA = {
    "data_folder": "data-bin",
    "source_language": "en",
    "target_language": "de",
    "is_joint": True,
}
TARGETS = read_targets(["paper"])
PRINTED = list(dict.fromkeys((one.scale, one.system) for one in read_targets(SCALES)))
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
    flags = train_flags(training, **DATA, seed=1, save_folder="checkpoints", device="cuda")[1:]
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


def row_of(symbols: Symbols, language_pair: str) -> Target | None:
    """Return the row of a training with these symbols."""
    stated = {**symbols, "language_pair": language_pair}
    facts = [Fact(name, value, "a.log", 1) for name, value in stated.items()]
    target, has_row = find_row(facts, TARGETS)
    return target if has_row else None


@pytest.mark.parametrize("expected", TARGETS, ids=[target.name for target in TARGETS])
def test_every_row_finds_itself_and_no_other(expected: Target) -> None:
    symbols = symbols_of_spec(expected.training)
    assert row_of(symbols, expected.language_pair) is expected


def test_big_is_another_row_in_each_language_pair() -> None:
    big, big_enfr = (read_system(name, "paper").training for name in ("big", "big_enfr"))
    rows = [
        row_of(symbols_of_spec(training), pair)
        for training in (big, big_enfr)
        for pair in ("en-de", "en-fr")
    ]
    names = [target.system if target else None for target in rows]
    assert names == ["big", None, None, "big_enfr"]


def test_a_symbol_that_the_log_does_not_state_matches_nothing() -> None:
    symbols = symbols_of_spec(TARGETS[0].training)
    del symbols["eps_ls"]
    assert row_of(symbols, "en-de") is None


def test_the_rows_are_those_that_the_paper_prints(tmp_path: Path) -> None:
    assert len({target.system for target in TARGETS}) == 21
    base = [target for target in TARGETS if target.system == "base"]
    assert [target.language_pair for target in base] == ["en-de", "en-fr"]
    assert base[0].average_by_role == {"test": "last5", "dev": "last1"}
    assert base[0].values["beam_size"] == 4
    assert read_targets(["paper"], tmp_path) == []


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
