"""Reads every number of the Multi30k pack under its key, and keeps those that commit d02d6d88 shipped.

    python -m tests.packs.first_numbers

writes `first_numbers.tsv.xz` again from git: a sorted line for each number, with file, row, column
and value. The value of a cell of a table is its text, without marks.
"""

import csv
import io
import lzma
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from aiayn.printed import read_table

COMMIT = "d02d6d88"
FIRST_NUMBERS_PATH = Path(__file__).with_name("first_numbers.tsv.xz")
PACK = "paper_tables/measured/multi30k"
STUDY = "paper_tables/measured/study"
# The columns that are the key of a row. All others are values.
KEY_BY_FILE = {
    "scores.tsv": ("corpus", "system", "seed", "average", "testset", "metric"),
    "summary.tsv": ("corpus", "system", "average", "testset", "metric"),
    "verdicts.tsv": ("table", "row", "column", "edition"),
    "tables/table2.csv": ("model",),
    "tables/table3.csv": ("system",),
    "tables/conclusions.csv": ("rows", "metric"),
    "tables/costs.csv": ("system",),
    "tables/replications.csv": ("row",),
    "tables/testsets.csv": ("corpus", "system", "average"),
    "tables/horizon.csv": ("row", "kind", "seeds"),
    "tables/readings.csv": ("kind", "reading"),
}
NO_NUMBERS = ("marks", "signature", "hypotheses_sha256", "run", "commit", "sentence", "elsewhere")
MARK = re.compile(r" \[[^\]]*\]")
NumberKey = tuple[str, str, str]  # file, row, column


def read_numbers(read: Callable[[str], str], *, is_first: bool = False) -> dict[NumberKey, str]:
    """Return the numbers of a pack; `read` returns the text of a file.

    The first Table 3 had no column for the system: its printed rows are in the order of
    published/table3.csv, and a row of ours is `ours: SYSTEM`.
    """
    numbers = {}
    for name, key in KEY_BY_FILE.items():
        rows = list(
            csv.DictReader(io.StringIO(read(name)), delimiter="\t" if name.endswith("tsv") else ",")
        )
        if name == "tables/table3.csv" and is_first:
            systems = iter(dict.fromkeys(cell.row for cell in read_table(3)))
            for row in rows:
                label = MARK.sub("", row.pop("label"))
                is_ours = label.startswith("ours: ")
                row["system"] = f"{label[6:]}, ours" if is_ours else next(systems)
        for row in rows:
            place = " ".join(MARK.sub("", row[column]) for column in key)
            for column, text in row.items():
                if column not in (*key, *NO_NUMBERS) and re.search(r"\d", text):
                    numbers[name, place, column] = MARK.sub("", text)
    return numbers


def write_first_numbers() -> None:
    """Write the numbers of the first commit."""

    def read(name: str) -> str:
        command = ["git", "show", f"{COMMIT}:{PACK}/{name}"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    lines = []
    for key, value in sorted(read_numbers(read, is_first=True).items()):
        lines.append("\t".join((*key, value)) + "\n")
    FIRST_NUMBERS_PATH.write_bytes(lzma.compress("".join(lines).encode(), preset=9))


def read_first_numbers() -> dict[NumberKey, str]:
    """Return the numbers of the first commit."""
    numbers = {}
    for line in lzma.decompress(FIRST_NUMBERS_PATH.read_bytes()).decode().splitlines():
        name, row, column, value = line.split("\t")
        numbers[name, row, column] = value
    return numbers


if __name__ == "__main__":
    write_first_numbers()
