"""The pipeline itself, with real trainings of a few updates: its tables are those from its logs and
records alone.
"""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiayn.__main__ import main

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[2]
DEMO = str(CHECKOUT / "workflow" / "config" / "demo.yaml")
# base is averaged over 5 checkpoints, one every 20 updates
SMALL = (
    "only=demo_en_de/base:1 table3_c_n2:1",
    "has_baselines=false",
    "updates=81",
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a working directory in which the pipeline trained, decoded and scored two systems."""
    folder = tmp_path_factory.mktemp("trained")
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--snakefile",
        str(CHECKOUT / "Snakefile"),
        "--cores",
        "2",
        "--directory",
        str(folder),
        "--configfile",
        DEMO,
        "--config",
        *SMALL,
    ]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    outcome = subprocess.run(
        command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return folder


def assert_same_tables(made: Path, pipeline: Path) -> None:
    """Check that every file of ours that was rendered from logs is the pipeline's. Page and
    README.md are not.
    """
    names = [
        path.relative_to(made).as_posix()
        for path in made.rglob("*")
        if path.suffix in (".tsv", ".csv", ".md", ".tex") and path.name != "README.md"
    ]
    assert {"scores.tsv", "tables/table2.csv", "tables/table3.csv", "tables/conclusions.md"} <= set(
        names
    )
    assert [
        name for name in names if (made / name).read_bytes() != (pipeline / name).read_bytes()
    ] == []


def test_tables_from_logs_are_the_pipelines_cell_by_cell(trained: Path, tmp_path: Path) -> None:
    arguments = ["--output", str(tmp_path / "out")]
    assert (
        main(["tables", "--from-logs", str(trained / "runs"), str(trained / "results"), *arguments])
        == 0
    )
    assert_same_tables(tmp_path / "out" / "demo", trained / "results" / "demo")
    with (tmp_path / "out" / "tables" / "logs.csv").open(encoding="utf-8", newline="") as lines:
        listed = [row for row in csv.DictReader(lines) if not row["file"].endswith("(other files)")]
    assert [row["fills"] for row in listed] == ["the tables of scale demo, by its records"] * 2
    assert not [row["why_not"] for row in listed if "log-and-record-agree" in row["why_not"]]


def test_a_pack_of_the_pipelines_runs_has_its_tables(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained)
    assert (
        main(
            [
                "pack",
                "--configfile",
                DEMO,
                "--config",
                *SMALL,
                "--output",
                str(tmp_path / "measured"),
            ]
        )
        == 0
    )
    assert_same_tables(tmp_path / "measured" / "demo", trained / "results" / "demo")
    arguments = ["--output", str(tmp_path / "out")]
    assert main(["tables", "--from-logs", str(tmp_path / "measured"), *arguments]) == 0
    assert_same_tables(tmp_path / "out" / "demo", trained / "results" / "demo")
    for path in (tmp_path / "measured").rglob("*.json"):
        assert str(trained) not in path.read_text(encoding="utf-8"), path
