"""One Slurm job of one training, seen from its driver: submit it or attach to it, wait, and say what its end means.

Whether a training is done is asked of its folder alone (done.json); whether its job lives, of squeue alone, by the
run's name. Accounting is never asked. A driver that ends leaves its job running, and the next one attaches to it.
"""

import contextlib
import logging
import math
from pathlib import Path

import msgspec

from aiayn.clock import MACHINE_CLOCK, STEP_SECONDS, Clock
from aiayn.errors import LaunchError, RunError
from aiayn.launch.code_snapshot import RunCode, choose_code
from aiayn.launch.interruption import Interruption
from aiayn.launch.job import record_job
from aiayn.launch.job_outcome import JobOutcome, has_attempt
from aiayn.launch.progress import ProgressLine
from aiayn.launch.slurm_queue import SlurmError, ask_queue, has_slurm, release_job, waiting_advice
from aiayn.launch.submit import SubmissionError, clean_submissions, recover_submission, submit_to_slurm
from aiayn.runs import attempts
from aiayn.runs.heartbeat import HEARTBEAT_TIMEOUT_SECONDS, is_heartbeat_advancing, is_held
from aiayn.runs.jobs import read_jobs, remove_rank_errors
from aiayn.runs.log import read_log_tail
from aiayn.runs.queue import QueuedJob
from aiayn.spec.cluster import ClusterSpec
from aiayn.train.request import TrainingRequest

logger = logging.getLogger(__name__)
GRACE_SECONDS = 15.0  # for a controller that has just restarted, a heartbeat, and a file system that lags
STARTING_GRACE_SECONDS = 60.0  # for a job that was still importing
FILE_DELAY_SECONDS = 5.0  # for the file system alone, when Slurm says that the job ended
RECORD_SECONDS = 120.0  # for the record of a run that has told that it is done
RESUBMIT_SECONDS = 60.0  # until sbatch is asked again, which could not take a job
MAX_RELEASES = 3  # of a job that Slurm holds, not a person
REPEAT_SECONDS = 600.0  # between two lines that say the same


