"""Public seeds: what the shipped file has, which runs count, the pooled noise by a second path, and
what is refused.
"""

import csv
import math
import re
import shutil
import statistics
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from scipy import stats

from aiayn.errors import TableError
from aiayn.printed import PUBLISHED_FOLDER
from aiayn.scoring.verdict import judge
from paper_tables.public_seeds import (
    ALGOPERF,
    FILE_NAME,
    MLPERF,
    Quantity,
    noise_sentence,
    published_means,
    read_public_seeds,
    seed_noise,
    seeds_by_public_noise,
)
from tests.collect_public_seeds import main

MAX_BYTES = 150_000


def spoilt(tmp_path: Path, old: str, new: str) -> Path:
    """Return a folder with a copy of the shipped file with the first `old` replaced."""
    text = (PUBLISHED_FOLDER / FILE_NAME).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / FILE_NAME).write_text(text.replace(old, new, 1), encoding="utf-8")
    return tmp_path


def recomputed(
    prefix: str,
    column: str,
    folder: Path = PUBLISHED_FOLDER,
    *,
    is_longer: bool = False,
    lowest_bleu: float = 1,
) -> tuple[int, int, float, float, float]:
    """Return settings, df, pooled, smallest and largest sd, by the csv and statistics modules.

    Runs of AlgoPerf count from `lowest_bleu`, at exactly 133,333 updates, or also if they ended
    later.
    """
    values: dict[tuple[str, ...], list[float]] = defaultdict(list)
    with (folder / FILE_NAME).open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            updates = float(line["updates"] or 0)
            is_whole = updates == 133_333 or (is_longer and updates > 133_333)
            is_counted = prefix == "mlperf_" or (
                is_whole and float(line["bleu_test"]) > lowest_bleu
            )
            if line["source"].startswith(prefix) and is_counted and line[column]:
                key = (line["source"], line["system"], line["setting"])
                values[key].append(float(line[column]))
    groups = [group for group in values.values() if len(group) >= 3]
    squares = sum(statistics.variance(group) * (len(group) - 1) for group in groups)
    df = sum(len(group) - 1 for group in groups)
    sds = [statistics.stdev(group) for group in groups]
    return len(groups), df, math.sqrt(squares / df), min(sds), max(sds)


def test_every_run_is_there_by_source_and_the_file_is_small() -> None:
    lines = read_public_seeds()
    assert Counter(line.source for line in lines) == {
        "algoperf_v05": 585,
        "algoperf_v06": 33,
        "mlperf_v0.5": 30,
        "mlperf_v0.6": 120,
        "mlperf_v0.7": 180,
        "fairseq-apollo": 5,
        "reproduce-transformer": 2,
    }
    assert (PUBLISHED_FOLDER / FILE_NAME).stat().st_size <= MAX_BYTES
    assert [(line.setting, line.bleu_test, line.bleu_sd) for line in published_means()][-2:] == [
        ("fp32", 27.60, 0.13),
        ("amp", 27.58, 0.22),
    ]


def test_runs_of_a_setting_have_seeds_of_their_own() -> None:
    for source in (ALGOPERF, MLPERF):
        for runs in seed_noise(source).runs_by_setting.values():
            seeds = {run.seed for run in runs}
            assert seeds == {""} or len(seeds) == len(
                runs
            )  # MLPerf's v0.6 and Google's TensorFlow log no seed


@pytest.mark.parametrize(
    ("source", "prefix", "quantity", "expected"),
    [
        (ALGOPERF, "algoperf_", "bits_dev", (12, 47, 0.0038, 0.0014, 0.0061)),
        (ALGOPERF, "algoperf_", "bleu_dev", (12, 47, 0.157, 0.077, 0.243)),
        (ALGOPERF, "algoperf_", "bleu_test", (12, 47, 0.166, 0.033, 0.288)),
        (MLPERF, "mlperf_", "bleu_test", (33, 297, 0.320, 0.152, 0.857)),
    ],
)
def test_the_noise_is_what_a_second_script_finds(
    source: str, prefix: str, quantity: Quantity, expected: tuple[int, int, float, float, float]
) -> None:
    pooled = seed_noise(source).pooled(quantity)
    assert pooled is not None
    found = (
        pooled.num_systems,
        pooled.degrees_of_freedom,
        pooled.sd,
        pooled.smallest_sd,
        pooled.largest_sd,
    )
    assert found == pytest.approx(recomputed(prefix, quantity))
    decimals = 4 if quantity == "bits_dev" else 3
    assert tuple(round(value, decimals) for value in found) == expected


