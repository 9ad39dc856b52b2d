"""`aiayn tables --from-logs` with only the core dependencies of pyproject.toml, by a hook that
refuses all others.

Neither torch nor fairseq, submitit or Snakemake can be imported, and no checkpoint and no GPU is
needed.
"""

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.logs.factory import GenerationText, TrainingText, averaging_text, write

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[2]
PACK = CHECKOUT / "paper_tables" / "measured" / "multi30k"
OURS = ("aiayn", "aiayn_fairseq", "analysis", "paper_tables")
HEAVY = ("torch", "fairseq", "submitit", "snakemake", "sentencepiece", "omegaconf")
HOOK = """
import sys
class Refusal:
    def find_spec(self, name, path=None, target=None):
        first = name.partition(".")[0]
        is_pythons = first in sys.stdlib_module_names or first.startswith("_sysconfigdata")
        if first not in allowed and not is_pythons:
            raise ModuleNotFoundError(f"{name}: no core dependency", name=name)
sys.meta_path.insert(0, Refusal())
"""


def core_distributions() -> set[str]:
    """Return the core dependencies of pyproject.toml, and all that they require here in turn."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [Requirement(line).name for line in project["dependencies"]]
    found: set[str] = set()
    while wanted:
        name = canonicalize_name(wanted.pop())
        if name not in found:
            found.add(name)
            for line in importlib.metadata.requires(name) or ():
                requirement = Requirement(line)
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    wanted.append(requirement.name)
    return found


def core_modules() -> set[str]:
    """Return the names under which the core dependencies are imported."""
    core = core_distributions()
    distributions_by_module = importlib.metadata.packages_distributions()
    return {
        module
        for module, names in distributions_by_module.items()
        if any(canonicalize_name(name) in core for name in names)
    }


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, this checkout on its path."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(CHECKOUT / "workflow"), str(CHECKOUT)])
    }
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


def write_logs(folder: Path) -> None:
    """Write two seeds of base, and a generation of the first."""
    averaged = [f"checkpoints/base/checkpoint{number}.pt" for number in range(5)]
    write(
        folder,
        {
            "one.log": TrainingText().text(),
            "two.log": TrainingText(final_nll_bits=2.5)
            .changed(seed=2, save_dir="checkpoints/two")
            .text(),
            "generate.log": GenerationText().text(),
            "average.log": averaging_text(averaged, "checkpoints/base/averaged.pt"),
        },
    )


def tables_code(folder: Path) -> str:
    """Return code that renders the tables of a folder of logs and of the shipped pack, and then
    says which heavy packages are loaded.
    """
    arguments = ["tables", "--from-logs", str(folder), str(PACK), "--output", str(folder / "out")]
    return (
        f"import sys\nfrom aiayn.__main__ import main\ncode = main({arguments!r})\n"
        f"print('loaded:', *sorted(set({HEAVY!r}) & set(sys.modules)))\nsys.exit(code)"
    )


def assert_tables_are_filled(folder: Path, outcome: subprocess.CompletedProcess[str]) -> None:
    """Check that the command did its work, and loaded nothing heavy."""
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.splitlines()[-1] == "loaded:"
    table2 = (folder / "out" / "tables" / "table2.md").read_text(encoding="utf-8")
    table3 = (folder / "out" / "tables" / "table3.md").read_text(encoding="utf-8")
    assert "27.31 (n=1 of 2)" in table2
    assert "4.00, 5.66 (n=2)" in table3  # 2^2 and 2^2.5
    for name in ("scores.tsv", "tables/table2.md", "tables/table3.csv", "tables/conclusions.html"):
        made = folder / "out" / PACK.name / name
        assert made.read_bytes() == (PACK / name).read_bytes(), name


def test_the_core_has_what_pyproject_names_and_nothing_heavy() -> None:
    core = core_distributions()
    assert {"msgspec", "pandas", "scipy", "pyyaml"} <= core
    assert not core & {"torch", "fairseq-fixed", "submitit", "snakemake", "sentencepiece"}
    assert {"yaml", "msgspec", "numpy", "dateutil"} <= core_modules()


def test_tables_from_logs_need_the_core_dependencies_alone(tmp_path: Path) -> None:
    write_logs(tmp_path)
    hook = f"allowed = {sorted(core_modules() | set(OURS))!r}\n{HOOK}"
    assert_tables_are_filled(tmp_path, run_python(hook + tables_code(tmp_path)))


@pytest.mark.parametrize("module", ["submitit", "packaging"])
def test_the_hook_refuses_what_is_no_core_dependency(module: str) -> None:
    code = f"allowed = {sorted(core_modules() - {module} | set(OURS))!r}\n{HOOK}import {module}"
    outcome = run_python(code)
    assert outcome.returncode != 0
    assert f"{module}: no core dependency" in outcome.stderr
