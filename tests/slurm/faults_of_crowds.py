"""Many trainings at once: thirty drivers, children of one snakemake, wait beside each other for
thirty jobs.
"""

import contextlib
import os
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.pipeline_copy import Pipeline
from tests.slurm.cluster import Cluster
from tests.slurm.cluster_layout import NODES
from tests.slurm.cluster_processes import wait_until
from tests.slurm.fault_scene import LONGEST_WAIT_SECONDS, Scene
from tests.slurm.snakemake_run import SnakemakeRun
from tests.slurm.training_pipeline import make_training_pipeline, trained_record

NUM_DRIVERS = 30
MOST_RSS_MB = 80.0  # of a driver, as it imports no torch
KEPT_SEED = 1  # the scene's own run, which trains in the end
SEEDS = range(KEPT_SEED, KEPT_SEED + NUM_DRIVERS)
LONGEST_END_SECONDS = 60.0


def thirty_drivers(scene: Scene) -> None:
    """All wait at once, each small. Their jobs outlive Ctrl-C, and one goes on."""
    scene.ask(poll_seconds=5.0)  # as a cluster's file has it: thirty ask the controller
    pipeline = make_training_pipeline(scene)
    with contextlib.ExitStack() as started:
        with _drained(scene.cluster):
            run = SnakemakeRun.start(pipeline, *map(trained_record, SEEDS))
            started.callback(run.kill)
            what = _wait_side_by_side(scene, pipeline, run)
            _interrupt(scene, pipeline, run)
            (job,) = scene.live_jobs()
            again = SnakemakeRun.start(pipeline, trained_record(KEPT_SEED))
            started.callback(again.kill)
            _wait_for_words(pipeline, again, [KEPT_SEED], f"attached to Slurm job {job}")
        scene.disturbed(what)
        assert again.wait() == 0, again.output
    assert scene.jobs() == [job]
    assert scene.starts == [0]


def _wait_side_by_side(scene: Scene, pipeline: Pipeline, run: SnakemakeRun) -> str:
    """Require one waiting job a driver, and small drivers. Return what they take, as the table
    tells it.
    """
    _wait_for_words(pipeline, run, SEEDS, " PENDING")  # each has asked the queue
    wait_until(
        lambda: len(_drivers(scene)) == NUM_DRIVERS, LONGEST_END_SECONDS, f"{NUM_DRIVERS} drivers"
    )
    drivers = _drivers(scene)
    rss_mb = [_memory_mb(driver, "status", "VmRSS") for driver in drivers]
    pss_mb = [_memory_mb(driver, "smaps_rollup", "Pss") for driver in drivers]
    assert max(rss_mb) < MOST_RSS_MB, f"RSS of the drivers in MB: {sorted(rss_mb)}"
    assert _queued(scene) == sorted((name, "PENDING") for name in _run_names(scene))
    assert len(_run_names(scene)) == NUM_DRIVERS
    return (
        f"{NUM_DRIVERS} drivers of one snakemake wait at once, RSS {max(rss_mb):.0f} MB at most,"
        f" {sum(pss_mb):.0f} MB in all (Pss); Ctrl-C: their jobs stay; all but one cancelled, and"
        " that started again"
    )


def _interrupt(scene: Scene, pipeline: Pipeline, run: SnakemakeRun) -> None:
    """Press Ctrl-C: all drivers end, their jobs stay. Then cancel all but one."""
    os.killpg(run.process.pid, signal.SIGINT)
    assert run.wait(LONGEST_END_SECONDS) != 0
    assert _drivers(scene) == []
    assert all("the same command attaches" in _log(pipeline, seed) for seed in SEEDS)
    _require_queued(scene, SEEDS)
    _scancel(scene, [seed for seed in SEEDS if seed != KEPT_SEED])
    _require_queued(scene, [KEPT_SEED])


def _scancel(scene: Scene, seeds: Sequence[int]) -> None:
    names = {_run_name(scene, seed) for seed in seeds}
    lines = scene.cluster.daemons.output("squeue", "--noheader", "--format=%j %A").splitlines()
    jobs = [job for name, job in map(str.split, lines) if name in names]
    assert scene.cluster.daemons.succeeds("scancel", *jobs)


def _require_queued(scene: Scene, seeds: Sequence[int]) -> None:
    """Require one waiting job of each of these runs, and no other job."""
    expected = sorted((_run_name(scene, seed), "PENDING") for seed in seeds)
    wait_until(
        lambda: len(_queued(scene)) <= len(expected),
        LONGEST_END_SECONDS,
        f"{len(expected)} jobs in the queue",
    )
    assert _queued(scene) == expected


def _queued(scene: Scene) -> list[tuple[str, str]]:
    """Return name and state of every job in the queue."""
    lines = scene.cluster.daemons.output("squeue", "--noheader", "--format=%j %T").splitlines()
    return sorted((name, state) for name, state in map(str.split, lines))


def _run_names(scene: Scene) -> list[str]:
    return [path.name for path in scene.runs_folder.glob("*-seed*-*")]


def _run_name(scene: Scene, seed: int) -> str:
    (name,) = [name for name in _run_names(scene) if f"-seed{seed}-" in name]
    return name


def _drivers(scene: Scene) -> list[int]:
    """Return the process of each driver: Python's, not those of the shells around it."""
    settings = os.fsencode(scene.folder / "settings.json")
    processes = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            command = (path / "cmdline").read_bytes().split(b"\0") if path.name.isdigit() else []
            if settings in command and b"train" in command:
                processes.append(int(path.name))
    return processes


def _memory_mb(process: int, file: str, key: str) -> float:
    """Return a number of /proc, which tells it in KiB, in MB."""
    text = Path(f"/proc/{process}/{file}").read_text(encoding="utf-8")
    (kib,) = re.findall(rf"^{key}:\s+(\d+) kB$", text, flags=re.MULTILINE)
    return int(kib) * 1024 / 1e6


def _log(pipeline: Pipeline, seed: int) -> str:
    """Return what a rule's driver has printed so far."""
    path = pipeline.checkout / f"logs/demo/train/demo_en_de/base/seed{seed}.log"
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _wait_for_words(
    pipeline: Pipeline, run: SnakemakeRun, seeds: Sequence[int], words: str
) -> None:
    """Wait until each of the drivers has said something."""
    left = set(seeds)

    def have_said() -> bool:
        left.difference_update({seed for seed in left if words in _log(pipeline, seed)})
        return not left or run.process.poll() is not None

    wait_until(have_said, LONGEST_WAIT_SECONDS, f"{words!r} of {len(seeds)} drivers")
    assert not left, f"seeds {sorted(left)} have not said {words!r}:\n{run.output}"


@contextlib.contextmanager
def _drained(cluster: Cluster) -> Iterator[None]:
    """Let no job begin in the block; nor after it, if it failed."""
    nodes = f"nodename={','.join(NODES)}"
    assert cluster.daemons.succeeds("scontrol", "update", nodes, "state=drain", "reason=tests")
    try:
        yield
    except BaseException:
        cluster.daemons.succeeds("scancel", f"--user={os.geteuid()}", "--state=PENDING")
        raise
    finally:
        assert cluster.daemons.succeeds("scontrol", "update", nodes, "state=resume")
