"""Each check of a log, and each quantity that is compared, made wrong once by changing one key of a
clean log.
"""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from aiayn.logs.completeness import LOG_CHECKS
from aiayn.runs.attempts import Ended, Started
from paper_tables.compare.lines import average_trainings
from paper_tables.compare.systems import read_systems
from tests.logs.factory import OURS, GenerationText, TrainingText, averaging_text, judged, write

SYSTEMS = read_systems(["paper", "demo"])
AVERAGED = [f"checkpoints/base/checkpoint_4_{update}.pt" for update in range(94_000, 100_001, 1500)]


class Scene(NamedTuple):
    """A folder of clean logs: a training, its copy with another seed, a generation of the first;
    ours.
    """

    first: TrainingText = TrainingText()
    second: TrainingText = TrainingText(final_nll_bits=2.5).changed(
        seed=2, save_dir="checkpoints/second"
    )
    generation: GenerationText = GenerationText()
    ours: TrainingText = TrainingText(
        form="config", log_format="json", arguments=OURS, num_train_pairs=36_000_000
    )
    commits: tuple[str, ...] = ("0123456789abcdef",)
    num_cut: int = 0


def broken(case: dict[str, Any], folder: Path) -> dict[str, str]:
    """Return the messages of a changed scene, by rule."""
    scene = CLEAN._replace(**case.get("scene", {}))
    for part in ("first", "second", "generation", "ours"):
        fields = dict(case.get(part, {}))
        text = getattr(scene, part).changed(**fields.pop("arguments", {}))
        scene = scene._replace(**{part: replace(text, **fields)})
    first = "\n".join(
        line
        for line in scene.first.lines()
        if not any(word in line for word in case.get("without", ()))
    )
    for old, new in case.get("replace", ()):
        assert old in first
        first = first.replace(old, new)
    first += "\n"
    if "again" in case:
        last = next(line for line in first.split("\n") if "epoch 004 | valid on" in line)
        first += last.replace(*case["again"]) + "\n"
    write(
        folder,
        {
            "first.log": first[: -case.get("cut", 0) or None],
            "second.log": scene.second.text(),
            "generation.log": scene.generation.text()[: -scene.num_cut or None],
            "average.log": averaging_text(AVERAGED, "checkpoints/base/averaged.pt"),
            "ours/train.log": scene.ours.text(),
            "ours/attempts.jsonl": attempts(scene.commits),
        },
    )
    found = judged(folder, SYSTEMS)
    _, findings_by_path = average_trainings(found.trainings)
    messages = {}
    for path, findings in findings_by_path.items():
        messages |= {finding.check: finding.text(path) for finding in findings}
    scored = [one for training in found.trainings for one in training.generations]
    for one in (*scored, *found.others):
        messages |= {finding.check: finding.text(one.generation.path) for finding in one.findings}
    for training in found.trainings:
        messages |= {finding.check: finding.text(training.path) for finding in training.findings}
    for one in (*scored, *found.trainings):
        messages |= {
            judged.quantity: judged.text for judged in one.judgements if not judged.is_good
        }
    return messages


def attempts(commits: tuple[str, ...]) -> str:
    """Return attempts.jsonl with an attempt a commit, each of an hour."""
    events: list[Started | Ended] = []
    for number, commit in enumerate(commits, start=1):
        begin, end = f"2024-03-0{number}T12:00:00+00:00", f"2024-03-0{number}T13:00:00+00:00"
        events.append(
            Started(
                attempt=number,
                time=begin,
                job="1",
                host="h",
                device="cuda",
                num_gpus=8,
                threads_per_rank=1,
                commit=commit,
                update=0,
            )
        )
        events.append(
            Ended(attempt=number, time=end, update=0, outcome="stopped", reason="", log_tail=[])
        )
    return "".join(msgspec.json.encode(event).decode() + "\n" for event in events)


CLEAN = Scene()
BREAKS = tomllib.loads(Path(__file__).with_name("one_key_changed.toml").read_text(encoding="utf-8"))
ELSEWHERE = {"one-log-a-generation", "log-and-record-agree"}  # which other tests break


def test_every_check_of_a_log_fails_below() -> None:
    assert LOG_CHECKS.keys() - BREAKS.keys() == ELSEWHERE


def test_a_clean_folder_has_nothing_wrong(tmp_path: Path) -> None:
    assert broken({}, tmp_path) == {}


@pytest.mark.parametrize("name", BREAKS)
def test_a_log_with_one_key_changed_says_what_is_wrong(name: str, tmp_path: Path) -> None:
    messages = broken(BREAKS[name], tmp_path)
    missing = [part for part in BREAKS[name]["shown"] if part not in messages[name]]
    assert missing == [], messages[name]
    assert f"[{name}]" in messages[name]
