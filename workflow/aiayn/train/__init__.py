"""Trains with fairseq: flags, task, optimiser, loop, ranks, checkpoints, average. May import
`aiayn.model` and below.

This package imports torch and fairseq only in its modules. fairseq imports all its tasks and
models, with scikit-learn and scipy: half the time of a short command. `_LeanFairseq` omits what no
translation model here needs, unless fairseq was imported before (`fairseq-train --user-dir`).
"""

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

# For fairseq's authors: backslashes in its source.
warnings.filterwarnings("ignore", category=SyntaxWarning, module=r".*[/\\]fairseq[/\\]")

# By package that imports each of its modules: the modules that are wanted. These may import others.
WANTED_MODULES = {
    "fairseq.criterions": {"cross_entropy", "label_smoothed_cross_entropy"},
    "fairseq.model_parallel.criterions": set[str](),
    "fairseq.model_parallel.models": set[str](),
    "fairseq.models": {"fconv", "lstm", "transformer", "transformer_align", "transformer_legacy"},
    "fairseq.models.huggingface": set[str](),
    "fairseq.scoring": {"bleu"},
    "fairseq.tasks": {"translation"},
}


class _LeanFairseq(MetaPathFinder):
    """Finds fairseq once, and makes it import only the modules of its own that are needed here."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "fairseq":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module
        import_module = importlib.import_module

        def import_wanted(name: str, package: str | None = None) -> ModuleType | None:
            folder, _, module = name.rpartition(".")
            is_wanted = module in WANTED_MODULES.get(folder, {module})
            return import_module(name, package) if is_wanted else None

        def exec_module(module: ModuleType) -> None:
            importlib.import_module = import_wanted  # type: ignore[assignment]
            try:
                execute(module)
            finally:
                importlib.import_module = import_module

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if "fairseq" not in sys.modules:
    sys.meta_path.insert(0, _LeanFairseq())
