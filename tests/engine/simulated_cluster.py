"""Simulates drivers, a queue, nodes, locks and a clock around one run: a seed is one schedule.

The product's own code runs: `drive`, `RunFolder`, the locks, and rank 0's control code (`RankTraining`).
Slurm, the locks of the file system and the training between two checkpoints are models. Each
driver, rank and heartbeat is a thread, but only one runs at a time: a pause hands over to whoever
is due next. So a schedule repeats exactly by its number.
"""

import contextlib
import errno
import fcntl
import heapq
import itertools
import os
import platform
import random
import signal
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Literal
from unittest import mock

import msgspec

from aiayn.errors import AiaynError
from aiayn.launch import driver as driver_module
from aiayn.launch.driver import Interruption, drive
from aiayn.launch.launcher import JobEnd, Launcher, SubmissionError
from aiayn.runs import locks, run_folder
from aiayn.runs.checkpoint_names import list_checkpoints
from aiayn.runs.clock import MACHINE_CLOCK, Clock
from aiayn.runs.queue import Ending, Phase, QueuedJob, QueueError
from aiayn.train import rank_lock
from aiayn.train import train as train_module
from aiayn.train.rank_lock import BusyRunError
from aiayn.train.ranks import Rank, RankGroup, any_rank_stopped
from aiayn.train.request import StopFlag, TrainingRequest
from aiayn.train.train import RankTraining, StopTraining
from tests.records_factory import TRAINED
from tests.unit.test_launch import make_request

Locks = Literal["work", "of one host", "fail"]
HOSTS = ("n1", "n2", "n3")
UPDATES, SAVE_INTERVAL, SECONDS_PER_UPDATE = 120, 15, 10.0
NUM_FAULTS = 12
FAULT_SECONDS = 1800.0  # the faults come within the first half hour
MOST_SECONDS = 24 * 3600.0  # a schedule that is not done by then does not end
MOST_STARTS = 40  # of drivers: a person starts the command again after each refusal


class _Killed(BaseException):
    """Unwinds an actor after its schedule. Nothing of it is looked at any more."""


class _Actor:
    """A thread that runs only while the simulation waits for it."""

    def __init__(self, host: str, parent: "_Actor | None" = None) -> None:
        self.host, self.parent = host, parent
        self.turn = threading.Semaphore(0)
        self.is_killed = self.has_ended = self.is_unwinding = False
        self.frozen_until = 0.0

    @property
    def is_alive(self) -> bool:
        """Whether it and the process that it is a part of can go on."""
        own = not (self.is_killed or self.has_ended)
        return own and (self.parent is None or self.parent.is_alive)

    @property
    def thaws_at(self) -> float:
        """When its process runs on, if its machine is frozen."""
        return max(self.frozen_until, self.parent.frozen_until if self.parent else 0.0)


class _SimulatedClock(Clock):
    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation

    def now(self) -> float:
        return self._simulation.seconds

    def pause(self, seconds: float, check: Callable[[], None] = lambda: None) -> None:
        check()
        self._simulation.pause(seconds)
        check()


class _Job(msgspec.Struct):
    number: str
    state: Phase = "waiting"
    ending: Ending = "other"
    node: str = ""
    is_known: bool = True
    stop: Any = None
    actor: Any = None
    num_restarts: int = 0


