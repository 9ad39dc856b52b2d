"""Other people's folders and files: nothing is left out in silence, and nothing that is read is
lost or misjudged.
"""

import csv
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from aiayn.facts.reader import read_log as read_facts
from aiayn.logs.reader import read_log
from aiayn.logs.types import GenerationLog, TrainingLog
from aiayn.packed import open_unpacked
from paper_tables.compare.lines import JudgedFolder, JudgedGeneration, JudgedTraining
from paper_tables.compare.systems import read_systems
from paper_tables.logs.pages import make_tables_from_logs
from tests.logs import factory
from tests.logs.factory import GenerationText, TrainingText, averaging_text, write

SYSTEMS = read_systems(["paper"])
ONE = TrainingText()
AVERAGED = [f"checkpoints/base/checkpoint{number}.pt" for number in range(5)]
AVERAGING = averaging_text(AVERAGED, "checkpoints/base/model.pt")
GENERATION = GenerationText().changed(path="checkpoints/base/model.pt")
FRENCH = replace(ONE, num_train_pairs=36_000_000).changed(target_lang="fr")


def judged(folder: Path) -> JudgedFolder:
    return factory.judged(folder, SYSTEMS)


def tables_of(folder: Path) -> dict[str, list[dict[str, str]]]:
    """Return the lines of every table, by column."""
    output = folder.parent / f"{folder.name}-tables"
    make_tables_from_logs([folder], output)
    found = {}
    for name in ("table2", "table3", "logs"):
        with (output / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
            found[name] = list(csv.DictReader(lines))
    return found


def rows_of_logs(folder: Path) -> dict[str, dict[str, str]]:
    return {row["file"]: row for row in tables_of(folder)["logs"]}


def rules_of(one: JudgedTraining | JudgedGeneration) -> list[str]:
    """Return the checks that a log fails, and the quantities that are not the system's."""
    checks = [finding.check for finding in one.findings]
    return [*checks, *(judgement.quantity for judgement in one.judgements if not judgement.is_good)]


def unstated_in(one: JudgedTraining | JudgedGeneration) -> list[str]:
    return [judged.quantity for judged in one.judgements if judged.verdict == "not stated"]


# Several things in one file


def test_the_steps_of_two_jobs_that_wrote_to_the_same_relative_paths_are_not_mixed(
    tmp_path: Path,
) -> None:
    two = averaging_text(AVERAGED[:2], "checkpoints/base/model.pt")
    second = (
        replace(ONE, final_nll_bits=3.0).changed(seed=2).text()
        + two
        + replace(GENERATION, value="26.00").text()
    )
    folder = write(
        tmp_path / "logs", {"a.out": ONE.text() + AVERAGING + GENERATION.text(), "b.out": second}
    )
    found = judged(folder)
    scored = [
        (one.path, [(score.value, score.labels) for score in one.generations])
        for one in found.trainings
    ]
    assert scored == [
        ("a.out@1", [(27.31, ())]),
        ("b.out@1", [(26.0, ("average 2 checkpoints up to checkpoint1.pt",))]),
    ]


def test_a_generation_without_its_arguments_after_a_training_names_its_model(
    tmp_path: Path,
) -> None:
    lines = [line for line in GENERATION.lines() if "Namespace(" not in line]
    folder = write(tmp_path, {"a.out": ONE.text() + "\n".join(lines) + "\n"})
    training, generation = read_log(folder / "a.out").entries
    assert isinstance(training, TrainingLog)
    assert isinstance(generation, GenerationLog)
    assert generation.model_path == "checkpoints/base/model.pt"


def test_a_save_folder_named_for_an_average_is_no_averaging(tmp_path: Path) -> None:
    folder = write(tmp_path, {"a.log": ONE.changed(save_dir="runs/averaged").text()})
    (training,) = read_log(folder / "a.log").entries
    assert isinstance(training, TrainingLog)
    assert training.starts[0].resumed_update == 0


def test_a_training_that_translates_before_its_end_has_ended(tmp_path: Path) -> None:
    lines = replace(ONE, form="print").lines()
    translated = (
        "| Translated 445 sentences (12340 tokens) in 2.0s (220.00 sentences/s, 6170.00 tokens/s)"
    )
    folder = write(
        tmp_path / "logs", {"a.log": "\n".join([*lines[:-1], translated, lines[-1]]) + "\n"}
    )
    found = judged(folder)
    assert found.trainings[0].training.log.is_done
    (generation,) = found.trainings[0].generations
    assert "num_sentences" not in rules_of(generation)  # nothing says which set it is


# Names and packers


def test_an_unreadable_file_is_named_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "logs", {"a.log": ONE.text(), "closed.log": "x\n"})

    def opens(path: Path) -> BinaryIO:
        if path.name == "closed.log":
            raise PermissionError(13, "Permission denied", str(path))
        return open_unpacked(path)

    monkeypatch.setattr("aiayn.facts.text.open_unpacked", opens)
    rows = rows_of_logs(folder)
    assert rows["a.log"]["row"] == "base, en-de"
    assert "closed.log: cannot be read (Permission denied)" in rows["closed.log"]["why_not"]