def test_the_second_script_notices_a_value_that_changed(tmp_path: Path) -> None:
    line = next(
        line for line in read_public_seeds() if line.updates == 133_333 and line.bits_dev != ""
    )
    folder = spoilt(
        tmp_path, f"{line.seed},1,133333,,{line.bits_dev:.5f}", f"{line.seed},1,133333,,9.00000"
    )
    pooled = seed_noise(ALGOPERF).pooled("bits_dev")
    assert pooled is not None
    changed = recomputed("algoperf_", "bits_dev", folder)[2]
    assert changed != pytest.approx(pooled.sd, rel=0.01)


def test_a_run_that_stopped_early_or_never_learned_does_not_count() -> None:
    counted = [run for runs in seed_noise(ALGOPERF).runs_by_setting.values() for run in runs]
    assert {run.updates for run in counted} == {133_333}
    assert min(run.bleu_test for run in counted) > 25  # type: ignore[type-var]
    assert {run.averaged for run in counted} == {"no"}
    assert not any(
        "generalized_adam external_tuning/wmt_jax/trial_1" in run.setting_name for run in counted
    )


def test_mlperf_has_no_loss() -> None:
    assert seed_noise(MLPERF).pooled("bits_dev") is None


def test_the_sentence_names_both_sources() -> None:
    sentence = noise_sentence()
    for words in (
        "330 En-De runs of 33 systems have a pooled sd of 0.32 BLEU",
        "59 De-En runs of 12 settings 0.17",
    ):
        assert words in sentence


def test_a_verdict_without_an_sd_of_ours_says_the_seeds_at_public_noise() -> None:
    """MLPerf's sd 0.32 with about 300 df: 0.27 + 1.65 * 0.32 / n^0.5 falls below 0.5 at n = 6."""
    sd = recomputed("mlperf_", "bleu_test")[2]
    enough = next(
        n for n in range(3, 99) if 0.27 + stats.t.ppf(0.95, 297 + n - 1) * sd / math.sqrt(n) < 0.5
    )
    text = seeds_by_public_noise(judge(28.4, [28.13], None))
    assert text == f"{enough} at MLPerf's sd 0.32 (En-De), 3 at AlgoPerf's sd 0.17 (De-En)"
    assert seeds_by_public_noise(judge(28.4, [28.13, 28.2], None)) == ""  # an sd of ours
    assert seeds_by_public_noise(judge(28.4, [], None)) == ""  # no difference
    assert seeds_by_public_noise(judge(28.4, [27.9], None)).startswith(
        "no number at MLPerf's sd"
    )  # at the margin


