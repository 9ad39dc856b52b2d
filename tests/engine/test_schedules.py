"""Schedules of faults around one run: it ends as done, and never has two writers.

A failing schedule repeats by its seed: `Simulation(folder, seed, kind).run()`, then look at
`events`.
"""

from pathlib import Path

import pytest

from tests.engine.simulated_cluster import Locks, Simulation

KINDS: tuple[Locks, ...] = ("work", "of one host", "fail")
NUM_QUICK, NUM_SLOW = 7, 250  # of each kind


def play(folder: Path, seed: int, kind: Locks) -> Simulation:
    """Play one schedule in a folder of its own."""
    simulation = Simulation(folder / f"{kind}{seed}", seed, kind)
    simulation.run()
    return simulation


def require_good_schedules(folder: Path, seeds: range, kind: Locks) -> None:
    """Play schedules. Each must end as done, without two writers or an unexpected error."""
    for seed in seeds:
        simulation = play(folder, seed, kind)
        errors = [event for event in simulation.events if event.startswith("ERROR")]
        assert (simulation.is_done, simulation.has_two_writers, errors) == (True, False, []), (
            f"seed {seed}, locks {kind}: {simulation.events}"
        )


@pytest.mark.parametrize("kind", KINDS)
def test_every_schedule_ends_as_done_with_one_writer_at_a_time(tmp_path: Path, kind: Locks) -> None:
    require_good_schedules(tmp_path, range(NUM_QUICK), kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_hundreds_of_schedules_end_as_done(tmp_path: Path, kind: Locks) -> None:
    """The first seven of each kind are quick tests of the same lines."""
    require_good_schedules(tmp_path, range(NUM_QUICK, NUM_QUICK + NUM_SLOW), kind)


def stray_writes(folder: Path, kind: Locks, seeds: range) -> list[int]:
    """Return the schedules in which machines stand still, and a rank that wakes up saves beside its
    successor.
    """
    strays = []
    for seed in seeds:
        simulation = Simulation(folder / f"{kind}{seed}", seed, kind, freezes=True)
        simulation.run()
        strays += [seed] * simulation.has_stray_write
    return strays


@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_that_wakes_up_beside_its_successor_saves_nothing(
    tmp_path: Path, kind: Locks
) -> None:
    assert stray_writes(tmp_path, kind, range(NUM_QUICK)) == []


def test_a_schedule_repeats_by_its_seed(tmp_path: Path) -> None:
    first, second = play(tmp_path / "a", 3, "fail"), play(tmp_path / "b", 3, "fail")
    assert first.events == second.events != []
    assert first.seconds == second.seconds
