"""The files of clusters are read, and wrong values in them are refused."""

from pathlib import Path

import pytest

from aiayn.spec.cluster import read_cluster
from aiayn.spec.system import CONFIG_FOLDER

PLAIN = (CONFIG_FOLDER / "clusters" / "plain.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in (CONFIG_FOLDER / "clusters").glob("*.yaml"))
)
def test_every_shipped_cluster_is_whole(name: str) -> None:
    assert read_cluster(name).num_ranks == 8


def test_the_examples_of_the_shipped_files_are_valid(tmp_path: Path) -> None:
    """Their comments hold a whole container by pyxis, and another way to start Python."""
    (tmp_path / "clusters").mkdir()
    shown = [line.removeprefix("#   ") for line in PLAIN.split("\n") if line.startswith("#   ")]
    (tmp_path / "clusters" / "plain.yaml").write_text(
        "\n".join(
            shown[:2]
            + [
                line
                for line in PLAIN.split("\n")
                if not line.startswith(("srun_options:", "python:"))
            ]
        ),
        encoding="utf-8",
    )
    cluster = read_cluster("plain", tmp_path)
    assert cluster.srun_options["container-mounts"] == "/scratch:/scratch"
    assert cluster.python == "python3"
    assert shown[2].startswith("python: apptainer exec --nv ")
    assert len(shown) == 3
