"""Plans of the project's own scales, and records of trainings that never were, for the tests of
`aiayn plan`.
"""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.paths import train_record
from aiayn.records import TrainRecord, write_record
from aiayn.spec.cluster import ClusterSpec, read_cluster
from aiayn.spec.hardware import read_hardware
from aiayn.spec.system import CONFIG_FOLDER, TrainingSpec, read_scale, read_system
from tests.records_factory import EIGHT_P100, TRAINED

HARDWARE = read_hardware()
PLAIN, CPU = read_cluster("plain"), read_cluster("cpu")
PAPER = read_scale(CONFIG_FOLDER / "paper.yaml")
BASE = read_system("base", "paper").training
# Half of the machine and a twelfth of the time: 4 V100, jobs of 2 hours less 2 minutes to save.
MINE: ClusterSpec = msgspec.structs.replace(
    PLAIN, name="mine", gpu_type="v100", gpus_per_node=4, ranks_per_node=4, time_limit_minutes=120, signal_seconds=120,
    max_num_jobs=20,
)  # fmt: skip


def record_of(training: TrainingSpec, folder: Path, **changes: Any) -> TrainRecord:
    """Write and return the record of base's training with seed 1: an hour on 8 P100, unless
    changed.
    """
    record = msgspec.structs.replace(
        TRAINED,
        run="wmt14_en_de-base-seed1-01234567",
        corpus="wmt14_en_de",
        updates=training.updates,
        wall_seconds=3600.0,
        gpu_seconds=8 * 3600.0,
        hardware=EIGHT_P100,
        training_json=msgspec.json.encode(training).decode(),
    )
    record = msgspec.structs.replace(record, **changes)
    path = train_record(folder / "results", "paper", record.corpus, record.system, record.seed)
    write_record(record, path)
    return record


def leave_free(num_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to so much free disk."""
    usage = shutil.disk_usage("/")._replace(free=num_bytes)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
