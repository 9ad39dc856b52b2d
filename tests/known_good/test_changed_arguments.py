"""Every argument of fairseq, changed in a clean log: set apart under its own name, or harmless.

tests/logs/fairseq_keys.csv lists the arguments, read off fairseq's source distributions: an argument
without a row fails.
"""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from aiayn.known_good.judge import RULES
from aiayn.known_good.table import Rule, allowed_by
from tests.known_good.folders import (
    AVERAGING,
    BASE,
    GENERATION,
    OUR_TRAINING,
    judge_texts,
    kept_out_by,
)
from tests.logs.factory import OURS

LOGS_FOLDER = Path(__file__).parent.parent / "logs"
KEYS_PATH = LOGS_FOLDER / "fairseq_keys.csv"
# A different value, in JSON, of each symbol's argument, and of those whose effect shows in a
# quantity of a different name; with the quantity that it sets apart, '' if it is harmless.
CHANGES_PATH = LOGS_FOLDER / "changed_arguments.csv"
CHANGED_TEXT = "something-else"
ARGUMENTS = [rule for rule in RULES.values() if rule.quantity.startswith(("train.", "generate."))]


def changed_values() -> dict[str, tuple[Any, str]]:
    """Return a different value of each argument, and the quantity that it sets apart."""
    changes: dict[str, tuple[Any, str]] = {}
    for rule in ARGUMENTS:
        values = (True, 7, CHANGED_TEXT)
        wrong = [value for value in values if allowed_by(value, rule.allowed, {}) is None]
        value = wrong[0] if wrong else CHANGED_TEXT
        changes[rule.quantity] = value, rule.quantity if rule.numbers else ""
    with CHANGES_PATH.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            name = f"{row['program']}.{row['key']}"
            changes[name] = json.loads(row["value"]), row["quantity"]
    for program in ("train", "generate"):
        changes[f"{program}.user_dir"] = "/home/me/plugin", "code_of_user"
    changes["generate.gen_subset"] = "valid", "conflict"  # the line of the score names another
    return changes


CHANGES = changed_values()


def problems_of(folder: Path, rule: Rule | None, value: object = None) -> set[str]:
    """Return the quantities that keep a number out of base's row in a clean folder, in which an
    argument is changed; `no row` if the training has a different row or none.
    """
    program, _, key = (rule.quantity if rule else "").partition(".")
    is_ours = program == "train" and key in OURS and key not in BASE.arguments
    training, generation, ours = BASE, GENERATION, OUR_TRAINING
    if is_ours:
        ours = OUR_TRAINING.changed(**{key: value})
    elif program == "train":
        training = BASE.changed(**{key: value})
    elif program == "generate":
        generation = GENERATION.changed(**{key: value})
    texts = {}
    if is_ours or rule is None:
        texts["ours/train.log"] = ours.text()
    if not is_ours:
        texts["a.log"] = training.text()
    if program != "train":
        texts |= {"av.log": AVERAGING, "g.log": generation.text()}
    judged = judge_texts(folder, texts)
    if program == "generate":
        (generation,) = [one for one in judged.generations if one.name == "g.log"]
        return kept_out_by(generation)
    name = "ours/train.log" if is_ours else "a.log"
    (found,) = [one for one in judged.trainings if one.name == name]
    if found.row is None or found.row.system != "base":
        return {"no row"}
    return kept_out_by(found) - {"gpu_seconds"}


def test_every_argument_of_fairseq_has_a_row() -> None:
    with KEYS_PATH.open(encoding="utf-8", newline="") as lines:
        keys = {f"{row['program']}.{row['key']}" for row in csv.DictReader(lines)}
    assert keys - RULES.keys() == set()


def test_every_row_has_a_reason_and_at_most_a_third_allow_any_value() -> None:
    assert [rule.quantity for rule in RULES.values() if not rule.why] == []
    num_any = sum(rule.allowed == "any" for rule in RULES.values())
    assert num_any <= len(RULES) / 3
    # What is not compared cannot be needed, except that it must be there.
    wrong = [rule.quantity for rule in RULES.values() if rule.allowed == "any" and rule.numbers]
    assert wrong == ["training"]


def test_a_clean_log_has_no_problem(tmp_path: Path) -> None:
    assert problems_of(tmp_path, None) == set()


# (quantity, expected): the row of a fact that the CSV of changes names under its older name.
RENAMED = {
    "max_positions": "train.max_positions",
    "every-validation": "missing_validations",
    "dictionaries": "num_types",
    "unit": "counts",
    "beam": "conflict",
    "language_pair": "translates",
    "max_len_b": "limit_of_20_tokens",
}


def is_expected(expected: str, found: set[str], quantity: str) -> bool:
    names = {expected, RENAMED.get(expected, ""), quantity}
    return bool(found & names) or (expected == "train_pairs" and "num_data_folders" in found)


@pytest.mark.parametrize("rule", ARGUMENTS, ids=lambda rule: rule.quantity)
def test_a_changed_argument_is_set_apart_or_harmless(rule: Rule, tmp_path: Path) -> None:
    value, expected = CHANGES[rule.quantity]
    found = problems_of(tmp_path, rule, value)
    if expected:
        assert is_expected(expected, found, rule.quantity)
    else:
        assert found == set()
