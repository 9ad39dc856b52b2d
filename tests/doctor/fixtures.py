"""Lays what the doctor reads of a planted run out as the pipeline would have.

`fixtures/clean` has a log and two records of base at the scale of the demo. A fault's folder holds
the files that differ: they were made by the pipeline with the fault in it, without the name of the
machine. `fixtures/clean_multi30k` is the log of a base of Multi30k with `updates: 500`.
"""

import shutil
from pathlib import Path

import msgspec

from aiayn.records import Hypotheses, read_record, write_record
from tests.doctor.faults import CLEAN
from tests.records_factory import TRAINED

FIXTURES_FOLDER = Path(__file__).parent / "fixtures"
TESTSET = "demo_test"
SCORED = "demo_en_de/base/seed1"


def assemble(name: str, folder: Path, fixtures_folder: Path = FIXTURES_FOLDER) -> Path:
    """Write the files of `clean` into a new folder, then the fault's own files."""
    folder.mkdir(parents=True)
    for layer in (CLEAN.name, name):
        shutil.copytree(fixtures_folder / layer, folder, dirs_exist_ok=True)
    return folder


def lay_out(made: Path, folder: Path) -> Path:
    """Lay assembled files out as the pipeline would have, and return the results folder."""
    scale = folder / "results" / "demo"
    decoded = read_record(made / f"{TESTSET}.json", Hypotheses)
    for verb, source in (("decode", f"{TESTSET}.json"), ("score", "scores.json")):
        path = scale / verb / SCORED / decoded.average / f"{TESTSET}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made / source, path)
    trained = msgspec.structs.replace(
        TRAINED, run=decoded.run, updates=700, log_path=made / "train.log"
    )
    write_record(trained, scale / "train" / f"{SCORED}.json")
    return folder / "results"


def results_of(name: str, folder: Path) -> Path:
    """Return the results folder of a fixture, laid out below a folder."""
    return lay_out(assemble(name, folder / "made"), folder)
