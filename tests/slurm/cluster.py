"""A whole Slurm on this machine, for tests: two nodes of 8 pretended GPUs each, with accounting, on
loopback.

    python -m tests.slurm.cluster up [--folder F]      prints the lines that a shell needs: eval "$(...)"
    python -m tests.slurm.cluster down [--folder F]

It runs as root on Debian, and installs packages that are missing. Everything is below the one folder,
except one line of /etc/hosts that names the nodes. `down` takes that away, too. `up` again does
what is left to do.
"""

import argparse
import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.slurm.cluster_daemons import DAEMONS, Daemons
from tests.slurm.cluster_layout import DEFAULT_PARTITION, NODES, NUM_PORTS, Layout
from tests.slurm.cluster_packages import require_packages
from tests.slurm.cluster_processes import (
    ClusterError,
    end_process,
    processes_of,
    processes_on_node,
    wait_until,
)

DEFAULT_FOLDER = Path(tempfile.gettempdir()) / "aiayn-cluster"
TESTS_FOLDER = DEFAULT_FOLDER.with_name("aiayn-cluster-tests")
HOSTS_PATH = Path("/etc/hosts")
# Below those that Linux gives to outgoing connections, and below those that trainings take for
# their ranks.
LOWEST_PORT, HIGHEST_PORT = 12_000, 19_999
LONGEST_REGISTRATION_SECONDS = 30.0


