"""`aiayn train`, or another verb, of a tiny, slow system, on a cluster of the tests' own.

    python -m tests.slurm.train_command SETTINGS -- VERB ...

SETTINGS is the path of a JSON file of `Settings`.
"""

import contextlib
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import msgspec

import aiayn.spec.cluster
import aiayn.spec.system
from aiayn.__main__ import main
from aiayn.launch.job import TrainingJob
from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.system import CONFIG_FOLDER, SystemSpec, TrainingSpec
from aiayn.train.request import TrainingRequest
from tests.engine.tiny_spec import DECODING
from tests.slurm.no_locks import no_locks
from tests.slurm.slow_job import SlowJob


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in place of the files that the command names."""

    training: TrainingSpec
    cluster: ClusterSpec
    seconds_per_update: float
    has_locks: bool = True
    num_loaders: int = 0


def run(settings: Settings, arguments: list[str]) -> int:
    """Run the command with the settings in place."""

    def read_system(name: str, scale: str, config_folder: Path = CONFIG_FOLDER) -> SystemSpec:
        return SystemSpec(
            name=name, description="for these tests", training=settings.training, decoding=DECODING
        )

    def read_cluster(name: str, config_folder: Path = CONFIG_FOLDER) -> ClusterSpec:
        return settings.cluster

    make_job: Callable[[TrainingRequest], TrainingJob] = functools.partial(
        SlowJob,
        seconds_per_update=settings.seconds_per_update,
        has_locks=settings.has_locks,
        num_loaders=settings.num_loaders,
    )
    if settings.has_locks and not settings.seconds_per_update:
        make_job = TrainingJob  # a job's container may not have these tests
    with (
        contextlib.nullcontext() if settings.has_locks else no_locks(),
        mock.patch.object(aiayn.spec.system, "read_system", read_system),
        mock.patch.object(aiayn.spec.cluster, "read_cluster", read_cluster),
        mock.patch("aiayn.launch.slurm.launcher.TrainingJob", make_job),
        mock.patch("aiayn.launch.local.TrainingJob", make_job),
    ):
        return main(arguments)


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_bytes()
    sys.exit(run(msgspec.json.decode(text, type=Settings), sys.argv[3:]))
