"""The faults that come first: a rank or a driver dies, Slurm requeues, the time is up. `make faults` tries them all."""

from pathlib import Path

import pytest

from aiayn.records import BinarizedCorpus
from tests.slurm.cluster import Cluster
from tests.slurm.faults import Outcome, all_faults, table_of, try_fault
from tests.slurm.tiny_data import make_tiny_data

FIRST = ("rank_killed", "driver_killed", "requeued_by_hand", "time_limit")
Digests = tuple[str, str]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> BinarizedCorpus:
    """Return a data-bin."""
    return make_tiny_data(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def undisturbed(cluster: Cluster, data: BinarizedCorpus, tmp_path_factory: pytest.TempPathFactory) -> Digests:
    """Return what the training ends with when nothing happens to it."""
    folder = tmp_path_factory.mktemp("undisturbed") / "scene"
    outcome = try_fault("undisturbed", all_faults()["undisturbed"], cluster, folder, data)
    assert outcome.error is None, outcome.error
    assert outcome.digests is not None
    return outcome.digests


@pytest.mark.parametrize("name", FIRST)
def test_it_ends_with_the_tensors_of_an_undisturbed_run(
    name: str, on_cluster: Cluster, data: BinarizedCorpus, undisturbed: Digests, tmp_path: Path
) -> None:
    outcome = try_fault(name, all_faults()[name], on_cluster, tmp_path / "scene", data)
    assert outcome.error is None, outcome.error
    assert outcome.digests == undisturbed


def outcome_with(*, digests: Digests | None = ("abc", "def"), error: str | None = None) -> Outcome:
    """Return the outcome of a fault that cost 5 updates and 12 s."""
    return Outcome("rank_killed", "KILL", 2, 12.3, 5, digests, 34.5, error)


def test_the_table_tells_each_fault_on_a_line() -> None:
    *_, line = table_of([outcome_with()], ("abc", "def")).splitlines()
    assert line == "| rank killed | KILL | 2 | 12 | 5 | abc | 34 | as it must be |"


@pytest.mark.parametrize(
    "outcome",
    [outcome_with(digests=("abc", "other")), outcome_with(digests=None), outcome_with(error="the driver hangs")],
)
def test_other_tensors_or_another_end_are_told(outcome: Outcome) -> None:
    assert not outcome.is_well(("abc", "def"))
    assert table_of([outcome], ("abc", "def")).endswith("| NOT |\n")


def test_every_kind_of_fault_is_tried() -> None:
    """The list of the contract, beside which stand `undisturbed` and finer ones."""
    assert set(all_faults()) >= {
        "rank_killed", "training_cancelled", "preempted_and_requeued", "preempted_and_gone", "time_limit",
        "last_time_limit", "node_lost", "controller_restarted", "controller_killed", "accounting_away",
        "driver_interrupted", "driver_terminated", "driver_hung_up", "driver_killed", "full_disk", "torn_checkpoint",
        "two_drivers",
    }  # fmt: skip
