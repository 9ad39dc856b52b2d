"""What may happen to Slurm's own daemons while a training runs or begins."""

import signal
import time

from aiayn.runs.run_folder import RunFolder
from tests.slurm.fault_scene import EXIT_DONE, Scene


def controller_restarted(scene: Scene) -> None:
    """The job runs on without slurmctld, and the driver waits until the queue answers."""
    driver = scene.start_until(15)
    scene.cluster.daemons.stop("slurmctld")
    time.sleep(10)
    scene.cluster.daemons.start("slurmctld")
    scene.disturbed("slurmctld ended by TERM, started 10 s later")
    scene.must_end(driver, EXIT_DONE)
    assert scene.starts == [0]
    scene.require_jobs(1)


def controller_killed(scene: Scene) -> None:
    """slurmctld dies with a job so young that it has saved nothing about it.

    It then gives the same number to the next job, which its node refuses, and holds that one: the
    driver releases it, and it runs on the other node.
    """
    driver = scene.start()
    scene.wait_for_running()
    scene.cluster.daemons.stop("slurmctld", signal.SIGKILL)
    scene.disturbed("KILL of slurmctld with a job not a second old, started 3 s later")
    time.sleep(3)
    scene.cluster.daemons.start("slurmctld")
    scene.must_end(driver, EXIT_DONE)
    scene.cluster.up()  # the node that refused is drained
    # As a rule the first of two submissions left no trace but its number. Where the controller had
    # saved it after all there was no second.
    scene.require_jobs(1)
    submitted = [submitted.job for submitted in RunFolder(scene.run_folder).jobs()]
    assert submitted in (scene.jobs(), scene.jobs() * 2), submitted
    # Until its node hears that the controller does not know the job, it may have begun, and saved
    # its first checkpoint.
    assert scene.starts[0] == 0
    assert len(scene.starts) <= 2, scene.starts
    assert scene.num_updates_lost < 20, scene.logged_updates


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
    scene.require_jobs(1)
