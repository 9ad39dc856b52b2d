"""What a cluster's file puts around Python in a job, prologue and container: the bash is run, Slurm
is a stand-in.
"""

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from aiayn.errors import RunError
from aiayn.launch.slurm.job import continue_later
from aiayn.launch.slurm.launcher import sbatch_text
from aiayn.launch.slurm.prologue import PROLOGUE_EXIT_CODE, prologue_failure, prologue_lines
from aiayn.spec.cluster import ClusterSpec, read_cluster
from tests.driven_run import DrivenRun
from tests.fake_slurm import FakeSlurm
from tests.golden_files import check_golden
from tests.unit.test_launch import make_request
from tests.unit.test_launch_slurm import text_of

PYXIS = {
    "prologue": ["module purge", "module load slurm", 'if [ -d /raid ]; then\n    export TMPDIR=/raid/tmp\nfi\n'],
    "srun_options": {
        "container-image": "/images/attention.sqsh", "container-mounts": "/scratch:/scratch,/home/my data:/data",
        "container_workdir": "/scratch/attention", "container-env": "PYTHONPATH", "no-container-mount-home": "",
    },
    "python": "python3",
}  # fmt: skip
APPTAINER = {
    "prologue": [],
    "python": (
        'apptainer exec --nv --bind /scratch --env "PYTHONPATH=$PYTHONPATH" /images/attention.sif'
        " python3"
    ),
}


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """Return a run's folder, with a name that a shell would split."""
    folder = tmp_path / "my runs" / "run"
    (folder / "submitit").mkdir(parents=True)
    (folder / "checkpoints").mkdir()
    return folder


def cluster_with(*prologue: str) -> ClusterSpec:
    """Return the shipped cluster of CPUs with a prologue."""
    return msgspec.structs.replace(read_cluster("cpu"), prologue=list(prologue))


def run_bash(
    run_folder: Path, prologue: Sequence[str], *further: str
) -> subprocess.CompletedProcess[str]:
    """Run a prologue by bash, and lines after it, as job 7."""
    lines = [
        *prologue_lines(cluster_with(*prologue), run_folder / "submitit"),
        *further,
        "echo trains",
    ]
    return subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": "7"},
    )


MODULE = "module() { true; if [ $2 = bad ]; then echo 'no such module: bad' >&2; return 1; fi; }"


class TestPrologue:
    """A prologue as bash runs it."""

    @pytest.mark.parametrize(
        ("line", "code"),
        [
            ("false", 1),
            ("module load bad", 1),
            ("no_such_command", 127),
            ("A=$(exit 3)", 3),
            ("echo 'it''s' | grep --quiet x", 1),
            ("source /no/such/file.sh", 1),
            ("if true; then", 2),
        ],
    )
    def test_a_line_that_fails_ends_the_job_and_is_named(
        self, run_folder: Path, line: str, code: int
    ) -> None:
        ended = run_bash(run_folder, [MODULE, line, "echo next"])
        assert ended.returncode == PROLOGUE_EXIT_CODE
        assert "next" not in ended.stdout
        assert "trains" not in ended.stdout
        note = prologue_failure(run_folder / "submitit", "7")
        assert note.startswith("prologue of cluster cpu, on ")
        assert note.endswith(
            f"with exit code {code}; correct it in the cluster's file, or add '|| true' if it may"
            f" fail: {line}"
        )
        assert ended.stderr.endswith(f"{note}\n")
        assert ended.stderr.count("prologue of cluster") == 1

    @pytest.mark.parametrize(
        ("lines", "further", "printed"),
        [
            (["module load bad || true"], [], ""),
            (["if module load bad; then\n    exit 1\nelse\n    echo without\nfi"], [], "without\n"),
            (["if [ -d /no/such/folder ]; then\n    export TMPDIR=/no/such/folder\nfi"], [], ""),
            (["cat <<END\nsome text\nEND"], [], "some text\n"),
            (["! false"], [], ""),
            (["export A=$(false)"], [], ""),  # bash does not tell
            # What a line sets and defines stays, a trap too; nothing of ours is left for the rest
            # of the job.
            (
                [
                    "export A='a  b'",
                    "declare -x B=2",
                    "cd /",
                    "greet() { echo hello; }",
                    "umask 077",
                ],
                ['echo "$A|$B|$PWD|$(umask)"', "greet", "env | grep ^B="],
                "a  b|2|/|0077\nhello\nB=2\n",
            ),
            # A signal that the tests' own parent ignores is none of ours.
            (["true"], ["false", "trap -p | grep -v \"^trap -- ''\"", "set | grep ^aiayn"], ""),
        ],
    )
    def test_after_good_lines_the_job_goes_on(
        self, run_folder: Path, lines: list[str], further: list[str], printed: str
    ) -> None:
        ended = run_bash(run_folder, [MODULE, *lines], *further)
        assert ended.returncode == 0
        assert ended.stdout == (printed if "trains" in printed else f"{printed}trains\n")
        assert ended.stderr in ("", "no such module: bad\n")
        assert prologue_failure(run_folder / "submitit", "7") == ""

    def test_a_line_that_ends_the_shell_ends_the_job_with_its_own_words(
        self, run_folder: Path
    ) -> None:
        ended = run_bash(run_folder, ["echo ${SCRATCH:?is not set}"])
        assert (ended.returncode != 0, ended.stdout) == (True, "")
        assert ended.stderr.endswith("SCRATCH: is not set\n")

    def test_a_requeued_job_removes_its_earlier_note(self, run_folder: Path) -> None:
        flag = run_folder / "mounted"
        lines = [f"test -e {shlex.quote(str(flag))}"]
        assert run_bash(run_folder, lines).returncode == PROLOGUE_EXIT_CODE
        assert prologue_failure(run_folder / "submitit", "7") != ""
        flag.touch()
        assert run_bash(run_folder, lines).returncode == 0
        assert prologue_failure(run_folder / "submitit", "7") == ""

    def test_a_note_that_cannot_be_written_does_not_hide_the_line(self, run_folder: Path) -> None:
        (run_folder / "submitit").rmdir()
        ended = run_bash(run_folder, ["false"])
        assert ended.returncode == PROLOGUE_EXIT_CODE
        assert (
            "with exit code 1; correct it in the cluster's file, or add '|| true' if it may fail:"
            " false" in ended.stderr
        )


