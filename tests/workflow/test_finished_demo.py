"""A results folder of an earlier version stays finished, and its trainings are still asked for.

`finished_demo.tar.xz` is what `snakemake --profile profiles/local --configfile
workflow/config/demo.yaml --config updates=100` left at commit d02d6d88: Snakemake's metadata, the
records of the trainings, and an empty file with its time for every other output.
`finished_evaluations.tar.xz` has the evaluations of base with seed 1, made at that commit: records
and translations, without the checkpoints.
"""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from aiayn.experiment import read_experiment
from aiayn.records import EvaluationsRecord, read_record
from aiayn.spec.system import CONFIG_FOLDER, read_scale
from tests.pipeline_copy import edited, make_pipeline

FINISHED_PATH = Path(__file__).with_name("finished_demo.tar.xz")
EVALUATED_PATH = FINISHED_PATH.with_name("finished_evaluations.tar.xz")
# Runs a verb, and ends with 3 if it has imported torch.
WITHOUT_TORCH = (
    "import sys; from aiayn.__main__ import main; code = main(sys.argv[1:]);"
    " sys.exit(code or 3 * ('torch' in sys.modules))"
)
# Decision 0013 asks for one seed of this replication.
WITHDRAWN = {f"multi30k_revisit_en_de-revisit_tiny-seed{seed}" for seed in (2, 3)}
AFTER_SCORE = {"tables", "measure/record"}
# Scale and run of every training of d02d6d88.
NAMES_BY_SCALE: dict[str, list[str]] = {}
for scale_and_name in FINISHED_PATH.with_name("run_names.txt").read_text("utf-8").splitlines():
    scale_name, _, run = scale_and_name.partition(" ")
    NAMES_BY_SCALE.setdefault(scale_name, []).append(run)


def test_a_demo_of_an_earlier_version_is_still_finished(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path)
    with tarfile.open(FINISHED_PATH) as finished:
        finished.extractall(pipeline.checkout, filter="data")
    asked = ("--config", "updates=100")
    planned = pipeline.planned(*asked)
    lists = {name for name in planned if name.startswith("evaluations/")}
    assert len(lists) == 12  # a job each, which finds its records current and writes their list
    assert planned - lists <= AFTER_SCORE
    records = [f"results/demo/train/demo_en_de/base/seed{seed}.json" for seed in (1, 2)]
    assert pipeline.planned(*records, *asked, "only=demo_en_de/base:1,2") == set()
    # The test can fail: a raised stage number makes that stage and all that follows again.
    stages = pipeline.checkout / "workflow" / "aiayn" / "stages.py"
    with edited(stages, '"binarize": 1', '"binarize": 2'):
        assert any(name.startswith("train/") for name in pipeline.planned(*asked))


def test_the_evaluations_of_an_earlier_version_are_listed_and_nothing_is_computed(
    tmp_path: Path,
) -> None:
    with tarfile.open(EVALUATED_PATH) as evaluated:
        evaluated.extractall(tmp_path, filter="data")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    place = "demo_en_de/base/seed1.json"
    list_path = tmp_path / "results/demo/evaluations" / place
    flags_by_name = {
        "--scale": ["demo"],
        "--train": [f"results/demo/train/{place}"],
        "--binarized": ["results/demo/binarize/demo_en_de/record.json"],
        "--raw": ["results/demo/fetch/demo_en_de/record.json"],
        "--decode": ["last1/demo_dev", "last5/demo_test"],
        "--perplexity": ["last1/demo_dev"],
        "--record": [f"results/demo/evaluations/{place}"],
    }
    flags = [word for name, words in flags_by_name.items() for word in (name, *words)]
    command = [sys.executable, "-c", WITHOUT_TORCH, "evaluations", *flags]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(read_record(list_path, EvaluationsRecord).sha256_by_record) == 7
    assert after == {**before, list_path: list_path.read_bytes()}


@pytest.mark.parametrize("scale", ["demo", "multi30k", "paper"])
def test_the_sheet_of_a_scale_lists_the_trainings_of_the_earlier_version(scale: str) -> None:
    earlier = sorted({name.rpartition("-")[0] for name in NAMES_BY_SCALE[scale]} - WITHDRAWN)
    trainings = read_experiment(read_scale(CONFIG_FOLDER / f"{scale}.yaml")).trainings
    assert sorted(f"{run.corpus}-{run.system}-seed{run.seed}" for run in trainings) == earlier
