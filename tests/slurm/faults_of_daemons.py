"""What may happen to Slurm's own daemons while a training runs or begins."""

import signal
import time

from tests.slurm.cluster_processes import wait_until
from tests.slurm.fault_scene import EXIT_DONE, LONGEST_WAIT_SECONDS, Scene

ADVICE = "it waits for you: `scontrol release"


def controller_restarted(scene: Scene) -> None:
    """The job runs on without slurmctld, and the driver waits until the queue answers."""
    driver = scene.start()
    scene.wait_for_update(15)
    scene.cluster.daemons.stop("slurmctld")
    time.sleep(10)
    scene.cluster.daemons.start("slurmctld")
    scene.disturbed("slurmctld ended by TERM, started 10 s later")
    scene.must_end(driver, EXIT_DONE)
    assert scene.starts == [0]
    scene.require_jobs(1)


def controller_killed(scene: Scene) -> None:
    """slurmctld dies with a job so young that it has saved nothing about it.

    It then gives the same number to the next job, which its node refuses, and holds that one until somebody releases
    it: the driver says so, and a person does what it says.
    """
    driver = scene.start()
    scene.wait_for_running()
    scene.cluster.daemons.stop("slurmctld", signal.SIGKILL)
    scene.disturbed("KILL of slurmctld with a job not a second old, started 3 s later")
    time.sleep(3)
    scene.cluster.daemons.start("slurmctld")
    wait_until(
        lambda: ADVICE in driver.told or driver.process.poll() is not None, LONGEST_WAIT_SECONDS, "an end or advice"
    )
    if ADVICE in driver.told:
        (job,) = scene.live_jobs()
        assert f"{ADVICE} {job}" in driver.told
        scene.cluster.up()  # the node is drained, too
        assert scene.cluster.daemons.succeeds("scontrol", "release", job)
        scene.disturbed("`scontrol release`, as the driver says")
    scene.must_end(driver, EXIT_DONE)


def accounting_away(scene: Scene) -> None:
    """Neither the submission nor the waiting nor the end needs slurmdbd."""
    scene.cluster.daemons.stop("slurmdbd")
    try:
        driver = scene.start()
        scene.disturbed("slurmdbd down from before the submission to after the end")
        scene.must_end(driver, EXIT_DONE)
    finally:
        scene.cluster.daemons.start("slurmdbd")
    assert scene.starts == [0]
