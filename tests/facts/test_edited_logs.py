"""Honest logs with an edit, whose numbers must not fill: attacks.toml."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.facts.trainings import JoinedLogs, Target
from aiayn.known_good.targets import read_targets
from tests.facts.attacks import ATTACKS, HERE, write_attack
from tests.known_good.folders import filled, judge

# The honest folders are of the demo's size. A target of that size makes its numbers comparable: it
# is the paper's base, whose allowed values are not `any`.
SHORT: dict[str, Any] = {
    "updates": 44,
    "train_pairs": 200,
    "target_tokens": 340,
}
WHOLE: dict[str, Any] = {"updates": 700, "train_pairs": 12_000, "target_tokens": 417}
CORPUS: dict[str, Any] = {
    "num_types": 416,
    "low_types": 400,
    "high_types": 430,
    "dev_pairs": 200,
    "test_sentences": 300,
    "dev_sentences": 200,
    "reference_tokens": 3310,
}
SIZES = ("num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v", "warmup_steps")


def base_of(scale: str) -> Target:
    """Return the En-De base of a scale."""
    targets = read_targets([scale])
    return next(one for one in targets if one.name.startswith("base, en-de"))


def small_target(form: str) -> Target:
    """Return the paper's base in the size of an honest folder."""
    paper, demo = base_of("paper"), base_of("demo")
    names = (*SIZES, "peak_learning_rate", "tokens_per_update")
    sizes = {name: demo.values[name] for name in names}
    length = WHOLE if form.endswith("demo_base") else SHORT
    return msgspec.structs.replace(paper, values=paper.values | sizes | CORPUS | length)


def numbers_of(judged: JoinedLogs) -> set[str]:
    """Return all numbers that fill, whichever log they are of."""
    return {name for names in filled(judged).values() for name in names}


@pytest.mark.parametrize("form", sorted({attack["folder"] for attack in ATTACKS}))
def test_the_folder_fills_without_the_edit(form: str) -> None:
    wanted = {"steps", "num_parameters", "ppl_per_subword"}
    if form.endswith("demo_base"):  # in 44 updates nothing is learned that has a BLEU
        wanted |= {"bleu"}
    assert numbers_of(judge(HERE / "honest" / form, [small_target(form)])) == wanted


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack["name"] for attack in ATTACKS])
def test_an_edited_folder_does_not_fill(attack: dict[str, Any], tmp_path: Path) -> None:
    judged = judge(write_attack(attack, tmp_path), [small_target(attack["folder"])])
    assert numbers_of(judged) & set(attack["apart"]) == set()
