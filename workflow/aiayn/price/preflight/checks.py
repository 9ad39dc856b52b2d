"""Checks disks, devices, packages and code before a scale is started, each with outcome, evidence and next step.

Nothing is downloaded, written or submitted. FAIL: it would end a run. WARN: it may, or it cannot be known here.
"""

import contextlib
import importlib.metadata
import os
import platform
import re
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from aiayn.machine import gpu_names
from aiayn.price.plan import Plan
from aiayn.provenance import commit_label
from aiayn.terminal import sections, table

PYTHON_VERSIONS = ((3, 11), (3, 12), (3, 13))  # pyproject.toml: requires-python
NEEDED_PACKAGES = ("torch", "fairseq-fixed", "sentencepiece", "snakemake", "submitit", "sacrebleu", "msgspec")
SLURM_PACKAGE = "snakemake-executor-plugin-slurm"
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)", re.MULTILINE)
_MAX_NAMED = 6
EVIDENCE_WIDTH = 90


class Check(msgspec.Struct, frozen=True):
    """The result of one check. `next_step` is '' where nothing is wrong."""

    name: str
    outcome: Literal["OK", "WARN", "FAIL"]
    evidence: str
    next_step: str = ""


def check_space(plan: Plan, *, runs_folder: Path, results_folder: Path, archives_folder: Path) -> list[Check]:
    """Compare what the plan writes with the free space of each disk; files that exist count as written."""
    bytes_by_archive = {name: size for corpus in plan.corpora for name, size in corpus.bytes_by_archive.items()}
    archives_bytes = sum(size for name, size in bytes_by_archive.items() if not (archives_folder / name).exists())
    results_bytes = max(0, plan.results_bytes - _held_bytes(results_folder / plan.scale))
    run_folders = [
        folder
        for row in plan.trainings
        for seed in row.seeds
        for folder in runs_folder.glob(f"{row.corpus}-{row.system}-seed{seed}-*/checkpoints")
    ]
    runs_bytes = max(0, plan.runs_bytes - sum(_held_bytes(folder) for folder in run_folders))
    needs = [("runs", runs_folder, runs_bytes), ("results", results_folder, results_bytes)]
    needs.append(("archives", archives_folder, archives_bytes))
    needs_by_disk: dict[int, list[tuple[str, Path, int]]] = defaultdict(list)
    for name, folder, needed_bytes in needs:
        needs_by_disk[_existing(folder).stat().st_dev].append((name, folder, needed_bytes))
    return [check for named in needs_by_disk.values() for check in _check_disk(named)]


def _check_disk(needs: Sequence[tuple[str, Path, int]]) -> list[Check]:
    """Check one disk's space, and that each folder on it may be written to."""
    needed_bytes = sum(size for _, _, size in needs)
    free_bytes = shutil.disk_usage(_existing(needs[0][1])).free
    listed = ", ".join(f"{name} {size / 1e9:,.1f} GB in {folder}" for name, folder, size in needs)
    evidence = f"{free_bytes / 1e9:,.1f} GB free, up to {needed_bytes / 1e9:,.1f} GB needed: {listed}"
    checks = [Check("space", "OK", evidence)]
    if free_bytes < needed_bytes:
        advice = "make room, or name another disk: `--config runs_folder=...`, AIAYN_ARCHIVES, `snakemake --directory`"
        checks = [Check("space", "FAIL", evidence, advice)]
    for name, folder, _ in needs:
        existing = _existing(folder)
        if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
            evidence = f"{existing}: you may not write to this folder, needed for {name}"
            checks.append(Check("space", "FAIL", evidence, "name another folder, or get write permission"))
    return checks


def _existing(folder: Path) -> Path:
    return next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())


def _held_bytes(folder: Path) -> int:
    num_bytes = 0
    for path in folder.rglob("*") if folder.is_dir() else ():
        with contextlib.suppress(FileNotFoundError):  # a training beside may prune its checkpoints
            num_bytes += path.stat().st_size if path.is_file() else 0
    return num_bytes


def check_local_gpus(plan: Plan, *, allow_long_runs: bool) -> Check:
    """Check the devices that the local launcher trains on."""
    names = gpu_names()
    hours = max((row.hours for row in plan.trainings), default=0.0)
    if names:
        return Check("GPUs", "OK", f"{len(names)} here: {', '.join(sorted(set(names)))}")
    seen = "none here" if shutil.which("nvidia-smi") is None else "nvidia-smi lists none that may be used"
    if plan.scale == "paper" and not allow_long_runs:
        advice = "choose `--launcher slurm`, a machine with GPUs, or workflow/config/multi30k.yaml"
        return Check("GPUs", "FAIL", f"{seen}, and the local launcher refuses the paper's scale without", advice)
    if shutil.which("nvidia-smi") is not None:
        return Check("GPUs", "WARN", seen, "look at what nvidia-smi says, and at CUDA_VISIBLE_DEVICES")
    return Check("GPUs", "OK", f"none here: trainings on CPU cores, the longest about {hours:.2g} hours")


