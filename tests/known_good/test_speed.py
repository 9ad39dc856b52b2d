"""The speed of a training is compared with published speeds: a note, never a problem."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aiayn.facts.trainings import Problem
from tests.known_good.folders import BASE, WHOLE, filled, judge_base, judge_texts, noted, training

REPORTS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("slow_trainings.toml").read_text(encoding="utf-8")
)["report"]
BIG = {
    "arch": "transformer_vaswani_wmt_en_de_big",
    "encoder_embed_dim": 1024,
    "decoder_embed_dim": 1024,
    "encoder_ffn_embed_dim": 4096,
    "decoder_ffn_embed_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "dropout": 0.3,
}


def log_of(report: dict[str, Any], speed: float) -> str:
    """Return a log with the sizes, card and precision of a report, and this speed."""
    arguments = BIG if report["system"] == "big" else {}
    log = replace(BASE, gpu="Tesla V100-SXM2-32GB").changed(
        **arguments,
        fp16=report["precision"] == "fp16",
        distributed_world_size=report["num_gpus"],
        max_tokens=report["max_tokens"],
    )
    return log.text().replace("wps 57000", f"wps {speed:g}")


def speed_notes(folder: Path, text: str) -> list[Problem]:
    judged = training(judge_texts(folder, {"a.log": text}))
    return [one for one in judged.problems if one.quantity == "speed"]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report["source"])
def test_a_reported_slow_training_gets_a_note(tmp_path: Path, report: dict[str, Any]) -> None:
    (note,) = speed_notes(tmp_path, log_of(report, report["speed"]))
    least = report["num_gpus"] * report["slowest"]
    assert note.value == report["speed"] < least
    assert note.keeps_out == ()
    assert "look at data loading, validation, update-freq" in note.text
    assert note.expected.startswith(f"{least:,.0f}" if least.is_integer() else f"{least:,.2f}")


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report["source"])
def test_the_published_speed_itself_gets_no_note(tmp_path: Path, report: dict[str, Any]) -> None:
    speed = report["num_gpus"] * report["slowest"]
    assert speed_notes(tmp_path, log_of(report, speed)) == []


def test_a_speed_never_sets_a_number_apart(tmp_path: Path) -> None:
    log = replace(BASE, gpu="Tesla V100-SXM2-32GB").changed(max_tokens=3500, fp16=True)
    judged = judge_base(tmp_path, a=log.text().replace("wps 57000", "wps 57"))
    assert "speed" in noted(training(judged))
    assert filled(judged)["a.log"] == WHOLE


def test_a_card_without_published_speeds_gets_no_note(tmp_path: Path) -> None:
    text = replace(BASE, gpu="NVIDIA A10").text().replace("wps 57000", "wps 57")
    assert speed_notes(tmp_path, text) == []


def test_before_an_epoch_has_ended_its_lines_state_the_speed(tmp_path: Path) -> None:
    text = log_of(REPORTS[1], 57000).replace("wps=57000", "wps=70000")
    begin, _, _ = text.partition("| valid on")
    lines = begin.splitlines()[:-1]
    (note,) = speed_notes(tmp_path, "\n".join(lines) + "\n")
    assert note.value == 70000.0
