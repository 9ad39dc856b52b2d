"""Energy is the difference of the GPUs' own counters, summed over nodes and attempts; without a
counter, why.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from aiayn.records import BinarizedCorpus, Energy, TrainRecord, read_record, total_energy
from aiayn.runs import attempts
from aiayn.train import energy
from aiayn.train.energy import NOT_INSTALLED, EnergyMeter
from tests.engine.hooked_job import Signal
from tests.engine.tiny_training import make_request, train, train_ranks


class FakeNvml(SimpleNamespace):
    """NVML of GPUs that draw 500 J between two readings each; `fault` is raised when a counter is
    read.
    """

    class NVMLError(Exception):
        """What pynvml raises."""

    def __init__(self) -> None:
        super().__init__(
            millijoules={"GPU-a": 7_000_000, "GPU-b": 9_000_000}, num_open=0, fault="", step=500_000
        )

    def nvmlInit(self) -> None:
        self.num_open += 1

    def nvmlShutdown(self) -> None:
        self.num_open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in self.millijoules:
            raise self.NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        assert self.num_open == 1
        if self.fault:
            raise self.NVMLError(self.fault)
        self.millijoules[handle] += self.step
        return int(self.millijoules[handle])


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


NONE = {"joules": None, "gpu_seconds": 0.0}
RESET = "NVML: the counter began anew: the driver was loaded again"


@pytest.mark.parametrize(
    ("changes", "uuids", "drawn"),
    [
        ({}, ["GPU-a", "GPU-b"], Energy(joules=2 * 500.0, gpu_seconds=2 * 30.0)),
        (
            {"fault": "Not Supported"},
            ["GPU-a"],
            Energy(**NONE, reason="NVML: Not Supported"),
        ),  # of a P100
        ({}, ["MIG-x"], Energy(**NONE, reason="NVML: Not Found")),
        ({"step": -1}, ["GPU-a"], Energy(**NONE, reason=RESET)),
        (None, ["GPU-a"], Energy(**NONE, reason=NOT_INSTALLED)),
    ],
)
def test_a_node_has_drawn_what_its_counters_rose_by_or_there_is_a_reason(
    changes: dict[str, object] | None,
    uuids: list[str],
    drawn: Energy,
    nvml: FakeNvml,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vars(nvml).update(changes or {})
    if changes is None:
        monkeypatch.setitem(sys.modules, "pynvml", None)
    now = iter((100.0, 130.0))
    monkeypatch.setattr(energy.time, "monotonic", lambda: next(now))
    assert EnergyMeter(uuids).stop() == drawn
    assert nvml.num_open == 0


def test_nodes_and_attempts_are_added_and_a_missing_counter_is_reported() -> None:
    one = Energy(joules=10.0, gpu_seconds=4.0)
    other = Energy(joules=None, reason="NVML: Not Supported")
    assert total_energy([one, None, one]) == Energy(joules=20.0, gpu_seconds=8.0)
    assert total_energy([one, other]) == Energy(
        joules=10.0, gpu_seconds=4.0, reason="NVML: Not Supported"
    )
    assert total_energy([other, other]) == other
    assert total_energy([None]) is None


def test_a_training_records_what_its_gpus_drew(
    data: BinarizedCorpus, run_folder: Path, nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(energy, "gpu_uuids", lambda *_: ["GPU-a", "GPU-b"])
    record = train(make_request(run_folder, data, updates=10))
    assert record.energy is not None
    assert record.energy.joules == 1000.0
    ended = attempts.read_events(run_folder)[-1]
    assert isinstance(ended, attempts.Ended)
    assert ended.energy == record.energy


def test_the_energy_of_a_stopped_attempt_is_kept(
    data: BinarizedCorpus, run_folder: Path, nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(energy, "gpu_uuids", lambda *_: ["GPU-a"])
    assert train_ranks(make_request(run_folder, data, updates=20), {0: Signal(update=12)}) == [0]
    first = attempts.summarise_attempts(attempts.read_events(run_folder)).energy
    assert first is not None
    assert first.joules == 500.0
    record = train(make_request(run_folder, data, updates=20))
    assert record.energy is not None
    assert record.energy.joules == 1000.0


def test_rank_0_gathers_the_energy_of_other_nodes(
    data: BinarizedCorpus, run_folder: Path, nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ranks, each taken for the first of its node: two meters of 500 J."""
    metered = energy.metered

    def of_its_own_node(
        tally: object, request: object, rank: object, line: object, device: object
    ) -> object:
        return metered(tally, request, replace(rank, local_rank=0), line, device)  # type: ignore[arg-type, type-var]

    monkeypatch.setattr(energy, "gpu_uuids", lambda *_: ["GPU-a"])
    monkeypatch.setattr("aiayn.train.train.metered", of_its_own_node)
    assert train_ranks(make_request(run_folder, data, updates=10, num_ranks=2)) == [0, 0]
    record = read_record(run_folder / attempts.DONE_NAME, TrainRecord)
    assert record.energy is not None
    assert record.energy.joules == 1000.0


def test_a_training_on_a_cpu_has_no_energy(finished: TrainRecord) -> None:
    assert finished.energy is None
