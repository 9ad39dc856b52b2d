"""Trains a model with fairseq: flags, task, optimiser, training loop, ranks (processes),
checkpoints and their average. This package may import `aiayn.model` and the packages below it.

Importing this package imports neither torch nor fairseq. Only the modules of this package import
torch and fairseq. fairseq normally imports all its tasks and models, and with them scikit-learn and
scipy, which takes half the time of a short command. The import hook `_LeanFairseq` skips the
modules of fairseq that no translation model here needs. The hook has no effect if fairseq was
imported before this package, as by `fairseq-train --user-dir`.
"""

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

# fairseq's source has invalid escape sequences, such as "\d" in a plain string. Python 3.12 and
# later warn of them, which is of use to fairseq's authors only.
warnings.filterwarnings("ignore", category=SyntaxWarning, module=r".*[/\\]fairseq[/\\]")

# By package: each of these packages imports all of its modules, and only the listed modules are
# needed here. A listed module may itself import further modules.
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
    """An import hook: when fairseq is first imported, it loads only the modules in
    WANTED_MODULES.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "fairseq":
            return None
        # Needed once only: a later import takes fairseq from `sys.modules`.
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        # fairseq's packages load their modules in loops, by `importlib.import_module`. So it is
        # enough to replace this function while fairseq's `__init__` runs.
        execute = spec.loader.exec_module
        import_module = importlib.import_module

        def import_wanted(name: str, package: str | None = None) -> ModuleType | None:
            folder, _, module = name.rpartition(".")
            # The default contains the module itself, so all other packages import everything.
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
