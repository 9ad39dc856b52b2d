"""What `aiayn train` asks of a job: another length on request."""

from pathlib import Path

import pytest

import aiayn
import aiayn.cli.train
from aiayn.__main__ import main
from aiayn.spec.system import read_system
from aiayn.train.request import TrainingRequest
from tests.unit.test_launch_slurm import data_record


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[TrainingRequest]:
    """Return the list that every request is put on, in place of a training."""
    asked: list[TrainingRequest] = []
    monkeypatch.setattr(aiayn.cli.train, "drive", lambda request, **_: asked.append(request))
    for check in ("check_evaluations", "check_feasible"):
        monkeypatch.setattr(aiayn.cli.train, check, lambda *_, **__: None)
    return asked


@pytest.fixture
def data_path(tmp_path: Path) -> Path:
    """Return the record of a data-bin that holds only dictionaries."""
    return data_record(tmp_path, "demo_en_de")


def train(data_path: Path, system: str, *more: str) -> int:
    """Call the verb for a system of the demo."""
    flags = f"--scale demo --corpus demo_en_de --system {system} --seed 1"
    paths = ["--binarized", str(data_path), "--record", str(data_path.parent / "seed1.json")]
    paths += ["--runs-folder", str(data_path.parent / "runs")]
    return main(["train", *flags.split(), *paths, *more])


def test_updates_replace_the_systems_own_and_make_another_run(
    data_path: Path, requests: list[TrainingRequest]
) -> None:
    own = read_system("base", "demo").training.updates
    for more in ([], ["--updates", "7"], ["--updates", str(own)]):
        assert train(data_path, "base", *more) == 0
    whole, short, said = requests
    assert [request.training.updates for request in requests] == [own, 7, own]
    assert short.run != whole.run == said.run


def test_a_cluster_decides_how_many_ranks_and_threads_there_are(
    data_path: Path, requests: list[TrainingRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str | None] = []

    monkeypatch.setattr(
        aiayn.cli.train,
        "check_feasible",
        lambda *_, cluster, **__: checked.append(cluster and cluster.name),
    )
    own = ["--num-ranks", "2", "--threads-per-rank", "3"]
    assert train(data_path, "base", *own) == 0
    assert train(data_path, "base", *own, "--launcher", "slurm", "--cluster", "plain") == 0
    here, there = requests
    assert (here.num_ranks, here.threads_per_rank) == (2, 3)
    assert (there.num_ranks, there.threads_per_rank) == (8, 4)
    assert here.run == there.run  # the place of a training does not identify it
    assert checked == [None, "plain"]


def test_a_finished_run_is_handed_over_where_it_could_not_be_trained(
    data_path: Path, requests: list[TrainingRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is copied on a laptop too. With --fresh it is to be trained."""
    checked: list[str] = []
    monkeypatch.setattr(
        aiayn.cli.train, "check_feasible", lambda request, *_, **__: checked.append(request.run)
    )
    assert train(data_path, "base") == 0
    requests[0].folder.path.mkdir(parents=True)
    requests[0].folder.done_path.touch()
    assert train(data_path, "base") == 0
    assert (len(requests), len(checked)) == (2, 1)
    assert train(data_path, "base", "--fresh") == 0
    assert len(checked) == 2


def test_the_file_for_sbatch_is_printed_before_the_data_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = (
        "--dry-run --launcher slurm --cluster cpu --scale demo --corpus demo_en_de --system base"
        " --seed 1"
    )
    assert main(["train", *flags.split(), "--runs-folder", str(tmp_path / "runs")]) == 0
    printed = capsys.readouterr().out
    assert "#SBATCH --job-name=demo_en_de-base-seed1-DIGEST\n" in printed
    assert (
        f"#SBATCH --output={tmp_path}/runs/demo_en_de-base-seed1-DIGEST/submitit/%j_0_log.out\n"
        in printed
    )
    assert list(tmp_path.iterdir()) == []


def test_more_ranks_than_an_update_has_batches_share_them_and_others_are_refused(
    data_path: Path, requests: list[TrainingRequest], capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo's updates have one batch, the paper's eight."""
    assert train(data_path, "base", "--num-ranks", "8") == 0
    assert requests[0].num_ranks == 8
    assert train(data_path, "base", "--scale", "paper", "--num-ranks", "3") == 1
    assert "batches_per_update 8 cannot be shared by 3 ranks" in capsys.readouterr().err
