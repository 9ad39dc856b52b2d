"""`snakemake --profile slurm` of a copy of the checkout, watched while it runs."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.pipeline_copy import Pipeline, make_pipeline
from tests.slurm.cluster_processes import wait_until

LONGEST_RUN_SECONDS = 240.0
# A test that a script has started in its background ignores Ctrl-C, one under nohup a hang-up, and
# so would all that it starts.
HEEDING_INTERRUPTS = ("env", "--default-signal=INT,HUP")
SUBMITTED = re.compile(r"Job \d+ has been submitted with SLURM jobid (\d+) \(log: \S*/rule_(\w+)/")


def make_slurm_pipeline(folder: Path) -> Pipeline:
    """Copy the checkout with its link `slurm`, and set the fake `aiayn` up beside it."""
    pipeline = make_pipeline(folder)
    (pipeline.checkout / "slurm").symlink_to("profiles/slurm")
    return pipeline


@dataclass
class SnakemakeRun:
    """One snakemake, in a process group of its own as a shell starts it."""

    process: "subprocess.Popen[bytes]"
    log_path: Path

    @classmethod
    def start(cls, pipeline: Pipeline, *arguments: str, **variables: str) -> "SnakemakeRun":
        """Start it in the pipeline's checkout. The variables are the fake's."""
        log_path = pipeline.fake_folder / f"snakemake-{time.time_ns()}.log"
        # Files that are asked for stand first: --configfile would take them for more of its own.
        command = [
            *HEEDING_INTERRUPTS,
            sys.executable,
            "-m",
            "snakemake",
            *arguments,
            "--profile",
            "slurm",
            *pipeline.arguments,
        ]
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=pipeline.checkout,
                env=pipeline.variables(**variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(process, log_path)

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    @property
    def rule_by_job(self) -> dict[str, str]:
        """The rule of each Slurm job that it has submitted."""
        return {found[1]: found[2] for found in SUBMITTED.finditer(self.output)}

    def wait_for_job(self, rule: str) -> str:
        """Return the Slurm job of a rule once it is submitted."""
        wait_until(
            lambda: rule in self.rule_by_job.values() or self.process.poll() is not None,
            LONGEST_RUN_SECONDS,
            rule,
        )
        assert rule in self.rule_by_job.values(), self.output
        return next(job for job, of_rule in self.rule_by_job.items() if of_rule == rule)

    def wait(self, seconds: float = LONGEST_RUN_SECONDS) -> int:
        """Return its exit code. It must end within so many seconds."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise AssertionError(f"snakemake hangs after {seconds:g} s:\n{self.output}") from error

    def kill(self) -> None:
        """End it and its local rules."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