def run_job(driven: DrivenRun, job: str) -> int:
    """Run the file that sbatch was given, as Slurm does."""
    with (driven.folder / "submitit" / f"{job}_0_log.out").open("a", encoding="utf-8") as log:
        return subprocess.run(
            ["bash", driven.slurm.folder / f"{job}.sh"],
            check=False,
            stdout=log,
            stderr=log,
            timeout=60,
            env={**os.environ, "SLURM_JOB_ID": job},
        ).returncode


@pytest.mark.parametrize(
    ("prologue", "begun", "state", "error"),
    [
        (
            [MODULE, "module load bad"],
            False,
            "FAILED",
            r"prologue .*: module load bad\n.*\n  no such module: bad\n  pro",
        ),
        (
            ["false"],
            True,
            "FAILED",
            r"^run: prologue .* or add '\|\| true' if it may fail: false\n",
        ),  # on another node
        (
            ["kill -TERM $$"],
            False,
            "CANCELLED",
            r"run: Slurm job 7 was cancelled at update 0",
        ),  # by scancel
        ([MODULE, "module load good"], False, "", ""),
    ],
)
def test_what_a_driver_does_after_a_prologue(
    prologue: list[str], begun: bool, state: str, error: str, driven: DrivenRun
) -> None:
    """A broken one ends the rule at once, with what it printed. The note of another job counts for
    nothing.
    """
    (driven.folder / "submitit").mkdir()
    (driven.folder / "submitit" / "6_prologue.txt").write_text(
        "prologue of cluster cpu: of another job\n"
    )

    def run_it() -> None:
        if begun:
            driven.start()
            driven.save(30)
        exit_code = run_job(driven, "7")
        assert (
            exit_code == {"FAILED": PROLOGUE_EXIT_CODE, "CANCELLED": -signal.SIGTERM, "": 0}[state]
        )
        if state:
            driven.slurm.set_state("7", state, "NonZeroExitCode")
        else:
            driven.finish()

    driven.change_cluster(prologue=prologue)
    with pytest.raises(RunError, match=error) if error else contextlib.nullcontext():
        driven.drive(run_it)
    assert driven.slurm.num_submitted() == 1
    calls = driven.slurm.calls("srun")
    assert len(calls) == (not error)
    assert all(
        call.endswith(f"-u -m submitit.core._submit {driven.folder}/submitit") for call in calls
    )


def test_in_an_image_without_scontrol_a_job_saves_and_its_driver_submits_the_next(
    driven: DrivenRun, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stop() -> None:
        driven.stop("stopped", "asked by SIGUSR2", update=100)
        with monkeypatch.context() as inside:
            inside.setenv("PATH", str(driven.folder / "an image"))
            continue_later(msgspec.structs.replace(driven.request, max_num_jobs=20), "7", 1)
        driven.slurm.set_state("7", "COMPLETED")

    driven.drive(stop, driven.finish)
    assert "run: saved, but `scontrol requeue 7` failed: not found, or no answer" in caplog.text
    assert driven.slurm.calls("scontrol") == []
    assert driven.jobs == ["7", "8"]


@pytest.mark.parametrize(
    ("name", "changes"), [("modules_and_pyxis", PYXIS), ("apptainer", APPTAINER)]
)
def test_the_golden_file_of_a_container(
    name: str, changes: dict[str, object], tmp_path: Path
) -> None:
    cluster = msgspec.structs.replace(read_cluster("plain"), **changes)
    check_golden(f"sbatch/{name}.sh", text_of(cluster, tmp_path))


def test_the_jobs_copy_of_the_code_reaches_python_in_a_container(
    run_folder: Path, slurm: FakeSlurm, tmp_path: Path
) -> None:
    """The whole file by bash. A stand-in for srun runs its command, one for Apptainer shows what it
    was given.
    """
    srun = '#!/bin/sh\nwhile [ "$1" != apptainer ]; do echo "$1"; shift; done\nexec "$@"\n'
    slurm.replace_command("srun", srun)
    slurm.replace_command("apptainer", '#!/bin/sh\nprintf "<%s>\\n" "$@"\n')
    cluster = msgspec.structs.replace(read_cluster("plain"), **PYXIS | APPTAINER)
    (tmp_path / "job.sh").write_text(
        sbatch_text(make_request(run_folder), cluster, Path("/runs/my code/abc"))
    )
    environment = {**os.environ, "PYTHONPATH": "/host", "SLURM_JOB_ID": "7"}
    answer = subprocess.run(
        ["bash", tmp_path / "job.sh"], capture_output=True, text=True, check=True, env=environment
    )
    lines = answer.stdout.split("\n")
    assert "--container-mounts=/scratch:/scratch,/home/my data:/data" in lines
    assert "--no-container-mount-home" in lines
    assert "<PYTHONPATH=/runs/my code/abc:/host>" in lines
    assert lines[-6:] == [
        "<python3>",
        "<-u>",
        "<-m>",
        "<submitit.core._submit>",
        f"<{run_folder}/submitit>",
        "",
    ]
