"""What may happen to the snakemake that drives a training and waits for a CPU job. Both are
Slurm's.
"""

import os
import signal

import msgspec

from tests.killed_snakemake import paste_lines
from tests.pipeline_copy import Pipeline
from tests.slurm.cluster_processes import wait_until
from tests.slurm.fault_scene import LONGEST_WAIT_SECONDS, Scene
from tests.slurm.snakemake_run import SnakemakeRun
from tests.slurm.training_pipeline import make_training_pipeline, trained_record

TRAINED = trained_record(1)
MEASURED = "results/demo/measure/record.json"  # of a CPU rule that needs nothing of the others
LONGEST_END_SECONDS = 60.0


def snakemake_interrupted(scene: Scene) -> None:
    """Ctrl-C: the CPU job is cancelled, the training goes on without a driver."""
    pipeline, run, job = _begin(
        scene, seconds_per_update=1.0
    )  # it takes its time to look for the end of the CPU job
    os.killpg(run.process.pid, signal.SIGINT)
    assert run.wait(LONGEST_END_SECONDS) != 0
    wait_until(lambda: not _cpu_jobs(scene), LONGEST_END_SECONDS, "the end of the CPU job")
    assert scene.live_jobs() == [job]
    _finish(scene, pipeline, job, "Ctrl-C, started again")


def snakemake_terminated(scene: Scene) -> None:
    """TERM to snakemake alone: it submits nothing more and waits for what is at work."""
    # The training is finished when snakemake starts again, which then asks for five checkpoints.
    scene.training = msgspec.structs.replace(scene.training, save_interval_updates=12)
    pipeline, run, job = _begin(scene)
    os.kill(run.process.pid, signal.SIGTERM)
    (pipeline.fake_folder / "go").touch()
    run.wait()
    _finish(scene, pipeline, job, "TERM to snakemake alone, started again")


def snakemake_hung_up(scene: Scene) -> None:
    """The terminal is closed: snakemake is gone at once, its locks and its CPU job are left."""
    pipeline, run, job = _begin(scene)
    os.killpg(run.process.pid, signal.SIGHUP)
    run.wait(LONGEST_END_SECONDS)
    assert scene.live_jobs() == [job]
    _clean_up(pipeline)
    _finish(
        scene,
        pipeline,
        job,
        "HUP as of a closed terminal, the lines of docs/faults.md, started again",
    )


def snakemake_killed(scene: Scene) -> None:
    """KILL of snakemake alone: the training's driver lives on and the next one waits for it."""
    pipeline, run, job = _begin(scene)
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.wait()
    assert scene.live_jobs() == [job]
    assert _cpu_jobs(scene)
    _clean_up(pipeline)
    assert not _cpu_jobs(scene)
    _finish(
        scene, pipeline, job, "KILL of snakemake alone, the lines of docs/faults.md, started again"
    )


def _begin(scene: Scene, seconds_per_update: float = 0.5) -> tuple[Pipeline, SnakemakeRun, str]:
    """Start snakemake. Return when the training and the CPU job are at work, with the training's
    Slurm job.
    """
    scene.seconds_per_update = seconds_per_update
    pipeline = make_training_pipeline(scene)
    run = SnakemakeRun.start(pipeline, TRAINED, MEASURED, FAKE_AIAYN_WAITS="measure")
    run.wait_for_job("measure")
    wait_until(
        lambda: 15 in scene.logged_updates or run.process.poll() is not None,
        LONGEST_WAIT_SECONDS,
        "update 15",
    )
    assert run.process.poll() is None, run.output
    (job,) = scene.live_jobs()
    assert _cpu_jobs(scene)
    return pipeline, run, job


def _clean_up(pipeline: Pipeline) -> None:
    """Paste the lines of the document, as a person does when a snakemake was killed."""
    finished = paste_lines(pipeline.checkout, pipeline.variables())
    assert "Unlocked working directory" in finished.stdout, finished.stdout


def _finish(scene: Scene, pipeline: Pipeline, job: str, what: str) -> None:
    """Start snakemake again: it must end well with the one job of the training that there was, and
    leave none.
    """
    (pipeline.fake_folder / "go").touch()
    again = SnakemakeRun.start(pipeline, TRAINED, MEASURED)
    scene.disturbed(what)
    try:
        assert again.wait() == 0, again.output
    finally:
        again.kill()
    assert (pipeline.checkout / TRAINED).is_file()
    assert scene.jobs() == [job]
    assert scene.starts == [0]
    assert not _cpu_jobs(scene)


def _cpu_jobs(scene: Scene) -> list[str]:
    """Return the live Slurm jobs of CPU rules."""
    answer = scene.cluster.daemons.output("squeue", "--noheader", "--format=%A %j")
    return [line.split()[0] for line in answer.splitlines() if line.split()[1].startswith("aiayn_")]
