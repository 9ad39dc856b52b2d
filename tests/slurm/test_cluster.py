"""The test cluster is a whole Slurm, and leaves nothing behind."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.slurm import cluster_packages
from tests.slurm.cluster import HOSTS_PATH, Cluster
from tests.slurm.cluster_daemons import DAEMONS
from tests.slurm.cluster_errors import ClusterError, ClusterUnavailableError
from tests.slurm.cluster_layout import NODES, Layout
from tests.slurm.cluster_packages import require_packages
from tests.slurm.cluster_processes import wait_until
from tests.slurm.own_cluster import remove_abandoned

CHECKOUT = Path(__file__).parents[2]
OWNER_PROGRAM = """
import subprocess, sys, time
from pathlib import Path
from tests.slurm.own_cluster import own_cluster
with own_cluster(Path(sys.argv[1])) as cluster:
    cluster.daemons.output("sbatch", "--output=/dev/null", "--wrap=setsid sleep 1001 & sleep 1002")
    place = cluster.folder / "small-disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)])  # a container may not let us
    print(cluster.folder, flush=True)
    time.sleep(1000)
"""


def output_of(*command: str) -> str:
    """Run a command that must succeed and return what it prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.usefixtures("on_cluster")
def test_two_nodes_of_eight_gpus_each_answer() -> None:
    lines = output_of("sinfo", "--noheader", "--Node", "--partition=main", "--format=%N %T %G %c").splitlines()
    assert [line.split() for line in lines] == [[node, "idle", "gpu:8", "16"] for node in NODES]


@pytest.mark.usefixtures("on_cluster")
def test_a_job_of_eight_tasks_gets_eight_gpus_on_a_node_whose_name_is_known() -> None:
    told = output_of(
        "srun", "--ntasks=8", "--nodes=1", "--gpus-per-node=8", "sh", "-c",
        'echo "$CUDA_VISIBLE_DEVICES $SLURM_LOCALID $(getent hosts $SLURMD_NODENAME | head -n1 | cut -d" " -f1)"',
    ).splitlines()  # fmt: skip
    assert sorted(told) == [f"0,1,2,3,4,5,6,7 {task} 127.0.0.1" for task in range(8)]


def test_a_ninth_gpu_is_refused(on_cluster: Cluster) -> None:
    assert not on_cluster.daemons.succeeds("sbatch", "--nodes=1", "--gpus-per-node=9", "--wrap=true")


def test_accounting_tells_how_a_job_ended(on_cluster: Cluster) -> None:
    job = on_cluster.daemons.output("sbatch", "--parsable", "--output=/dev/null", "--wrap=exit 7").strip()

    def told() -> str:
        return on_cluster.daemons.output(
            "sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job}", "--format=State,ExitCode"
        )

    wait_until(lambda: told() == "FAILED|7:0\n", 20, "the job's end in sacct")


def test_up_again_changes_nothing(on_cluster: Cluster) -> None:
    before = {daemon: on_cluster.daemons.process(daemon) for daemon in DAEMONS}
    assert None not in before.values()
    begin = time.monotonic()
    on_cluster.up()
    assert time.monotonic() - begin < 10
    assert {daemon: on_cluster.daemons.process(daemon) for daemon in DAEMONS} == before


def test_up_brings_back_what_was_killed(on_cluster: Cluster) -> None:
    daemons = on_cluster.daemons
    daemons.stop("slurmctld", signal.SIGKILL)
    assert not on_cluster.is_up()
    assert "slurmctld  down" in on_cluster.status()
    on_cluster.up()
    assert on_cluster.is_up()


def test_an_owner_that_is_killed_leaves_nothing_after_the_next_start(cluster: Cluster, tmp_path: Path) -> None:
    """Neither a process, a job's own in a group of its own included, nor a mount, a folder, or a name of a node."""
    hosts, mounts = HOSTS_PATH.read_text(encoding="utf-8"), Path("/proc/mounts").read_text(encoding="utf-8")
    parent_folder = tmp_path / "c"
    command = [sys.executable, "-c", OWNER_PROGRAM, str(parent_folder)]
    owner = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    folder = Path(owner.stdout.readline().strip())
    abandoned = Cluster(folder)
    assert abandoned.layout.first_port != cluster.layout.first_port
    wait_until(lambda: {"1001", "1002"} <= sleepers(abandoned), 20, "the job")
    assert remove_abandoned(parent_folder) == []  # its owner lives
    owner.kill()
    owner.communicate()
    assert len(abandoned.processes()) > len(DAEMONS)
    assert HOSTS_PATH.read_text(encoding="utf-8") != hosts

    assert remove_abandoned(parent_folder) == [folder]
    assert abandoned.processes() == []
    assert list(parent_folder.iterdir()) == []
    assert HOSTS_PATH.read_text(encoding="utf-8") == hosts
    assert Path("/proc/mounts").read_text(encoding="utf-8") == mounts
    assert cluster.is_up()


def sleepers(cluster: Cluster) -> set[str]:
    """Return how long the sleeping processes of a cluster's jobs are to sleep."""
    words = [Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0") for process in cluster.processes()]
    return {line[1].decode() for line in words if line[0] == b"sleep"}


def test_a_folder_too_deep_for_sockets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="choose a shorter --folder"):
        Layout(tmp_path / ("deep" * 30), 12_000)


def test_without_root_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterUnavailableError, match="slurmd needs root"):
        require_packages()


@pytest.mark.skipif(os.geteuid() != 0, reason="without root no package is asked for")
def test_without_packages_and_apt_get_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda command, path=None: None)
    with pytest.raises(ClusterUnavailableError, match=r"no .*mariadb-server-core, munge, .* and no apt-get"):
        require_packages()


@pytest.mark.skipif(not shutil.which("apt-get") or os.geteuid() != 0, reason="is about apt-get, run by root")
def test_a_package_that_cannot_be_had_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    had_policy = cluster_packages.POLICY_PATH.exists()
    monkeypatch.setitem(cluster_packages.PACKAGE_BY_COMMAND, "no-such-command", "no-such-package")
    monkeypatch.setattr(cluster_packages, "UPDATE", ("--version",))
    with pytest.raises(ClusterUnavailableError, match="Unable to locate package no-such-package"):
        require_packages()
    assert cluster_packages.POLICY_PATH.exists() == had_policy
