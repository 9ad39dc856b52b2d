"""The file that sbatch gets, to the byte, and what is kept from it. sbatch itself is a stand-in
here.
"""

import os
import sys
from pathlib import Path

import msgspec
import pytest

from aiayn.__main__ import main
from aiayn.data.text.binarize import data_bin_digest, data_bin_files
from aiayn.errors import LaunchError
from aiayn.launch.launcher import SubmissionError
from aiayn.launch.slurm.launcher import SlurmLauncher, sbatch_text
from aiayn.provenance import file_sha256
from aiayn.records import write_record
from aiayn.runs.queue import QueuedJob
from aiayn.spec.cluster import ClusterSpec, read_cluster
from aiayn.train.request import TrainingRequest
from tests.fake_slurm import FakeSlurm
from tests.golden_files import check_golden
from tests.records_factory import BINARIZED
from tests.unit.test_launch import make_request

EVERYTHING = {
    "partition": "gpu", "account": "nmt", "qos": "long", "constraint": "a100&nvlink", "gpu_type": "a100",
    "num_nodes": 2, "gpus_per_node": 4, "ranks_per_node": 4, "cpus_per_rank": 6, "memory_gb_per_node": 200,
    "time_limit_minutes": 600,
    "signal_seconds": 90, "prologue": ["module load cuda/12.4", "export NCCL_SOCKET_IFNAME=ib0"],
    "sbatch_lines": {"reservation": "week end", "exclusive": "", "wckey": "paper"},
}  # fmt: skip


@pytest.fixture
def plain() -> ClusterSpec:
    """Return the shipped cluster of 8-GPU nodes."""
    return read_cluster("plain")


def text_of(cluster: ClusterSpec, folder: Path) -> str:
    """Return the file's text for a small request, with this machine's own paths named."""
    text = sbatch_text(make_request(folder / "run"), cluster, folder / "code" / "0123456789abcdef")
    return text.replace(sys.executable, "PYTHON").replace(str(folder), "/scratch/runs")


def submit_to_slurm(request: TrainingRequest, cluster: ClusterSpec, code_folder: Path) -> str:
    """Submit a job and return its number."""
    return SlurmLauncher(request, cluster).submit(request, code_folder)


def data_record(folder: Path, corpus: str = "wmt14_en_de") -> Path:
    """Write the record of a data-bin that holds dictionaries alone."""
    data_bin = folder / "data-bin"
    data_bin.mkdir()
    for language in ("en", "de"):
        (data_bin / f"dict.{language}.txt").write_text("a 2\n", encoding="utf-8", newline="\n")
    record = msgspec.structs.replace(
        BINARIZED,
        corpus=corpus,
        folder=data_bin,
        dictionary_sha256_by_language={
            name: file_sha256(data_bin / f"dict.{name}.txt") for name in ("en", "de")
        },
        digest=data_bin_digest(data_bin_files(data_bin)),
        vocabulary_size_by_language={"en": 5, "de": 5},
    )
    write_record(record, folder / "record.json")
    return folder / "record.json"


