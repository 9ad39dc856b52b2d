"""Makes the fixtures of the engine's tests available to the tests of the wing `packs`, and packs
quickly.
"""

import functools
import lzma

import pytest

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