@pytest.mark.parametrize(
    ("lowest_bleu", "expected"), [(25, (14, 55, 0.0071)), (1, (16, 63, 0.0083))]
)
def test_what_runs_that_ended_later_would_change(
    lowest_bleu: float, expected: tuple[int, int, float]
) -> None:
    settings, df, sd, *_ = recomputed(
        "algoperf_", "bits_dev", is_longer=True, lowest_bleu=lowest_bleu
    )
    assert (settings, df, round(sd, 4)) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (",bits_dev,", ",", r"public_seeds\.csv:1: header is .*; expected .*'bits_dev'"),
        (
            "trial_1,study_0,3806044122",
            "trial_1,study_1,3806044122",
            r"public_seeds\.csv:\d+: .*study_1 is also at",
        ),
        ("3806044122,1,59547", "3806044122,1,many", r"public_seeds\.csv:2: "),
        (
            "3806044122,1,59547",
            "3806044122,2,59547",
            r"public_seeds\.csv:2: num_seeds 2 with bleu_sd ''; expected",
        ),
        (",27.58,0.22,", ",27.58,,", r"num_seeds 3 with bleu_sd ''; expected a run of 1 seed"),
        ("huggingface_bleu,no", "huggingface_bleu,maybe", r"Invalid enum value 'maybe'"),
    ],
)
def test_a_file_that_is_spoilt_is_one_sentence(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    with pytest.raises(TableError, match=expected) as raised:
        read_public_seeds(spoilt(tmp_path, old, new))
    assert "\n" not in str(raised.value)


def algoperf_clone(folder: Path, header: str) -> Path:
    """Return a git repository with one run of AlgoPerf on WMT and one on another workload."""
    trial = folder / "previous_leaderboards/algoperf_v05/logs/external_tuning/amos/study_0"
    for workload in ("wmt_jax", "mnist_jax"):
        place = trial / workload / "trial_1"
        place.mkdir(parents=True)
        place.joinpath("flags_0.json").write_text('{"rng_seed": 7}', encoding="utf-8")
        rows = f"{header}\n100,3.0,20.0,21.0\n133333,{math.log(2) * 2},29.61794,29.07\n"
        place.joinpath("eval_measurements.csv").write_text(rows, encoding="utf-8")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "results"]):
        subprocess.run([*git, *command], check=True)
    return folder


def mlperf_files(folder: Path) -> Path:
    """Return a folder with two runs of a system; the second stops an epoch later."""
    folder.mkdir()
    folder.joinpath("public_runs.csv").write_text(
        "run,round,submitter,system,accelerator,num_accelerators,seed,batch,batch_unit,num_parameters,seconds,"
        "repository,commit,path\n"
        + "".join(
            f"v0.7/NVIDIA/x/result_{n},v0.7,NVIDIA,x,A100,8,{n},1000,tokens,5,{100 * n},a/b,c,NVIDIA/x/result_{n}.txt\n"
            for n in (1, 2)
        ),
        encoding="utf-8",
    )
    folder.joinpath("public_run_evaluations.csv").write_text(
        "run,epoch,bleu,seconds\nv0.7/NVIDIA/x/result_1,1,25.1,90\n"
        "v0.7/NVIDIA/x/result_2,1,24.0,92\nv0.7/NVIDIA/x/result_2,2,25.5,180\n",
        encoding="utf-8",
    )
    return folder


HEADER = "global_step,validation/loss,validation/bleu,test/bleu"


def test_collecting_takes_the_last_evaluation_and_the_last_common_epoch(tmp_path: Path) -> None:
    clone, mlperf = algoperf_clone(tmp_path / "clone", HEADER), mlperf_files(tmp_path / "mlperf")
    assert main([str(clone), str(mlperf), "--output", str(tmp_path)]) == 0
    first, *runs = [line for line in read_public_seeds(tmp_path) if line.num_seeds == 1]
    assert (first.setting_name, first.seed, first.updates) == (
        "algoperf_v05 amos external_tuning/wmt_jax/trial_1",
        "7",
        133_333,
    )
    assert (first.bits_dev, first.bleu_dev, first.bleu_test) == (2.0, 29.6179, 29.07)
    assert [(run.epoch, run.bleu_test) for run in runs] == [(1, 25.1), (1, 24.0)]


def test_collecting_a_file_without_a_column_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = algoperf_clone(tmp_path / "clone", HEADER.replace("validation/loss", "loss"))
    assert (
        main([str(clone), str(mlperf_files(tmp_path / "mlperf")), "--output", str(tmp_path)]) == 1
    )
    error = capsys.readouterr().err
    assert re.search(
        r"collect: previous_leaderboards/.*/eval_measurements\.csv: no column 'validation/loss'",
        error,
    )
    assert error.count("\n") == 1
    shutil.rmtree(tmp_path / "mlperf")
    assert main([str(clone), str(tmp_path / "mlperf"), "--output", str(tmp_path)]) == 1
    assert not (tmp_path / FILE_NAME).exists()
