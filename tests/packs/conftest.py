"""Makes the fixtures of the engine's tests available to the tests of the wing `packs`."""

from tests.engine.conftest import _few_validations, data, finished, results, segmented

__all__ = ["_few_validations", "data", "finished", "results", "segmented"]
