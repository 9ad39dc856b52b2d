"""Trainings of the tests of the engine, which those of the wing `tools` read."""

from tests.engine.conftest import _few_validations, data, finished, results, segmented

__all__ = ["_few_validations", "data", "finished", "results", "segmented"]
