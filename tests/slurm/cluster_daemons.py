"""Start and stop of each of the cluster's daemons, and when each of them answers."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.slurm.cluster_layout import GPUS_PER_NODE, NODES, Layout, configuration
from tests.slurm.cluster_processes import (
    ClusterError,
    daemon_process,
    end_process,
    start_daemon,
    wait_until,
)

# Each needs those before it: slurmctld makes the cluster known to slurmdbd as it starts.
DAEMONS = ("munged", "mariadbd", "slurmdbd", "slurmctld", *NODES)
LONGEST_START_SECONDS = 60.0
LONGEST_ANSWER_SECONDS = 10.0
NUM_DATABASE_TRIES = (
    2  # seen to fail once, of three at the same time on a machine with much else to do
)


class Daemons:
    """The daemons of one cluster. A node's slurmd goes by the node's name."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def prepare(self) -> None:
        """Make folders, secrets, configuration and the database's files, where they are not there
        yet.
        """
        layout = self.layout
        folders = [
            "bin",
            "conf",
            "log",
            "munge",
            "run",
            "state",
            "gpus",
            "tmp",
            *(f"spool/{node}" for node in NODES),
        ]
        for name in folders:
            (layout.folder / name).mkdir(parents=True, exist_ok=True)
        layout.munge_key_path.parent.chmod(0o700)
        _write_secret(layout.munge_key_path, secrets.token_hex(512))
        _write_secret(layout.password_path, secrets.token_hex(16))
        for index in range(GPUS_PER_NODE):
            _make_gpu(layout.gpu_folder / f"gpu{index}")
        for name, text in configuration(
            layout, layout.password_path.read_text(encoding="utf-8")
        ).items():
            _write_whole(
                layout.conf_folder / name, text, mode=0o600 if name == "slurmdbd.conf" else 0o644
            )
        # Snakemake's executor inside a job drops SLURM_CONF before its srun (its version 0.6.1), as
        # if every cluster had its slurm.conf in /etc.
        srun = _command("srun", except_folder=layout.bin_folder)
        command = f'#!/bin/sh\nSLURM_CONF={layout.slurm_conf_path} exec {srun} "$@"\n'
        _write_whole(layout.bin_folder / "srun", command, mode=0o755)
        self._prepare_database()

    def start(self, daemon: str) -> None:
        """Start a daemon that does not run yet, and return when it answers.

        Raises:
            ClusterError: with the end of its log, if it ended or never answers.
        """
        if self.process(daemon) is None:
            start_daemon(
                self._command(daemon),
                pid_path=self._pid_path(daemon),
                log_path=self.layout.log_folder / f"{daemon}.out",
                environment=own_environment(self.layout),
            )
        try:
            wait_until(
                lambda: self.answers(daemon) or self.process(daemon) is None,
                LONGEST_START_SECONDS,
                daemon,
            )
        except ClusterError as error:
            raise ClusterError(f"{error}\n{self._log_tail(daemon)}") from error
        if self.process(daemon) is None:
            raise ClusterError(f"{daemon} ended as it started\n{self._log_tail(daemon)}")

    def stop(self, daemon: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End a daemon. Jobs go on without their slurmd."""
        process = self.process(daemon)
        if process is not None:
            end_process(process, number)
        self._pid_path(daemon).unlink(missing_ok=True)

    def process(self, daemon: str) -> int | None:
        """Return a daemon's process number while it lives."""
        return daemon_process(self._pid_path(daemon))

    def answers(self, daemon: str) -> bool:
        """Return whether a daemon does what the next one needs of it."""
        if self.process(daemon) is None:
            return False
        if daemon == "munged":
            return self.layout.socket_path(daemon).exists()
        if daemon == "slurmctld":
            return self.succeeds("scontrol", "ping")
        if daemon in NODES:
            return self.state_of(daemon) in ("idle", "mixed", "allocated", "completing")
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.layout.port(daemon))) == 0

    def state_of(self, node: str) -> str:
        """Return what slurmctld thinks of a node. `idle*` does not answer yet."""
        return self.output("sinfo", "-h", "-N", "-n", node, "-o", "%T").partition("\n")[0]

    def succeeds(self, *command: str) -> bool:
        """Run a command of Slurm's and tell whether it did."""
        return self._run(command) is not None

    def output(self, *command: str) -> str:
        """Run a command of Slurm's and return what it prints; nothing if it fails."""
        return self._run(command) or ""

    def _run(self, command: Iterable[str]) -> str | None:
        try:
            finished = subprocess.run(
                list(command),
                env=own_environment(self.layout),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                check=False,
                timeout=LONGEST_ANSWER_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return None
        return finished.stdout if finished.returncode == 0 else None

    def _command(self, daemon: str) -> list[str]:
        layout = self.layout
        conf = str(layout.slurm_conf_path)
        if daemon == "munged":
            return [
                _command("munged"),
                "--foreground",
                "--force",
                f"--key-file={layout.munge_key_path}",
                f"--socket={layout.socket_path(daemon)}",
                f"--pid-file={layout.folder}/run/munged.munge.pid",
                f"--log-file={layout.log_folder}/munged.log",
                f"--seed-file={layout.folder}/munge/seed",
            ]
        if daemon == "mariadbd":
            return [
                _command("mariadbd"),
                "--no-defaults",
                "--user=root",
                f"--datadir={layout.folder}/database",
                f"--socket={layout.socket_path(daemon)}",
                f"--pid-file={layout.folder}/run/mariadbd.maria.pid",
                "--bind-address=127.0.0.1",
                f"--port={layout.port(daemon)}",
                "--skip-name-resolve",
                "--skip-log-bin",
                # slurmdbd asks for these two; what a power cut would lose here is lost anyway.
                "--innodb-buffer-pool-size=64M",
                "--innodb-lock-wait-timeout=900",
                "--innodb-flush-log-at-trx-commit=0",
                f"--init-file={layout.folder}/munge/database.sql",
            ]
        if daemon in NODES:
            return [_command("slurmd"), "-D", "-f", conf, "-N", daemon]
        return [_command(daemon), "-D", *(["-f", conf] if daemon == "slurmctld" else [])]

    def _prepare_database(self) -> None:
        password = self.layout.password_path.read_text(encoding="utf-8")
        statements = (
            "create database if not exists slurm;\n"
            f"create or replace user slurm@'127.0.0.1' identified by '{password}';\n"
            "grant all on slurm.* to slurm@'127.0.0.1';\n"
        )
        _write_whole(self.layout.folder / "munge" / "database.sql", statements, mode=0o600)
        folder, partial_folder = (
            self.layout.folder / "database",
            self.layout.folder / "database.partial",
        )
        if folder.exists():
            return
        command = [
            "mariadb-install-db",
            "--no-defaults",
            "--user=root",
            f"--datadir={partial_folder}",
            "--skip-test-db",
        ]
        command += ["--auth-root-authentication-method=normal"]
        for _ in range(NUM_DATABASE_TRIES):
            shutil.rmtree(partial_folder, ignore_errors=True)
            finished = subprocess.run(
                command,
                env=own_environment(self.layout),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if finished.returncode == 0:
                partial_folder.rename(folder)
                return
        message = finished.stdout.partition("The problem could be")[
            0
        ]  # then follow pages of advice
        raise ClusterError(f"{' '.join(command)} failed:\n{message[-2000:]}")

    def _pid_path(self, daemon: str) -> Path:
        return self.layout.folder / "run" / f"{daemon}.pid"

    def _log_tail(self, daemon: str) -> str:
        path = self.layout.log_folder / f"{daemon}.out"
        return "\n".join(
            path.read_text(encoding="utf-8", errors="replace").rstrip().split("\n")[-10:]
        )


def own_environment(layout: Layout) -> dict[str, str]:
    """Return the environment of daemons and of questions to them: nothing of a cluster outside of
    this one.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SLURM_", "SBATCH_"))
    }
    return kept | layout.environment() | {"TMPDIR": str(layout.folder / "tmp")}


def _command(name: str, *, except_folder: Path | None = None) -> str:
    """Return a command's path, or its name alone if it is nowhere. System folders are no user's
    everywhere.
    """
    folders = [*os.environ.get("PATH", "").split(os.pathsep), "/usr/sbin", "/sbin"]
    search_path = os.pathsep.join(folder for folder in folders if folder != str(except_folder))
    return shutil.which(name, path=search_path) or name


def _make_gpu(path: Path) -> None:
    """Make a pretended GPU: of a device Slurm also exports CUDA_VISIBLE_DEVICES, which it does not
    of a plain file.
    """
    if not path.exists():
        null = os.stat(os.devnull)
        try:
            os.mknod(path, 0o666 | 0o020000, null.st_rdev)
        except PermissionError:  # a container without that right
            path.touch()


def _write_secret(path: Path, text: str) -> None:
    if not path.exists():
        _write_whole(path, text, mode=0o600)


def _write_whole(path: Path, text: str, *, mode: int) -> None:
    partial_path = path.with_name(f"{path.name}.partial")
    partial_path.touch(mode=0o600)
    partial_path.write_text(text, encoding="utf-8", newline="\n")
    partial_path.chmod(mode)
    partial_path.rename(path)
