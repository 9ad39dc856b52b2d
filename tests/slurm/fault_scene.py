"""One training on the test cluster, to which one thing happens: started, watched, disturbed, and
judged at its end.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from aiayn.records import BinarizedCorpus, TrainRecord, read_record, write_record
from aiayn.runs.attempts import DONE_NAME, LOG_NAME, Ended, Started, read_events
from aiayn.runs.run_folder import RunFolder
from aiayn.spec.cluster import ClusterSpec, read_cluster
from aiayn.spec.system import TrainingSpec
from tests.engine.tiny_spec import TRAINING, TWO_BATCHES
from tests.engine.tiny_training import state_sha256
from tests.slurm.cluster import Cluster
from tests.slurm.cluster_processes import POLL_SECONDS, birth_of, wait_until
from tests.slurm.snakemake_run import HEEDING_INTERRUPTS
from tests.slurm.train_command import Settings

CHECKOUT = Path(__file__).parents[2]
NUM_RANKS = 2
UPDATES = 60
TRAINING_OF_FAULTS: TrainingSpec = msgspec.structs.replace(
    TRAINING, **TWO_BATCHES, updates=UPDATES, save_interval_updates=20
)
CLUSTER_OF_FAULTS: ClusterSpec = msgspec.structs.replace(
    read_cluster("cpu"), name="tests", ranks_per_node=NUM_RANKS, time_limit_minutes=30, signal_seconds=15,
    max_num_jobs=10, poll_seconds=1.0,
)  # fmt: skip
EXIT_DONE, EXIT_INPUT_OR_RUN = 0, 3
ELSEWHERE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
# A job of eight ranks on two busy cores takes more than half a minute to end.
LONGEST_END_SECONDS = 180
LONGEST_WAIT_SECONDS = 420.0  # most faults need 60 to 120 s of it
Comparison = Literal["undisturbed", "own", "none"]
LOGGED_UPDATE = re.compile(r'\| train_inner \| .*"num_updates": "(\d+)"')


@dataclass
class Driver:
    """One `aiayn train`, in a process group of its own as a terminal starts it."""

    process: "subprocess.Popen[bytes]"
    log_path: Path
    record_path: Path

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def signal(self, number: signal.Signals) -> None:
        """Signal it and all that it has started itself, as a terminal does."""
        os.killpg(self.process.pid, number)


@dataclass
class Scene:
    """A folder of its own for one training of a tiny system, whose run and Slurm job have a name of
    their own.

    `compared_with` says what its tensors must be: the undisturbed training's, something that the
    scene itself has compared them with, or none at all, as the training must not begin. `asked`
    stands in place of a cluster's file. Without `has_locks` drivers and ranks live on a file system
    whose locks fail. With `num_loaders` each rank's batches are made by so many processes, as on a
    GPU.
    """

    name: str
    cluster: Cluster
    folder: Path
    data: BinarizedCorpus
    asked: ClusterSpec = CLUSTER_OF_FAULTS
    seconds_per_update: float = 0.15
    has_locks: bool = True
    num_loaders: int = 0
    training: TrainingSpec = TRAINING_OF_FAULTS
    compared_with: Comparison = "undisturbed"
    runs_folder: Path = Path()
    what: str = ""
    drivers: list[Driver] = field(default_factory=list)
    disturbed_at: float = 0.0
    recovered_after: float | None = None
    _num_attempts: int = 0
    _num_logged: int | None = None

    def __post_init__(self) -> None:
        self.runs_folder = self.folder / "runs"

    def ask(self, **changes: object) -> None:
        """Ask the cluster for something else, by the keys of its file."""
        self.asked = msgspec.structs.replace(self.asked, **changes)

    def write_settings(self) -> Path:
        """Write what stands in place of the system's and the cluster's files, and return its path."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = Settings(
            training=self.training,
            cluster=self.asked,
            seconds_per_update=self.seconds_per_update,
            has_locks=self.has_locks,
            num_loaders=self.num_loaders,
        )
        path = self.folder / "settings.json"
        path.write_bytes(msgspec.json.encode(settings))
        return path

    def _binarized_path(self) -> Path:
        """Write the record of the data-bin for this fault's corpus, whose name is in the run's."""
        path = Path(self.data.folder).parent / f"record_{self.name}.json"
        write_record(msgspec.structs.replace(self.data, corpus=f"tiny_{self.name}"), path)
        return path

    def start(
        self, *launcher_flags: str, first_on_path: Path | None = None, is_elsewhere: bool = False
    ) -> Driver:
        """Start a driver, by default of a Slurm job. Commands of a folder may stand before Slurm's
        own.

        One that is elsewhere sees none of this machine's processes.
        """
        number = len(self.drivers) + 1
        record_path, log_path = (
            self.folder / f"record{number}.json",
            self.folder / f"driver{number}.log",
        )
        command = [
            *HEEDING_INTERRUPTS,
            *(ELSEWHERE if is_elsewhere else ()),
            *self._aiayn(),
            "train",
            *f"--scale demo --corpus tiny_{self.name} --system tiny --seed 1 --num-models 3".split(),
            *("--binarized", str(self._binarized_path())),
            *("--runs-folder", str(self.runs_folder)),
            *("--record", str(record_path)),
            *(launcher_flags or ("--launcher", "slurm", "--cluster", "tests")),
        ]
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=CHECKOUT,
                env=self._environment(first_on_path),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        driver = Driver(process, log_path, record_path)
        self.drivers.append(driver)
        return driver

    def start_until(self, update: int) -> Driver:
        """Start a driver, and return when its training has made an update."""
        driver = self.start()
        self.wait_for_update(update)
        return driver

    def call(self, verb: str, *arguments: str) -> str:
        """Run a verb of `aiayn` about this scene's runs, which must succeed, and return what it
        prints.
        """
        finished = subprocess.run(
            [*self._aiayn(), verb, *arguments, "--runs-folder", str(self.runs_folder)],
            cwd=CHECKOUT,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_WAIT_SECONDS,
        )
        assert finished.returncode == EXIT_DONE, (
            f"aiayn {verb}: {finished.returncode}\n{finished.stderr}"
        )
        return finished.stdout

    def _aiayn(self) -> list[str]:
        return [sys.executable, "-m", "tests.slurm.train_command", str(self.write_settings()), "--"]

    def _environment(self, first_on_path: Path | None = None) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SLURM_", "SBATCH_"))
        }
        paths = os.pathsep.join([str(CHECKOUT / "workflow"), str(CHECKOUT)])
        variables = (
            kept | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths} | self.cluster.layout.environment()
        )
        if first_on_path:
            variables["PATH"] = f"{first_on_path}{os.pathsep}{variables['PATH']}"
        return variables

    @property
    def run_folder(self) -> Path:
        """The run's folder, once there is one."""
        folders = [path for path in self.runs_folder.glob("*-seed1-*") if path.is_dir()]
        return folders[0] if folders else self.runs_folder / "none"

    @property
    def run(self) -> str:
        """The run's name, which is its Slurm job's."""
        return self.run_folder.name

    @property
    def logged_updates(self) -> list[int]:
        """Every update that was trained and logged, in order. One that was lost and trained again
        is there twice.
        """
        path = self.run_folder / LOG_NAME
        return (
            [int(update) for update in LOGGED_UPDATE.findall(path.read_text(encoding="utf-8"))]
            if path.exists()
            else []
        )

    @property
    def starts(self) -> list[int]:
        """The update at which each attempt began."""
        return [
            event.update for event in read_events(self.run_folder) if isinstance(event, Started)
        ]

    @property
    def ends(self) -> list[str]:
        """How each attempt ended, `OUTCOME: REASON`, without the numbers of Slurm."""
        ended = [event for event in read_events(self.run_folder) if isinstance(event, Ended)]
        return [
            f"{event.outcome}: {event.reason}" if event.reason else event.outcome for event in ended
        ]

    def jobs(self, *, states: str = "all") -> list[str]:
        """Return the numbers of this folder's Slurm jobs; ended ones too, for five minutes."""
        answer = self.cluster.daemons.output(
            "squeue", "--noheader", f"--states={states}", f"--name={self.run}", "--format=%A|%o"
        )
        lines = [line.split("|", maxsplit=1) for line in answer.splitlines()]
        return [job for job, script in lines if script.startswith(f"{self.folder}/")]

    def live_jobs(self) -> list[str]:
        """Return those that wait, run, or are just ending."""
        return self.jobs(states="PENDING,RUNNING,COMPLETING,CONFIGURING,SUSPENDED")

    def wait_for_update(self, update: int) -> None:
        """Wait until an update was trained."""
        self._wait_with_drivers(lambda: update in self.logged_updates, f"update {update}")

    def wait_for_save(self, update: int) -> None:
        """Wait until a checkpoint is whole."""
        self._wait_with_drivers(
            lambda: RunFolder(self.run_folder).newest_update() >= update,
            f"the checkpoint of update {update}",
        )

    def wait_for_running(self) -> None:
        """Wait until Slurm has started a job."""
        self._wait_with_drivers(lambda: bool(self.jobs(states="RUNNING")), "a job")

    def _wait_with_drivers(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait as long as the newest driver lives."""
        driver = self.drivers[-1]
        wait_until(
            lambda: is_so() or driver.process.poll() is not None,
            LONGEST_WAIT_SECONDS,
            f"{self.name}: {what}",
        )
        assert is_so(), f"{self.name}: no {what}, and the driver has ended:\n{driver.output}"

    def rank_process(self, index: int) -> int:
        """Return the process of a rank."""
        rank_variables = {f"SLURM_PROCID={index}".encode(), f"SLURM_JOB_NAME={self.run}".encode()}
        for process in self.cluster.processes():
            variables = set(Path(f"/proc/{process}/environ").read_bytes().split(b"\0"))
            if (
                rank_variables <= variables
                and b"submitit" in Path(f"/proc/{process}/cmdline").read_bytes()
            ):
                return process
        raise AssertionError(f"{self.name}: no process of rank {index}")

    def disturbed(self, what: str) -> None:
        """Note that the thing happened just now, or that a person has just started again what it
        ended.
        """
        self.what = f"{self.what}; {what}" if self.what else what
        self.disturbed_at = time.monotonic()
        self.recovered_after, self._num_logged, self._num_attempts = None, None, len(self.starts)

    def _watch(self) -> None:
        """Note when the first update after the disturbance was trained by a new attempt."""
        if (
            not self.disturbed_at
            or self.recovered_after is not None
            or len(self.starts) <= self._num_attempts
        ):
            return
        if self._num_logged is None:
            self._num_logged = len(self.logged_updates)
        elif len(self.logged_updates) > self._num_logged:
            self.recovered_after = time.monotonic() - self.disturbed_at

    def wait_for(self, driver: Driver, seconds: float = LONGEST_WAIT_SECONDS) -> int:
        """Return a driver's exit code. It must end within so many seconds."""
        deadline = time.monotonic() + seconds
        while driver.process.poll() is None:
            self._watch()
            assert time.monotonic() < deadline, f"{self.name}: the driver hangs:\n{driver.output}"
            time.sleep(POLL_SECONDS)
        self._watch()
        return driver.process.returncode

    def wait_until_done(self) -> None:
        """Wait until the run is done, whatever its drivers do."""

        def is_done() -> bool:
            self._watch()
            return (self.run_folder / DONE_NAME).exists()

        wait_until(is_done, LONGEST_WAIT_SECONDS, f"{self.name}: the end of the run")

    def must_end(self, driver: Driver, exit_code: int) -> None:
        """Wait for a driver's end and require its exit code. Only a run that is done may leave a
        record.
        """
        code = self.wait_for(driver)
        assert code == exit_code, (
            f"{self.name}: exit code {code}, expected {exit_code}:\n{driver.output}"
        )
        assert driver.record_path.exists() == (exit_code == EXIT_DONE)

    def require_no_job(self) -> None:
        """Require that no job is left, waiting or running, and that none comes by itself within
        seconds.
        """
        wait_until(
            lambda: not self.live_jobs(), LONGEST_END_SECONDS, f"the end of {self.live_jobs()}"
        )
        time.sleep(3)
        assert self.live_jobs() == []

    def digests(self) -> tuple[str, str]:
        """Return what the training ended with: the digest of its tensors, and of all that it would
        go on with.
        """
        record = read_record(self.run_folder / DONE_NAME, TrainRecord)
        assert record.updates == self.training.updates
        return record.tensors_sha256, state_sha256(self.run_folder)

    @property
    def num_updates_lost(self) -> int:
        """How many updates were trained twice."""
        return len(self.logged_updates) - len(set(self.logged_updates))

    def end(self) -> None:
        """End whatever of it still lives."""
        for driver in self.drivers:
            if driver.process.poll() is None:
                driver.signal(signal.SIGKILL)
                driver.process.wait()
        self.cluster.daemons.output("scancel", f"--name={self.run}")
        wait_until(lambda: not self.live_jobs(), LONGEST_END_SECONDS, f"the end of {self.run}")

    def require_saved(self, update: int, reason: str) -> None:
        """Require that the attempt before the last was stopped and saved `update` or a later one:
        none is lost.
        """
        _, begin = self.starts
        assert begin >= update, (
            f"{self.name}: goes on from update {begin}, expected {update} or later"
        )
        assert self.ends == [f"stopped: {reason}", "done"], self.ends
        assert self.num_updates_lost == 0, self.logged_updates

    def require_tasks(self, num_nodes: int, num_tasks: int) -> list[str]:
        """Require what accounting knows of the ranks' step of the only job. Return the nodes'
        names.
        """
        (job,) = self.jobs()

        def message() -> str:
            return self.cluster.daemons.output(
                "sacct",
                "--noheader",
                "--parsable2",
                f"--jobs={job}.0",
                "--format=NNodes,NTasks,NodeList",
            )

        wait_until(
            lambda: bool(message()), LONGEST_END_SECONDS, f"{self.name}: job {job}.0 in sacct"
        )
        nodes, tasks, names = message().strip().split("|")
        assert (int(nodes), int(tasks)) == (num_nodes, num_tasks), message()
        answer = self.cluster.daemons.output("scontrol", "show", "hostnames", names)
        return answer.split()

    def require_jobs(self, number: int) -> None:
        """Require that so many Slurm jobs were submitted in all."""
        assert len(self.jobs()) == number, (
            f"{self.name}: jobs {self.jobs()}, expected {number}:\n{self.output}"
        )

    @property
    def output(self) -> str:
        """What all drivers have printed."""
        return "".join(driver.output for driver in self.drivers)


def kill_all(processes: list[int]) -> None:
    """KILL processes, all at once as a power cut does."""
    for process in processes:
        if birth_of(process):
            os.kill(process, signal.SIGKILL)
