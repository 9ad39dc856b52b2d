"""Supervises one Slurm job of one training: submits it or attaches to it, waits, and returns how it ended.

Only done.json in the run's folder says that a training is done; only squeue says, by the run's name, whether its job
is in the queue. Accounting is never read. A driver that ends leaves its job running, and the next attaches to it.
"""

import contextlib
import logging
import math
from pathlib import Path

import msgspec

from aiayn.clock import MACHINE_CLOCK, STEP_SECONDS, Clock
from aiayn.errors import LaunchError, RunError
from aiayn.launch.code_snapshot import RunCode, choose_code
from aiayn.launch.job import record_job
from aiayn.launch.job_outcome import Interruption, JobOutcome, has_attempt
from aiayn.launch.progress import ProgressLine
from aiayn.launch.slurm_queue import SlurmError, ask_queue, has_slurm, run_slurm, waiting_advice
from aiayn.launch.submit import SubmissionError, clean_submissions, recover_submission, submit_to_slurm
from aiayn.runs import attempts
from aiayn.runs.heartbeat import HEARTBEAT_TIMEOUT_SECONDS, is_heartbeat_advancing, is_held
from aiayn.runs.jobs import read_jobs, remove_rank_errors
from aiayn.runs.log import read_log_tail
from aiayn.runs.queue import QueuedJob
from aiayn.spec.cluster import ClusterSpec
from aiayn.train.request import TrainingRequest

logger = logging.getLogger(__name__)
GRACE_SECONDS = 15.0  # for a restarted controller, a heartbeat, and a slow file system
STARTING_GRACE_SECONDS = 60.0  # for a job that was still importing
FILE_DELAY_SECONDS = 5.0  # for the file system alone, when squeue shows that the job has ended
RECORD_SECONDS = 120.0  # for done.json, when attempts.jsonl says that the run is done
RESUBMIT_SECONDS = 60.0  # between two attempts to submit
MAX_RELEASES = 3  # of a job that Slurm itself holds
REPEAT_SECONDS = 600.0  # between two equal lines of the log


