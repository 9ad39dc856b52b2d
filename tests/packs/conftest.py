"""Makes the fixtures of the engine's tests available to the tests of the wing `packs`, and packs
quickly.
"""

import functools
import lzma
from pathlib import Path

import pytest

from aiayn.paths import PACK_README_NAME
from tests.engine.conftest import (
    _few_validations,
    _groups_are_composed_once,
    data,
    finished,
    results,
    segmented,
)

__all__ = [
    "_few_validations",
    "_groups_are_composed_once",
    "data",
    "finished",
    "quick_packing",
    "results",
    "segmented",
]


@pytest.fixture
def quick_packing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pack texts by xz with its least effort, which takes half of the time of a small pack."""
    monkeypatch.setattr(
        "analysis.packs.pack.packed_bytes", functools.partial(lzma.compress, preset=0)
    )


@pytest.fixture
def without_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pack have a README but no tables, half of its time, where a test is of other files."""

    def write_readme(recorded: object, folder: Path) -> None:
        (folder / PACK_README_NAME).write_text("# Measured\n", encoding="utf-8")

    monkeypatch.setattr("analysis.packs.pack.write_tables_of_pack", write_readme)
