"""What a trial of a node found is judged. tests/engine/test_trial.py makes one."""

import pkgutil
from pathlib import Path

import msgspec
import pytest

from aiayn.__main__ import main
from aiayn.errors import LaunchError
from aiayn.launch.slurm.launcher import SlurmLauncher
from aiayn.plan.prediction import Hours
from aiayn.spec.system import CONFIG_FOLDER, read_corpus
from aiayn.spec.training import Precision
from aiayn.train.request import TrainingRequest
from aiayn.train.trial import try_node
from aiayn.train.trial_result import TrialResult
from analysis.price.preflight.trial import judge, make_data
from tests.fake_cluster import FakeCluster
from tests.records_factory import PAPER_TRAINING

RESULT = TrialResult(
    device="cuda", num_ranks=8, seconds_per_update=0.015, stopped_at=30, resumed_difference=0.0,
    one_rank_difference=2e-5,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "precision", "outcomes"),
    [
        ({}, "fp32", ["OK", "OK", "OK", "OK"]),
        ({"resumed_difference": 1e-6}, "fp32", ["OK", "OK", "OK", "OK"]),
        ({"resumed_difference": 0.2}, "fp32", ["OK", "FAIL", "OK", "OK"]),
        ({"one_rank_difference": 0.001}, "fp32", ["OK", "OK", "OK", "OK"]),
        ({"one_rank_difference": 0.1}, "bf16", ["OK", "OK", "FAIL", "OK"]),
        ({"seconds_per_update": 0.031}, "fp32", ["OK", "OK", "OK", "WARN"]),
    ],
)
def test_a_trial_is_judged_by_tensors_and_by_the_plan(
    changes: dict[str, float], precision: Precision, outcomes: list[str]
) -> None:
    training = msgspec.structs.replace(PAPER_TRAINING, precision=precision, updates=60)
    formula = Hours(60 * 0.012 / 3600, 60 * 0.020 / 3600)
    checks = judge(msgspec.structs.replace(RESULT, **changes), training, formula)
    assert [check.name for check in checks] == ["collectives", "resume", "ranks", "speed"]
    assert [check.outcome for check in checks] == outcomes
    assert all(bool(check.next_step) == (check.outcome != "OK") for check in checks)
    speed = judge(RESULT, training, formula)[-1].evidence
    assert speed == "15 ms an update, by the plan's formula 12 to 20"
    assert "no hours for this GPU" in judge(RESULT, training, None)[-1].evidence


def test_made_up_data_lasts_for_all_updates(tmp_path: Path) -> None:
    corpus = read_corpus("demo_en_de")
    training = msgspec.structs.replace(PAPER_TRAINING, updates=3, max_tokens_per_batch=500)
    data = make_data(tmp_path, corpus, training, 1000)
    tokens = data.num_tokens_by_split_by_language["train"]
    assert min(tokens.values()) > 3 * 500 * training.batches_per_update
    assert max(data.vocabulary_size_by_language.values()) <= 1004  # with fairseq's four
    assert data.vocabulary_size_by_language["en"] == data.vocabulary_size_by_language["de"] > 900
    assert data.corpus == "made_up"


def test_a_trial_needs_slurm(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", "--train", "--launcher", "local"]) == 2
    assert "--train submits a job to Slurm; add `--launcher slurm`" in capsys.readouterr().err


def test_a_trial_is_not_submitted_after_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    FakeCluster(refused="*ntasks-per-node*").install(tmp_path / "bin", monkeypatch)
    monkeypatch.chdir(tmp_path)
    demo = str(CONFIG_FOLDER / "demo.yaml")
    assert main(["preflight", "--configfile", demo, "--launcher", "slurm", "--train"]) == 1
    assert "--train: no job was submitted" in capsys.readouterr().out
    assert not (tmp_path / "runs").exists()


def test_the_job_of_a_trial_tries_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    works = []

    def submit(launcher: SlurmLauncher, request: TrainingRequest, code_folder: Path) -> str:
        works.append(pkgutil.resolve_name(request.work))
        raise LaunchError("not submitted by this test")

    monkeypatch.setattr(SlurmLauncher, "submit", submit)
    FakeCluster().install(tmp_path / "bin", monkeypatch)
    monkeypatch.chdir(tmp_path)
    demo = str(CONFIG_FOLDER / "demo.yaml")
    assert main(["preflight", "--configfile", demo, "--launcher", "slurm", "--train"]) == 1
    assert "not submitted by this test" in capsys.readouterr().out
    assert works == [try_node]
