"""At the paper's scale: one fault a log; its cause alone is found, with its published cost and
source.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from aiayn.__main__ import main
from aiayn.printed import read_table
from analysis.doctor.costs import read_costs
from tests.doctor.paper_logs import FAULTY_LOGS, SOUND_LOGS, PaperLog


def diagnosed(
    log: PaperLog, folder: Path, capsys: pytest.CaptureFixture[str], *changes: tuple[str, str]
) -> dict[str, Any]:
    """Return the diagnosis of a log, of which text is replaced."""
    text = log.text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "train.log").write_text(text, encoding="utf-8")
    exit_code = main(
        ["doctor", str(folder), "--system", log.system, "--corpus", "wmt14_en_de", "--json"]
    )
    diagnosis: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert exit_code == 1  # the log does not say how it was translated
    assert diagnosis["not_judged"][-3:] == ["search", "scoring", "average"]
    return diagnosis


@pytest.mark.parametrize("log", FAULTY_LOGS, ids=[log.name for log in FAULTY_LOGS])
def test_one_fault_is_the_only_cause_found_and_has_its_published_cost(
    log: PaperLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    findings = diagnosed(log, tmp_path, capsys)["findings"]
    assert [one["what"] for one in findings] == [log.what]
    (cost,) = findings[0]["costs"]
    assert (cost["low"], cost["high"]) == pytest.approx(log.cost)
    assert cost["certainty"] == log.certainty
    assert cost["source"]


@pytest.mark.parametrize("log", SOUND_LOGS, ids=[log.name for log in SOUND_LOGS])
def test_a_sound_log_raises_no_alarm(
    log: PaperLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    findings = diagnosed(log, tmp_path, capsys)["findings"]
    assert [one["what"] for one in findings if one["likelihood"] != "raises"] == []


def test_another_rate_has_no_cost_and_the_warm_up_is_as_the_log_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = SOUND_LOGS[0]._replace(changes={"lr": [0.0005]}, peak=5e-4)
    (finding,) = diagnosed(log, tmp_path, capsys)["findings"]
    assert (finding["check"], finding["likelihood"], finding["costs"][0]["low"]) == (
        "batch",
        "unknown",
        None,
    )
    assert not any(
        "warm" in one["what"] for one in finding["evidence"]
    )  # 4,000 in the log, and 4,000 in the paper


def test_fewer_updates_of_more_tokens_are_no_shortage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = SOUND_LOGS[1]._replace(lasts=27_000, tokens_per_update=556_000.0)
    findings = diagnosed(log, tmp_path, capsys)["findings"]
    assert [one["what"] for one in findings] == ["tokens_per_update"]
    assert findings[0]["likelihood"] == "raises"


@pytest.mark.parametrize(("system", "asked"), [("base", 100_000), ("big", 300_000)])
def test_a_run_stopped_at_one_percent_does_not_cost_half_a_point(
    system: str, asked: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = next(log for log in SOUND_LOGS if log.name == system)._replace(lasts=asked // 100)
    finding = next(
        one for one in diagnosed(log, tmp_path, capsys)["findings"] if one["what"] == "updates"
    )
    low, high = finding["costs"][0]["low"], finding["costs"][0]["high"]
    assert (low, high) == ((None, None) if system == "base" else (1.3, pytest.approx(28.4)))


@pytest.mark.parametrize(
    ("old", "new", "what", "low"),
    [
        ("[de] dictionary: 37000 types", "[de] dictionary: 36000 types", "vocabulary", None),
        ("target_lang='de'", "target_lang='ro'", "language_pair", None),
        ("4500966 examples", "29000 examples", "data", None),
        ("4500966 examples", "36000000 examples", "data", None),
        ("4500966 examples", "3961179 examples", "data", 1.5),
    ],
)
def test_another_text_has_a_published_cost_only_at_the_size_that_was_published(
    old: str,
    new: str,
    what: str,
    low: float | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (finding,) = diagnosed(SOUND_LOGS[0], tmp_path, capsys, (old, new))["findings"]
    assert (finding["what"], finding["costs"][0]["low"]) == (what, low)


def test_two_percent_of_the_updates_stand_above_pre_norm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {"encoder_normalize_before": True, "decoder_normalize_before": True}
    log = next(log for log in SOUND_LOGS if log.name == "big")._replace(lasts=6000, changes=changes)
    found = diagnosed(log, tmp_path, capsys)["findings"]
    assert [one["what"] for one in found] == ["updates", "norm_order"]
    half = log._replace(
        lasts=140_000
    )  # 46 % of the tokens: no more than a third of them costs, and perhaps nothing
    updates = next(
        one for one in diagnosed(half, tmp_path, capsys)["findings"] if one["what"] == "updates"
    )
    assert (updates["costs"][0]["low"], updates["costs"][0]["high"]) == (0.0, pytest.approx(1.3))


def test_every_published_cost_is_of_a_corpus_that_it_names_and_has_its_source() -> None:
    costs = read_costs()
    known = {"wmt14_en_de", "wmt14_en_fr", "iwslt14_de_en", "demo_en_de"}
    assert all(
        set(cost.corpora.split()) <= known and cost.evidence and cost.source for cost in costs
    )


def test_costs_of_the_papers_variations_are_the_differences_of_its_table() -> None:
    printed = {cell.value for cell in read_table(3)}
    rows = [cost for cost in read_costs() if cost.source.startswith("the paper, Table 3")]
    assert len(rows) == 18
    for cost in rows:
        row, _, base, *_ = cost.evidence.split()
        assert {row, base} <= printed
        lost = float(cost.cost_low) * (1 if cost.direction == "lowers" else -1)
        assert lost == pytest.approx(float(base) - float(row))
