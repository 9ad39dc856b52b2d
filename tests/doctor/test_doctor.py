"""`aiayn doctor` as it is called: on a run of a results folder, on any other folder; its text, its
refusals.
"""

import json
from pathlib import Path

import pytest

from aiayn.__main__ import main
from aiayn.spec.system import Overrides
from analysis.doctor.diagnose import make_claim
from analysis.doctor.text import words_of_cost
from analysis.doctor.types import Cost
from tests.doctor.fixtures import results_of
from tests.doctor.folders import RUN


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
    main(["doctor", str(tmp_path), "--system", "base", "--corpus", "wmt14_en_de", "--json"])
    diagnosis = json.loads(capsys.readouterr().out)
    assert [one["cause"] for one in diagnosis["findings"]][:1] == ["testset"]


def test_a_search_by_another_alpha_is_no_translation_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = results_of("clean", tmp_path)
    folder = results / "demo/decode/demo_en_de/base/seed1/last5"
    probed = json.loads((folder / "demo_test.json").read_bytes())
    probed["length_penalty_alpha"] = 1.4
    # Both records name the test set demo_test, and this one is the first by its name.
    (folder / "demo_test-alpha1.4.json").write_text(json.dumps(probed), encoding="utf-8")
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
