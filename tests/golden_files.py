"""Compares a whole text with a golden file. A golden file that does not exist is a failure, never
written silently.

`AIAYN_UPDATE_GOLDEN=1` (as `make golden` sets it) rewrites them: review the diff before you commit
it.
"""

import difflib
import os
from pathlib import Path

GOLDEN_FOLDER = Path(__file__).parent / "golden"
UPDATE_VARIABLE = "AIAYN_UPDATE_GOLDEN"


def differences(expected: str, actual: str) -> list[str]:
    """Return the lines of a unified diff of two whole texts, line ends included; empty only if they
    are equal.
    """
    lines = difflib.unified_diff(
        expected.splitlines(keepends=True), actual.splitlines(keepends=True), "golden", "found"
    )
    return [repr(line) for line in lines]


def check_golden(name: str, actual: str, folder: Path = GOLDEN_FOLDER) -> None:
    """Fail unless the golden file `name` holds exactly `found`. With the variable set, write it
    instead.
    """
    path = folder / name
    if os.environ.get(UPDATE_VARIABLE) == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(actual, encoding="utf-8", newline="\n")
        return
    assert path.exists(), (
        f"{path}: no such golden file; `make golden` writes it, review it before you commit"
    )
    with path.open(encoding="utf-8", newline="") as golden:
        lines = differences(golden.read(), actual)
    assert not lines, "\n".join([f"{path} differs; review, then `make golden`", *lines])
