"""Reads tables of cases, whose rows become calls of one test: tests/unit/cases/*.csv and *.toml."""

import csv
import tomllib
from pathlib import Path
from typing import Any

import pytest

CASES_FOLDER = Path(__file__).parent / "unit" / "cases"


def read_cases(file_name: str, table: str = "case") -> list[Any]:
    """Return the rows of a CSV file, as mappings of text, or the list of a name in a TOML file."""
    path = CASES_FOLDER / file_name
    if path.suffix == ".toml":
        cases: list[Any] = tomllib.loads(path.read_text(encoding="utf-8"))[table]
        return cases
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def each_case(file_name: str, table: str = "case") -> pytest.MarkDecorator:
    """Run a test once for each row. Its parameters are the keys, which all rows share.

    The first value of a row is its name in pytest's report.
    """
    cases = read_cases(file_name, table)
    rows = [tuple(case.values()) for case in cases]
    return pytest.mark.parametrize(list(cases[0]), rows, ids=[str(row[0]) for row in rows])
