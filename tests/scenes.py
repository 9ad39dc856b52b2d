"""What transcripts of verbs start from: runs in every state under a fake Slurm, a scale's results,
translations.
"""

import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import aiayn.runs.status
from aiayn.runs.attempts import LOG_NAME
from aiayn.spec.system import CHECKOUT
from tests.fake_cluster import FakeCluster
from tests.fake_slurm import FakeSlurm, install
from tests.planned_scales import leave_free
from tests.records_factory import (
    make_site,
    write_left,
)
from tests.run_folders import at, write_done, write_log
from tests.table_scenes import make_demo, make_paper, own_specs
from tests.text_forms import FORMS, GENERATED, OTHER, PLAIN, tokens

RUNS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def fill_runs(runs: Path, slurm: FakeSlurm) -> None:
    """Put a run of every kind into a folder, their logs last grown half an hour after noon."""
    for name, text in RUNS["files"].items():
        path = runs / name
        folder = path if name.endswith("/") else path.parent
        folder.mkdir(parents=True, exist_ok=True)
        if path.name == LOG_NAME:
            write_log(path.parent, text.replace("PADDING", "x" * 8000).splitlines())
        elif path != folder:
            path.write_text(text, encoding="utf-8")
    for digest in ("0a1b2c3d", "9f8e7d6c"):
        done = runs / f"demo_en_de-base-seed1-{digest}"
        write_done(done, tokens=600_000, wall_seconds=120)
    for job, state, run, reason, node in RUNS["queue"]:
        slurm.put(job, state, run, reason=reason, node=node)


def make_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `runs` with a run in every state, on the machine `here`, an hour after noon, and
    `slurm`, a fake one.
    """
    monkeypatch.setattr(platform, "node", lambda: "here")
    monkeypatch.setattr(aiayn.runs.status, "utc_now", lambda: at(60))
    fill_runs(Path("runs"), install(folder / "slurm", monkeypatch))


def make_results(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make all that the demo's runs leave, with seeds 1 and 2."""
    own_specs("demo", monkeypatch)
    write_left(make_site(Path(), seeds=[1, 2]))


def make_paper_results(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make results of the paper's scale, three seeds, with translations. Base's are near 70."""
    write_left(make_site(Path(), "paper", seeds=[1, 2, 3], has_baselines=False))


def write_lines(lines: list[str], path: Path) -> Path:
    """Write a text, a line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def make_forms(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make references, translations in plain text and every other form, and a fairseq-generate log."""
    files = {
        "references": PLAIN,
        "plain": OTHER,
        "generated": GENERATED,
        "referencetokens": tokens(PLAIN),
    }
    for name, lines in (files | FORMS).items():
        write_lines(lines, Path(f"{name.replace(',', '').replace(' ', '_')}.de"))


def make_machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this a machine without GPU and mirror: 40 GB free, packages as pinned."""
    from analysis.price.preflight import checks  # of a wing, which may be absent

    pins = dict(
        line.split("==")
        for line in (CHECKOUT / "constraints.txt").read_text().split("\n")
        if "==" in line
    )
    needed = {name: pins[name] for name in (*checks.NEEDED_PACKAGES, checks.SLURM_PACKAGE)}
    which = shutil.which
    monkeypatch.setattr(checks, "installed_version", needed.get)
    monkeypatch.setattr(
        shutil, "which", lambda name, *rest: None if name == "nvidia-smi" else which(name, *rest)
    )
    monkeypatch.delenv("AIAYN_MIRROR", raising=False)
    monkeypatch.setenv("SACREBLEU", str(folder / "no cache"))
    monkeypatch.setattr(platform, "python_version", lambda: "3.11.0")
    leave_free(40 * 10**9, monkeypatch)


def make_slurm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an sbatch before the other commands."""
    path = os.environ["PATH"]
    FakeCluster().install(folder / "slurm", monkeypatch)
    monkeypatch.setenv("PATH", f"{folder / 'slurm'}{os.pathsep}{path}")


def make_odd_logs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make folders of logs as other people keep them."""
    pytest.importorskip("tests.logs.odd_folders").write_odd_folders(
        Path()
    )  # of a wing, which may be absent


def make_doctor_folders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make folders for the doctor."""
    pytest.importorskip("tests.doctor.folders").write_folders()  # of a wing, which may be absent


SCENES: dict[str, Callable[[Path, pytest.MonkeyPatch], None]] = {
    "runs": make_runs,
    "results": make_results,
    "results of the paper": make_paper_results,
    "text forms": make_forms,
    "odd logs": make_odd_logs,
    "folders for the doctor": make_doctor_folders,
    "tables of the demo": make_demo,
    "tables of the paper": make_paper,
    "machine": make_machine,
    "Slurm": make_slurm,
}
