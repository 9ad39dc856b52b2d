"""A cluster's file against Slurm's nodes: CPUs by sinfo, requests for GPUs and memory, refusals."""

from pathlib import Path

import msgspec
import pytest

from aiayn.launch.slurm.launcher import SlurmLauncher, sbatch_text
from aiayn.launch.slurm.nodes import explain_refusal, with_node_cpus
from aiayn.spec.cluster import ClusterSpec, read_cluster
from aiayn.spec.system import CONFIG_FOLDER
from tests.golden_files import check_golden
from tests.unit.test_launch import make_request
from tests.unit.test_launch_slurm import text_of

PLAIN = read_cluster("plain")
SINFO = "cpu*|16\ngpu|96+\ngpu|64\n"


def changed(**keys: object) -> ClusterSpec:
    """Return plain.yaml with other keys."""
    return msgspec.structs.replace(PLAIN, **keys)


def install_sinfo(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let PATH hold this sinfo and no other command."""
    folder.mkdir()
    (folder / "sinfo").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / "sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize(
    ("partition", "cpus"),
    [(None, 2), ("gpu", 8), ("cpu,gpu", 2), ("unlisted", 4)],
)
def test_the_cpus_of_a_node_are_shared_among_its_ranks(
    partition: str | None, cpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight ranks: 16 CPUs on the default partition, at least 64 on gpu, 4 without an answer."""
    install_sinfo(tmp_path / "bin", monkeypatch, f"printf '{SINFO}'")
    cluster = with_node_cpus(changed(cpus_per_rank="node", partition=partition))
    assert cluster.threads_per_rank == cpus
    assert f"#SBATCH --cpus-per-task={cpus}\n" in text_of(cluster, tmp_path)


def test_a_sinfo_that_fails_leaves_four_cpus_and_a_number_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_sinfo(tmp_path / "bin", monkeypatch, "exit 1")
    assert with_node_cpus(changed(cpus_per_rank="node")).threads_per_rank == 4
    assert with_node_cpus(changed(cpus_per_rank=7)).threads_per_rank == 7


@pytest.mark.parametrize("request_", ["gpus-per-node", "gres", "none"])
def test_golden_gpus_are_requested_in_three_ways(request_: str, tmp_path: Path) -> None:
    cluster = changed(gpu_request=request_, memory_gb_per_node="all", gpu_type="h100")
    text = text_of(cluster, tmp_path)
    assert "#SBATCH --mem=0\n" in text
    # With every request a rank may see GPUs: what hides them is for clusters without GPUs.
    assert "CUDA_VISIBLE_DEVICES" not in text
    check_golden(f"sbatch/request_{request_.replace('-', '_')}.sh", text)


@pytest.mark.parametrize(
    ("reason", "keys"),
    [
        ("Invalid generic resource (gres) specification", ["gpu_request", "gpus_per_node"]),
        ("Requested node configuration is not available", ["num_nodes", "gpus_per_node"]),
        ("Invalid account or account/partition combination specified", ["account"]),
        ("Memory specification can not be satisfied", ["memory_gb_per_node"]),
        ("Requested time limit is invalid (missing or exceeds some limit)", ["time_limit_minutes"]),
    ],
)
def test_a_refusal_names_the_lines_of_the_file_and_the_key_that_helps(
    reason: str, keys: list[str], tmp_path: Path
) -> None:
    lines = (CONFIG_FOLDER / "clusters/plain.yaml").read_text(encoding="utf-8").split("\n")
    (tmp_path / "clusters").mkdir()
    path = tmp_path / "clusters/plain.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    explained = explain_refusal(f"sbatch: error: {reason}", PLAIN, tmp_path)
    for key in keys:
        (number,) = [at for at, line in enumerate(lines, 1) if line.startswith(f"{key}:")]
        assert f"{path}:{number}: {key}: " in explained
    assert explain_refusal("sbatch: error: the moon is full", PLAIN, tmp_path) == ""
    path.unlink()
    assert str(path) not in explain_refusal(reason, PLAIN, tmp_path)


def test_a_refused_submission_says_which_key_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_sinfo(tmp_path / "bin", monkeypatch, "exit 1")
    (tmp_path / "bin/sbatch").write_text(
        "#!/bin/sh\necho 'sbatch: error: Invalid generic resource (gres) specification' >&2\n"
        "exit 1\n",
        encoding="utf-8",
    )
    (tmp_path / "bin/sbatch").chmod(0o755)
    request = make_request(tmp_path / "run")
    with pytest.raises(Exception, match=r"gres\) specification") as caught:
        SlurmLauncher(request, PLAIN).submit(request, tmp_path / "code")
    assert "plain.yaml:" in str(caught.value)
    assert "gpu_request: gres asks for GPUs by --gres" in str(caught.value)
    assert sbatch_text(request, PLAIN, tmp_path / "code")
