"""Other people's folders and files: nothing is left out in silence, and nothing that is read is
lost or misjudged.
"""

import csv
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from aiayn.facts.reader import read_log
from aiayn.facts.types import Section
from aiayn.packed import open_unpacked
from paper_tables.logs.pages import make_tables_from_logs
from tests.known_good.folders import (
    AVERAGED,
    AVERAGING,
    BASE,
    GENERATION,
    WHOLE,
    filled,
    judge,
    kept_out_by,
    problems_of,
)
from tests.logs.factory import TrainingText, averaging_text, write

ONE = TrainingText()


def sections_of(path: Path) -> tuple[Section, ...]:
    """Return the sections of a log."""
    return read_log(path, path.name).sections


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


# Several things in one file


def test_the_steps_of_two_jobs_that_wrote_to_the_same_relative_paths_are_not_mixed(
    tmp_path: Path,
) -> None:
    two = averaging_text([f"checkpoints/base/checkpoint{n}.pt" for n in (20, 19)], AVERAGED)
    second = replace(BASE, final_nll_bits=3.0).changed(seed=2).text()
    second += two + replace(GENERATION, value="26.00").text()
    first = BASE.text() + AVERAGING + GENERATION.text()
    judged = judge(write(tmp_path, {"a.out": first, "b.out": second}))
    assert filled(judged)["a.out"] == WHOLE
    scored = [(one.bleu, one.value) for one in judged.generations]
    assert scored == [(27.31, 27.31), (26.0, None)]
    (problem,) = judged.generations[1].problems
    assert problem.label == "average of checkpoints last2"


def test_a_training_that_translates_before_its_end_has_ended(tmp_path: Path) -> None:
    lines = replace(BASE, form="print").lines()
    translated = (
        "| Translated 445 sentences (12340 tokens) in 2.0s (220.00 sentences/s, 6170.00 tokens/s)"
    )
    text = "\n".join([*lines[:-1], translated, lines[-1]]) + "\n"
    (training, *_) = sections_of(write(tmp_path, {"a.log": text}) / "a.log")
    assert training.value("done_seconds") is not None


# Names and packers


