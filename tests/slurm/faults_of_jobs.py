"""What may happen to a training's job."""

import os
import signal
import subprocess
from pathlib import Path

from aiayn.runs.checkpoint_names import list_checkpoints
from tests.slurm.cluster_layout import (
    CANCELLED_PARTITION,
    GRACE_PARTITION,
    NODES,
    REQUEUED_PARTITION,
    URGENT_PARTITION,
)
from tests.slurm.cluster_processes import wait_until
from tests.slurm.fault_scene import (
    EXIT_DONE,
    EXIT_INPUT_OR_RUN,
    Scene,
    kill_all,
)


def undisturbed(scene: Scene) -> None:
    """Nothing happens."""
    scene.must_end(scene.start(), EXIT_DONE)
    scene.what = "nothing"
    assert scene.starts == [0]


def rank_killed(scene: Scene) -> None:
    """The other rank ends too, and the driver submits the next job."""
    _kill_rank(scene, 1)


def rank_0_killed(scene: Scene) -> None:
    """The rank that writes into the run's folder is gone."""
    _kill_rank(scene, 0)


def _kill_rank(scene: Scene, index: int) -> None:
    driver = scene.start_until(25)
    os.kill(scene.rank_process(index), signal.SIGKILL)
    scene.disturbed(f"KILL of rank {index} of 2")
    scene.must_end(driver, EXIT_DONE)
    assert scene.starts == [0, 20]


def training_cancelled(scene: Scene) -> None:
    """The user's request: exit 3, and no other job by itself."""
    driver = scene.start_until(25)
    update = scene.logged_updates[-1]
    assert scene.cluster.daemons.succeeds("scancel", *scene.live_jobs())
    scene.disturbed("scancel")
    scene.must_end(driver, EXIT_INPUT_OR_RUN)
    scene.require_no_job()
    scene.require_jobs(1)
    again = scene.start()
    scene.disturbed("started again")
    scene.must_end(again, EXIT_DONE)
    scene.require_saved(update, "asked by SIGTERM")
    scene.require_jobs(2)


def _preempted(scene: Scene) -> None:
    driver = scene.start_until(25)
    _submit_urgent_job(scene)
    scene.disturbed("an urgent job wants all nodes for 5 s")
    scene.must_end(driver, EXIT_DONE)
    assert len(scene.starts) == 2


def _submit_urgent_job(scene: Scene) -> None:
    assert scene.cluster.daemons.succeeds(
        "sbatch",
        f"--partition={URGENT_PARTITION}",
        f"--nodes={len(NODES)}",
        "--exclusive",
        "--output=/dev/null",
        "--wrap=sleep 5",
    )


def preempted_and_requeued(scene: Scene) -> None:
    """Slurm starts the same job again when it has room."""
    scene.ask(partition=REQUEUED_PARTITION)
    _preempted(scene)
    scene.require_jobs(1)


def preempted_and_gone(scene: Scene) -> None:
    """Slurm sends TERM to the job, and KILL `KillWait` seconds later. A job that has saved by then
    requeues itself. If the job is killed first, the driver submits the next.
    """
    scene.ask(partition=CANCELLED_PARTITION)
    _preempted(scene)
    has_saved = scene.ends[0].startswith("stopped")
    scene.require_jobs(1 if has_saved else 2)


def preempted_with_grace(scene: Scene) -> None:
    """Slurm asks by TERM first: the job saves, though its batches are made by other processes, and
    goes on later without a driver.
    """
    scene.ask(partition=GRACE_PARTITION)
    scene.num_loaders = 2
    driver = scene.start_until(25)
    driver.signal(signal.SIGKILL)
    driver.process.wait()
    update = scene.logged_updates[-1]
    _submit_urgent_job(scene)
    scene.disturbed("KILL of the driver; an urgent job wants all nodes, after a grace time of 60 s")
    scene.wait_until_done()
    scene.must_end(scene.start(), EXIT_DONE)
    scene.require_jobs(1)
    scene.require_saved(update, "asked by SIGTERM")


