"""Keeps what the doctor reads of a planted run as a fixture, and lays a fixture out as the pipeline
would have.

`fixtures/clean` has a log and two records. A fault's folder holds the files that differ. A fixture
does not name the machine on which it was made. `fixtures/clean_multi30k` is the log of a base of
Multi30k with `updates: 500`.
"""

import json
import re
import shutil
from pathlib import Path

import msgspec

from aiayn.records import Hypotheses, TrainRecord, read_record, write_record
from tests.doctor.faults import CLEAN, Fault
from tests.doctor.planting import RESULTS, SCORED, TESTSET, evaluated_average
from tests.records_factory import TRAINED

FIXTURES_FOLDER = Path(__file__).parent / "fixtures"
_HOME = re.compile(r"/[\w./-]*/(?=(?:workflow|runs|results)/)")


def write_fixture(fault: Fault, copy: Path, fixtures_folder: Path = FIXTURES_FOLDER) -> None:
    """Write what a planted run made into its fixture's folder; what the clean one's holds too is
    left out.
    """
    results, evaluated = copy / RESULTS, f"{SCORED}/{evaluated_average(fault)}"
    train = read_record(results / f"train/{SCORED}.json", TrainRecord)
    files = {
        f"{TESTSET}.json": results / f"decode/{evaluated}/{TESTSET}.json",
        "scores.json": results / f"score/{evaluated}/{TESTSET}.json",
        "train.log": train.log_path,
    }
    target, clean = fixtures_folder / fault.name, fixtures_folder / CLEAN.name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name, path in files.items():
        content = without_machine(path.read_bytes(), name)
        is_shared = fault is not CLEAN and (clean / name).read_bytes() == content
        if not is_shared:
            (target / name).write_bytes(content)


def without_machine(content: bytes, name: str) -> bytes:
    """Return a file without the folders above the project's, and a record without its host."""
    text = _HOME.sub("", content.decode("utf-8"))
    text = re.sub(r"'(/[^']*)/(data-bin)'", r"'\2'", text)
    if name.endswith(".json"):
        record = json.loads(text)
        record["provenance"] |= {"host": "", "input_sha256_by_path": {}}
        text = json.dumps(record, indent=1) + "\n"
    return text.encode("utf-8")


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