class Cluster:
    """The cluster of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    @property
    def daemons(self) -> Daemons:
        """The cluster's daemons, once it has been up."""
        return Daemons(self.layout)

    @property
    def layout(self) -> Layout:
        """Where what lies."""
        return Layout(self.folder, int((self.folder / "first_port").read_text(encoding="utf-8")))

    def up(self) -> None:
        """Bring up what is not up yet.

        Raises:
            ClusterUnavailableError: if this machine cannot have a cluster.
            ClusterError: if something does not start.
        """
        require_packages()
        with self._locked():
            self._choose_ports()
            daemons = self.daemons
            daemons.prepare()
            self._name_nodes()
            for daemon in DAEMONS:
                self._revive(daemon)
                daemons.start(daemon)
            wait_until(
                lambda: daemons.succeeds("sacct", "--noheader"),
                LONGEST_REGISTRATION_SECONDS,
                "an answer of sacct",
            )

    def down(self) -> None:
        """End every process of the cluster and remove its folder, also after an `up` that was
        killed half-way.
        """
        if self.folder.exists():
            with self._locked():
                self._end_all()
                self._unmount_all()
                shutil.rmtree(self.folder)
        self._unname_nodes()

    def is_up(self) -> bool:
        """Return whether every daemon answers."""
        return (self.folder / "first_port").exists() and all(
            self.daemons.answers(daemon) for daemon in DAEMONS
        )

    def processes(self) -> list[int]:
        """Return every living process of the cluster."""
        return processes_of(self.folder)

    def processes_of_node(self, node: str) -> list[int]:
        """Return every living process of one of its nodes."""
        return processes_on_node(self.folder, node)

    def _revive(self, daemon: str) -> None:
        """Let a node be used again that was set down, or drained, by hand or by its own fault."""
        state = self.daemons.state_of(daemon) if daemon in NODES else ""
        if state.startswith(("down", "drain")):
            self.daemons.succeeds("scontrol", "update", f"nodename={daemon}", "state=resume")

    def _end_all(self) -> None:
        if (self.folder / "first_port").exists():
            # Slurm's own last: nothing is started again when slurmctld is gone.
            for daemon in ("slurmctld", *NODES):
                self.daemons.stop(daemon)
        for process in self.processes():
            if _command_name(process) not in ("munged", "mariadbd", "slurmdbd"):
                end_process(process, signal.SIGKILL)
        if (self.folder / "first_port").exists():
            for daemon in ("slurmdbd", "mariadbd", "munged"):
                self.daemons.stop(daemon)
        for process in self.processes():
            end_process(process, signal.SIGKILL)
        if self.processes():
            raise ClusterError(f"{self.folder}: processes {self.processes()} do not end")

    def _unmount_all(self) -> None:
        """Take away what tests have mounted below the folder."""
        for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
            mount_point = line.split(" ")[1]
            if mount_point.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "--lazy", mount_point], check=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time bring the cluster up or down."""
        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.folder, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if self.folder.exists() and os.path.samestat(
                    os.fstat(descriptor), self.folder.stat()
                ):
                    yield
                    return
            finally:
                os.close(descriptor)

    def _choose_ports(self) -> None:
        path = self.folder / "first_port"
        if path.exists():
            return
        first = next(
            first
            for first in _shuffled_first_ports()
            if all(map(_is_free, range(first, first + NUM_PORTS)))
        )
        path.write_text(f"{first}\n", encoding="utf-8")

    @property
    def _hosts_mark(self) -> str:
        return f"  # test cluster {self.folder}\n"

    def _name_nodes(self) -> None:
        """Let the nodes' names be this machine's: a training's ranks meet at its first node's name."""
        self._unname_nodes()
        with HOSTS_PATH.open("a", encoding="utf-8") as hosts:
            hosts.write(f"127.0.0.1 {' '.join(NODES)}{self._hosts_mark}")
        for node in NODES:
            if socket.gethostbyname(node) != "127.0.0.1":
                raise ClusterError(
                    f"{node} is {socket.gethostbyname(node)} here, expected 127.0.0.1; see"
                    f" {HOSTS_PATH}"
                )

    def _unname_nodes(self) -> None:
        lines = (
            HOSTS_PATH.read_text(encoding="utf-8").splitlines(keepends=True)
            if HOSTS_PATH.exists()
            else []
        )
        kept = [line for line in lines if not line.endswith(self._hosts_mark)]
        if kept != lines:
            # In place: in a container the file is a mount of its own, which no other file can be
            # renamed to.
            HOSTS_PATH.write_text("".join(kept), encoding="utf-8")


@contextlib.contextmanager
def own_cluster(folder: Path = TESTS_FOLDER) -> Iterator[Cluster]:
    """Bring up a cluster for this process, and down at the end. Another process waits for that.

    A cluster that a killed process has left is brought down first.
    """
    cluster = Cluster(folder)
    with folder.with_suffix(".lock").open("w") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        cluster.down()
        try:
            cluster.up()
            yield cluster
        finally:
            cluster.down()


def _command_name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _shuffled_first_ports() -> list[int]:
    firsts = list(range(LOWEST_PORT, HIGHEST_PORT - NUM_PORTS, NUM_PORTS))
    random.Random(time.time_ns()).shuffle(firsts)
    return firsts


def _is_free(port: int) -> bool:
    with socket.socket() as server:
        try:
            server.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def main(arguments: Sequence[str]) -> int:
    """Bring a cluster up or down; 1 if that fails."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.slurm.cluster", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("what", choices=["up", "down"])
    parser.add_argument(
        "--folder", type=Path, default=DEFAULT_FOLDER, help=f"default: {DEFAULT_FOLDER}"
    )
    args = parser.parse_args(arguments)
    cluster = Cluster(args.folder)
    begin = time.monotonic()
    try:
        cluster.up() if args.what == "up" else cluster.down()
    except (ClusterError, OSError) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    print(
        f"cluster: {args.what} after {time.monotonic() - begin:.1f} s, {args.folder}",
        file=sys.stderr,
    )
    if args.what == "up":
        print(
            f"partition {DEFAULT_PARTITION} is the default; in this shell: eval what stands below",
            file=sys.stderr,
        )
        print(
            f"export SLURM_CONF='{cluster.layout.slurm_conf_path}'\nexport"
            f" PATH='{cluster.layout.bin_folder}':\"$PATH\""
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
