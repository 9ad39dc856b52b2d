"""`aiayn tables --from-logs` without the packages of pyproject.toml's extras: neither torch nor
fairseq, submitit or Snakemake can be imported, and no checkpoint and no GPU is needed.
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


def extra_modules() -> set[str]:
    """Return the modules of the packages that pyproject.toml requires for its extras only."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set()
    for lines in project["optional-dependencies"].values():
        extras |= {canonicalize_name(Requirement(line).name) for line in lines}
    extras -= {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    modules = set()
    for module, distributions in importlib.metadata.packages_distributions().items():
        if extras & set(map(canonicalize_name, distributions)):
            modules.add(module)
    return modules


HOOK = f"""
import sys
class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name in {sorted(extra_modules())!r}:
            raise ModuleNotFoundError(f"{{name}}: no core dependency", name=name)
sys.meta_path.insert(0, Refusal())
"""


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
    averaged = [f"checkpoints/base/checkpoint{number}.pt" for number in range(16, 21)]
    write(
        folder,
        {
            "one.log": TrainingText(num_epochs=20).text(),
            "two.log": TrainingText(num_epochs=20, final_nll_bits=2.5)
            .changed(seed=2, save_dir="checkpoints/two")
            .text(),
            "generate.log": GenerationText().text(),
            "average.log": averaging_text(averaged, "checkpoints/base/averaged.pt"),
        },
    )


def test_tables_from_logs_need_the_core_dependencies_alone(tmp_path: Path) -> None:
    write_logs(tmp_path)
    arguments = ["tables", "--from-logs", str(tmp_path), str(PACK), "--output", f"{tmp_path}/out"]
    outcome = run_python(f"{HOOK}from aiayn.__main__ import main\nsys.exit(main({arguments!r}))")
    assert outcome.returncode == 0, outcome.stderr
    table2 = (tmp_path / "out" / "tables" / "table2.md").read_text(encoding="utf-8")
    table3 = (tmp_path / "out" / "tables" / "table3.md").read_text(encoding="utf-8")
    assert "27.31 (n=1 of 2)" in table2
    assert "4.00, 5.66 (n=2)" in table3  # 2^2 and 2^2.5
    for name in ("scores.tsv", "tables/table2.md", "tables/table3.csv", "tables/conclusions.html"):
        made = tmp_path / "out" / PACK.name / name
        assert made.read_bytes() == (PACK / name).read_bytes(), name


@pytest.mark.parametrize("module", ["torch", "fairseq", "submitit", "snakemake", "sentencepiece"])
def test_the_hook_refuses_what_is_no_core_dependency(module: str) -> None:
    outcome = run_python(f"{HOOK}import {module}")
    assert outcome.returncode != 0
    assert f"{module}: no core dependency" in outcome.stderr
