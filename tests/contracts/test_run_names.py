"""The names of runs do not change: a finished training is found by its name.

`run_names.tsv` has the digest in the name of each shipped system's run, for seed 1 and a data-bin
whose digest is 64 zeros. A changed digest would train every such run again.
"""

import csv
from pathlib import Path

from aiayn.spec.system import CONFIG_FOLDER, read_system, run_name
from aiayn.stages import STAGE_VERSIONS

NAMES_PATH = Path(__file__).with_name("run_names.tsv")


def digest_of(scale: str, system: str) -> str:
    """Return the last part of the name of a system's run."""
    name = run_name(
        corpus="corpus",
        system=system,
        seed=1,
        training=read_system(system, scale).training,
        data_digest="0" * 64,
        stage_version=STAGE_VERSIONS["train"],
    )
    return name.rpartition("-")[2]


def test_the_runs_of_all_shipped_systems_have_the_names_that_they_had() -> None:
    with NAMES_PATH.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    expected = {(row["scale"], row["system"]): row["digest"] for row in rows}
    shipped = sorted(
        (path.parent.name, path.stem) for path in (CONFIG_FOLDER / "systems").glob("*/*.yaml")
    )
    digests = {(scale, system): digest_of(scale, system) for scale, system in shipped}
    assert digests == expected, f"a new system needs a line in {NAMES_PATH.name}; no line changes"
