"""`snakemake --profile slurm` on a real Slurm, with a fake `aiayn`: what becomes a job, and what
daemons do to it.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline_copy import Pipeline
from tests.slurm.cluster import Cluster
from tests.slurm.cluster_processes import wait_until
from tests.slurm.snakemake_run import SnakemakeRun, make_slurm_pipeline

PREPARED = "results/demo/binarize/demo_en_fr/record.json"
TRAINED = "results/demo/train/demo_en_fr/base/seed1.json"
CLEANED = "results/demo/clean/demo_en_de/record.json"
BINARIZED = "results/demo/binarize/demo_en_de/record.json"
MEASURED = "results/demo/measure/record.json"
CLEANING = "clean/demo_en_de/record"
OUTAGE_SECONDS = 12.0


@pytest.fixture
def pipeline(on_cluster: Cluster, tmp_path: Path) -> Iterator[Pipeline]:
    """Return a copy of the checkout whose jobs run on the cluster, and end with the test."""
    yield make_slurm_pipeline(tmp_path)
    on_cluster.daemons.output("scancel", "--user=root")


def states_by_job(cluster: Cluster) -> dict[str, str]:
    """Return what accounting knows of all jobs of this profile."""
    lines = cluster.daemons.output(
        "sacct", "--noheader", "--parsable2", "--allocations", "--format=JobID,State,JobName"
    ).splitlines()
    rows = [line.split("|") for line in lines]
    return {job: state for job, state, name in rows if name.startswith("aiayn_")}


def wait_until_called(pipeline: Pipeline, name: str) -> None:
    """Wait until a job has begun with what makes a record."""
    wait_until(lambda: name in pipeline.made(), 60, f"the job that makes {name}")


def test_it_outlives_its_daemons_and_makes_jobs_of_cpu_rules_alone(
    on_cluster: Cluster, pipeline: Pipeline
) -> None:
    """While the first job runs accounting and controller are away, until snakemake has missed both
    for a while.

    Without the controller the executor asks accounting, whatever the profile says. Without that it
    asks on and on.
    """
    daemons, jobs_before = on_cluster.daemons, states_by_job(on_cluster)
    prepared = pipeline.run("--", PREPARED)
    assert prepared.returncode == 0, prepared.stdout
    run = SnakemakeRun.start(pipeline, TRAINED, CLEANED, MEASURED, FAKE_AIAYN_WAITS=CLEANING)
    try:
        run.wait_for_job("clean")
        wait_until_called(pipeline, CLEANING)
        assert "Falling back" not in run.output
        daemons.stop("slurmdbd")
        daemons.stop("slurmctld")
        wait_until(
            lambda: "Falling back to 'sacct'" in run.output, 90, "snakemake to miss the controller"
        )
        time.sleep(OUTAGE_SECONDS)
        assert run.process.poll() is None
        daemons.start("slurmdbd")
        daemons.start("slurmctld")
        (pipeline.fake_folder / "go").touch()
        assert run.wait() == 0, run.output
    finally:
        run.kill()
    assert sorted(run.rule_by_job.values()) == ["clean", "measure"]
    assert {"train/demo_en_fr/base/seed1", "fetch/demo_en_de/record"} <= set(pipeline.made())
    expected = jobs_before | dict.fromkeys(run.rule_by_job, "COMPLETED")
    wait_until(
        lambda: states_by_job(on_cluster) == expected,
        30,
        "accounting to know of two jobs that ended well",
    )


def test_a_cancelled_cpu_job_is_a_failed_rule_and_the_end(
    on_cluster: Cluster, pipeline: Pipeline
) -> None:
    run = SnakemakeRun.start(pipeline, BINARIZED, FAKE_AIAYN_WAITS=CLEANING)
    try:
        job = run.wait_for_job("clean")
        wait_until_called(pipeline, CLEANING)
        assert on_cluster.daemons.succeeds("scancel", job)
        assert run.wait(90) == 1
    finally:
        run.kill()
    assert "Error in rule clean" in run.output
    assert list(run.rule_by_job) == [job]