class Simulation:
    """One schedule. `freezes` lets machines stand still, as one cut off from its file system does."""

    def __init__(self, folder: Path, seed: int, lock_kind: Locks, *, freezes: bool = False) -> None:
        self.random = random.Random(seed)
        self.seconds = 0.0
        self.lock_kind = lock_kind
        self.freezes = freezes
        self.request = msgspec.structs.replace(make_request(folder / "run"), command="aiayn train")
        self.jobs: list[_Job] = []
        self.events: list[str] = []
        self.has_two_writers = False
        self.has_stray_write = False  # by a rank that another one has taken the run from
        self.is_done = False
        self._away_until = 0.0
        self._refusals: list[bool] = []  # whether the next submissions reach the queue all the same
        self._writers: list[_Actor] = []
        self._held: list[tuple[str, IO[str], _Actor]] = []
        self._actors: list[_Actor] = []
        self._drivers: list[_Actor] = []
        self._agenda: list[tuple[float, int, Any]] = []
        self._numbers = itertools.count()
        self._back = threading.Semaphore(0)
        self._current: _Actor | None = None

    # Time and actors.

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Do something after so many seconds."""
        heapq.heappush(self._agenda, (self.seconds + seconds, next(self._numbers), work))

    def pause(self, seconds: float) -> None:
        """Let the others go on until the current actor is due again."""
        actor = self._current
        assert actor is not None
        if actor.is_unwinding:
            raise _Killed
        heapq.heappush(self._agenda, (self.seconds + seconds, next(self._numbers), actor))
        self._back.release()
        actor.turn.acquire()
        if actor.is_unwinding:
            raise _Killed

    def spawn(self, host: str, work: Callable[[], None], parent: _Actor | None = None) -> _Actor:
        """Start an actor on a host. It first runs when its turn comes."""
        actor = _Actor(host, parent)

        def run() -> None:
            actor.turn.acquire()
            try:
                if not actor.is_unwinding:
                    work()
            except BaseException as error:
                if not actor.is_unwinding:
                    self.events.append(f"ERROR {type(error).__name__}: {error}")
            actor.has_ended = True
            self._back.release()

        threading.Thread(target=run, daemon=True).start()
        self._actors.append(actor)
        heapq.heappush(self._agenda, (self.seconds, next(self._numbers), actor))
        return actor

    def run(self) -> bool:
        """Play the schedule and return whether the run is done at its end."""
        with self._modelled():
            try:
                self.start_driver("login1")
                for _ in range(NUM_FAULTS):
                    self.later(self.random.uniform(0, FAULT_SECONDS), self._strike)
                while self._agenda and self.seconds < MOST_SECONDS:
                    due, number, what = heapq.heappop(self._agenda)
                    self.seconds = max(self.seconds, due)
                    if not isinstance(what, _Actor):
                        what()
                    elif what.is_alive and what.thaws_at > self.seconds:
                        heapq.heappush(self._agenda, (what.thaws_at, number, what))
                    elif what.is_alive:
                        self._resume(what)
                self.is_done = self.request.folder.is_done()
            finally:
                for actor in self._actors:  # their threads end
                    if not actor.has_ended:
                        actor.is_unwinding = True
                        self._resume(actor)
        return self.is_done

    def _resume(self, actor: _Actor) -> None:
        self._current = actor
        actor.turn.release()
        self._back.acquire()
        self._current = None

    # The people and the drivers.

    def start_driver(self, host: str) -> None:
        """Let a person give the command on a host, and again after each refusal."""

        def work() -> None:
            for _ in range(MOST_STARTS):
                try:
                    drive(
                        self.request,
                        launcher="slurm",
                        record_path=self.request.folder.path.parent / f"{host}.json",
                        clock=_SimulatedClock(self),
                    )
                    return
                except AiaynError as error:
                    self.events.append(f"{self.seconds:.0f} refused: {str(error)[:90]}")
                    self.pause(300.0)

        self._drivers.append(self.spawn(host, work))

    def _restart_driver(self, host: str) -> None:
        self.later(self.random.uniform(1, 200), lambda: self.start_driver(host))

    # The faults.

    def _strike(self) -> None:
        running = [job for job in self.jobs if job.actor and job.actor.is_alive]
        job = self.random.choice(running) if running else None
        names = ["away", "refused", "unanswered", "driver killed", "second driver"]
        if job is not None:
            names += [
                "rank killed",
                "node lost",
                "cut off",
                "requeued",
                "preempted",
                "USR2",
                "forgotten",
            ]
            names += ["frozen"] * (3 * self.freezes)
        name = self.random.choice(names)
        self.events.append(f"{self.seconds:.0f} {name} {job.number if job else ''}")
        if name == "away":
            self._away_until = self.seconds + self.random.uniform(10, 300)
        elif name in ("refused", "unanswered"):
            self._refusals.append(name == "unanswered")
        elif name == "driver killed":
            alive = [actor for actor in self._drivers if actor.is_alive]
            for actor in alive[:1]:
                actor.is_killed = True
                self._restart_driver(self.random.choice(("login1", "login2")))
        elif name == "second driver":
            self.start_driver(self.random.choice(("login1", "login2")))
        elif job is not None:
            self._strike_job(name, job)

    def _strike_job(self, name: str, job: _Job) -> None:
        if name in ("rank killed", "node lost"):
            job.actor.is_killed = True
            self._end(job, "failed" if name == "rank killed" else "other")
            if name == "node lost":
                self._requeue(job, 120.0)
        elif name == "cut off":  # its rank goes on; Slurm starts the job elsewhere
            self._requeue(job, 120.0)
        elif name in ("requeued", "preempted"):
            job.stop._note(signal.SIGTERM, None)
            self._kill_later(job.actor)
            self._requeue(job, 35.0)
        elif name == "USR2":
            job.stop._note(signal.SIGUSR2, None)
        elif name == "forgotten":
            job.is_known = False
        else:
            job.actor.frozen_until = self.seconds + self.random.uniform(20, 400)

    def _kill_later(self, actor: _Actor) -> None:
        self.later(30.0, lambda: setattr(actor, "is_killed", True))

    # Slurm.

    def submit(self) -> str:
        """Put a job into the queue and return its number."""
        job = _Job(str(len(self.jobs) + 1))
        self.jobs.append(job)
        self.later(self.random.uniform(1, 30), lambda: self._begin(job))
        return job.number

    def _begin(self, job: _Job) -> None:
        others = [other for other in self.jobs if other is not job and other.is_known]
        if job.state != "waiting":
            return
        if any(other.state == "running" for other in others):  # --dependency=singleton
            self.later(5.0, lambda: self._begin(job))
            return
        job.state, job.node, job.stop = "running", self.random.choice(HOSTS), StopFlag()
        stop, restarts = job.stop, job.num_restarts

        def work() -> None:
            self.pause(self.random.uniform(2, 20))  # imports
            rank = Rank(rank=0, world_size=1, job=job.number, local_rank=0, num_restarts=restarts)
            zero = _SimulatedRank(self, rank, stop)
            ending: Ending = "completed"
            try:
                with contextlib.suppress(StopTraining):  # raised while it waits for another rank
                    zero.run()
            except Exception as error:
                ending = "failed"
                if not isinstance(error, BusyRunError) and not actor.is_unwinding:
                    self.events.append(f"ERROR at {self.seconds:.0f}: {error}")
            if job.actor is actor and job.state == "running":  # not requeued meanwhile
                self._end(job, ending)
                if stop.agreed == signal.SIGUSR2:
                    self._requeue(job, 5.0)

        actor = job.actor = self.spawn(job.node, work)

    def _end(self, job: _Job, ending: Ending) -> None:
        job.state, job.ending = "ended", ending

    def _requeue(self, job: _Job, seconds: float) -> None:
        job.state, job.actor, job.node = "waiting", None, ""
        job.num_restarts += 1
        self.later(seconds, lambda: self._begin(job))

    def answer(self) -> list[QueuedJob]:
        """Return what squeue prints."""
        if self.seconds < self._away_until:
            raise QueueError("squeue does not answer", reason="Unable to contact slurm controller")
        return [
            QueuedJob(job=job.number, state=job.state, ending=job.ending, node=job.node, name="run")
            for job in self.jobs
            if job.is_known
        ]

    def take_refusal(self) -> None:
        """Let a fault of sbatch strike this submission, if there is one."""
        if not self._refusals:
            return
        is_submitted = self._refusals.pop()
        if is_submitted:
            self.submit()
        raise SubmissionError("run: sbatch: socket timed out", is_passing=not is_submitted)

    # The file system.

    def _lock(self, lock: IO[str], *_: int) -> None:
        if self.lock_kind == "fail":
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        assert self._current is not None
        if self._holder(lock.name) not in (None, self._current):
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        self._held.append((lock.name, lock, self._current))

    def _ask_lock(self, lock: IO[str], command: int, *_: bytes) -> bytes:
        assert command == fcntl.F_GETLK
        if self.lock_kind == "fail":
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        kind = fcntl.F_UNLCK if self._holder(lock.name) is None else fcntl.F_WRLCK
        return struct.pack("hhqqi", kind, os.SEEK_SET, 0, 0, 0)

    def _holder(self, name: str) -> _Actor | None:
        self._held = [held for held in self._held if not held[1].closed and not held[2].is_killed]
        assert self._current is not None
        for held_name, _, actor in self._held:
            is_seen = self.lock_kind == "work" or actor.host == self._current.host
            if held_name == name and is_seen:
                return actor
        return None

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Note that the current actor writes into the run in the block."""
        actor = self._current
        assert actor is not None
        self._writers.append(actor)
        try:
            yield
        finally:
            self._writers.remove(actor)

    def look_for_two_writers(self) -> None:
        """Note whether two living ranks train at this moment."""
        alive = [
            actor
            for actor in self._writers
            if actor.is_alive and not actor.is_unwinding and actor.thaws_at <= self.seconds
        ]
        if len(alive) > 1 and not self.has_two_writers:
            self.has_two_writers = True
            self.events.append(f"{self.seconds:.0f} TWO WRITERS on {[a.host for a in alive]}")

    def _touch(self, path: Path) -> None:
        nanoseconds = round(self.seconds * 1e9)
        os.utime(path, ns=(nanoseconds, nanoseconds))

    @contextlib.contextmanager
    def _modelled(self) -> Iterator[None]:
        """Put the models in place of machine, queue and training in the block."""
        simulation, clock = self, _SimulatedClock(self)

        class HeartbeatThread:
            def __init__(self, target: Callable[[], None], daemon: bool) -> None:
                self._target = target

            def start(self) -> None:
                parent = simulation._current
                assert parent is not None
                simulation.spawn(parent.host, self._target, parent)

            def join(self) -> None:
                pass

        class Flag:
            is_set = False

            def set(self) -> None:
                self.is_set = True

            def wait(self, seconds: float) -> bool:
                simulation.pause(seconds)
                return self.is_set

        def host() -> str:
            return simulation._current.host if simulation._current else "here"

        def as_it_is(interruption: Interruption) -> Any:
            return contextlib.nullcontext(interruption)  # only a main thread handles signals

        def utc_now() -> str:
            minutes, seconds = divmod(int(simulation.seconds), 60)
            return f"2026-01-{1 + minutes // 1440:02d}T{minutes // 60 % 24:02d}:{minutes % 60:02d}:{seconds:02d}+00:00"

        with contextlib.ExitStack() as stack:
            for target, name, value in (
                (platform, "node", host),
                (MACHINE_CLOCK, "now", clock.now),
                (MACHINE_CLOCK, "pause", clock.pause),
                (locks, "fcntl", SimpleNamespace(**{**vars(fcntl), "lockf": self._lock, "fcntl": self._ask_lock})),
                (rank_lock, "threading", SimpleNamespace(Thread=HeartbeatThread, Event=Flag)),
                (rank_lock, "os", SimpleNamespace(getpid=lambda: 1, utime=self._touch)),
                (run_folder, "HEARTBEAT_POLL_SECONDS", 1.0),
                (run_folder, "utc_now", utc_now),
                (driver_module, "utc_now", utc_now),
                (train_module, "utc_now", utc_now),
                (driver_module, "make_launcher", lambda *_: _SimulatedSlurm(self)),
                (Interruption, "installed", as_it_is),
                (train_module.compat, "ignore_ended_loaders", lambda: None),
                (train_module, "_log_added", lambda path: contextlib.nullcontext()),
                (train_module, "check_node", lambda *_: None),
                (train_module, "hash_inputs", lambda request: {}),
                (train_module, "newest_whole_full", _newest_full),
                (train_module, "make_record", _make_record),
                (train_module, "_is_finished", lambda path, request: path is not None and path.name == _full(UPDATES)),
            ):  # fmt: skip
                stack.enter_context(mock.patch.object(target, name, value))
            yield


