"""The faults that come first: a rank or a driver dies, Slurm requeues, the time is up. `make
faults` tries them all.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.engine.tiny_data import make_tiny_data
from tests.slurm.cluster import Cluster
from tests.slurm.fault_scene import Comparison
from tests.slurm.faults import HEADER, WELL, Digests, Outcome, all_faults, table_of, try_fault

FIRST = (
    "time_limit",
    "requeued_by_hand",
    "rank_killed",
    "driver_killed",
)  # those that last longest come first
SIDE_BY_SIDE = 2  # most of their time is waiting; more would crowd a machine of two cores
TABLE_PATH = Path(__file__).with_name("faults.md")


@pytest.fixture(scope="module")
def outcome_by_fault(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    """Return what came of each fault, and of nothing at all."""
    folder = tmp_path_factory.mktemp("scenes")
    data = make_tiny_data(folder / "corpus")
    faults = all_faults()
    names = (*FIRST, "undisturbed")
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        outcomes = pool.map(
            lambda name: try_fault(name, faults[name], cluster, folder / name, data), names
        )
        return dict(zip(names, outcomes, strict=True))


@pytest.mark.parametrize("name", FIRST)
def test_it_ends_with_the_tensors_of_an_undisturbed_run(
    name: str, outcome_by_fault: dict[str, Outcome]
) -> None:
    undisturbed, outcome = outcome_by_fault["undisturbed"], outcome_by_fault[name]
    assert undisturbed.error is None, undisturbed.error
    assert undisturbed.digests is not None
    assert outcome.error is None, outcome.error
    assert outcome.digests == undisturbed.digests


def outcome_with(
    *,
    digests: Digests | None = ("abc", "def"),
    error: str | None = None,
    compared_with: Comparison = "undisturbed",
) -> Outcome:
    """Return the outcome of a fault that cost 5 updates and 12 s."""
    return Outcome(
        name="rank_killed",
        what="KILL",
        num_attempts=2,
        recovered_after=12.3,
        num_updates_lost=5,
        digests=digests,
        seconds=34.5,
        error=error,
        compared_with=compared_with,
    )


def test_other_tensors_an_error_or_a_training_that_had_to_be_refused_are_noticed() -> None:
    for outcome in (
        outcome_with(digests=("abc", "other")),
        outcome_with(digests=None),
        outcome_with(error="the driver hangs", compared_with="own"),
        outcome_with(compared_with="none"),  # trained what it had to refuse
    ):
        assert not outcome.is_well(("abc", "def"))
        assert table_of([outcome], ("abc", "def")).endswith("| NOT |\n")
    assert outcome_with(digests=("other", "other"), compared_with="own").is_well(("abc", "def"))
    assert outcome_with(digests=None, compared_with="none").is_well(("abc", "def"))


def test_the_kept_table_has_every_fault_once_and_each_as_it_must_be() -> None:
    lines = [
        line.strip("| ").split(" | ")
        for line in TABLE_PATH.read_text(encoding="utf-8").splitlines()
    ]
    header, _, *rows = [line for line in lines if len(line) == len(HEADER)]
    assert tuple(header) == HEADER
    assert [row[0] for row in rows] == [name.replace("_", " ") for name in all_faults()]
    assert {row[-1] for row in rows} == {WELL}
