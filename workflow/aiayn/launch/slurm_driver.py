"""One Slurm job of one training, seen from its driver: submit it or attach to it, wait, and say what its end means.

Whether a training is done is asked of its folder alone (done.json); whether its job lives, of squeue alone, by the
run's name. Accounting is never asked. A driver that ends leaves its job running, and the next one attaches to it.
"""

import contextlib
import logging
import math
import platform
import time
from pathlib import Path

import msgspec

from aiayn.errors import LaunchError
from aiayn.launch.cluster_spec import ClusterSpec
from aiayn.launch.interruption import Interruption
from aiayn.launch.job import TrainingRequest
from aiayn.launch.progress import ProgressLine
from aiayn.launch.run_code import RunCode, choose_code
from aiayn.launch.slurm_queue import QueuedJob, SilentQueue, ask_queue, has_slurm, release_job
from aiayn.launch.submit import submit_to_slurm
from aiayn.launch.waiting import waiting_advice
from aiayn.provenance import utc_now
from aiayn.runs import attempts
from aiayn.runs.jobs import SubmittedJob, append_job, read_jobs
from aiayn.runs.locks import is_locked
from aiayn.runs.rank_errors import forget_noted_errors

logger = logging.getLogger(__name__)
GRACE_SECONDS = 15.0  # for a controller that has just restarted, a heartbeat, and a file system that lags
UNHEARD_GRACE_SECONDS = 60.0  # for a job that was still importing
SETTLE_SECONDS = 5.0  # for the file system alone, when Slurm says that the job ended
STEP_SECONDS = 0.5  # between looks at the signals
MAX_RELEASES = 3  # of a job that Slurm holds, not a person
REPEAT_SECONDS = 600.0  # between two lines that say the same


class JobEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended: Slurm's word for it, '' if Slurm knows of no such job (any more)."""

    job: str
    state: str


