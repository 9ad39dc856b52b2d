"""What a job finds on its node before Python starts: shell lines that fail, and a container around
it.
"""

import shlex
import sys

from aiayn.runs.attempts import DONE_NAME
from tests.slurm.fault_scene import EXIT_DONE, EXIT_INPUT_OR_RUN, NUM_RANKS, Scene

BROKEN_LINE = "module load nonsense"
MOST_JOBS = 3
# As a container's image has it: a Python, and no command of Slurm's on PATH.
CONTAINER = """#!/bin/sh
echo "$SLURM_JOB_ID $SLURM_PROCID" >> {used}
PATH={nothing} exec {python} "$@"
"""


def broken_prologue(scene: Scene) -> None:
    """The cluster's file asks for a module that there is not: no rank begins, and the line is
    named.
    """
    scene.compared_with = "none"
    scene.ask(prologue=["export BEFORE=1", BROKEN_LINE, "export AFTER=1"])
    driver = scene.start()
    scene.must_end(driver, EXIT_INPUT_OR_RUN)
    assert BROKEN_LINE in driver.output, driver.output
    assert "prologue" in driver.output, driver.output
    jobs = scene.jobs()
    assert 1 <= len(jobs) <= MOST_JOBS, jobs
    scene.what = (
        f"prologue: `{BROKEN_LINE}`, which there is not: exit {EXIT_INPUT_OR_RUN} after"
        f" {len(jobs)} job(s)"
    )
    assert scene.starts == []
    assert not (scene.run_folder / DONE_NAME).exists()


def container(scene: Scene) -> None:
    """No command of Slurm's can be called from inside, so the job cannot take its place again: its
    driver does.
    """
    used_path, wrapper_path = scene.folder / "used", scene.folder / "container"
    scene.folder.mkdir(parents=True)
    nothing, python = scene.folder / "nothing", shlex.quote(sys.executable)
    wrapper = CONTAINER.format(
        used=shlex.quote(str(used_path)), nothing=shlex.quote(str(nothing)), python=python
    )
    wrapper_path.write_text(wrapper, encoding="utf-8")
    wrapper_path.chmod(0o755)
    # Slurm tells the job 80 to 110 s after its begin: after many updates, but too early for all.
    scene.ask(time_limit_minutes=2, signal_seconds=10, python=str(wrapper_path))
    scene.seconds_per_update = 1.8
    driver = scene.start_until(1)
    scene.disturbed(
        "python: a wrapper without Slurm's commands; a limit of 2 minutes for 108 s of work"
    )
    scene.must_end(driver, EXIT_DONE)
    assert len(scene.starts) >= 2
    assert scene.ends == ["stopped: asked by SIGUSR2"] * (len(scene.starts) - 1) + ["done"]
    assert scene.num_updates_lost == 0, scene.logged_updates
    scene.require_jobs(len(scene.starts))
    used = [line.split() for line in used_path.read_text(encoding="utf-8").splitlines()]
    assert sorted(used) == sorted(
        [job, str(rank)] for job in scene.jobs() for rank in range(NUM_RANKS)
    ), used
