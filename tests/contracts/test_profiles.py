"""The profiles say where jobs run and nothing of science. `--profile slurm` is found at the root."""

import os
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
import yaml

from tests.pipeline_copy import CHECKOUT, Pipeline, make_pipeline

LOCAL_RULES = {
    "train",
    "fetch",
    "tables",
    "all",
    "data",
}  # a driver, a download, a page; and targets without a command
# Any other key of profiles/default would override what --profile says; `config` anywhere would be
# lost as a whole as soon as a command line has a --config.
OF_DEFAULT = {"rerun-triggers", "show-failed-logs"}
RULE = re.compile(r"^rule (\w+):\n((?:(?: .*)?\n)*)", flags=re.MULTILINE)


def read_profile(name: str) -> dict[str, Any]:
    """Return a profile's settings."""
    text = (CHECKOUT / "profiles" / name / "config.yaml").read_text(encoding="utf-8")
    settings: dict[str, Any] = yaml.safe_load(text)
    return settings


def rules() -> dict[str, str]:
    """Return the text of each rule by its name."""
    paths = [CHECKOUT / "Snakefile", *sorted((CHECKOUT / "workflow").rglob("*.smk"))]
    return {
        name: body
        for path in paths
        for name, body in RULE.findall(path.read_text(encoding="utf-8"))
    }


def unnamed_rules(settings: dict[str, Any], names: set[str]) -> set[str]:
    """Return the rules that a profile speaks of and that there are not."""
    return {
        rule for key in ("set-resources", "set-threads") for rule in settings.get(key, {})
    } - names


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Return a copy of the checkout with its link, for dry runs."""
    made = make_pipeline(tmp_path_factory.mktemp("profiles"))
    (made.checkout / "slurm").symlink_to(os.readlink(CHECKOUT / "slurm"))
    return made


def test_the_default_profile_holds_what_no_other_profile_changes() -> None:
    assert set(read_profile("default")) == OF_DEFAULT
    assert "code" not in read_profile("default")["rerun-triggers"]


@pytest.mark.parametrize("name", ["local", "slurm"])
def test_no_profile_holds_config_or_triggers(name: str) -> None:
    assert {"config", "configfile", *OF_DEFAULT} & set(read_profile(name)) == set()


def test_a_pause_of_slurm_is_got_over_only_by_all_of_these() -> None:
    settings = read_profile("slurm")
    assert settings["slurm-status-command"] == "squeue"
    assert settings["slurm-status-attempts"] >= 600
    assert settings["max-status-checks-per-second"] <= 1


def test_thirty_drivers_wait_at_once() -> None:
    """A local rule counts among `jobs`, and cores + 5 of them run. The paper's config has 30
    trainings.
    """
    settings = read_profile("slurm")
    assert settings["cores"] + 5 >= 30
    assert settings["jobs"] >= 60


def test_the_slurm_profile_names_rules_that_there_are() -> None:
    named = rules()
    assert set(named) >= LOCAL_RULES
    assert unnamed_rules(read_profile("slurm"), set(named)) == set()
    assert unnamed_rules(
        {"set-resources": {"trian": {}}, "set-threads": {"train": 1}}, set(named)
    ) == {"trian"}


def test_local_rules_are_those_and_no_group_makes_a_job_of_them() -> None:
    bodies = rules()
    local = {
        name
        for name, body in bodies.items()
        if re.search(r"^    localrule: True$", body, flags=re.MULTILINE)
    }
    targets = {name for name, body in bodies.items() if "    shell:" not in body}
    assert local | targets == LOCAL_RULES
    assert [
        name for name, body in bodies.items() if re.search(r"^    group:", body, flags=re.MULTILINE)
    ] == []


def test_a_dry_run_of_the_slurm_profile_launches_trainings_on_slurm(pipeline: Pipeline) -> None:
    """With the literal command, on a machine that need not have Slurm."""
    finished = subprocess.run(
        [sys.executable, "-m", "snakemake", "--profile", "slurm", "-n", "-p", *pipeline.arguments],
        cwd=pipeline.checkout,
        env=pipeline.variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stdout
    assert "Using profiles slurm and workflow specific profile profiles/default" in finished.stdout
    calls = [
        shlex.split(call)
        for call in re.findall(r"^ *(aiayn .*?) (?:2>|>)", finished.stdout, re.MULTILINE)
    ]
    launchers = [call[call.index("--launcher") + 1] for call in calls if call[1] == "train"]
    assert launchers == ["slurm"] * 12
    threads = {call[call.index("--threads") + 1] for call in calls if call[1] == "evaluations"}
    assert threads == {str(read_profile("slurm")["set-threads"]["evaluations"])}