class _SimulatedSlurm(Launcher):
    name, title, queue_command = "slurm", "Slurm", "squeue"
    is_remote, has_code_copies, poll_seconds = True, False, 15.0

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def is_here(self) -> bool:
        return True

    def submit(self, request: TrainingRequest, code_folder: Path | None) -> str:
        self._simulation.take_refusal()
        return self._simulation.submit()

    def find(self, name: str | None = None) -> list[QueuedJob]:
        return self._simulation.answer()

    def outcome(self, job: str, queued: QueuedJob | None) -> JobEnd:
        return JobEnd(job=job, ending=queued.ending) if queued else JobEnd(job=job)

    def cancel(self, name: str) -> None:
        raise AssertionError("no driver cancels a job of a queue")

    def cancel_command(self, *, name: str = "", jobs: tuple[str, ...] = ()) -> str:
        return "scancel"


class _SimulatedRank(RankTraining):
    """Rank 0 with its own control code. Its training only counts updates and saves."""

    def __init__(self, simulation: Simulation, rank: Rank, stop: StopFlag) -> None:
        super().__init__(simulation.request, rank, RankGroup(rank, ["n"], None), stop, "cpu")
        self._simulation = simulation

    def train_with_fairseq(self, full_path: str) -> None:
        with self._simulation.writing():
            for update in range(self.started.update + 1, UPDATES + 1):
                self._simulation.look_for_two_writers()
                self._simulation.pause(SECONDS_PER_UPDATE)
                is_stopped = any_rank_stopped(self.stop, self.rank)
                if is_stopped or update % SAVE_INTERVAL == 0 or update == UPDATES:
                    self.require_own_attempt()
                    self._simulation.has_stray_write |= self.folder.open_attempt() != self.started
                    (self.folder.checkpoints_path / _full(update)).touch()
                if is_stopped:
                    raise StopTraining


def _full(update: int) -> str:
    return f"full_{update:08d}.pt"


def _newest_full(folder: Path) -> tuple[Path | None, list[Path]]:
    paths = list_checkpoints(folder, "full")
    return (paths[-1] if paths else None), []


def _make_record(request: TrainingRequest, *_: object, **__: object) -> Any:
    folder = request.folder
    return msgspec.structs.replace(
        TRAINED, run=folder.run, updates=UPDATES, run_folder=folder.path, log_path=folder.log_path
    )
