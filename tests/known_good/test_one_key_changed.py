"""Clean logs of a folder with one thing changed (tests/logs/one_key_changed.toml): each change keeps
a number out of its row, or is a note next to it.
"""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aiayn.facts.trainings import JoinedLogs
from tests.known_good.folders import AVERAGED, AVERAGING, BASE, GENERATION, filled, judge, noted
from tests.logs.factory import OURS, TrainingText, attempts, write

PATH = Path(__file__).parent.parent / "logs" / "one_key_changed.toml"
CHANGES = tomllib.loads(PATH.read_text(encoding="utf-8"))
PARTS = {
    "first": BASE,
    "second": replace(BASE, final_nll_bits=2.5).changed(seed=2, save_dir="checkpoints/second"),
    "generation": GENERATION.changed(path=AVERAGED),
    "ours": TrainingText(
        form="config", log_format="json", arguments=OURS, num_train_pairs=36_000_000, num_epochs=4
    ),
}
# What is not a fault any more, with the reason.
HARMLESS = {
    "repeated-lines": "a validation that is printed twice alike",
    "last-update": "the paper's number of updates was reached",
    "one-version": "each version has a line of its own",
}


def texts_of(change: dict[str, Any]) -> dict[str, str]:
    """Return the logs of a folder with a change, by file name."""
    texts: dict[str, Any] = {}
    for part, text in PARTS.items():
        fields = dict(change.get(part, {}))
        fields.pop("num_epochs", None)
        texts[part] = replace(text.changed(**fields.pop("arguments", {})), **fields)
    words = [word.replace("epoch 002", "epoch 012") for word in change.get("without", ())]
    lines = [line for line in texts["first"].lines() if not any(word in line for word in words)]
    first = "\n".join(lines) + "\n"
    for old, new in change.get("replace", ()):
        first = first.replace(old, new)
    if "again" in change:
        last = next(line for line in lines if "epoch 020 | valid on" in line)
        first += last.replace(*change["again"]) + "\n"
    scene = change.get("scene", {})
    commits = tuple(scene.get("commits", ("0123456789abcdef",)))
    cut = scene.get("num_cut", 0)
    return {
        "first.log": first[: -change.get("cut", 0) or None],
        "second.log": texts["second"].text(),
        "generation.log": texts["generation"].text()[: -cut or None],
        "average.log": AVERAGING,
        "ours/train.log": texts["ours"].text(),
        "ours/attempts.jsonl": attempts(commits),
    }


def judge_changed(change: dict[str, Any], folder: Path) -> JoinedLogs:
    """Return the judged folder with a change."""
    return judge(write(folder, texts_of(change)))


def test_the_clean_folder_fills(tmp_path: Path) -> None:
    numbers = filled(judge_changed({}, tmp_path))
    assert numbers["generation.log"] == ["bleu"]
    assert all("steps" in numbers[f"{name}.log"] for name in ("first", "second"))
    assert "steps" in numbers["ours/train.log"]


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_keeps_a_number_out_or_is_a_note(name: str, tmp_path: Path) -> None:
    clean = judge_changed({}, tmp_path / "clean")
    judged = judge_changed(CHANGES[name], tmp_path / "changed")
    notes, earlier = (
        set[str]().union(*map(noted, (*one.trainings, *one.generations))) for one in (judged, clean)
    )
    is_noted = bool(notes - earlier)
    assert (filled(judged) != filled(clean)) or is_noted or name in HARMLESS