@pytest.mark.skipif(
    not Path("/proc/self/mem").exists(), reason="needs a file that opens and cannot be read"
)
def test_a_file_that_opens_and_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "logs", {"a.log": ONE.text()})
    (folder / "b.log").symlink_to("/proc/self/mem")
    rows = rows_of_logs(folder)
    assert rows["a.log"]["row"] == "base, en-de"
    assert "b.log: cannot be read (" in rows["b.log"]["why_not"]


def test_an_unreadable_folder_is_named_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "logs", {"a.log": ONE.text(), "closed/b.log": ONE.text()})
    scandir = os.scandir

    def scans(path: str) -> Iterator[os.DirEntry[str]]:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scans)
    rows = rows_of_logs(folder)
    assert rows["a.log"]["row"] == "base, en-de"
    assert (
        rows["closed"]["why_not"]
        == "closed: this folder cannot be read (Permission denied); make it readable"
    )


# Bytes


def test_other_letters_and_a_mark_at_the_beginning_change_no_number(tmp_path: Path) -> None:
    text = replace(GENERATION, num_sentences=3, num_printed=3, hypothesis="Grüße").text()
    (tmp_path / "latin.log").write_bytes(text.encode("latin-1"))
    (tmp_path / "mark.log").write_bytes(
        replace(GENERATION, has_start=False, num_printed=3).text().encode("utf-8-sig")
    )
    latin, marked = read_log(tmp_path / "latin.log"), read_log(tmp_path / "mark.log")
    for log_file in (latin, marked):
        (entry,) = log_file.entries
        assert isinstance(entry, GenerationLog)
        assert entry.num_hypotheses == 3
        assert entry.bleu == 27.31


# What the rules know


def old_log(*, with_start: bool = True, **changes: Any) -> str:
    """Return a log as fairseq wrote it before 0.9: no word on a checkpoint, the first number of
    updates an epoch's.
    """
    text = replace(ONE, form="print", **{"lines_per_epoch": 0} | changes)
    lines = [line for line in text.lines() if "existing checkpoint" not in line]
    return "\n".join(lines if with_start else lines[len(text.start_lines()) - 1 :]) + "\n"


@pytest.mark.parametrize("lines_per_epoch", [0, 2])
@pytest.mark.parametrize("log_format", ["simple", "json"])
def test_an_old_log_that_begins_at_epoch_1_begins_at_update_0(
    tmp_path: Path, lines_per_epoch: int, log_format: str
) -> None:
    old = old_log(lines_per_epoch=lines_per_epoch, log_format=log_format)
    folder = write(tmp_path / "logs", {"old.log": old})
    (training,) = judged(folder).trainings
    assert training.training.log.first_update == 0
    assert rules_of(training) == []
    assert training.training.gpu_seconds == 43_200 * 8


def test_an_old_log_that_begins_later_says_where(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "logs",
        {"old.log": old_log(first_epoch=3), "pasted.log": old_log(with_start=False)},
    )
    by_path = {one.path: one for one in judged(folder).trainings}
    assert "whole-history" in rules_of(by_path["old.log"])
    assert "whole-history" not in rules_of(by_path["pasted.log"])