class SlurmDriver:
    """The part of one training's driver that speaks with Slurm."""

    def __init__(
        self, request: TrainingRequest, cluster: ClusterSpec, interruption: Interruption, clock: Clock = MACHINE_CLOCK
    ) -> None:
        self._clock = clock
        self._request = request
        self._cluster = cluster
        self._interruption = interruption
        self._run_folder = request.folder
        self._line = ProgressLine(request.run, request.training.updates)
        self._told: tuple[str, float] = ("", -math.inf)
        self._code: RunCode | None = None
        self._num_releases = 0

    def supervise_job(self, *, num_earlier_jobs: int) -> JobOutcome:
        """Wait for the end of the job that trains this run, or for the training's; submit one if none is alive.

        Raises:
            LaunchError: if there is no Slurm here, or Slurm refuses the job.
            RunError: if the job told that the run is done, but the record does not come.
            RunError, KeyboardInterrupt: on a signal, at once; the job runs on.
        """
        if not has_slurm():
            raise LaunchError(
                f"{self._request.run}: no squeue on PATH: this machine has no Slurm; go to one that submits jobs, or "
                "train here: `--launcher local`"
            )
        num_events = len(attempts.read_events(self._run_folder))
        end = self._attend(num_earlier_jobs)
        if len(attempts.read_events(self._run_folder)) > num_events and not self._has_its_record():
            raise RunError(
                f"{self._request.run}: {self._run_folder / attempts.ATTEMPTS_NAME} tells that it is done, but after "
                f"{RECORD_SECONDS:.0f} s there is no {self._run_folder / attempts.DONE_NAME}; no further job was "
                "submitted; repeat the command: it looks again, then a job writes the record from the last checkpoint"
            )
        return end

    def _attend(self, num_earlier_jobs: int) -> JobOutcome:
        living = self._living(self._ask_queue())
        if living:
            self._attach(living[-1])
        elif self._is_alive_outside_queue(GRACE_SECONDS if self._has_open_attempt() else 0.0):
            self._wait_outside_queue()
        else:
            if not self._has_its_record():
                self._tell(f"it is done, but its {attempts.DONE_NAME} is gone: a job writes it anew")
            living = [] if self._is_done() else self._submit(num_earlier_jobs)
        return self._wait(living[-1].job) if living and not self._is_done() else JobOutcome(job="", state="")

    def _is_done(self) -> bool:
        return attempts.is_done(self._run_folder)

    def _has_its_record(self) -> bool:
        """Return False if a run has told that it is done, and its record does not come; then it takes two minutes."""
        deadline = self._clock.now() + RECORD_SECONDS
        while not self._is_done():
            last = next(reversed(attempts.read_events(self._run_folder)), None)
            if not isinstance(last, attempts.Ended) or last.outcome != "done":
                return True
            if self._clock.now() >= deadline:
                return False
            self._pause(STEP_SECONDS)
        return True

    def _living(self, jobs: list[QueuedJob]) -> list[QueuedJob]:
        return [queued for queued in jobs if queued.is_alive and queued.trains_in(self._run_folder)]

    def _ask_queue(self) -> list[QueuedJob]:
        """Return the jobs of this run's name, however long the queue takes to answer; none once the run is done.

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
                        f"{self._request.run}: squeue refuses: {error.reason}; a Slurm of 20.02 or newer is expected; "
                        "a job of this name, if there is one, goes on"
                    ) from error
                news = f"squeue does not answer: {error.reason.splitlines()[0]}; nothing is known of its job"
                self._tell(f"{news}, so nothing is done: asking again")
                self._pause(self._cluster.poll_seconds)

    def _attach(self, queued: QueuedJob) -> None:
        logger.info(f"{self._request.run}: attached to Slurm job {queued.job}, which was submitted before")
        if queued.job not in [known.job for known in read_jobs(self._run_folder)]:
            recover_submission(self._run_folder, queued.job)  # its driver was killed before it could
            record_job(self._request, "slurm", queued.job)

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
        """Submit a job, however often Slurm says that it may take it later; '' if the run is done meanwhile."""
        while not self._is_done():
            try:
                return submit_to_slurm(request, self._cluster, code_folder)
            except SubmissionError as error:
                if error.is_passing:
                    reason = " ".join(str(error).partition(": ")[2].split())
                    self._tell(f"{reason}; that may pass, so it is tried again every {RESUBMIT_SECONDS:.0f} s")
                self._pause(RESUBMIT_SECONDS if error.is_passing else GRACE_SECONDS)
                living = self._living(self._ask_queue())
                if living:
                    recover_submission(self._run_folder, living[-1].job)
                    return living[-1].job
                clean_submissions(self._run_folder)
                if not error.is_passing:
                    raise
        return ""

    def _wait(self, job: str) -> JobOutcome:
        """Wait until no job of ours is alive; no answer, or one without the job, is no end yet."""
        while True:
            self._pause(self._cluster.poll_seconds)
            if self._is_done():
                return JobOutcome(job=job, state="COMPLETED")
            jobs = self._ask_queue()
            living = self._living(jobs)
            if living:
                self._tend(living[-1], [queued for queued in jobs if queued.is_alive])
                job = living[-1].job
                continue
            ended = [queued for queued in jobs if queued.job == job]
            if ended:
                self._settle(FILE_DELAY_SECONDS)
                return JobOutcome(job=job, state=ended[-1].state)
            if not self._is_alive_outside_queue(self._grace_seconds(job)) and not self._living(self._ask_queue()):
                return JobOutcome(job=job, state="")

    def _settle(self, seconds: float) -> None:
        """Give the file system time to show what the job wrote last."""
        deadline = self._clock.now() + seconds
        while self._clock.now() < deadline and not self._is_done() and not self._has_told_its_end():
            self._pause(STEP_SECONDS)

    def _has_told_its_end(self) -> bool:
        events = attempts.read_events(self._run_folder)
        return bool(events) and isinstance(events[-1], attempts.Ended)

    def _has_open_attempt(self) -> bool:
        return attempts.open_attempt(attempts.read_events(self._run_folder)) is not None

    def _grace_seconds(self, job: str) -> float:
        """Return how long to look for life in a job that squeue no longer knows of: longest if it never said a word."""
        is_unheard = not has_attempt(self._run_folder, job)
        seconds = STARTING_GRACE_SECONDS if is_unheard else GRACE_SECONDS
        if is_unheard or self._has_open_attempt():
            self._tell(f"squeue no longer knows of job {job}; looking for signs of life for {seconds:.0f} s")
            return seconds
        return 0.0

    def _is_alive_outside_queue(self, seconds: float) -> bool:
        """Return whether rank 0 of the run, which is not done, has a heartbeat; it takes so many seconds to say no.

        The controller may have lost the job (killed while that was seconds old), slurmd may be out of its reach, or it
        is no Slurm job at all. A lock that is held proves nothing, as on NFS 3 that of a machine that crashed stays
        until it has booted again; but its owner's heartbeat is waited for longer.
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
            f"{lock_path}: locked, but not touched for {HEARTBEAT_TIMEOUT_SECONDS:.0f} s; taken for the lock of a "
            "machine that went down"
        )
        return False

    def _wait_outside_queue(self) -> None:
        self._tell("a job trains this run of which squeue knows nothing; waiting for its end")
        while not self._is_done() and self._is_alive_outside_queue(GRACE_SECONDS):
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
            self._line.show(read_log_tail(self._run_folder / attempts.LOG_NAME))
            return
        reason = "" if queued.reason in ("", "None") else f" ({queued.reason})"
        advice = waiting_advice(queued, living)
        if advice:
            advice = f"; {advice}, or `aiayn cancel {self._request.run}`"
        self._tell(f"job {queued.job} {queued.state}{reason}{advice}")

    def _tell(self, news: str) -> None:
        told, told_at = self._told
        if news != told or self._clock.now() - told_at > REPEAT_SECONDS:
            logger.info(f"{self._request.run}: {news}")
            self._told = (news, self._clock.now())

    def _pause(self, seconds: float) -> None:
        """Wait, and end the driver as soon as it gets a signal; the job runs on."""
        self._clock.pause(seconds, self._end_if_interrupted)

    def _end_if_interrupted(self) -> None:
        self._interruption.raise_if_any(
            f"{self._request.run}: its Slurm job goes on without this driver; the same command attaches to it: "
            f"`{self._request.command}`; to end it: `aiayn cancel {self._request.run}`, or "
            f"`scancel --name={self._request.run}`"
        )
