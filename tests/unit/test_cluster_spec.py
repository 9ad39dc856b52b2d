"""The files of clusters, and what is refused in one."""

from pathlib import Path

import pytest

from aiayn.errors import ConfigError
from aiayn.spec.cluster import read_cluster
from aiayn.spec.system import CONFIG_FOLDER

PLAIN = (CONFIG_FOLDER / "clusters" / "plain.yaml").read_text(encoding="utf-8")


def edited(tmp_path: Path, old: str, new: str) -> Path:
    (tmp_path / "clusters").mkdir()
    assert PLAIN.count(old) == 1
    (tmp_path / "clusters" / "plain.yaml").write_text(PLAIN.replace(old, new), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONFIG_FOLDER / "clusters").glob("*.yaml")))
def test_every_shipped_cluster_is_whole(name: str) -> None:
    assert read_cluster(name).num_ranks == 8


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("partition: null", "partion: null", "unknown key 'partion'"),
        ("gpus_per_node: 8 ", "gpus_per_node: 4 ", "gpus_per_node is 4; expected 0, or ranks_per_node"),
        ("signal_seconds: 120 ", "signal_seconds: 86400 ", "signal_seconds is 86400; expected above 0 and below"),
        ("num_nodes: 1", "num_nodes: 0", "num_nodes is 0; expected a whole number of 1 or more"),
        ("poll_seconds: 15.0", "poll_seconds: 0.0", "poll_seconds is 0.0; expected a number of seconds above 0"),
        ("sbatch_lines: {}  ", "sbatch_lines: {job-name: x}", "expected no 'job-name'"),
        ("sbatch_lines: {}  ", "sbatch_lines: {--exclusive: ''}", "expected no '--exclusive'"),
        ("sbatch_lines: {}  ", "sbatch_lines: {exp: NONE}", "expected no 'exp'"),
        *(
            ("sbatch_lines: {}  ", f"sbatch_lines: {{{name}: x}}", f"expected no '{name}'")
            for name in ("clusters", "cluster", "parsable", "quiet", "wait", "test-only", "test_only", "chdir")
        ),
        ("srun_options: {}  ", "srun_options: {chdir: /}", "expected no 'chdir'"),
        ("srun_options: {}  ", "srun_options: {clusters: gpu}", "expected no 'clusters'"),
        ("srun_options: {}  ", "srun_options: {kill-on-bad-exit: '0'}", "expected no 'kill-on-bad-exit'"),
        ("srun_options: {}  ", "srun_options: {cpus_per_task: '1'}", "expected no 'cpus_per_task'"),
        ("srun_options: {}  ", "srun_options: {export: NONE}", "expected no 'export'"),
        (
            "srun_options: {}  ",
            "srun_options: {container-image=a: ''}",
            "expected no 'container-image=a'",
        ),
        ("srun_options: {}  ", "srun_options: [pty]", "srun_options"),
        ("python: null  ", "python: ''", "python is ''; expected null, or one command on one line, which Python's own"),
        ("python: null  ", "python: module load x && python", "python is 'module load x && python'; expected null, or"),
        ("python: null  ", "python: 'python3 # ours'", "python is 'python3 # ours'; expected null, or one command on"),
        (
            "python: null  ",
            "python: apptainer exec 'a.sif python",
            'python is "apptainer exec \'a.sif python"; expected',
        ),
        ("python: null  ", 'python: "python3\\n"', "python is 'python3\\n'; expected null, or one command on one line"),
        ("name: plain", "name: ours", "name is 'ours'; expected 'plain', as the file is called"),
    ],
)
def test_a_fault_is_named_with_its_file_and_line(tmp_path: Path, old: str, new: str, fault: str) -> None:
    line = 1 + PLAIN[: PLAIN.index(old)].count("\n")
    with pytest.raises(ConfigError) as caught:
        read_cluster("plain", edited(tmp_path, old, new))
    assert f"plain.yaml:{line}: " in str(caught.value)
    assert fault in str(caught.value)


def test_a_cluster_file_from_before_containers_is_read(tmp_path: Path) -> None:
    """People keep copies of the shipped files."""
    (tmp_path / "clusters").mkdir()
    older = [line for line in PLAIN.split("\n") if not line.startswith(("srun_options:", "python:"))]
    (tmp_path / "clusters" / "plain.yaml").write_text("\n".join(older), encoding="utf-8")
    assert read_cluster("plain", tmp_path) == read_cluster("plain")


def test_the_examples_of_the_shipped_files_are_valid(tmp_path: Path) -> None:
    """Their comments hold a whole container by pyxis, and another way to start Python."""
    (tmp_path / "clusters").mkdir()
    shown = [line.removeprefix("#   ") for line in PLAIN.split("\n") if line.startswith("#   ")]
    (tmp_path / "clusters" / "plain.yaml").write_text(
        "\n".join(
            shown[:2] + [line for line in PLAIN.split("\n") if not line.startswith(("srun_options:", "python:"))]
        ),
        encoding="utf-8",
    )
    cluster = read_cluster("plain", tmp_path)
    assert cluster.srun_options["container-mounts"] == "/scratch:/scratch"
    assert cluster.python == "python3"
    assert shown[2].startswith("python: apptainer exec --nv ")
    assert len(shown) == 3


def test_without_the_file_those_that_there_are_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ours.yaml: no such cluster; known: plain; copy one of them"):
        read_cluster("ours", edited(tmp_path, "name: plain", "name: plain "))