class SlurmDriver:
    """The part of one training's driver that speaks with Slurm."""

    def __init__(self, request: TrainingRequest, cluster: ClusterSpec, interruption: Interruption) -> None:
        self._request = request
        self._cluster = cluster
        self._interruption = interruption
        self._run_folder = Path(request.run_folder)
        self._line = ProgressLine(request.run, request.training.updates)
        self._told: tuple[str, float] = ("", -math.inf)
        self._code: RunCode | None = None
        self._num_releases = 0

    def attend_job(self, *, num_earlier_jobs: int) -> JobEnd:
        """Wait for the end of the job that trains this run, or for the training's; submit one if none is alive.

        Raises:
            LaunchError: if there is no Slurm here, or Slurm refuses the job.
            RunError, KeyboardInterrupt: on a signal, at once; the job runs on.
        """
        if not has_slurm():
            raise LaunchError(
                f"{self._request.run}: no squeue on PATH: this machine has no Slurm; go to one that submits jobs, or "
                "train here: `--launcher local`"
            )
        living = self._living(self._ask_queue())
        if living:
            self._attach(living[-1])
        elif self._is_training_unseen(GRACE_SECONDS if self._has_open_attempt() else 0.0):
            self._wait_for_unseen()
            return JobEnd(job="", state="")
        else:
            living = self._submit(num_earlier_jobs)
        if self._is_done():
            return JobEnd(job="", state="")
        return self._wait(living[-1].job)

    def _is_done(self) -> bool:
        return (self._run_folder / attempts.DONE_NAME).exists()

    def _living(self, jobs: list[QueuedJob]) -> list[QueuedJob]:
        return [queued for queued in jobs if queued.is_alive and queued.trains_in(self._run_folder)]

    def _ask_queue(self) -> list[QueuedJob]:
        """Return the jobs of this run's name, however long the queue takes to answer; none once the run is done.

        Raises:
            LaunchError: if squeue does not understand the question.
        """
        while isinstance(jobs := ask_queue(self._request.run), SilentQueue):
            if self._is_done():
                return []
            if jobs.is_final:
                raise LaunchError(
                    f"{self._request.run}: squeue refuses: {jobs.reason}; a Slurm of 20.02 or newer is expected; a job "
                    "of this name, if there is one, goes on"
                )
            self._tell(
                f"squeue does not answer: {jobs.reason}; nothing is known of its job, so nothing is done: asking again"
            )
            self._pause(self._cluster.poll_seconds)
        return jobs

    def _attach(self, queued: QueuedJob) -> None:
        logger.info(f"{self._request.run}: attached to Slurm job {queued.job}, which was submitted before")
        if queued.job not in [known.job for known in read_jobs(self._run_folder)]:
            self._note_job(queued.job, code_folder="", commit="")  # its driver was killed before it could

    def _note_job(self, job: str, *, code_folder: str, commit: str) -> None:
        append_job(
            self._run_folder,
            SubmittedJob(
                time=utc_now(), launcher="slurm", job=job, host=platform.node(), num_ranks=self._request.num_ranks,
                update=attempts.newest_update(self._run_folder), commit=commit, code_folder=code_folder,
            ),
        )  # fmt: skip

    def _submit(self, num_earlier_jobs: int) -> list[QueuedJob]:
        """Submit a job and return it, or the one that an unanswered sbatch has left in the queue after all."""
        # Once a driver: its later jobs run the code of the first, whatever has become of the checkout.
        self._code = self._code or choose_code(self._request)
        request = msgspec.structs.replace(
            self._request,
            commit=self._code.commit,
            num_earlier_jobs=num_earlier_jobs,
            max_num_jobs=self._cluster.max_num_jobs,
            gpus_per_node=self._cluster.gpus_per_node,
        )
        forget_noted_errors(self._run_folder)
        try:
            job = submit_to_slurm(request, self._cluster, self._code.folder)
        except LaunchError:
            self._pause(GRACE_SECONDS)
            living = self._living(self._ask_queue())
            if not living:
                raise
            job = living[-1].job
        self._note_job(job, code_folder=str(self._code.folder), commit=request.commit)
        logger.info(
            f"{request.run}: Slurm job {job}, {self._cluster.num_nodes} node(s) x {self._cluster.ranks_per_node} ranks"
            f", log {self._run_folder / attempts.LOG_NAME}"
        )
        return [QueuedJob(job=job, state="PENDING", reason="", node="", time_left="")]

    def _wait(self, job: str) -> JobEnd:
        """Wait until no job of ours is alive; no answer, or one without the job, is no end yet."""
        while True:
            self._pause(self._cluster.poll_seconds)
            if self._is_done():
                return JobEnd(job=job, state="COMPLETED")
            jobs = self._ask_queue()
            living = self._living(jobs)
            if living:
                self._tend(living[-1], [queued for queued in jobs if queued.is_alive])
                job = living[-1].job
                continue
            ended = [queued for queued in jobs if queued.job == job]
            if ended:
                self._settle(SETTLE_SECONDS)
                return JobEnd(job=job, state=ended[-1].state)
            if not self._is_training_unseen(self._grace_seconds(job)) and not self._living(self._ask_queue()):
                return JobEnd(job=job, state="")

    def _settle(self, seconds: float) -> None:
        """Give the file system time to show what the job wrote last."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._is_done() and not self._has_told_its_end():
            self._pause(STEP_SECONDS)

    def _has_told_its_end(self) -> bool:
        events = attempts.read_events(self._run_folder)
        return bool(events) and isinstance(events[-1], attempts.Ended)

    def _has_open_attempt(self) -> bool:
        return attempts.open_attempt(attempts.read_events(self._run_folder)) is not None

    def _grace_seconds(self, job: str) -> float:
        """Return how long to look for life in a job that squeue no longer knows of: longest if it never said a word."""
        has_begun = any(
            isinstance(event, attempts.Started) and event.job == job for event in attempts.read_events(self._run_folder)
        )
        seconds = GRACE_SECONDS if has_begun else UNHEARD_GRACE_SECONDS
        if not has_begun or self._has_open_attempt():
            self._tell(f"squeue no longer knows of job {job}; looking for signs of life for {seconds:.0f} s")
            return seconds
        return 0.0

    def _is_training_unseen(self, seconds: float) -> bool:
        """Return whether a job trains this run of which squeue knows nothing; takes so many seconds to say no.

        The controller may have lost it (killed while the job was seconds old), or it is no Slurm job. Rank 0 holds a
        lock, and beats where locks do not reach.
        """
        before = attempts.heartbeat(self._run_folder)
        deadline = time.monotonic() + seconds
        while not self._is_done():
            if self._has_rank_lock() or attempts.heartbeat(self._run_folder) != before:
                return True
            if time.monotonic() >= deadline:
                return False
            self._pause(STEP_SECONDS)
        return False

    def _has_rank_lock(self) -> bool:
        try:
            return is_locked(self._run_folder / attempts.RANK_LOCK_NAME)
        except OSError:  # a file system without locks
            return False

    def _wait_for_unseen(self) -> None:
        self._tell("a job trains this run of which squeue knows nothing; waiting for its end")
        while not self._is_done() and self._is_training_unseen(GRACE_SECONDS):
            self._pause(self._cluster.poll_seconds)

    def _tend(self, queued: QueuedJob, living: list[QueuedJob]) -> None:
        """Say what became of the job; one that Slurm itself holds is released, a few times."""
        if not queued.is_held_by_slurm or self._num_releases == MAX_RELEASES:
            self._tell_state(queued, living)
            return
        self._num_releases += 1
        releases = f"{self._num_releases} of {MAX_RELEASES}"
        self._tell(f"Slurm could not launch job {queued.job} and holds it: released, {releases}")
        with contextlib.suppress(LaunchError):  # tried again, or told
            release_job(queued.job)

    def _tell_state(self, queued: QueuedJob, living: list[QueuedJob]) -> None:
        """Say once what became of the job, which is among those of its name that live; of one that runs, how far."""
        if queued.state == "RUNNING":
            self._tell(f"job {queued.job} runs on {queued.node}")
            self._line.show(attempts.read_progress(self._run_folder))
            return
        reason = "" if queued.reason in ("", "None") else f" ({queued.reason})"
        advice = waiting_advice(queued, living)
        if advice:
            advice = f"; {advice}, or `aiayn cancel {self._request.run}`"
        self._tell(f"job {queued.job} {queued.state}{reason}{advice}")

    def _tell(self, news: str) -> None:
        told, told_at = self._told
        if news != told or time.monotonic() - told_at > REPEAT_SECONDS:
            logger.info(f"{self._request.run}: {news}")
            self._told = (news, time.monotonic())

    def _pause(self, seconds: float) -> None:
        """Wait, and end the driver as soon as it gets a signal; the job runs on."""
        deadline = time.monotonic() + seconds
        while True:
            self._interruption.raise_if_any(
                f"{self._request.run}: its Slurm job goes on without this driver; the same command attaches to it: "
                f"`{self._request.command}`; to end it: `aiayn cancel {self._request.run}`, or "
                f"`scancel --name={self._request.run}`"
            )
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, STEP_SECONDS))
