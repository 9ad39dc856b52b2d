"""What the tests of the wing `price` share with those of the core."""

from tests.unit.conftest import _without_figures, copied_folder, driven, slurm, spoil

__all__ = ["_without_figures", "copied_folder", "driven", "slurm", "spoil"]