def test_what_cannot_be_read_is_named_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file and a folder without the permission, and a file that opens but gives an error."""
    texts = {"a.log": ONE.text(), "closed.log": "x\n", "closed/b.log": ONE.text()}
    folder, listdir = write(tmp_path / "logs", texts), os.listdir
    (folder / "memory.log").symlink_to("/proc/self/mem")

    def refuse(path: Path) -> None:
        if path.name.startswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))

    def opens(path: Path) -> BinaryIO:
        refuse(path)
        return open_unpacked(path)

    def list_open(path: Path) -> list[str]:
        refuse(path)
        return listdir(path)

    monkeypatch.setattr("aiayn.facts.text.open_unpacked", opens)
    monkeypatch.setattr(os, "listdir", list_open)
    rows = rows_of_logs(folder)
    assert rows["a.log"]["row"] == "base, en-de"
    assert "closed.log: cannot be read (Permission denied)" in rows["closed.log"]["why_not"]
    assert rows["closed"]["why_not"] == (
        "closed: this folder cannot be read (Permission denied); make it readable"
    )
    assert "memory.log: cannot be read (" in rows["memory.log"]["why_not"]


# Bytes


def test_other_letters_and_a_mark_at_the_beginning_change_no_number(tmp_path: Path) -> None:
    text = replace(GENERATION, num_sentences=3, num_printed=3, hypothesis="Grüße").text()
    (tmp_path / "latin.log").write_bytes(text.encode("latin-1"))
    (tmp_path / "mark.log").write_bytes(
        replace(GENERATION, has_start=False, num_printed=3).text().encode("utf-8-sig")
    )
    for name in ("latin.log", "mark.log"):
        (section,) = sections_of(tmp_path / name)
        assert (section.num_hypotheses, section.value("bleu")) == (3, 27.31)


# Old logs, and what is not stated


def old_log(*, with_start: bool = True, **changes: Any) -> str:
    """Return a log as fairseq wrote it before 0.9: no word on a checkpoint, the first number of
    updates an epoch's.
    """
    text = replace(BASE, form="print", **{"lines_per_epoch": 0} | changes)
    lines = [line for line in text.lines() if "existing checkpoint" not in line]
    return "\n".join(lines if with_start else lines[len(text.start_lines()) - 1 :]) + "\n"


@pytest.mark.parametrize("lines_per_epoch", [0, 2])
@pytest.mark.parametrize("log_format", ["simple", "json"])
def test_an_old_log_that_begins_at_epoch_1_begins_at_update_0(
    tmp_path: Path, lines_per_epoch: int, log_format: str
) -> None:
    old = old_log(lines_per_epoch=lines_per_epoch, log_format=log_format)
    (training,) = judge(write(tmp_path, {"old.log": old})).trainings
    assert kept_out_by(training) == set()
    assert training.gpu_seconds == 43_200 * 8


def test_an_old_log_that_begins_later_says_where(tmp_path: Path) -> None:
    texts = {"old.log": old_log(first_epoch=3), "pasted.log": old_log(with_start=False)}
    judged = judge(write(tmp_path, texts))
    assert "history" in problems_of(judged, "old.log")
    assert "d_model" in problems_of(judged, "pasted.log")


def test_the_number_of_dev_pairs_of_en_fr_is_not_that_of_en_de(tmp_path: Path) -> None:
    french = replace(BASE, num_epochs=4, num_train_pairs=36_000_000, num_valid_pairs=6000).changed(
        target_lang="fr"
    )
    scored = replace(GENERATION, score=GENERATION.score.replace("reflen=64512", "reflen=81000"))
    dev = replace(scored, subset="valid", num_sentences=6000).changed(gen_subset="valid")
    short = replace(scored, num_sentences=2737)
    texts = {"a.log": french.text(), "av.log": AVERAGING, "dev.log": dev.text()}
    judged = judge(write(tmp_path, texts | {"test.log": short.text()}))
    assert problems_of(judged, "a.log") == set()
    assert "num_scored" not in problems_of(judged, "dev.log")
    assert "num_scored" in problems_of(judged, "test.log")


def test_a_quantity_that_the_log_does_not_state_sets_it_apart(tmp_path: Path) -> None:
    arguments = dict(BASE.arguments)
    for key in ("distributed_world_size", "adam_eps"):
        del arguments[key]
    text = replace(BASE, arguments=arguments, num_train_pairs=0).text()
    words = ("training on", "examples from: data-bin")
    kept = [line for line in text.split("\n") if not any(word in line for word in words)]
    judged = judge(write(tmp_path, {"a.log": "\n".join(kept)}))
    unstated = {one.quantity for one in judged.trainings[0].problems if not one.is_stated}
    expected = {"adam_epsilon", "tokens_per_update", "num_gpus", "gpu_seconds", "train_pairs"}
    expected |= {"dev_pairs"}
    assert unstated == expected


def test_a_training_resumed_from_a_folder_that_was_moved_is_this_training(tmp_path: Path) -> None:
    loaded = "Loaded checkpoint /old/disk/base/checkpoint_last.pt (epoch 10 @ 50000 updates)"
    moved = BASE.changed(
        save_dir="/new/disk/base", restore_file="/old/disk/base/checkpoint_last.pt"
    )
    second = replace(moved, first_epoch=11, num_epochs=10, loaded=loaded)
    renamed = replace(second, loaded=loaded.replace("/base/", "/first-try/"))
    texts = {"alone.log": second.text(), "renamed.log": renamed.text()}
    judged = judge(write(tmp_path, texts))
    texts_of_history = [
        str(fact.value)
        for one in judged.trainings
        for fact in one.facts
        if fact.quantity == "history"
    ]
    assert all("50,000" in text or "weights" in text for text in texts_of_history)
    assert "history" in problems_of(judged, "alone.log")


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
    refusal = read_log(tmp_path / "other.log", "other.log").refusal
    assert refusal is not None
    assert (refusal.line, words in refusal.text) == (line, True)
    assert list(rows_of_logs(tmp_path)) == ["good.log", "other.log"]
    assert [one.name for one in judge(tmp_path).trainings] == ["good.log"]
