"""A run under a driver, with a clock whose waits take no time: a test lets something happen in
each.

A wait for a Slurm job is a step. A job of this machine is a stand-in whose whole life is a step.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from aiayn.launch.driver import drive
from aiayn.launch.local import LocalLauncher
from aiayn.runs.attempts import RANK_LOCK_NAME, AttemptOutcome, Ended, Started, read_events
from aiayn.runs.clock import STEP_SECONDS, Clock
from aiayn.runs.run_folder import RunFolder
from aiayn.spec.cluster import ClusterSpec
from aiayn.train.request import TrainingRequest
from tests.fake_slurm import FakeSlurm
from tests.run_folders import started, write_done

Step = Callable[[], object]


class StepClock(Clock):
    """A clock whose pauses take no time: each longer one is a step in which the test lets something
    happen.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.happenings: list[Step] = []
        self.at_each_look: Step = lambda: None

    def now(self) -> float:
        """Return the seconds that were waited."""
        return self.seconds

    def pause(self, seconds: float, check: Callable[[], None] = lambda: None) -> None:
        """Let the next thing happen. A shorter pause is one between two looks for a heartbeat."""
        check()
        self.seconds += seconds
        if seconds > STEP_SECONDS:
            assert self.happenings, "the driver waits on"
            self.happenings.pop(0)()
        else:
            self.at_each_look()


class LocalJob:
    """What submitit returns for a job of this machine: it does all its work when it is first asked
    if it is done.
    """

    job_id = ""

    def __init__(self, work: Step) -> None:
        self.work = work

    def done(self) -> bool:
        """Work, and be done."""
        self.work()
        return True


@dataclass
class DrivenRun:
    """A run of 3000 updates, its fake Slurm, and what a test lets its jobs do. The first job is 7."""

    request: TrainingRequest
    cluster: ClusterSpec
    slurm: FakeSlurm
    record_path: Path
    clock: StepClock = field(default_factory=StepClock)
    make_local_job: Callable[[Step], LocalJob] = LocalJob

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.request.folder.path

    @property
    def jobs(self) -> list[str]:
        """The numbers of the recorded jobs."""
        return [job.job for job in RunFolder(self.folder).jobs()]

    @property
    def last_end(self) -> Ended:
        """The last event, which is an end."""
        last = read_events(self.folder)[-1]
        assert isinstance(last, Ended)
        return last

    def change_cluster(self, **changes: Any) -> None:
        """Change keys of the cluster's file."""
        self.cluster = msgspec.structs.replace(self.cluster, **changes)

    def drive(self, *happenings: Step, launcher: str = "slurm", fresh: bool = False) -> None:
        """Drive the run as `aiayn train` does. One thing happens at each wait, and none is left
        over or missing.
        """
        self.clock.happenings = list(happenings)

        def submit(local: LocalLauncher, *_: object) -> str:
            local._job = self.make_local_job(self.clock.happenings.pop(0))
            local._job.job_id = str(7 + len(self.jobs))
            return local._job.job_id

        try:
            with mock.patch.object(LocalLauncher, "submit", submit):
                drive(
                    self.request,
                    launcher=launcher,
                    record_path=self.record_path,
                    fresh=fresh,
                    cluster=self.cluster,
                    clock=self.clock,
                )
        finally:
            assert self.clock.happenings == []

    def start(self, job: str = "7") -> None:
        """Let rank 0 of a job begin an attempt."""
        number = 1 + sum(isinstance(event, Started) for event in read_events(self.folder))
        RunFolder(self.folder).append_event(started(number, 0, job=job))

    def save(self, update: int) -> None:
        """Leave a full checkpoint, as far as a driver looks."""
        (self.folder / "checkpoints" / f"full_{update:08d}.pt").touch()

    def stop(self, outcome: AttemptOutcome, reason: str = "", *, update: int = 0) -> None:
        """Let rank 0 begin an attempt and record its end."""
        self.start()
        if update:
            self.save(update)
        RunFolder(self.folder).end_attempt(update=update, outcome=outcome, reason=reason)

    def finish(self) -> None:
        """Train to the end."""
        write_done(self.folder, tokens=1, wall_seconds=1)

    def set_heartbeat(self, seconds: float) -> None:
        """Let rank 0's lock have been touched at a time."""
        path = self.folder / RANK_LOCK_NAME
        path.touch()
        os.utime(path, (seconds, seconds))
