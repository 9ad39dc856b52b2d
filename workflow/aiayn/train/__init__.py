"""Everything that touches torch and fairseq. Importing this package imports neither; its modules do.

fairseq imports all of its tasks, models and criterions when it is imported, and with them scikit-learn and scipy, in
every process: half of the time of a short command. `_LeanFairseq` leaves out what no system here and no translation
model needs. Whoever has imported fairseq before (`fairseq-train --user-dir`) has all of it.
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

# Of the packages that import each of their modules: the modules that are wanted, and what those import themselves.
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
    """Finds fairseq, once, and lets it import of its own modules only those that are wanted."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "fairseq":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute, import_module = spec.loader.exec_module, importlib.import_module

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
