"""The shipped runs: how many, of whom, equal to the files that they are from; the spread of seeds; collecting."""

import shutil
import statistics
import subprocess
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from aiayn.errors import TableError
from aiayn.printed import PUBLISHED_FOLDER
from analysis.public_runs.mlperf import PublicEvaluation, PublicRunError, PublicTraining, read_result
from analysis.public_runs.shipped import (
    EVALUATIONS_NAME,
    RUNS_NAME,
    by_system,
    public_spread,
    read_public_runs,
    seed_spreads,
)
from tests.public_runs.collect import collect_checkout, main
from tests.public_runs.test_mlperf import FIXTURES, V07

ORIGIN = {"repository": "", "commit": "", "path": "", "run": ""}


def with_bleu(run: str, values: list[float]) -> PublicTraining:
    """Return a training of these BLEU, an epoch each."""
    base = read_result(V07).run
    evaluations = [
        PublicEvaluation(run=run, epoch=epoch, bleu=value, seconds=10.0 * epoch)
        for epoch, value in enumerate(values, 1)
    ]
    return PublicTraining(msgspec.structs.replace(base, run=run), tuple(evaluations))


def checkout(tmp_path: Path, name: str = "training_results_v0.7") -> Path:
    """Return a git checkout of the fixtures of a round."""
    folder = shutil.copytree(FIXTURES / name, tmp_path / name)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "results"]):
        subprocess.run([*git, *command], check=True)
    return folder


def test_all_public_runs_are_there_by_submitter() -> None:
    numbers = Counter((one.run.round, one.run.submitter) for one in read_public_runs())
    assert numbers == {
        ("v0.5", "NVIDIA"): 30, ("v0.6", "Google"): 60, ("v0.6", "NVIDIA"): 60, ("v0.7", "Dell EMC"): 10,
        ("v0.7", "Fujitsu"): 10, ("v0.7", "Google"): 50, ("v0.7", "Inspur"): 10, ("v0.7", "NVIDIA"): 90,
        ("v0.7", "Tencent"): 10,
    }  # fmt: skip
    runs = [one.run for one in read_public_runs()]
    assert {run.division for run in runs} == {"closed"}
    assert {run.status for run in runs} == {"success"}
    assert {(len(run.commit), run.repository) for run in runs} == {
        (40, f"mlcommons/training_results_{round_name}") for round_name in ("v0.5", "v0.6", "v0.7")
    }


def test_runs_of_a_system_differ_in_the_seed_alone() -> None:
    for trainings in by_system(read_public_runs()).values():
        settings = {
            msgspec.structs.astuple(msgspec.structs.replace(one.run, seed="", seconds=0.0, path="", run=""))
            for one in trainings
        }
        assert len(settings) == 1
        seeds = [one.run.seed for one in trainings]
        assert set(seeds) == {""} or len(set(seeds)) == len(seeds) == 10


def test_the_shipped_lines_are_those_of_the_files() -> None:
    shipped = {(one.run.repository.rpartition("/")[2], one.run.path): one for one in read_public_runs()}
    paths = sorted(FIXTURES.glob("training_results_*/**/transformer/result_*.txt"))
    assert len(paths) == 6
    for path in paths:
        name, _, below = path.relative_to(FIXTURES).as_posix().partition("/")
        expected, found = shipped[name, below], read_result(path)
        assert msgspec.structs.replace(found.run, **ORIGIN) == msgspec.structs.replace(expected.run, **ORIGIN)
        assert [msgspec.structs.replace(one, run="") for one in found.evaluations] == [
            msgspec.structs.replace(one, run="") for one in expected.evaluations
        ]


def test_the_official_time_of_a_system_comes_out() -> None:
    """MLPerf's score is the mean without the lowest and the highest: 20.34 minutes of v0.6's DGX-1 are published."""
    trainings = by_system(read_public_runs())["v0.6", "NVIDIA", "dgx1_ngc19.05_pytorch"]
    minutes = sorted(one.run.seconds / 60 for one in trainings)
    assert statistics.fmean(minutes[1:-1]) == pytest.approx(20.34, abs=0.005)


def test_the_spread_is_taken_where_all_runs_have_a_value() -> None:
    trainings = [
        with_bleu("a", [20.0, 24.0, 25.2]),
        with_bleu("b", [21.0, 24.6, 24.9, 25.1]),
        with_bleu("c", [20.5, 25.0]),
    ]
    (spread,) = seed_spreads(trainings)
    assert (spread.epoch, spread.num_runs) == (2, 3)
    assert spread.sd == pytest.approx(statistics.stdev([24.0, 24.6, 25.0]))
    assert seed_spreads(trainings[:1]) == []
    assert public_spread(trainings[:1]) is None


