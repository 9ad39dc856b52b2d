"""Keeps what the doctor reads of a planted run as a fixture, and puts a fixture together as any
other folder.

`fixtures/clean` is whole: log, data-bin (packed), records, translations, references. A fault's
folder holds the files that differ. A fixture does not name the machine on which it was made.

`fixtures/clean_multi30k` was made once, from a base of Multi30k with `updates: 500`. The text may
not be redistributed, so that the fixture has numbers in place of symbols and no test set.
"""

import io
import json
import lzma
import re
import shutil
import tarfile
from pathlib import Path
from typing import IO, cast

from aiayn.records import TrainRecord, read_record
from tests.doctor.faults import CLEAN, MULTI30K, Fault
from tests.doctor.planting import RESULTS, SCORED, TESTSET, evaluated_average

FIXTURES_FOLDER = Path(__file__).parent / "fixtures"
DATA_BIN_NAME, PACKED_NAME = "data-bin", "data-bin.tar.xz"
REFERENCES_NAME = "references.txt"
_HOME = re.compile(r"/[\w./-]*/(?=(?:workflow|runs|results)/)")


def write_fixture(fault: Fault, copy: Path, fixtures_folder: Path = FIXTURES_FOLDER) -> None:
    """Write what a planted run made into its fixture's folder; what the clean one's holds too is
    left out.
    """
    average = evaluated_average(fault)
    results, evaluated = copy / RESULTS, f"{SCORED}/{average}"
    train = read_record(results / f"train/{SCORED}.json", TrainRecord)
    files = {
        f"{average}.json": results / f"average/{evaluated}.json",
        f"{TESTSET}.json": results / f"decode/{evaluated}/{TESTSET}.json",
        f"{TESTSET}.txt": results / f"decode/{evaluated}/{TESTSET}.txt",
        f"{TESTSET}.pieces.txt": results / f"decode/{evaluated}/{TESTSET}.pieces.txt",
        "scores.json": results / f"score/{evaluated}/{TESTSET}.json",
        REFERENCES_NAME: results / f"fetch/demo_en_de/{TESTSET}.de",
        "train.log": train.log_path,
    }
    contents = {name: without_machine(path.read_bytes(), name) for name, path in files.items()}
    contents[PACKED_NAME] = packed(results / "binarize/demo_en_de" / DATA_BIN_NAME)
    write_contents(contents, fault, fixtures_folder)


def write_contents(contents: dict[str, bytes], fault: Fault, fixtures_folder: Path) -> None:
    """Replace a fixture's folder by these files."""
    target, clean = fixtures_folder / fault.name, fixtures_folder / CLEAN.name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name, content in contents.items():
        is_shared = (
            fault is not CLEAN
            and (clean / name).exists()
            and (clean / name).read_bytes() == content
        )
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


def packed(data_bin_folder: Path) -> bytes:
    """Return a data-bin as a compressed archive, the same bytes for the same files."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as members:
        for path in sorted(data_bin_folder.iterdir()):
            member = tarfile.TarInfo(f"{DATA_BIN_NAME}/{path.name}")
            member.size, member.mode = path.stat().st_size, 0o644
            members.addfile(member, io.BytesIO(path.read_bytes()))
    return lzma.compress(archive.getvalue(), preset=9)


def assemble(name: str, folder: Path, fixtures_folder: Path = FIXTURES_FOLDER) -> Path:
    """Write the folder of a fixture: the files of `clean`, then the fault's own files, with the
    data-bin unpacked.
    """
    folder.mkdir(parents=True)
    layers = (
        [fixtures_folder / name]
        if name == MULTI30K
        else [fixtures_folder / CLEAN.name, fixtures_folder / name]
    )
    for layer in layers:
        for path in sorted(layer.iterdir()):
            shutil.copyfile(path, folder / path.name)
    packed_path = folder / PACKED_NAME
    with tarfile.open(packed_path) as members:
        for (
            member
        ) in members:  # by hand: `filter` of extractall came with Python 3.11.4, Debian's is older
            path = folder / member.name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(cast(IO[bytes], members.extractfile(member)).read())
    packed_path.unlink()
    return folder
