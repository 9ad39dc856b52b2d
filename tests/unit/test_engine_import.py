"""torch is imported without searches for garbage, and a process searches as before afterwards."""

import gc
import sys
from types import ModuleType

import pytest

from aiayn.engine_import import engine_import


def test_no_search_during_the_import_and_none_of_what_it_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    frozen_before = gc.get_freeze_count()
    try:
        with engine_import():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen_before
    finally:
        gc.unfreeze()


def test_a_process_that_has_torch_searches_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    frozen_before = gc.get_freeze_count()
    with engine_import():
        assert gc.isenabled()
    assert gc.get_freeze_count() == frozen_before
