"""A results folder of an earlier version stays finished, and runs keep their names.

`finished_demo.tar.xz` is what `snakemake --profile profiles/local --configfile
workflow/config/demo.yaml --config updates=100` left at commit d02d6d88: Snakemake's metadata, the
records of the trainings, and an empty file with its time for every other output.
"""

import tarfile
from pathlib import Path

import pytest

from aiayn.experiment import read_experiment
from aiayn.spec.system import CONFIG_FOLDER, read_scale, read_system, run_name
from aiayn.stages import STAGE_VERSIONS
from tests.pipeline_copy import edited, make_pipeline

FINISHED_PATH = Path(__file__).with_name("finished_demo.tar.xz")
AFTER_SCORE = {"tables", "measure/record"}
# Scale and run of every training of d02d6d88, with a data-bin whose digest is "data".
NAMES = FINISHED_PATH.with_name("run_names.txt").read_text(encoding="utf-8").splitlines()

NAMES_BY_SCALE: dict[str, list[str]] = {}
for scale_and_name in NAMES:
    scale_name, _, run = scale_and_name.partition(" ")
    NAMES_BY_SCALE.setdefault(scale_name, []).append(run)


def test_a_demo_of_an_earlier_version_is_still_finished(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path)
    with tarfile.open(FINISHED_PATH) as finished:
        finished.extractall(pipeline.checkout, filter="data")
    asked = ("--config", "updates=100")
    assert pipeline.planned(*asked) <= AFTER_SCORE
    records = [f"results/demo/train/demo_en_de/base/seed{seed}.json" for seed in (1, 2)]
    assert pipeline.planned(*records, *asked, "only=demo_en_de/base:1,2") == set()
    # The test can fail: a raised stage number makes that stage and all that follows again.
    stages = pipeline.checkout / "workflow" / "aiayn" / "stages.py"
    with edited(stages, '"decode": 2', '"decode": 3'):
        assert any(name.startswith("decode/") for name in pipeline.planned(*asked))


@pytest.mark.parametrize("scale", ["demo", "multi30k", "paper"])
def test_the_sheet_of_a_scale_lists_the_trainings_of_the_earlier_version(scale: str) -> None:
    earlier = sorted(name.rpartition("-")[0] for name in NAMES_BY_SCALE[scale])
    trainings = read_experiment(read_scale(CONFIG_FOLDER / f"{scale}.yaml")).trainings
    assert sorted(f"{run.corpus}-{run.system}-seed{run.seed}" for run in trainings) == earlier


@pytest.mark.parametrize("line", NAMES)
def test_runs_keep_their_names(line: str) -> None:
    scale, name = line.split()
    corpus, system, seed, _ = name.split("-")
    now = run_name(
        corpus=corpus,
        system=system,
        seed=int(seed.removeprefix("seed")),
        training=read_system(system, scale).training,
        data_digest="data",
        stage_version=STAGE_VERSIONS["train"],
    )
    assert now == name
