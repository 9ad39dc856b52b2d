"""The test cluster is a whole Slurm, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.slurm.cluster import HOSTS_PATH, Cluster
from tests.slurm.cluster_daemons import DAEMONS
from tests.slurm.cluster_packages import require_packages
from tests.slurm.cluster_processes import ClusterUnavailableError, wait_until

CHECKOUT = Path(__file__).parents[2]
OWNER_PROGRAM = """
import subprocess, sys, time
from pathlib import Path
from tests.slurm.cluster import own_cluster
with own_cluster(Path(sys.argv[1])) as cluster:
    cluster.daemons.output("sbatch", "--output=/dev/null", "--wrap=setsid sleep 1001 & sleep 1002")
    place = cluster.folder / "small-disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)])  # a container may not let us
    print(cluster.folder, flush=True)
    time.sleep(1000)
"""


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
    on_cluster.up()
    assert on_cluster.is_up()


def test_of_an_owner_that_was_killed_nothing_is_left_when_it_is_down(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Neither a process, a job's own in a group of its own included, nor a mount, a folder, or a
    name of a node.
    """
    hosts, mounts = (
        HOSTS_PATH.read_text(encoding="utf-8"),
        Path("/proc/mounts").read_text(encoding="utf-8"),
    )
    abandoned = Cluster(tmp_path / "c")
    command = [sys.executable, "-c", OWNER_PROGRAM, str(abandoned.folder)]
    owner = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline().strip() == str(abandoned.folder)
    assert abandoned.layout.first_port != cluster.layout.first_port
    wait_until(lambda: {"1001", "1002"} <= sleepers(abandoned), 20, "the job")
    owner.kill()
    owner.communicate()
    assert len(abandoned.processes()) > len(DAEMONS)
    assert HOSTS_PATH.read_text(encoding="utf-8") != hosts

    abandoned.down()
    assert abandoned.processes() == []
    assert not abandoned.folder.exists()
    assert HOSTS_PATH.read_text(encoding="utf-8") == hosts
    assert Path("/proc/mounts").read_text(encoding="utf-8") == mounts
    assert cluster.is_up()


def sleepers(cluster: Cluster) -> set[str]:
    """Return how long the sleeping processes of a cluster's jobs are to sleep."""
    words = [
        Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        for process in cluster.processes()
    ]
    return {line[1].decode() for line in words if line[0] == b"sleep"}


def test_without_root_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterUnavailableError, match="slurmd needs root"):
        require_packages()
