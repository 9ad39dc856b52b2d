"""Reads and appends files of one JSON value a line; a last line that a crash tore is ignored, then dropped."""

import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from aiayn.errors import RecordError

_Value = TypeVar("_Value")


def read_json_lines(path: Path, type_: type[_Value] | Any, noun: str) -> list[_Value]:
    """Return the value of each line, checked against a type; none if there is no file.

    Raises:
        RecordError: naming file and line, if any line but a torn last one is no such value; `noun` says what it is.
    """
    if not path.exists():
        return []
    *whole_lines, _ = path.read_bytes().split(b"\n")
    values = []
    for number, line in enumerate(whole_lines, start=1):
        try:
            values.append(msgspec.json.decode(line, type=type_))
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise RecordError(f"{path}:{number}: not {noun}: {error}; rename the file to start a new one") from error
    return values


def append_json_line(path: Path, value: object) -> None:
    """Append a value and flush it to the disk; a torn line before it is dropped. One writer at a time."""
    with path.open("a+b") as lines:
        lines.seek(0)
        text = lines.read()
        if text and not text.endswith(b"\n"):
            lines.truncate(text.rfind(b"\n") + 1)
        lines.write(msgspec.json.encode(value) + b"\n")
        lines.flush()
        os.fsync(lines.fileno())
