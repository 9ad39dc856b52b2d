"""What a shared file system may lack: its locks fail, as on an NFS without lockd."""

import json
import shutil
from pathlib import Path

from tests.slurm.cluster_processes import wait_until
from tests.slurm.fault_scene import EXIT_DONE, LONGEST_WAIT_SECONDS, Scene

# Two drivers have asked the queue, found no job, and submit: none of them before the other is
# there, too.
MEETING_SBATCH = """#!/bin/sh
touch "{folder}/here.$$"
for _ in $(seq 600); do
    [ "$(ls "{folder}" | grep -c '^here')" -ge 2 ] && break
    sleep 0.1
done
exec {sbatch} "$@"
"""
EMPTY_SQUEUE = "#!/bin/sh\nexit 0\n"


def no_locks(scene: Scene) -> None:
    """Slurm's singleton keeps two drivers' jobs apart, and rank 0's beat a third driver, whose
    queue knows of none.
    """
    scene.has_locks = False
    scene.seconds_per_update = 0.5  # the third driver is there, and has seen a beat, before the end
    meeting_folder = _command(scene, "sbatch", MEETING_SBATCH)
    drivers = [scene.start(first_on_path=meeting_folder) for _ in range(2)]
    scene.wait_for_update(15)
    status = json.loads(scene.call("status", scene.run, "--json"))
    assert status["state"] == "running", status
    drivers.append(
        scene.start(first_on_path=_command(scene, "squeue", EMPTY_SQUEUE), is_elsewhere=True)
    )
    for driver in drivers:
        scene.must_end(driver, EXIT_DONE)
        assert "cannot prevent two drivers of one run" in driver.output, driver.output
    assert "a job that squeue does not know trains this run" in drivers[-1].output, drivers[
        -1
    ].output
    assert len({driver.record_path.read_bytes() for driver in drivers}) == 1
    wait_until(
        lambda: not scene.live_jobs(), LONGEST_WAIT_SECONDS, "the second job to find nothing to do"
    )
    scene.what = (
        "two drivers submit at once; a third one's squeue knows of no job: 2 jobs, one after the"
        " other"
    )
    scene.require_jobs(2)
    _require_one_after_the_other(scene)
    assert scene.starts == [0]
    assert scene.num_updates_lost == 0, scene.logged_updates
    for job in scene.jobs():
        output = Path(scene.run_folder, "submitit", f"{job}_0_log.out").read_text(encoding="utf-8")
        assert "cannot prevent two jobs of one run" in output, output


def _command(scene: Scene, name: str, text: str) -> Path:
    """Put a command into a folder of its own, to stand before Slurm's, and return that."""
    folder = scene.folder / f"other-{name}"
    folder.mkdir(parents=True)
    sbatch = shutil.which("sbatch", path=scene.cluster.layout.environment()["PATH"])
    path = folder / name
    path.write_text(text.format(folder=folder, sbatch=sbatch), encoding="utf-8")
    path.chmod(0o755)
    return folder


def _require_one_after_the_other(scene: Scene) -> None:
    """Require by accounting that no job of the run began before the one before it had ended."""

    def times() -> list[list[str]]:
        answer = scene.cluster.daemons.output(
            "sacct",
            "--noheader",
            "--parsable2",
            "--allocations",
            f"--jobs={','.join(scene.jobs())}",
            "--format=Start,End",
        )
        return sorted(line.split("|") for line in answer.splitlines())

    wait_until(
        lambda: len(times()) == 2 and "Unknown" not in times()[1],
        30,
        "accounting to know of both jobs' ends",
    )
    (_, first_end), (second_begin, _) = times()
    assert first_end <= second_begin, times()
