"""Measures the energy of a training's GPUs by NVML's counter: one rank per node reads it before and
after training.

The counter is the GPU's own, in millijoules since its driver was loaded, of Volta and newer. It
counts all processes on the GPU. It is not read in between, so that no update waits for it.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence

import msgspec
import torch

from aiayn.records import Energy, total_energy
from aiayn.train.ranks import Rank, RankGroup
from aiayn.train.request import TrainingRequest

GATHER_SECONDS = 30.0
NOT_INSTALLED = "nvidia-ml-py is not installed, a part of the extra [train]"


class EnergyTally:
    """The energy of a training, as far as it is known; complete on rank 0 only."""

    energy: Energy | None = None


class EnergyMeter:
    """The counters of some GPUs, read when it is made and at `stop`."""

    def __init__(self, uuids: Sequence[str]) -> None:
        self._uuids = uuids
        self._begin_seconds = time.monotonic()
        self._begin = read_millijoules(uuids)

    def stop(self) -> Energy:
        """Return the energy since the meter was made; without a counter, the reason."""
        end = read_millijoules(self._uuids)
        for counter in (self._begin, end):
            if isinstance(counter, str):
                return Energy(joules=None, reason=counter)
        assert isinstance(self._begin, int)
        assert isinstance(end, int)
        if end < self._begin:
            return Energy(
                joules=None, reason="NVML: the counter began anew: the driver was loaded again"
            )
        seconds = time.monotonic() - self._begin_seconds
        return Energy(joules=(end - self._begin) / 1000, gpu_seconds=seconds * len(self._uuids))


def read_millijoules(uuids: Sequence[str]) -> int | str:
    """Return the sum of the counters of these GPUs, or in words why they cannot be read."""
    try:
        import pynvml
    except ImportError:
        return NOT_INSTALLED
    try:
        pynvml.nvmlInit()
        try:
            handles = [pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids]
            return sum(
                int(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) for handle in handles
            )
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return f"NVML: {error}"


def gpu_uuids(request: TrainingRequest, device: str) -> list[str]:
    """Return the GPUs of this node that the training's ranks use, as NVML names them; none on a
    CPU.

    Each rank has the GPU of its index on the node. A run without a cluster has one node.
    """
    if device == "cpu":
        return []
    num_gpus = min(request.gpus_per_node or request.num_ranks, torch.cuda.device_count())
    return [f"GPU-{torch.cuda.get_device_properties(index).uuid}" for index in range(num_gpus)]


@contextlib.contextmanager
def metered(
    tally: EnergyTally, request: TrainingRequest, rank: Rank, group: RankGroup, device: str
) -> Iterator[None]:
    """Meter the block; at its end, rank 0's `tally` holds the energy of all nodes.

    After an error it holds only its own node's energy, because other ranks may have failed, too. A
    signal to stop does not count as an error.
    """
    uuids = gpu_uuids(request, device) if rank.local_rank == 0 else []
    meter, has_failed = EnergyMeter(uuids) if uuids else None, False
    try:
        yield
    except Exception:
        has_failed = True
        raise
    finally:
        tally.energy = meter.stop() if meter else None
        if not has_failed:
            texts = [msgspec.json.encode(tally.energy).decode()]
            with contextlib.suppress(RuntimeError):  # a rank may be gone
                texts = group.gather(texts[0], within_seconds=GATHER_SECONDS)
            tally.energy = total_energy(
                msgspec.json.decode(text, type=Energy | None) for text in texts
            )
