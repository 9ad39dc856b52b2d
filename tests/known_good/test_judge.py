"""The judge: which values a row of the table allows, what is a problem or a note, and which row a
training has.
"""

from pathlib import Path

import msgspec
import pytest

from aiayn.facts.join import join_logs
from aiayn.facts.reader import read_log
from aiayn.facts.types import Fact, Value
from aiayn.known_good.judge import OF_GENERATIONS, find_row, judge
from aiayn.known_good.rows import judge_logs
from aiayn.known_good.table import Rule, allowed_by, read_table, show_allowed
from aiayn.known_good.targets import make_target, read_targets
from aiayn.spec.system import read_system
from tests.known_good.folders import BASE, TARGETS, judge_texts, kept_out_by
from tests.logs.factory import OURS, TrainingText, write

PAPER = [target for target in TARGETS if target.scale == "paper"]
TARGET = {"size": 100, "years": (14, 16), "free": "any"}
RULES = {
    "a": Rule("a", "[1, null]", "+bleu", "why a"),
    "b": Rule("b", "{size} or {size~0.1}", "bleu", "why b"),
    "c": Rule("c", "[0]", "", "why c"),
}


@pytest.mark.parametrize(("value", "allowed", "alternative"), [
    (1, "[0, 1]", 0), (1.0, "[1]", 0), (True, "[1]", None), (None, "[null]", 0), (None, "[0]", None),
    (7, "[]", None), (105, "{size}", None), (105, "{size} or {size~0.1}", 1), (100, "{size}", 0),
    (16, "{years}", 0), (17, "{years}", None), (7, "{free}", 0), (7, "{absent}", None),
    (256, "256..", 0), (255, "256..", None), (1e-7, "..1e-05", 0), ("x", "0..1", None),
    (True, "0..1", None), (99, "{size}..200", None), (150, "{size}..200", 0),
    (150, "{absent}..200", None), (float("nan"), "0..100", None), ("anything", "any", 0),
])  # fmt: skip
def test_which_values_are_allowed(value: Value, allowed: str, alternative: int | None) -> None:
    assert allowed_by(value, allowed, TARGET) == alternative


@pytest.mark.parametrize(("allowed", "text"), [
    ("[0.1, null]", "0.1"), ("[]", "none"), ("{size~0.1}", "about 100"), ("{years}", "14 or 16"),
    ("0.5..1.05", "0.5 to 1.05"), ("256..", "at least 256"), ("..0", "at most 0"),
])  # fmt: skip
def test_allowed_values_in_words(allowed: str, text: str) -> None:
    assert show_allowed(allowed, TARGET) == text


def quantities(facts: list[Fact], number: str = "bleu") -> list[str]:
    return [one.label for one in judge(facts, TARGET, (number,), RULES) if one.keeps_out]


def test_a_fact_is_a_problem_if_it_is_not_allowed_not_known_or_not_stated() -> None:
    good = [Fact("a", 1, "x.log", 3), Fact("b", 100, "x.log", 4)]
    assert quantities(good) == []
    assert quantities([*good, Fact("b", 300, "x.log", 9)]) == ["b 300"]
    assert quantities([*good, Fact("new", 5, "x.log", 9)]) == ["new 5"]
    assert quantities([*good, Fact("new", None, "x.log", 9)]) == []
    assert quantities(good[1:]) == ["a not stated"]
    assert quantities([*good[1:], Fact("a", None, "x.log", 3)]) == ["a not stated"]


def test_a_problem_is_one_sentence_with_its_place() -> None:
    facts = [Fact("a", 1, "x.log", 3), Fact("b", 300, "x.log", 9)]
    (problem,) = judge(facts, TARGET, OF_GENERATIONS, RULES)
    assert problem.text == "x.log:9: b 300, expected 100 (why b)"


def test_a_note_keeps_nothing_out() -> None:
    facts = [Fact("a", 1, "x.log", 3), Fact("b", 105, "x.log", 4), Fact("c", 5, "x.log", 5)]
    found = judge(facts, TARGET, OF_GENERATIONS, RULES)
    assert [(note.label, note.keeps_out) for note in found] == [("b 105", ()), ("c 5", ())]


def test_a_problem_has_the_numbers_that_it_keeps_out_in_their_order() -> None:
    rules = RULES | {"d": Rule("d", "[0]", "cost train", "why d")}
    facts = [Fact("a", 5, "x.log", 3), Fact("d", 1, "x.log", 4), Fact("c", 5, "x.log", 5)]
    found = judge(facts, TARGET, ("train", "ppl", "cost"), rules)
    assert [(one.label, one.keeps_out) for one in found] == [
        ("d 1", ("train", "cost")),
        ("c 5", ()),
    ]


def test_a_table_with_a_quantity_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("quantity,allowed,numbers,why\na,any,,x\na,any,,x\n", encoding="utf-8")
    with pytest.raises(ValueError, match="twice"):
        read_table(path)


def test_without_a_row_the_nearest_has_the_fewest_problems(tmp_path: Path) -> None:
    text = BASE.changed(dropout=0.3, encoder_layers=5, decoder_layers=5)
    judged = judge_texts(tmp_path, {"a.log": text.text()})
    target, has_row = find_row(judged.trainings[0].facts, PAPER)
    assert target is not None
    assert (target.name, has_row) == ("base, en-de", False)


def test_two_targets_that_fit_are_not_a_row(tmp_path: Path) -> None:
    judged = judge_texts(tmp_path, {"a.log": BASE.text()})
    facts = judged.trainings[0].facts
    assert find_row(facts, [*PAPER, PAPER[0]])[1] is False
    assert find_row(facts, []) == (None, False)


def test_only_our_own_trainings_are_compared_with_smaller_scales(tmp_path: Path) -> None:
    arguments = OURS | {
        "num_layers": 3, "d_model": 64, "d_ff": 256, "num_heads": 4, "d_k": 16, "d_v": 16,
    }  # fmt: skip
    text = TrainingText(form="config", log_format="json", arguments=arguments)
    judged = judge_texts(tmp_path, {"run/train.log": text.text()})
    nearest = judged.trainings[0].target
    assert nearest is not None
    assert nearest.scale == "demo"


def test_a_claimed_target_of_a_smaller_scale_is_compared_with_a_foreign_log(tmp_path: Path) -> None:
    folder = write(tmp_path, {"a.log": TrainingText().text()})
    logs = join_logs([read_log(folder / "a.log", "a.log")])
    demo = [target for target in read_targets(["demo"]) if target.system == "base"][:1]
    assert judge_logs(logs, demo).trainings[0].target is None
    (claimed,) = judge_logs(logs, demo, is_claimed=True).trainings
    assert claimed.target is demo[0]
    assert "d_model" in kept_out_by(claimed)


def test_a_system_with_a_patience_has_no_fixed_number_of_updates() -> None:
    system = read_system("revisit_tiny", "multi30k")
    fixed = msgspec.structs.replace(system.training, patience_epochs=None)
    for training, expected in ((system.training, "any"), (fixed, fixed.updates)):
        target = make_target("multi30k", "revisit_tiny", "en-de", training, system.decoding, {})
        assert target.values["updates"] == expected
