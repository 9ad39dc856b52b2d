"""What the tests of the wing `figures` share with those of the core and of the engine."""

from tests.engine.conftest import (
    _few_validations,
    data,
    finished,
    finished_by_two_batches,
    results,
    run_folder,
    segmented,
)
from tests.unit.conftest import _without_figures, copied_folder, driven, slurm, spoil

__all__ = [
    "_few_validations", "_without_figures", "copied_folder", "data", "driven", "finished", "finished_by_two_batches",
    "results", "run_folder", "segmented", "slurm", "spoil",
]  # fmt: skip