def requeued_by_hand(scene: Scene) -> None:
    """`scontrol requeue`, as an administrator does. The driver stays with the job."""
    driver = scene.start_until(25)
    update = scene.logged_updates[-1]
    assert scene.cluster.daemons.succeeds("scontrol", "requeue", *scene.live_jobs())
    scene.disturbed("scontrol requeue")
    scene.must_end(driver, EXIT_DONE)
    scene.require_jobs(1)
    scene.require_saved(update, "asked by SIGTERM")


def time_limit(scene: Scene) -> None:
    """The job saves as its time is nearly up, and lets Slurm start it again to go on.

    Had it not heeded USR2, Slurm would have ended it by TERM at the limit, and its driver submitted
    another.
    """
    # Slurm tells the job at its first look, one each 30 s, after which the next might be too late:
    # 80 to 110 s after it began. 108 s of work and the imports do not fit into one job. Within one
    # minute the imports alone may take all.
    scene.ask(time_limit_minutes=2, signal_seconds=10)
    scene.seconds_per_update = 1.8
    driver = scene.start_until(1)
    scene.disturbed("a limit of 2 minutes, of which the imports take a part, for 108 s of work")
    scene.must_end(driver, EXIT_DONE)
    assert len(scene.starts) >= 2
    assert scene.ends == ["stopped: asked by SIGUSR2"] * (len(scene.starts) - 1) + ["done"]
    assert scene.num_updates_lost == 0, scene.logged_updates
    scene.require_jobs(1)


def last_time_limit(scene: Scene) -> None:
    """No more jobs than allowed: the rule ends, and resumes when it is started again."""
    scene.ask(
        time_limit_minutes=2, max_num_jobs=1
    )  # two, as there is no second job for what slow imports leave undone
    scene.seconds_per_update = 1.8
    driver = scene.start_until(1)
    scene.disturbed("a limit of 2 minutes and of 1 job, for 108 s of work")
    scene.must_end(driver, EXIT_INPUT_OR_RUN)
    scene.require_no_job()
    assert "max_num_jobs" in driver.output
    scene.ask(time_limit_minutes=30, max_num_jobs=10)
    scene.seconds_per_update = 0.15
    again = scene.start()
    scene.disturbed("started again with more time")
    scene.must_end(again, EXIT_DONE)


def node_lost(scene: Scene) -> None:
    """All of a node's processes are gone at once. Slurm starts the job on the other one."""
    driver = scene.start_until(25)
    (job,) = scene.live_jobs()
    node = scene.cluster.daemons.output(
        "squeue", "--noheader", f"--jobs={job}", "--format=%N"
    ).strip()
    kill_all(scene.cluster.processes_of_node(node))
    scene.disturbed("KILL of slurmd and of all that ran on the node")
    try:
        scene.must_end(driver, EXIT_DONE)
    finally:
        scene.cluster.daemons.start(node)
    assert len(scene.starts) == 2


def full_disk(scene: Scene) -> None:
    """A checkpoint cannot be written: exit 3, the earlier one is whole, and with room again the run
    goes on.
    """
    scene.folder.mkdir(parents=True)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(scene.folder)], check=True
    )
    driver = scene.start()
    scene.wait_for_save(20)
    ballast = scene.folder / "ballast"
    _fill(ballast)
    scene.disturbed("the disk filled up between two checkpoints")
    scene.must_end(driver, EXIT_INPUT_OR_RUN)
    scene.require_no_job()
    ballast.unlink()
    again = scene.start()
    scene.disturbed("room made and started again")
    scene.must_end(again, EXIT_DONE)
    assert scene.starts[-1] == 20


def _fill(path: Path) -> None:
    """Write a file until nothing more fits."""
    with path.open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(b"\0" * 4096)
        except OSError:
            pass


def torn_checkpoint(scene: Scene) -> None:
    """The machine dies, and of the newest checkpoint half is left: the one before it is taken."""
    driver = scene.start_until(45)
    processes = [scene.rank_process(index) for index in range(2)]
    driver.signal(signal.SIGKILL)
    driver.process.wait()
    kill_all(processes)
    wait_until(lambda: not scene.live_jobs(), 60, "the job's end")
    _, newest = list_checkpoints(scene.run_folder / "checkpoints", "full")
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    again = scene.start()
    scene.disturbed("all ranks and the driver KILLed, half of checkpoint 40 left, started again")
    scene.must_end(again, EXIT_DONE)
    assert scene.starts == [0, 20]
