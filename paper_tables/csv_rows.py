"""Reads a CSV file of published/ as typed rows, each with its place; whatever is malformed is refused with its line."""

import csv
from pathlib import Path
from typing import TypeVar

import msgspec

from aiayn.errors import TableError

_Row = TypeVar("_Row", bound=msgspec.Struct)


def read_rows(path: Path, row_type: type[_Row]) -> list[tuple[str, _Row]]:
    """(place, row) of each line after the header, which must be the fields of `row_type` in their order."""
    expected_header = list(row_type.__struct_fields__)
    placed_rows: list[tuple[str, _Row]] = []
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            reader = csv.reader(lines, strict=True)
            header = next(reader, [])
            if header != expected_header:
                raise TableError(f"{path}:1: header is {header}; expected {expected_header}")
            for values in reader:
                place = f"{path}:{reader.line_num}"
                placed_rows.append((place, _parsed_row(place, expected_header, values, row_type)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TableError(f"{path}: not a readable UTF-8 CSV file ({error}); restore it from the repository") from error
    if not placed_rows:
        raise TableError(f"{path}: holds a header and no rows; restore it from the repository")
    return placed_rows


def _parsed_row(place: str, header: list[str], values: list[str], row_type: type[_Row]) -> _Row:
    """One line as `row_type`; whole numbers are parsed, everything else stays the printed string."""
    if len(values) != len(header):
        raise TableError(f"{place}: {len(values)} fields; expected {len(header)}; quote a value that holds a comma")
    value_by_field = dict(zip(header, values, strict=True))
    try:
        return msgspec.convert(value_by_field, row_type, strict=False)  # not strict: a CSV file holds strings only
    except msgspec.ValidationError as error:
        raise TableError(f"{place}: {error}, in {value_by_field}; published/README.md says what is allowed") from error
