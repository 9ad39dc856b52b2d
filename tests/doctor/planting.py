"""Plants a fault in a copy of the checkout and runs the pipeline there, from text to scores;
restartable, because Snakemake makes only what is missing.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from aiayn.provenance import commit_label
from tests.doctor.faults import CLEAN, Edit, Fault
from tests.pipeline_copy import DEMO, copy_checkout

SEED = 1
TESTSET = "demo_test"
RESULTS = Path("results/demo")
SCORED = f"demo_en_de/base/seed{SEED}"


def run_pipeline(fault: Fault, folder: Path) -> Path:
    """Plant a fault, bring it to its scores, and return the copy of the checkout; a fault that only
    follows the training begins with the clean one's results.
    """
    copy = folder.resolve() / fault.name
    score_path = RESULTS / f"score/{SCORED}/{evaluated_average(fault)}/{TESTSET}.json"
    if not copy.exists():
        partial = copy.with_name(f"{fault.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        if fault.stage in ("train", "data"):
            copy_checkout(partial)
        else:
            shutil.copytree(run_pipeline(CLEAN, folder), partial)
            (partial / score_path).unlink(missing_ok=True)
        plant(fault, partial)
        partial.rename(copy)
    snakemake(copy, score_path)
    return copy


def evaluated_average(fault: Fault) -> str:
    """Return which average the test set is translated with."""
    return "last1" if fault.stage == "average" else "last5"


def snakemake(copy: Path, target: Path) -> None:
    """Make a file of a copy with its own Snakefile and packages."""
    variables = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(copy / "workflow"), str(copy)]),
        "AIAYN_COMMIT": commit_label(),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "snakemake", str(target), "--cores", "1", *DEMO]
    subprocess.run(command, cwd=copy, env=variables, check=True)


def plant(fault: Fault, copy: Path) -> None:
    """Put a fault into a copy: edits of its config."""
    for edit in fault.edits:
        apply_edit(edit, copy)


def apply_edit(edit: Edit, folder: Path) -> None:
    """Replace a text that occurs once in a file below a folder."""
    path = folder / edit.path
    text = path.read_text(encoding="utf-8")
    assert text.count(edit.old) == 1, (
        f"{path}: {edit.old!r} occurs {text.count(edit.old)} times; expected once"
    )
    path.write_text(text.replace(edit.old, edit.new), encoding="utf-8", newline="\n")