def check_plan(plan: Plan) -> Check:
    """Check that each training can be shared by its ranks, and ends within its Slurm jobs."""
    unsupported = [row.refusal for row in plan.trainings if row.refusal]
    faults = [text.partition("; ") for text in (*unsupported[:1], plan.overrun) if text]
    if faults:
        more = f" (and {len(unsupported) - 1} more)" if len(unsupported) > 1 else ""
        evidence = "; ".join([f"{faults[0][0]}{more}", *(fault for fault, _, _ in faults[1:])])
        return Check("trainings", "FAIL", evidence, "; ".join(advice for _, _, advice in faults if advice))
    machine = plan.machine
    ranks = f"{machine.num_ranks} rank{'' if machine.num_ranks == 1 else 's'}"
    return Check("trainings", "OK", f"{ranks} each, on {machine.words}: {machine.chosen_by}")


def check_python(version: tuple[int, int]) -> Check:
    """Compare Python with the versions that the packages support."""
    wanted = ", ".join(f"{major}.{minor}" for major, minor in PYTHON_VERSIONS)
    if version in PYTHON_VERSIONS:
        return Check("python", "OK", platform.python_version())
    evidence = f"{version[0]}.{version[1]}, expected one of {wanted}"
    return Check("python", "FAIL", evidence, "make a new environment: `make install PYTHON=python3.12`")


def installed_versions() -> dict[str, str]:
    """Return every installed package's version by its name, normalised as Python's packaging rules say."""
    return {
        _canonical(name): distribution.version
        for distribution in importlib.metadata.distributions()
        if (name := distribution.metadata["Name"])
    }


def check_packages(constraints_path: Path, installed: Mapping[str, str], *, needs_slurm: bool) -> list[Check]:
    """Compare installed packages with constraints.txt: another version may give other numbers."""
    needed = (*NEEDED_PACKAGES, *((SLURM_PACKAGE,) if needs_slurm else ()))
    missing = [name for name in needed if name not in installed]
    if missing:
        return [Check("packages", "FAIL", f"not installed: {', '.join(missing)}", "run `make install`")]
    if not constraints_path.is_file():
        advice = "run from a checkout, or compare with its constraints.txt yourself"
        return [Check("packages", "WARN", f"{constraints_path}: no such file: versions cannot be compared", advice)]
    pins = _PIN.finditer(constraints_path.read_text(encoding="utf-8"))
    pinned = {_canonical(pin["name"]): pin["version"] for pin in pins}
    both = {name: version for name, version in pinned.items() if name in installed}
    other = [
        f"{name} {installed[name]} (pinned {version})"
        for name, version in both.items()
        if installed[name].partition("+")[0] != version  # torch 2.13.0+cpu is 2.13.0
    ]
    if other:
        more = f" and {len(other) - _MAX_NAMED} more" if len(other) > _MAX_NAMED else ""
        advice = "numbers may differ: run `make install`, or report the versions with the numbers"
        return [Check("packages", "WARN", f"other versions: {', '.join(other[:_MAX_NAMED])}{more}", advice)]
    return [Check("packages", "OK", f"{len(both)} installed, all as {constraints_path.name} pins them")]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def check_code() -> Check:
    """Check which code will run, and whether a commit contains it."""
    commit, _, dirty = commit_label().partition("+")
    if commit == "unknown":
        advice = "run from a git checkout, so that each record names its commit"
        return Check("code", "WARN", "the commit is unknown", advice)
    if dirty:
        advice = "commit first: records of these runs would name a commit that does not contain their code"
        return Check("code", "WARN", f"commit {commit[:12]}, with changes that are not committed", advice)
    return Check("code", "OK", f"commit {commit[:12]}")


def render_checks(checks: Sequence[Check]) -> str:
    """Return the list as text, a line a check and its next step below."""
    rows: list[tuple[str, str, str]] = []
    for check in checks:
        rows.append((check.outcome, check.name, check.evidence))
        rows += [("", "", f"-> {check.next_step}")] if check.next_step else []
    counts = {outcome: sum(check.outcome == outcome for check in checks) for outcome in ("OK", "WARN", "FAIL")}
    summary = ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
    return sections(("", table(rows, widths=[None, None, EVIDENCE_WIDTH])), ("", [summary]))
