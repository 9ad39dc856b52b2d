"""Every argument of arguments.csv, changed in a clean log: set apart under its own name, or
harmless for its reason.

The list of arguments is read off fairseq's source distributions (fairseq_keys.py): an argument
without a row fails.
"""

import csv
from pathlib import Path
from typing import Any

import pytest

from aiayn.logs.arguments import COMPARED_ROLES, KNOWN_ARGUMENTS, KnownArgument
from aiayn.logs.types import Argument
from paper_tables.compare.judgement import DECODING_GROUPS, apart
from paper_tables.compare.lines import JudgedFolder
from paper_tables.compare.systems import read_systems
from tests.logs import factory
from tests.logs.factory import GenerationText, TrainingText, averaging_text, write
from tests.logs.fairseq_keys import KEYS_PATH
from tests.logs.test_log_checks import AVERAGED, OURS

SYSTEMS = read_systems(["paper"])
FOREIGN, GENERATION = TrainingText(), GenerationText()
OUR_LOG = TrainingText(form="config", log_format="json", arguments=OURS, num_train_pairs=36_000_000)
OUR_KEYS = frozenset(
    key for key, known in KNOWN_ARGUMENTS["train"].items() if known.default == "aiayn"
)
# Another value of each symbol's argument, and the quantity that it sets apart; the rows that Table
# 3 has of its own.
SYMBOL_CHANGES: dict[str, tuple[Any, str]] = {
    "arch": ("transformer_align", "no row"), "encoder_layers": (12, "no row"), "decoder_layers": (12, "no row"),
    "encoder_embed_dim": (640, "no row"), "decoder_embed_dim": (640, "no row"),
    "encoder_ffn_embed_dim": (1536, "no row"), "decoder_ffn_embed_dim": (1536, "no row"),
    "encoder_attention_heads": (2, "no row"), "decoder_attention_heads": (2, "no row"),
    "encoder_learned_pos": (True, "no row"), "decoder_learned_pos": (True, "no row"), "dropout": (0.15, "no row"),
    "label_smoothing": (0.3, "no row"), "criterion": ("label_smoothed_cross_entropy_with_alignment", "no row"),
    "encoder_normalize_before": (True, "norm_order"), "decoder_normalize_before": (True, "norm_order"),
    "share_all_embeddings": (False, "tied_embeddings"), "attention_dropout": (0.1, "p_drop_attention"),
    "activation_dropout": (0.1, "p_drop_ffn"), "optimizer": ("sgd", "optimizer"),
    "adam_betas": ("(0.9, 0.999)", "adam_beta_2"), "adam_eps": (1e-7, "adam_epsilon"),
    "weight_decay": (0.0001, "weight_decay"), "clip_norm": (25.0, "clip_norm"),
    "lr": ([0.001], "peak_learning_rate"), "lr_scheduler": ("polynomial_decay", "schedule"),
    "warmup_updates": (8000, "warmup_steps"), "max_update": (50_000, "updates"),
    "max_tokens": (8192, "tokens_per_update"),
    "update_freq": ([4], "tokens_per_update"), "distributed_world_size": (1, "tokens_per_update"),
    # The activation_dropout and share_all_embeddings that stand beside them count.
    "relu_dropout": (0.1, ""), "share_decoder_input_output_embed": (True, ""),
    "num_layers": (12, "no row"), "d_model": (640, "no row"), "d_ff": (1536, "no row"), "num_heads": (2, "no row"),
    "d_k": (8, "no row"), "d_v": (8, "no row"), "positions": ("learned", "no row"), "p_drop": (0.15, "no row"),
    "norm_order": ("pre", "norm_order"), "norm": ("rms", "norm"), "norm_epsilon": (1e-5, "norm_epsilon"),
    "attention": ("unscaled", "attention"), "attention_biases": (False, "attention_biases"),
    "share_embeddings": ("none", "tied_embeddings"), "embeddings": ("one", "embeddings"),
    "initialisation": ("fairseq", "initialisation"), "p_drop_attention": (0.1, "p_drop_attention"),
    "p_drop_ffn": (0.1, "p_drop_ffn"), "adam_beta_1": (0.8, "adam_beta_1"), "adam_beta_2": (0.999, "adam_beta_2"),
    "adam_epsilon": (1e-7, "adam_epsilon"), "schedule_d_model": (1024, "peak_learning_rate"),
    "beam": (5, "beam"), "lenpen": (1.0, "length_penalty_alpha"),
}  # fmt: skip
# Arguments of other roles whose effect shows in a quantity of another name, or only with some
# values.
OTHER_CHANGES: dict[tuple[str, str], tuple[Any, str]] = {
    ("train", "max_source_positions"): (64, "max_source_positions"),
    ("train", "max_target_positions"): (64, "max_target_positions"),
    ("train", "warmup_init_lr"): (0.0005, "warmup_init_lr"),
    ("train", "data"): ("data-bin/a:data-bin/b", "train_pairs"),
    ("train", "valid_subset"): ("other", "dev_pairs"),
    ("train", "source_lang"): ("de", "no row"), ("train", "target_lang"): ("ro", "no row"),
    ("train", "validate_interval_updates"): (1000, "every-validation"),
    ("train", "save_interval_updates"): (1000, "every-validation"),
    ("train", "precision"): ("tf32", ""), ("train", "max_positions"): (64, "max_positions"),
    ("generate", "max_source_positions"): (64, "max_source_positions"),
    ("generate", "max_target_positions"): (64, "max_target_positions"),
    ("generate", "max_len_b"): (20, "max_len_b"), ("generate", "path"): ("x.pt", "average"),
    ("generate", "remove_bpe"): (None, "unit"), ("generate", "tokenizer"): ("moses", "unit"),
    ("generate", "source_lang"): ("de", "language_pair"), ("generate", "target_lang"): ("fr", "language_pair"),
}  # fmt: skip
CHANGED_TEXT = "something-else"