def test_rules_of_en_de_are_not_applied_to_en_fr(tmp_path: Path) -> None:
    french = replace(FRENCH, num_valid_pairs=6000)
    scored = replace(GENERATION, score=GENERATION.score.replace("reflen=64512", "reflen=81000"))
    dev = replace(scored, subset="valid", num_sentences=6000).changed(gen_subset="valid")
    short = replace(scored, num_sentences=2737)
    folder = write(
        tmp_path,
        {
            "a.log": french.text(),
            "average.log": AVERAGING,
            "dev.log": dev.text(),
            "test.log": short.text(),
        },
    )
    (training,) = judged(folder).trainings
    assert rules_of(training) == []
    by_path = {one.generation.path: one for one in training.generations}
    assert rules_of(by_path["dev.log"]) == []
    (size,) = [one for one in by_path["test.log"].judgements if not one.is_good]
    assert (size.quantity, size.found) == ("num_sentences", "2,737")
    assert "filtered" not in size.reason


def test_a_quantity_that_the_log_does_not_state_sets_it_apart(tmp_path: Path) -> None:
    arguments = {
        key: value
        for key, value in ONE.arguments.items()
        if key not in ("distributed_world_size", "adam_eps")
    }
    text = replace(ONE, arguments=arguments, num_train_pairs=0).text()
    kept = [
        line
        for line in text.split("\n")
        if "training on" not in line and "examples from: data-bin" not in line
    ]
    bare = replace(GENERATION, has_start=False, num_printed=3003).text()
    folder = write(tmp_path / "logs", {"a.log": "\n".join(kept), "generate-test.txt": bare})
    (training,) = judged(folder).trainings
    rates = ["schedule", "warmup_steps", "peak_learning_rate"]
    others = ["updates", "tokens_per_update", "num_gpus", "train_pairs", "dev_pairs"]
    assert unstated_in(training) == ["adam_epsilon", *rates, *others]
    assert unstated_in(training.generations[0]) == ["length_penalty_alpha", "average"]


def test_a_training_resumed_from_a_folder_that_was_moved_is_this_training(tmp_path: Path) -> None:
    loaded = "Loaded checkpoint /old/disk/base/checkpoint_last.pt (epoch 3 @ 50000 updates)"
    moved = ONE.changed(save_dir="/new/disk/base", restore_file="/old/disk/base/checkpoint_last.pt")
    alone = replace(moved, first_epoch=3, num_epochs=2, loaded=loaded)
    renamed = replace(alone, loaded=loaded.replace("/base/", "/first-try/"))
    before = replace(ONE.changed(save_dir="/old/disk/first-try"), num_epochs=4, is_done=False)
    cut = "".join(
        line
        for line in before.text().splitlines(keepends=True)
        if "epoch 003" not in line and "epoch 004" not in line
    )
    write(
        tmp_path,
        {
            "alone.log": alone.text(),
            "renamed.log": renamed.text(),
            "whole.log": cut + renamed.text(),
        },
    )
    found = {one.path: rules_of(one) for one in judged(tmp_path).trainings}
    assert "beginning" not in found["alone.log"]
    assert (
        "beginning" in found["renamed.log"]
    )  # what came before is not there, and lay under another name
    assert (
        "beginning" not in found["whole.log"]
    )  # it stands above, up to the update that was loaded


START, REST = TrainingText().text().split("\n", 1)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (f'{START}\n:::MLLOG {{"key": "run_start"}}\n{REST}', 2, "an MLPerf submission"),
        (
            f"{START}\n:::MLPv0.5.0 transformer 1541635936 run_start\n{REST}",
            2,
            "an MLPerf submission",
        ),
        ('{"epoch": 3, "train_loss": 4.1, "valid_bleu": 25.1, "num_updates": 30000}\n', 1, "JSON"),
        ('started\n{"epoch": 1, "update": 12, "loss": 4.1, "num_updates": 12}\n', 2, "JSON"),
        ('{"step": 100, "loss": 4.1, "lr": 0.0003}\n', 1, "JSON lines of a trainer"),
    ],
)
def test_the_file_of_another_program_is_refused_by_its_line_and_the_others_go_on(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    (tmp_path / "other.log").write_text(text, encoding="utf-8")
    write(tmp_path, {"good.log": ONE.text()})
    refusal = read_facts(tmp_path / "other.log").refusal
    assert refusal is not None
    assert (refusal.line, words in refusal.text) == (line, True)
    assert list(rows_of_logs(tmp_path)) == ["good.log", "other.log"]
    assert [one.path for one in judged(tmp_path).trainings] == ["good.log"]