def test_the_file_of_a_training_at_the_papers_scale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight GPUs of one node, on a machine without any Slurm; nothing is submitted, nothing
    written.
    """
    monkeypatch.setenv("AIAYN_COMMIT", "0123456789abcdef")
    monkeypatch.setattr("aiayn.provenance._commit", lambda: ("0123456789abcdef", False))
    names = ["--scale", "paper", "--corpus", "wmt14_en_de", "--system", "base", "--seed", "1"]
    paths = ["--binarized", str(data_record(tmp_path)), "--record", str(tmp_path / "seed1.json")]
    more = [
        "--runs-folder",
        str(tmp_path / "runs"),
        "--launcher",
        "slurm",
        "--cluster",
        "plain",
        "--dry-run",
    ]
    assert main(["train", *names, *paths, *more]) == 0
    text = capsys.readouterr().out
    (path_line,) = (line for line in text.split("\n") if line.startswith("export PYTHONPATH="))
    digest = path_line.partition("/code/")[2][:16]
    (name_line,) = (line for line in text.split("\n") if line.startswith("#SBATCH --job-name="))
    run = name_line.partition("=")[2]
    assert run.startswith("wmt14_en_de-base-seed1-")
    for own, named in (
        (digest, "CODE"),
        (run, "RUN"),
        (sys.executable, "PYTHON"),
        (str(tmp_path), "/scratch"),
    ):
        text = text.replace(own, named)
    check_golden("sbatch/paper_base.sh", text)
    assert not (tmp_path / "runs").exists()


def test_the_file_says_all_that_a_cluster_asks_for(tmp_path: Path, plain: ClusterSpec) -> None:
    check_golden(
        "sbatch/everything.sh", text_of(msgspec.structs.replace(plain, **EVERYTHING), tmp_path)
    )


def test_without_gpus_none_are_asked_for_and_freed_memory_is_kept(tmp_path: Path) -> None:
    lines = text_of(read_cluster("cpu"), tmp_path).split("\n")
    assert [line for line in lines if "gpu" in line] == []
    assert "#SBATCH --ntasks-per-node=8" in lines
    assert "export MALLOC_MMAP_MAX_=0" in lines


def test_what_is_submitted_is_what_was_printed(
    tmp_path: Path, slurm: FakeSlurm, plain: ClusterSpec
) -> None:
    request = make_request(tmp_path / "run")
    printed = sbatch_text(request, plain, tmp_path / "code")
    assert submit_to_slurm(request, plain, tmp_path / "code") == "7"
    assert (slurm.folder / "7.sh").read_text(encoding="utf-8") == printed


def test_variables_that_would_overrule_the_file_are_hidden_from_sbatch(
    tmp_path: Path, slurm: FakeSlurm, plain: ClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver may run in a job itself. And sbatch believes SBATCH_JOB_NAME more than the file,
    even for a dry run.
    """
    foreign = {
        "SBATCH_JOB_NAME": "another",
        "SBATCH_PARTITION": "debug",
        "SBATCH_ACCOUNT": "mine",
        "SLURM_CPU_BIND": "cores",
        "SLURM_JOB_ID": "3",
        "SLURM_CONF": "/etc/slurm.conf",
        "MASTER_PORT": "1",
        "SUBMITIT_PREEMPT_SIGNAL": "USR1",
        "SLURM_CLUSTERS": "gpu",
        "SLURM_JWT": "token",
    }
    for name, value in foreign.items():
        monkeypatch.setenv(name, value)
    submit_to_slurm(
        make_request(tmp_path / "run"),
        msgspec.structs.replace(plain, partition="gpu"),
        tmp_path / "code",
    )
    environment = (slurm.folder / "sbatch_environment").read_text(encoding="utf-8").split()
    # Of the account the file says nothing; of the cluster and the token, squeue and scancel make
    # use, too.
    assert environment == [
        "SBATCH_ACCOUNT=mine",
        "SLURM_CLUSTERS=gpu",
        "SLURM_CONF=/etc/slurm.conf",
        "SLURM_JWT=token",
    ]
    assert {name: os.environ[name] for name in foreign} == foreign
    assert "#SBATCH --signal=USR2@120" in (slurm.folder / "7.sh").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "is_passing"),
    [
        (
            (
                "sbatch: error: Batch job submission failed: Unable to contact slurm controller"
                " (connect failure)"
            ),
            True,
        ),
        (
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
            True,
        ),
        (
            (
                "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission"
                " failed: Job violates"
            ),
            True,
        ),
        (
            (
                "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed:"
                " Job violates acc"
            ),
            True,
        ),
        (
            (
                "sbatch: error: AssocGrpSubmitJobsLimit\nsbatch: error: Batch job submission"
                " failed: Job violates ac"
            ),
            True,
        ),
        ("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", True),
        (
            (
                "sbatch: error: QOSMaxWallDurationPerJobLimit\nsbatch: error: Batch job submission"
                " failed: Job violat"
            ),
            False,
        ),
        (
            (
                "sbatch: error: Batch job submission failed: Invalid account or account/partition"
                " combination"
            ),
            False,
        ),
        (
            (
                "sbatch: error: Batch job submission failed: Requested node configuration is not"
                " available"
            ),
            False,
        ),
        ("", False),
    ],
)
def test_a_refusal_that_may_pass_is_known_by_sbatchs_words_which_are_shown_once(
    words: str,
    is_passing: bool,
    tmp_path: Path,
    slurm: FakeSlurm,
    plain: ClusterSpec,
    capfd: pytest.CaptureFixture[str],
) -> None:
    slurm.set_flag("refused", words)
    with pytest.raises(SubmissionError) as raised:
        submit_to_slurm(make_request(tmp_path / "run"), plain, tmp_path / "code")
    assert str(raised.value).startswith("run: sbatch failed: ")
    assert words.removeprefix("sbatch: error: ").split("\n")[0] in str(raised.value)
    assert capfd.readouterr() == ("", "")
    assert raised.value.is_passing is is_passing
    assert raised.value.exit_code == 3


def test_without_slurm_nothing_is_submitted(
    tmp_path: Path, plain: ClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match=r"run: sbatch failed: .*'sbatch'"):
        submit_to_slurm(make_request(tmp_path / "run"), plain, tmp_path / "code")


def test_a_release_that_slurm_refuses_is_not_called_a_release(
    plain: ClusterSpec, tmp_path: Path, slurm: FakeSlurm
) -> None:
    held = QueuedJob(
        job="7", state="waiting", words="PENDING", reason="launch failed requeued held"
    )
    launcher = SlurmLauncher(make_request(tmp_path / "run"), plain)
    assert launcher.tend(held).endswith("holds it: released, 1 of 3")
    slurm.set_flag("down")
    refused = "not released (Unable to contact slurm controller)"
    assert launcher.tend(held).endswith(f"holds it: {refused}, 2 of 3")
    assert launcher.tend(held).endswith(f"holds it: {refused}, 3 of 3")
    assert launcher.tend(held) == ""