def test_the_spread_of_public_seeds_and_its_sentence() -> None:
    spread = public_spread()
    assert spread is not None
    assert (spread.pooled.num_systems, spread.num_runs, spread.pooled.degrees_of_freedom) == (33, 330, 297)
    sds = [one.sd for one in seed_spreads()]
    assert spread.median_sd == statistics.median(sds) == pytest.approx(0.247, abs=0.001)
    pooled = spread.pooled
    assert [round(sd, 2) for sd in (pooled.smallest_sd, pooled.largest_sd, pooled.sd)] == [0.15, 0.86, 0.32]
    assert pooled.sd == pytest.approx(statistics.fmean(sd**2 for sd in sds) ** 0.5)
    sentence = spread.sentence()
    for words in ("0.25 BLEU", "33 systems", "330 runs", "enters no verdict", "mlcommons/training_results_v0.7"):
        assert words in sentence


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        (RUNS_NAME, "result_1,v0.5", "result_0,v0.5", "public_runs.csv:3: v0.5/.* is also at"),
        (EVALUATIONS_NAME, "result_0,1,", "result_x,1,", "public_run_evaluations.csv:2: run .*result_x is not in"),
        (RUNS_NAME, "dgx1_ngc18.11_pytorch/result_1,v0.5", "x,v0.5", "public_run_evaluations.csv:5: run .* is not in"),
        (RUNS_NAME, ",v0.5,closed", ",v0.4,closed", "public_runs.csv:2: Invalid enum value 'v0.4'"),
        (EVALUATIONS_NAME, "20.8267", "high", r"public_run_evaluations.csv:2: Expected `float`"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, name: str, old: str, new: str, expected: str) -> None:
    for each in (RUNS_NAME, EVALUATIONS_NAME):
        text = (PUBLISHED_FOLDER / each).read_text(encoding="utf-8")
        assert each != name or old in text
        (tmp_path / each).write_text(text.replace(old, new, 1) if each == name else text, encoding="utf-8")
    with pytest.raises(TableError, match=expected):
        read_public_runs(tmp_path)


def test_a_run_without_evaluations_is_refused(tmp_path: Path) -> None:
    shutil.copy(PUBLISHED_FOLDER / RUNS_NAME, tmp_path)
    lines = (PUBLISHED_FOLDER / EVALUATIONS_NAME).read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / EVALUATIONS_NAME).write_text(lines[0] + "".join(lines[4:]), encoding="utf-8")
    with pytest.raises(TableError, match=r"dgx1_ngc18.11_pytorch/result_0 has no line in"):
        read_public_runs(tmp_path)


def test_collecting_a_checkout_makes_files_that_are_read_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = checkout(tmp_path)
    assert main([str(folder), "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "v0.7 Dell EMC: 1 runs\nv0.7 Google: 1 runs\n"
    trainings = read_public_runs(tmp_path)
    head = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert {one.run.commit for one in trainings} == {head.stdout.strip()}
    shipped = {one.run.run: one for one in read_public_runs()}
    for training in trainings:
        expected = shipped[training.run.run]
        assert training.evaluations == expected.evaluations
        assert training.run == msgspec.structs.replace(expected.run, commit=training.run.commit)


def test_collecting_names_a_file_that_is_cut_and_leaves_it_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = checkout(tmp_path)
    path = folder / V07.relative_to(FIXTURES / "training_results_v0.7")
    path.write_bytes(path.read_bytes()[:-40])
    assert main([str(folder), "--output", str(tmp_path)]) == 1
    assert f"collect: {path}:" in capsys.readouterr().err
    assert [one.run.submitter for one in read_public_runs(tmp_path)] == ["Google"]


def test_what_is_no_checkout_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = checkout(tmp_path)
    with pytest.raises(PublicRunError, match=r"expected a checkout named training_results_v0\.5, v0\.6 or v0\.7"):
        collect_checkout(folder.rename(tmp_path / "results"))
    shutil.copytree(FIXTURES / "gnmt", tmp_path / "training_results_v0.6")
    assert main([str(tmp_path / "training_results_v0.6"), "--output", str(tmp_path)]) == 1
    assert "no commit" in capsys.readouterr().err
    assert not (tmp_path / RUNS_NAME).exists()
