"""What the tests of the wing `public_runs` share with those of the core, and its own fixtures."""

from tests.unit.conftest import _without_figures

__all__ = ["_without_figures"]
