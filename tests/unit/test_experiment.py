"""A sheet's rows become exactly the trainings, evaluations and records that printed numbers ask
for.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.errors import ConfigError
from aiayn.experiment import Experiment, read_experiment
from aiayn.paths import Evaluation, train_record
from aiayn.records import write_record
from aiayn.spec.sheet import SHEET_NAME, TrainingKey, list_trainings, read_sheet
from aiayn.spec.system import CONFIG_FOLDER, read_scale
from tests.case_tables import read_cases
from tests.records_factory import make_site, write_training

SYSTEMS = CONFIG_FOLDER / "systems" / "demo"


def experiment_of(folder: Path, **changes: object) -> Experiment:
    """Return a small scale expanded, with changes to its lists."""
    site = make_site(folder, **changes)
    return read_experiment(site.scale, site.config_folder)


def name_of(training: TrainingKey) -> str:
    return f"{training.corpus} {training.system} {training.seed}"


def evaluation_line(evaluation: Evaluation) -> str:
    measured = " with perplexity" if evaluation.has_perplexity else ""
    return (
        f"{evaluation.corpus} {evaluation.system} {evaluation.seed} {evaluation.average}"
        f" {evaluation.testset} {evaluation.role}{measured}"
    )


VIEWS: dict[str, Callable[[Experiment], list[str]]] = {
    "trainings": lambda experiment: list(map(name_of, experiment.trainings)),
    "later": lambda experiment: list(map(name_of, experiment.later_trainings)),
    "evaluations": lambda experiment: list(map(evaluation_line, experiment.evaluations)),
    "baselines": lambda experiment: list(map(" ".join, experiment.baselines)),
    "corpora": lambda experiment: list(experiment.corpora),
    "systems": lambda experiment: sorted(experiment.system_by_name),
    "records": lambda experiment: list(map(str, experiment.records(Path("results")))),
    "kept": lambda experiment: [
        f"{name} {experiment.num_models('demo_en_de', name)}"
        for name in ("base", "big", "pre_norm")
    ],
}


@pytest.mark.parametrize("case", read_cases("experiments.toml"), ids=lambda case: case["name"])
def test_a_scale_asks_for_exactly_this(case: dict[str, Any], tmp_path: Path) -> None:
    experiment = experiment_of(tmp_path, **case["changes"])
    for name, view in VIEWS.items():
        if name in case:
            assert view(experiment) == case[name]


def test_updates_of_the_scale_stand_for_every_systems_own(tmp_path: Path) -> None:
    own = experiment_of(tmp_path, variants=["pre_norm"]).system_by_name
    assert {spec.training.updates for spec in own.values()} == {3000}
    short = experiment_of(tmp_path, variants=["pre_norm"], updates=2500).system_by_name
    assert short.keys() == own.keys()
    assert {spec.training.updates for spec in short.values()} == {2500}
    assert short["base"].decoding == own["base"].decoding


def test_updates_that_leave_too_few_checkpoints_to_average_are_refused(tmp_path: Path) -> None:
    """One every 100 updates, the last at the end: 1,901 updates have 20, at 1, 101, ..., 1901, and
    1,900 have 19.
    """
    assert experiment_of(tmp_path, updates=1901).evaluations != []
    with pytest.raises(ConfigError, match=r"scale demo: big\b.*\b19\b.*\b1900\b.*\b20\b"):
        experiment_of(tmp_path, updates=1900)
    few = experiment_of(tmp_path, updates=1900, en_de_systems=["base"], en_fr_systems=[])
    assert set(few.system_by_name) == {"base", "table3_c_n2"}


def test_the_snakefile_can_ask_without_pandas() -> None:
    code = (
        "import sys, aiayn.experiment; sys.exit('pandas' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_only_selects_seeds_and_corpora_and_the_sheet_of_results_keeps_what_it_has(
    tmp_path: Path,
) -> None:
    experiment = experiment_of(tmp_path, only="base:2 demo_en_fr/big_enfr")
    selected = [
        "demo_en_de base 2",
        "demo_en_fr base 2",
        "demo_en_fr big_enfr 1",
        "demo_en_fr big_enfr 2",
    ]
    assert list(map(name_of, experiment.trainings)) == selected
    experiment_of(tmp_path, only="base:1").write_sheet(tmp_path / "results")
    experiment.write_sheet(tmp_path / "results")
    rows = read_sheet(tmp_path / "results" / "demo" / SHEET_NAME)
    written = list(map(name_of, list_trainings(rows)))
    assert written == [*selected, "demo_en_de base 1", "demo_en_fr base 1"]


def test_a_training_that_continues_another_needs_that_other_in_the_sheet() -> None:
    scale = read_scale(CONFIG_FOLDER / "multi30k.yaml")
    experiment = read_experiment(scale)
    assert len(experiment.later_trainings) == 10
    only_longer = msgspec.structs.replace(scale, only="updates16000_base:11")
    with pytest.raises(
        ConfigError, match="updates16000_base with seed 11 continues the training of base with that"
    ):
        read_experiment(only_longer)
    shorter = read_experiment(msgspec.structs.replace(scale, updates=8000))
    assert len(shorter.later_trainings) == 5  # a shorter training cannot be continued
    assert not any(run.system.startswith("updates16000") for run in shorter.trainings)


def test_another_test_set_than_the_published_numbers_is_refused(tmp_path: Path) -> None:
    site = make_site(tmp_path, replications=["toy_en_es"])
    shutil.copy2(SYSTEMS / "seed_waynestalk.yaml", site.config_folder / "systems" / "demo")
    shutil.copy2(SYSTEMS / "seed_torch_nn.yaml", site.config_folder / "systems" / "demo")
    corpus = (CONFIG_FOLDER / "corpora" / "toy_en_es.yaml").read_text(encoding="utf-8")
    path = site.config_folder / "corpora" / "toy_en_es.yaml"
    path.write_text(corpus.replace("toy_eight", "toy_nine"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"toy_en_es: .*toy_nine.*toy_eight"):
        read_experiment(site.scale, site.config_folder)


def test_a_finished_run_that_kept_too_few_checkpoints_is_refused(tmp_path: Path) -> None:
    """Base's tables average five. A damaged record is left to the stage that reads it."""
    site = make_site(tmp_path)
    site.experiment.require_kept(site.results_folder)  # nothing was trained
    train = write_training(site, "demo_en_de", "base", 1)
    path = train_record(site.results_folder, "demo", "demo_en_de", "base", 1)
    write_record(msgspec.structs.replace(train, models=train.models[-5:]), path)
    site.experiment.require_kept(site.results_folder)
    write_record(msgspec.structs.replace(train, models=train.models[-4:]), path)
    with pytest.raises(ConfigError, match=r"seed1.json: its run kept fewer than the 5 checkpoints"):
        site.experiment.require_kept(site.results_folder)
    path.write_text("{}\n", encoding="utf-8")
    site.experiment.require_kept(site.results_folder)
