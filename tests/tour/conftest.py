"""The tour shows the work of several wings: without one of them its tests are skipped."""

import pytest

from tests.engine.conftest import _few_validations, data, finished, results, segmented

__all__ = ["_few_validations", "data", "finished", "results", "segmented"]

WINGS = ("conclusions", "figures", "packs")


@pytest.fixture(autouse=True, scope="session")
def _needs_wings() -> None:
    """Skip if a wing of the tour is deleted."""
    for wing in WINGS:
        pytest.importorskip(f"analysis.{wing}.wing")
