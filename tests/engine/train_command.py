"""`aiayn train` of the tiny system in place of whatever is named: python -m
tests.engine.train_command HOOKS -- ...

HOOKS is a JSON list of hooks for the first jobs.
"""

import sys
from pathlib import Path

import msgspec

import aiayn.spec.system
from aiayn.__main__ import main
from aiayn.spec.system import CONFIG_FOLDER, SystemSpec
from tests.engine.hooked_job import AnyHook, hooked
from tests.engine.tiny_spec import DECODING, TRAINING


def read_tiny_system(name: str, scale: str, config_folder: Path = CONFIG_FOLDER) -> SystemSpec:
    """Return the tiny system, whatever was asked for."""
    return SystemSpec(
        name=name, description="for these tests", training=TRAINING, decoding=DECODING
    )


if __name__ == "__main__":
    aiayn.spec.system.read_system = read_tiny_system
    with hooked(*msgspec.json.decode(sys.argv[1], type=list[AnyHook])):
        sys.exit(main(sys.argv[3:]))
