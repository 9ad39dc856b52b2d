"""The files of clusters, and what is refused in one."""

from pathlib import Path

import pytest

from aiayn.errors import ConfigError
from aiayn.launch.cluster_spec import read_cluster
from aiayn.spec import CONFIG_FOLDER

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
        ("sbatch_lines: {}  ", "sbatch_lines: {job-name: x}", "expected no 'job-name', which is not to be set here"),
        ("sbatch_lines: {}  ", "sbatch_lines: {--exclusive: ''}", "expected no '--exclusive', which is not to"),
        ("name: plain", "name: ours", "name is 'ours'; expected 'plain', as the file is called"),
    ],
)
def test_a_fault_is_named_with_its_file_and_line(tmp_path: Path, old: str, new: str, fault: str) -> None:
    line = 1 + PLAIN[: PLAIN.index(old)].count("\n")
    with pytest.raises(ConfigError) as caught:
        read_cluster("plain", edited(tmp_path, old, new))
    assert f"plain.yaml:{line}: " in str(caught.value)
    assert fault in str(caught.value)


def test_without_the_file_those_that_there_are_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ours.yaml: no such cluster; known: plain; copy one of them"):
        read_cluster("ours", edited(tmp_path, "name: plain", "name: plain "))
