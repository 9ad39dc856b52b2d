"""`aiayn doctor` as it is called: on a run of a results folder, on any other folder; its text, its
refusals.
"""

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from aiayn.__main__ import main
from aiayn.data.text.tokenize_moses import tokenize_line
from aiayn.scoring.score import score_hypotheses
from aiayn.spec.system import Overrides
from analysis.doctor.diagnoses import make_claim
from analysis.doctor.text import words_of_cost
from analysis.doctor.types import Cost
from tests.doctor.folders import (
    OTHER,
    PLAIN,
    RUN,
    TOKENS,
    in_pieces,
    results_of,
    write_generation,
    write_pair,
)

TOKEN_REFERENCES = [tokenize_line(line, "de").rstrip() for line in PLAIN]


def test_generations_are_put_into_the_order_of_the_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = []
    for number in (2, 0, 1):  # fairseq writes by length
        words = ["ein Haus", "der Fluss", "im Wald"][number]
        lines += [f"S-{number}\tsource", f"T-{number}\t{words} .", f"H-{number}\t-0.5\t{words} ."]
    bleu = "BLEU4 = 27.30, 27.3/27.3/27.3/27.3 (BP=1.000, ratio=1.000, syslen=9, reflen=9)"
    lines.append(f"Generate test with beam=5: {bleu}")
    (tmp_path / "generate-test.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    assert (
        main(["doctor", str(tmp_path), "--system", "base", "--corpus", "wmt14_en_de", "--json"])
        == 1
    )
    found = {one["cause"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert found["beam_size"]["title"] == "beam_size 5, expected 4"
    assert "reference_order" not in found
    assert found["testset"]["evidence"][0]["expected"] == "3,003"


WMT14 = ("--system", "base", "--corpus", "wmt14_en_de", "--json")


def findings(
    folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str
) -> dict[str, dict[str, Any]]:
    """Return what is found of a folder, without facts of translations, by title."""
    main(["doctor", str(folder), *WMT14, *arguments])
    outcomes = json.loads(capsys.readouterr().out)["outcomes"]
    listed = [one["findings"] for one in outcomes if one["check"] != "translation"]
    return {one["title"]: one for one in chain.from_iterable(listed)}


def value_of(metric: str, hypotheses: Sequence[str], references: Sequence[str]) -> float:
    (score,) = score_hypotheses(
        hypotheses,
        references,
        metrics=[metric],
        target_language="de",
        hypotheses_sha256="",
        testset="",
    )
    return score.value


def test_tokens_beside_plain_references_are_a_wrong_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = findings(write_pair(tmp_path / "a", TOKENS), capsys)
    title = next(iter(found))
    assert title.startswith("The form of the text decides its score: 100% of the lines have Moses")
    cost = found[title]["cost"]
    assert 0 <= cost["low"] <= cost["high"]
    assert title in findings(write_pair(tmp_path / "b", OTHER, TOKEN_REFERENCES), capsys)


def test_plain_text_raises_no_alarm_nor_do_tokens_in_both_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert findings(write_pair(tmp_path / "a", OTHER), capsys) == {}
    value = value_of("bleu_as_given", TOKENS, TOKEN_REFERENCES)
    assert findings(write_generation(tmp_path / "b", TOKENS, TOKEN_REFERENCES, value), capsys) == {}


def test_a_logged_bleu_that_its_own_lines_do_not_have_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = findings(write_generation(tmp_path / "a", TOKENS, TOKEN_REFERENCES, 11.0), capsys)
    assert found["A score does not match its name"]["evidence"][0]["quantity"] == ("bleu_as_given")


def test_a_generate_log_in_pieces_is_found_by_the_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged = value_of("bleu_as_given", in_pieces(TOKENS), in_pieces(TOKEN_REFERENCES))
    folder = write_generation(
        tmp_path / "a", in_pieces(TOKENS), in_pieces(TOKEN_REFERENCES), logged
    )
    for arguments in ((), ("--hypotheses", str(folder / "gen.out"))):
        assert findings(folder, capsys, *arguments) == {}  # and not: too long
        main(["doctor", str(folder), *WMT14, *arguments])
        causes = [one["cause"] for one in json.loads(capsys.readouterr().out)["findings"]]
        assert "pieces_on_both_sides" in causes


def test_a_cost_is_shown_with_its_direction_and_source() -> None:
    assert words_of_cost(Cost(low=1.0, high=1.1, source="NeurST")) == "1.0 to 1.1 BLEU: NeurST"
    assert (
        words_of_cost(Cost(low=-0.9, high=0.0, source="fairseq")) == "adds 0.0 to 0.9 BLEU: fairseq"
    )
    assert words_of_cost(Cost(low=10.0, source="t2t")) == "10.0 to all BLEU: t2t"
    assert words_of_cost(Cost(words="not known")) == "not known"


def test_another_test_set_ranks_before_every_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (
        "Namespace(beam=4, lenpen=0.6, gen_subset='test', path='avg5.pt', remove_bpe='@@ ')",
        "| [de] dictionary: 8848 types",
        "| [en] dictionary: 6632 types",
        "| Translated 6750 sentences (100000 tokens) in 5.0s",
        "| Generate test with beam=4: BLEU4 = 35.44, 35.4/35.4/35.5/35.5 (BP=1.000, ratio=1.000,"
        " syslen=120000, reflen=120000)",
    )
    (tmp_path / "gen.out").write_text("\n".join([*lines, ""]), encoding="utf-8")
    main(["doctor", str(tmp_path), *WMT14])
    diagnosis = json.loads(capsys.readouterr().out)
    assert [one["cause"] for one in diagnosis["findings"]][:1] == ["testset"]


def test_a_run_with_a_search_by_another_alpha_keeps_the_scores_of_its_own_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = results_of("clean", tmp_path)
    scores = results / "demo/score/demo_en_de/base/seed1/last5"
    probed = json.loads((scores / "demo_test.json").read_bytes())
    for score in probed["scores"]:
        score["signature"] += "|case:lc"
    # Both records name the test set demo_test, and this one is the first by its name.
    (scores / "demo_test-alpha1.4.json").write_text(json.dumps(probed), encoding="utf-8")
    assert main(["doctor", RUN, "--results", str(results), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_a_damaged_record_of_a_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = results_of("clean", tmp_path)
    path = results / "demo/score/demo_en_de/base/seed1/last5/demo_test.json"
    path.write_text("{", encoding="utf-8")
    assert main(["doctor", RUN, "--results", str(results)]) != 0
    assert f"{path}: not a " in capsys.readouterr().err


def test_the_doctor_expects_the_updates_and_the_precision_of_the_config() -> None:
    claim = make_claim("run", "demo", "base", "demo_en_de", Overrides(updates=9, precision="bf16"))
    training = claim.target.training
    assert (training.updates, training.precision) == (9, "bf16")