def changed_value(known: KnownArgument) -> tuple[Argument | list[Any], str]:
    """Return another value of an argument, and the quantity that it sets apart ('' if it is
    harmless).
    """
    if known.role == "symbol":
        return SYMBOL_CHANGES[known.key]
    if (known.program, known.key) in OTHER_CHANGES:
        return OTHER_CHANGES[known.program, known.key]
    allowed = known.allowed_values
    if allowed is None:
        return CHANGED_TEXT, ""
    return next(value for value in (True, 7, CHANGED_TEXT) if value not in allowed), known.key


CASES = [known for program in KNOWN_ARGUMENTS.values() for known in program.values()]


def judged(folder: Path, known: KnownArgument | None, value: object = None) -> JudgedFolder:
    """Return the comparison of a clean log, one of ours and a translation, in which an argument is
    changed.
    """
    changes = {} if known is None else {known.key: value}
    ours = known is not None and known.key in OUR_KEYS
    training = FOREIGN.changed(
        **({} if known is None or ours or known.program != "train" else changes)
    )
    generation = GENERATION.changed(
        **({} if known is None or known.program != "generate" else changes)
    )
    write(
        folder,
        {
            "a.log": training.text(),
            "b.log": generation.text(),
            "c.log": averaging_text(AVERAGED, "checkpoints/base/averaged.pt"),
            "ours/train.log": (OUR_LOG.changed(**changes) if ours else OUR_LOG).text(),
        },
    )
    return factory.judged(folder, SYSTEMS)


def set_apart(found: JudgedFolder, known: KnownArgument | None) -> set[str]:
    """Return the quantities that keep a number out of base's row, the checks that fail, or `no
    row`.
    """
    name = "ours/train.log" if known is not None and known.key in OUR_KEYS else "a.log"
    training = next(one for one in found.trainings if one.path == name)
    if known is not None and known.program == "generate":
        (generation,) = training.generations
        return {one.quantity for one in apart(generation.judgements, DECODING_GROUPS)}
    if training.match.system is None or training.match.system.system != "base":
        return {"no row"}
    groups = ("model", "GPUs", "batch", "rate", "updates", "pairs", "dictionaries", "dev set")
    errors = {finding.check for finding in training.findings if finding.severity != "note"}
    return errors | {one.quantity for one in apart(training.judgements, groups)}


def test_every_argument_of_fairseq_has_a_row_with_its_defaults() -> None:
    with KEYS_PATH.open(encoding="utf-8", newline="") as lines:
        keys = {(row["key"], row["program"]): row["default"] for row in csv.DictReader(lines)}
    rows = {(known.key, known.program): known.default for known in CASES}
    assert {key: rows.get(key) for key in keys} == keys
    assert {default for key, default in rows.items() if key not in keys} == {
        "aiayn",
        "fairseq-fixed 0.12.3",
        "fairseq-fixed 0.12.3: false",
    }


def test_every_row_has_a_reason_and_allowed_values_where_it_is_compared() -> None:
    assert [known.key for known in CASES if not known.reason] == []
    assert [
        known.key
        for known in CASES
        if (known.role in COMPARED_ROLES) != (known.allowed_values is not None)
        and known.role != "harmless"
    ] == []


def test_a_clean_log_is_set_apart_by_nothing(tmp_path: Path) -> None:
    found = judged(tmp_path, None)
    for training in found.trainings:
        assert (training.labels, training.perplexity_labels) == ((), ())
    assert [one.labels for one in found.trainings[0].generations] == [()]


@pytest.mark.parametrize("known", CASES, ids=lambda known: f"{known.program}-{known.key}")
def test_a_changed_argument_is_set_apart_or_harmless(known: KnownArgument, tmp_path: Path) -> None:
    value, expected = changed_value(known)
    happens = set_apart(judged(tmp_path, known, value), known)
    assert expected in happens if expected else happens == set()