class SlurmDriver:
    """The part of one training's driver that uses Slurm."""

    def __init__(
        self, request: TrainingRequest, cluster: ClusterSpec, interruption: Interruption, clock: Clock = MACHINE_CLOCK
    ) -> None:
        self._clock = clock
        self._request = request
        self._cluster = cluster
        self._interruption = interruption
        self._run_folder = request.folder
        self._line = ProgressLine(request.run, request.training.updates)
        self._logged: tuple[str, float] = ("", -math.inf)
        self._code: RunCode | None = None
        self._num_releases = 0

    def supervise_job(self, *, num_earlier_jobs: int) -> JobOutcome:
        """Wait until the job that trains this run has ended or the run is done; submit a job if none is alive.

        Raises:
            LaunchError: if there is no Slurm here, or Slurm refuses the job.
            RunError: if attempts.jsonl says that the run is done, but its record does not appear.
            RunError, KeyboardInterrupt: on a signal, at once; the job continues.
        """
        if not has_slurm():
            raise LaunchError(
                f"{self._request.run}: no squeue on PATH: this machine has no Slurm; run the command on a login node, "
                "or train here: `--launcher local`"
            )
        num_events = len(attempts.read_events(self._run_folder))
        end = self._submit_or_attach(num_earlier_jobs)
        if len(attempts.read_events(self._run_folder)) > num_events and not self._has_its_record():
            raise RunError(
                f"{self._request.run}: {self._run_folder / attempts.ATTEMPTS_NAME} says that it is done, but after "
                f"{RECORD_SECONDS:.0f} s there is no {self._run_folder / attempts.DONE_NAME}; no further job was "
                "submitted; repeat the command: a job then writes the record from the last checkpoint"
            )
        return end

    def _submit_or_attach(self, num_earlier_jobs: int) -> JobOutcome:
        alive = self._alive_jobs(self._ask_queue())
        if alive:
            self._attach(alive[-1])
        elif self._is_alive_outside_queue(GRACE_SECONDS if self._has_open_attempt() else 0.0):
            self._wait_outside_queue()
        else:
            if not self._has_its_record():
                self._log_change(f"it is done, but its {attempts.DONE_NAME} is gone: a job writes it again")
            alive = [] if self._is_done() else self._submit(num_earlier_jobs)
        return self._wait(alive[-1].job) if alive and not self._is_done() else JobOutcome(job="", state="")

    def _is_done(self) -> bool:
        return attempts.is_done(self._run_folder)

    def _has_its_record(self) -> bool:
        """Return False if attempts.jsonl says that a run is done, but no record appears within RECORD_SECONDS."""
        deadline = self._clock.now() + RECORD_SECONDS
        while not self._is_done():
            last = next(reversed(attempts.read_events(self._run_folder)), None)
            if not isinstance(last, attempts.Ended) or last.outcome != "done":
                return True
            if self._clock.now() >= deadline:
                return False
            self._pause(STEP_SECONDS)
        return True

    def _alive_jobs(self, jobs: list[QueuedJob]) -> list[QueuedJob]:
        return [queued for queued in jobs if queued.is_alive and queued.trains_in(self._run_folder)]

    def _ask_queue(self) -> list[QueuedJob]:
        """Return the jobs of this run's name, as soon as the queue answers; none when the run is done.

        Raises:
            LaunchError: if squeue does not understand the question.
        """
        while True:
            try:
                return ask_queue(self._request.run)
            except SlurmError as error:
                if self._is_done():
                    return []
                if error.is_final:
                    raise LaunchError(
                        f"{self._request.run}: squeue refuses: {error.reason}; expected Slurm 20.02 or newer; a job of "
                        "this name, if there is one, continues"
                    ) from error
                reason = error.reason.splitlines()[0]
                self._log_change(f"squeue does not answer: {reason}; the state of its job is unknown: asking again")
                self._pause(self._cluster.poll_seconds)

    def _attach(self, queued: QueuedJob) -> None:
        logger.info(f"{self._request.run}: attached to Slurm job {queued.job}, which was submitted before")
        if queued.job not in [known.job for known in read_jobs(self._run_folder)]:
            recover_submission(self._run_folder, queued.job)  # its driver was killed before it could
            record_job(self._request, "slurm", queued.job)

    def _submit(self, num_earlier_jobs: int) -> list[QueuedJob]:
        """Submit a job and return it, or the one in the queue that an sbatch without an answer had submitted."""
        # Once per driver: its later jobs run the code of the first, however the checkout changes.
        self._code = self._code or choose_code(self._request)
        request = msgspec.structs.replace(
            self._request,
            commit=self._code.commit,
            num_earlier_jobs=num_earlier_jobs,
            max_num_jobs=self._cluster.max_num_jobs,
            gpus_per_node=self._cluster.gpus_per_node,
        )
        remove_rank_errors(self._run_folder)
        job = self._submit_until_taken(request, self._code.folder)
        if not job:
            return []
        record_job(request, "slurm", job, commit=request.commit, code_folder=str(self._code.folder))
        logger.info(
            f"{request.run}: Slurm job {job}, {self._cluster.num_nodes} node(s) x {self._cluster.ranks_per_node} ranks"
            f", log {self._run_folder / attempts.LOG_NAME}"
        )
        return [QueuedJob(job=job, state="PENDING", reason="", node="", time_left="")]

    def _submit_until_taken(self, request: TrainingRequest, code_folder: Path) -> str:
        """Submit a job, again after each refusal that may pass; return '' if the run is done meanwhile."""
        while not self._is_done():
            try:
                return submit_to_slurm(request, self._cluster, code_folder)
            except SubmissionError as error:
                if error.is_passing:
                    reason = " ".join(str(error).partition(": ")[2].split())
                    self._log_change(f"{reason}; that may pass: the next attempt is in {RESUBMIT_SECONDS:.0f} s")
                self._pause(RESUBMIT_SECONDS if error.is_passing else GRACE_SECONDS)
                alive = self._alive_jobs(self._ask_queue())
                if alive:
                    recover_submission(self._run_folder, alive[-1].job)
                    return alive[-1].job
                clean_submissions(self._run_folder)
                if not error.is_passing:
                    raise
        return ""

    def _wait(self, job: str) -> JobOutcome:
        """Wait until no job of this run is alive; a queue that does not answer, or omits the job, does not end it."""
        while True:
            self._pause(self._cluster.poll_seconds)
            if self._is_done():
                return JobOutcome(job=job, state="COMPLETED")
            jobs = self._ask_queue()
            alive = self._alive_jobs(jobs)
            if alive:
                job = alive[-1].job
                if alive[-1].is_held_by_slurm and self._num_releases < MAX_RELEASES:
                    self._on_held_job(job)
                else:
                    self._log_state(alive[-1], [queued for queued in jobs if queued.is_alive])
                continue
            ended = [queued for queued in jobs if queued.job == job]
            if ended:
                self._wait_for_files()
                return JobOutcome(job=job, state=ended[-1].state)
            if not self._is_alive_outside_queue(self._grace_seconds(job)) and not self._alive_jobs(self._ask_queue()):
                return JobOutcome(job=job, state="")

    def _wait_for_files(self) -> None:
        """Wait until the file system shows what the job wrote last, or for FILE_DELAY_SECONDS."""
        deadline = self._clock.now() + FILE_DELAY_SECONDS
        while self._clock.now() < deadline and not self._is_done() and not self._has_ended_attempt():
            self._pause(STEP_SECONDS)

    def _has_ended_attempt(self) -> bool:
        events = attempts.read_events(self._run_folder)
        return bool(events) and isinstance(events[-1], attempts.Ended)

    def _has_open_attempt(self) -> bool:
        return attempts.open_attempt(attempts.read_events(self._run_folder)) is not None

    def _grace_seconds(self, job: str) -> float:
        """Return how long to watch for the heartbeat of a job that squeue no longer knows."""
        is_starting = not has_attempt(self._run_folder, job)
        seconds = STARTING_GRACE_SECONDS if is_starting else GRACE_SECONDS
        if is_starting or self._has_open_attempt():
            self._log_change(f"squeue no longer knows job {job}; watching for its heartbeat for {seconds:.0f} s")
            return seconds
        return 0.0

    def _is_alive_outside_queue(self, seconds: float) -> bool:
        """Return whether rank 0 of the run, which is not done, has a heartbeat within so many seconds.

        The controller may have lost the job (it was killed while the job was new), slurmd may be unreachable, or it is
        no Slurm job. A held lock proves nothing: on NFS 3 the lock of a crashed machine stays until it has booted
        again. Where the lock is held, the heartbeat is awaited for longer.
        """
        lock_path = self._run_folder / attempts.RANK_LOCK_NAME
        for timeout_seconds in (seconds, HEARTBEAT_TIMEOUT_SECONDS - seconds):
            if self._is_done():
                return False
            if is_heartbeat_advancing(self._run_folder, timeout_seconds, self._clock, self._end_if_interrupted):
                return not self._is_done()
            if not is_held(lock_path):
                return False
        logger.warning(
            f"{lock_path}: locked, but without a heartbeat for {HEARTBEAT_TIMEOUT_SECONDS:.0f} s: treated as the lock "
            "of a machine that went down"
        )
        return False

    def _wait_outside_queue(self) -> None:
        self._log_change("a job that squeue does not know trains this run; waiting for its end")
        while not self._is_done() and self._is_alive_outside_queue(GRACE_SECONDS):
            self._pause(self._cluster.poll_seconds)

    def _on_held_job(self, job: str) -> None:
        """Release a job that Slurm itself holds."""
        self._num_releases += 1
        releases = f"{self._num_releases} of {MAX_RELEASES}"
        self._log_change(f"Slurm could not launch job {job} and holds it: released, {releases}")
        with contextlib.suppress(LaunchError):  # the next look tries again, or logs the state
            run_slurm(["scontrol", "release", job])

    def _log_state(self, queued: QueuedJob, alive: list[QueuedJob]) -> None:
        """Log each new state of the job, with progress while it runs; `alive` are all jobs of its name."""
        if queued.state == "RUNNING":
            self._log_change(f"job {queued.job} runs on {queued.node}")
            self._line.show(read_log_tail(self._run_folder / attempts.LOG_NAME))
            return
        reason = "" if queued.reason in ("", "None") else f" ({queued.reason})"
        advice = waiting_advice(queued, alive)
        if advice:
            advice = f"; {advice}, or `aiayn cancel {self._request.run}`"
        self._log_change(f"job {queued.job} {queued.state}{reason}{advice}")

    def _log_change(self, change: str) -> None:
        logged, logged_at = self._logged
        if change != logged or self._clock.now() - logged_at > REPEAT_SECONDS:
            logger.info(f"{self._request.run}: {change}")
            self._logged = (change, self._clock.now())

    def _pause(self, seconds: float) -> None:
        """Wait; a signal ends the driver at once, and the job continues."""
        self._clock.pause(seconds, self._end_if_interrupted)

    def _end_if_interrupted(self) -> None:
        self._interruption.raise_if_any(
            f"{self._request.run}: its Slurm job continues without this driver; the same command attaches to it: "
            f"`{self._request.command}`; to end it: `aiayn cancel {self._request.run}`, or "
            f"`scancel --name={self._request.run}`"
        )
