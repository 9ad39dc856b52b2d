"""Every argument of arguments.csv, changed in a clean log: set apart under its own name, or
harmless for its reason.

The list of arguments is read off fairseq's source distributions (fairseq_keys.py): an argument
without a row fails.
"""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from aiayn.logs.arguments import COMPARED_ROLES, KNOWN_ARGUMENTS, KnownArgument
from paper_tables.compare.judgement import DECODING_GROUPS, apart
from paper_tables.compare.lines import JudgedFolder
from paper_tables.compare.systems import read_systems
from tests.logs import factory
from tests.logs.factory import OURS, GenerationText, TrainingText, averaging_text, write
from tests.logs.fairseq_keys import KEYS_PATH
from tests.logs.test_log_checks import AVERAGED

SYSTEMS = read_systems(["paper"])
FOREIGN, GENERATION = TrainingText(), GenerationText()
OUR_LOG = TrainingText(form="config", log_format="json", arguments=OURS, num_train_pairs=36_000_000)
OUR_KEYS = frozenset(
    key for key, known in KNOWN_ARGUMENTS["train"].items() if known.default == "aiayn"
)
# Another value, in JSON, of each symbol's argument, and of those of other roles whose effect shows in
# a quantity of another name; with the quantity that it sets apart, '' if it is harmless.
CHANGES_PATH = Path(__file__).with_name("changed_arguments.csv")
CHANGED_TEXT = "something-else"


CASES = [known for program in KNOWN_ARGUMENTS.values() for known in program.values()]


def changed_values() -> dict[tuple[str, str], tuple[Any, str]]:
    """Return another value of each argument, and the quantity that it sets apart."""
    changes: dict[tuple[str, str], tuple[Any, str]] = {}
    for known in CASES:
        changes[known.program, known.key] = CHANGED_TEXT, ""
        if (allowed := known.allowed_values) is not None:
            value = next(value for value in (True, 7, CHANGED_TEXT) if value not in allowed)
            changes[known.program, known.key] = value, known.key
    with CHANGES_PATH.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            changes[row["program"], row["key"]] = json.loads(row["value"]), row["quantity"]
    return changes


CHANGES = changed_values()


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
    value, expected = CHANGES[known.program, known.key]
    happens = set_apart(judged(tmp_path, known, value), known)
    assert expected in happens if expected else happens == set()
