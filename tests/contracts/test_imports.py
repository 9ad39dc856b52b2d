"""Each contract notices what it forbids (`make lint` holds the code to them). Light modules load
nothing heavy.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGES = ("workflow/aiayn", "workflow/aiayn_fairseq", "analysis", "paper_tables")
LINT_IMPORTS = (
    "import sys; from importlinter.cli import lint_imports_command as lint; sys.exit(lint())"
)
HEAVY = (
    "torch",
    "fairseq",
    "submitit",
    "snakemake",
    "sentencepiece",
    "safetensors",
    "altair",
    "vl_convert",
)
VERDICT = re.compile(r"^(.+) (KEPT|BROKEN)(?: \(.*\))?$", re.MULTILINE)

# One import against each contract: (name of the contract, module, a line that breaks it).
VIOLATIONS = [
    ("nothing imports what is above it", "workflow/aiayn/scoring/seeds.py", "import paper_tables.scale_results"),
    ("no wing imports another", "analysis/first/checks.py", "import analysis.second.checks"),
    ("pages of logs are made of rendered tables, these of tables", "paper_tables/scale_results.py",
     "import paper_tables.render.page"),
    ("tables are laid out from the frame of a scale: they gather nothing", "paper_tables/tables/table2.py",
     "import paper_tables.scale_results"),
    ("tables read no records", "analysis/first/tables/costs.py", "import aiayn.records"),
    ("the model is torch alone", "workflow/aiayn/model/norms.py", "import fairseq"),
    ("scores, logs and tables need the core dependencies, and no stage", "workflow/aiayn/scoring/verdict.py",
     "import sentencepiece"),
    ("stages never import stages; the DAG joins them", "workflow/aiayn/data/text/clean.py",
     "import aiayn.data.sources.fetch"),
    ("fairseq is the training's and the decoding's", "workflow/aiayn/machine.py", "import fairseq"),
    ("torch is theirs, the model's and the wings'; verbs may set threads", "workflow/aiayn/scoring/score.py",
     "import torch"),
    ("safetensors is the wings': our own code reads what they write", "workflow/aiayn/decode/decode.py", "import safetensors"),
    ("altair and vl_convert are the figures'", "paper_tables/render/render.py", "import altair"),
    ("submitit is the launcher's", "workflow/aiayn/machine.py", "import submitit"),
    ("Slurm is one launcher: the driver and the runs know it by a protocol", "workflow/aiayn/launch/driver.py",
     "import aiayn.launch.slurm.queue"),
    ("snakemake stays in its rules", "workflow/aiayn/stages.py", "import snakemake"),
    ("flags, schedule and cost are arithmetic: they load no torch", "workflow/aiayn/schedule.py", "import pandas"),
    ("nothing but the command and the wings calls verbs", "workflow/aiayn/runs/finished.py", "import aiayn.cli.score"),
]  # fmt: skip


def loaded_by(code: str) -> set[str]:
    """Return the heavy packages in sys.modules after some code, in a process of its own."""
    report = f"import sys\n{code}\nprint('loaded:', *sorted({set(HEAVY)!r} & set(sys.modules)))"
    outcome = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True
    )
    return set(outcome.stdout.splitlines()[-1].removeprefix("loaded:").split())


def test_each_contract_notices_a_wrong_import(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(
            CHECKOUT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy2(CHECKOUT / "pyproject.toml", tmp_path)
    for folder in (
        "analysis/first/tables",
        "analysis/second",
    ):  # wings of the test, as any other may be deleted
        (tmp_path / folder).mkdir(parents=True)
    for name in ("first/__init__", "first/tables/__init__", "second/__init__", "second/checks"):
        (tmp_path / "analysis" / f"{name}.py").touch()
    for _, module, line in VIOLATIONS:
        with (tmp_path / module).open("a", encoding="utf-8") as code:
            code.write(f"\n\ndef _violate() -> None:\n    {line}\n")
    outcome = subprocess.run(
        [sys.executable, "-c", LINT_IMPORTS, "--no-cache"],
        cwd=tmp_path,
        capture_output=True,
        env=os.environ
        | {"PYTHONPATH": f"{tmp_path / 'workflow'}{os.pathsep}{tmp_path}", "COLUMNS": "200"},
        text=True,
        check=False,
    )
    broken = {name: "BROKEN" for name, _, _ in VIOLATIONS}
    assert dict(VERDICT.findall(outcome.stdout)) == broken, outcome.stdout + outcome.stderr


def test_scores_logs_tables_and_wings_load_nothing_heavy() -> None:
    folders = (
        "workflow/aiayn/scoring",
        "workflow/aiayn/facts",
        "workflow/aiayn/known_good",
        "analysis",
        "paper_tables",
    )
    modules = ", ".join(
        ".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removeprefix("workflow.")
        for folder in folders
        for path in sorted((CHECKOUT / folder).rglob("*.py"))
        if not path.stem.startswith(("__init__", "heavy_"))
        and path.name != "figure.py"  # of render: it needs Altair
        and "measured" not in path.parts  # the study, a script that needs a wing
    )
    assert "paper_tables.render.tables" in modules
    assert "aiayn.scoring.score" in modules
    assert loaded_by(f"import {modules}") == set()


def test_the_driver_of_a_training_loads_no_engine() -> None:
    # Thirty drivers wait at once on a login node.
    assert (
        loaded_by(
            "import aiayn.launch.driver, aiayn.launch.job, aiayn.plan.feasibility,"
            " aiayn.train.fairseq_args"
        )
        == set()
    )


def test_a_heavy_import_is_noticed() -> None:
    assert loaded_by("import submitit") == {"submitit"}
