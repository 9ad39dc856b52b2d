"""A results folder of an earlier version stays finished, and runs keep their names.

`finished_demo.tar.xz` is what `snakemake --profile profiles/local --configfile
workflow/config/demo.yaml --config updates=100` left at commit d02d6d88: Snakemake's metadata, the
records of the trainings, and an empty file with its time for every other output.
"""

import tarfile
from pathlib import Path

import pytest

from aiayn.spec.system import read_system, run_name
from aiayn.stages import STAGE_VERSIONS
from tests.pipeline_copy import edited, make_pipeline

FINISHED_PATH = Path(__file__).with_name("finished_demo.tar.xz")
AFTER_SCORE = {"tables", "measure/record"}
# Scale and run of every training of d02d6d88, with a data-bin whose digest is "data".
NAMES = FINISHED_PATH.with_name("run_names.txt").read_text(encoding="utf-8").splitlines()


def test_a_demo_of_an_earlier_version_is_still_finished(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path)
    with tarfile.open(FINISHED_PATH) as finished:
        finished.extractall(pipeline.checkout, filter="data")
    asked = ("--config", "updates=100")
    assert pipeline.planned(*asked) <= AFTER_SCORE
    # The test can fail: a raised stage number makes that stage and all that follows again.
    stages = pipeline.checkout / "workflow" / "aiayn" / "stages.py"
    with edited(stages, '"decode": 2', '"decode": 3'):
        assert any(name.startswith("decode/") for name in pipeline.planned(*asked))


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
