"""Checks disks, trainings and package versions before the trainings of a scale are started. Each
check has an outcome, evidence (what the check found) and a next step.

The checks do not download, write or submit anything. FAIL means that the problem would end a run.
WARN means that the problem may end a run or change its numbers, or that this machine cannot tell
whether there is a problem.
"""

import importlib.metadata
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from aiayn.experiment import Experiment
from aiayn.machine import query_gpus
from aiayn.paths import corpus_record
from aiayn.plan.feasibility import held_bytes
from aiayn.provenance import existing_folder
from aiayn.records import DATA_RECORD_BY_VERB, BinarizedCorpus, read_record
from aiayn.runs.run_folder import RunFolder
from aiayn.spec.system import CHECKOUT, run_name
from aiayn.stages import STAGE_VERSIONS
from aiayn.terminal import sections, table
from aiayn.train import torch_builds
from analysis.price.plan import Plan

NEEDED_PACKAGES = (
    "torch",
    "fairseq-fixed",
    "sentencepiece",
    "snakemake",
    "submitit",
    "sacrebleu",
    "msgspec",
)
SLURM_PACKAGE = "snakemake-executor-plugin-slurm"
# This matches a line of constraints.txt, such as `torch==2.13.0`.
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
EVIDENCE_WIDTH = 90


class Check(msgspec.Struct, frozen=True):
    """The result of one check. `next_step` says what to do, and is '' if nothing is wrong."""

    name: str
    outcome: Literal["OK", "WARN", "FAIL"]
    evidence: str
    next_step: str = ""


class Need(NamedTuple):
    """The number of bytes that the trainings of a plan write into one folder."""

    name: str
    folder: Path
    num_bytes: int


def check_space(
    plan: Plan, experiment: Experiment, *, results_folder: Path, archives_folder: Path
) -> list[Check]:
    """Compare the bytes that the trainings of the plan still have to write with the free space of
    each disk. Files that the plan counts and that exist already need no more space.
    """
    runs_folder = Path(experiment.scale.runs_folder)
    scale_folder = results_folder / plan.scale
    archives_bytes: dict[str, int] = {}  # two corpora may share an archive
    digest_by_corpus: dict[str, str] = {}
    results_bytes = runs_bytes = 0
    for corpus in plan.corpora:
        for name, size in corpus.bytes_by_archive.items():
            if not (archives_folder / name).exists():
                archives_bytes[name] = size
        held = sum(held_bytes(scale_folder / verb / corpus.corpus) for verb in DATA_RECORD_BY_VERB)
        results_bytes += max(0, corpus.text_bytes + corpus.data_bin_bytes - held)
        path = corpus_record(results_folder, plan.scale, "binarize", corpus.corpus)
        if path.exists():
            digest_by_corpus[corpus.corpus] = read_record(path, BinarizedCorpus).digest
    for row in plan.trainings:
        for seed in row.seeds:
            # A run with earlier settings has a different name. Its checkpoints stay on the disk.
            run = run_name(
                corpus=row.corpus,
                system=row.system,
                seed=seed,
                training=experiment.system_by_name[row.system].training,
                data_digest=digest_by_corpus.get(row.corpus, ""),
                stage_version=STAGE_VERSIONS["train"],
            )
            held = held_bytes(RunFolder(runs_folder / run).checkpoints_path)
            runs_bytes += max(0, row.run_bytes - held)
            held = held_bytes(scale_folder / "average" / row.corpus / row.system / f"seed{seed}")
            results_bytes += max(0, row.averages_bytes - held)
    needs = [
        Need("runs", runs_folder, runs_bytes),
        Need("results", results_folder, results_bytes),
        Need("archives", archives_folder, sum(archives_bytes.values())),
    ]
    # Two folders on one disk share its free space, so their needs are added. `st_dev` is the same
    # for all files of a file system.
    needs_by_disk: dict[int, list[Need]] = defaultdict(list)
    refusals = []
    for need in needs:
        existing = existing_folder(need.folder)
        needs_by_disk[existing.stat().st_dev].append(need)
        # To create a file in a folder, a user needs both permissions: to write, and to enter
        # (X_OK).
        if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
            evidence = f"{existing}: you may not write to this folder, needed for {need.name}"
            advice = "name another folder, or get write permission"
            refusals.append(Check("space", "FAIL", evidence, advice))
    return [*map(_check_disk, needs_by_disk.values()), *refusals]


def _check_disk(needs: Sequence[Need]) -> Check:
    """Check that one disk has enough free space for the folders on it."""
    # `free` is what a user without privileges may use. Quotas are not seen.
    free_bytes = shutil.disk_usage(existing_folder(needs[0].folder)).free
    needed_bytes = 0
    parts = []
    for need in needs:
        needed_bytes += need.num_bytes
        parts.append(f"{need.name} {need.num_bytes / 1e9:,.1f} GB in {need.folder}")
    needed = f"up to {needed_bytes / 1e9:,.1f} GB needed: {', '.join(parts)}"
    evidence = f"{free_bytes / 1e9:,.1f} GB free, {needed}"
    if free_bytes < needed_bytes:
        advice = (
            "make room, or name another disk: `--config runs_folder=...`, AIAYN_ARCHIVES,"
            " `snakemake --directory`"
        )
        return Check("space", "FAIL", evidence, advice)
    return Check("space", "OK", evidence)


def check_torch_build(plan_gpu: str) -> list[Check]:
    """Check that torch has kernels for the GPUs of this machine and for the GPU of the plan, and
    that this machine's NVIDIA driver is new enough.

    The result is empty if the installed torch is a build for CPUs, or if its version of CUDA is not
    in `torch_builds`.
    """
    build = torch_builds.installed_build()
    if build is None:
        return []
    # A login node may lack a GPU, or have a different GPU than the nodes, so both are checked. Only
    # a GPU of this machine has a known driver.
    planned = torch_builds.CAPABILITY_BY_GPU.get(plan_gpu)
    reason = torch_builds.check_gpu(plan_gpu, planned, None, build)
    for name, capability_text, driver_text in query_gpus("name", "compute_cap", "driver_version"):
        major, minor = capability_text.split(".")
        # The command nvidia-smi prints `9.0` for the capability and `580.65.06` for the driver. The
        # major number of the driver decides.
        driver = int(driver_text.partition(".")[0])
        reason = reason or torch_builds.check_gpu(name, (int(major), int(minor)), driver, build)
    if reason:
        # `check_gpu` returns the reason and the next step in one text, as errors have them.
        evidence, _, next_step = reason.partition("; ")
        return [Check("torch", "FAIL", evidence, next_step)]
    capability = ".".join(map(str, build.lowest))
    needs = f"GPUs from compute capability {capability} on, driver {build.min_driver} or newer"
    return [Check("torch", "OK", f"for CUDA {build.cuda}: {needs}")]


def check_plan(plan: Plan) -> list[Check]:
    """Check that the ranks (processes) can share the batches of each training, and that each
    training ends within `max_num_jobs` Slurm jobs.
    """
    faults = [row.refusal for row in plan.trainings if row.refusal]
    checks = []
    if faults:
        # One fault is enough to act on. Thirty systems often have the same fault.
        evidence, _, advice = faults[0].partition("; ")
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        checks.append(Check("trainings", "FAIL", evidence + more, advice))
    if plan.jobs is not None and plan.jobs.advice:
        checks.append(Check("trainings", "FAIL", plan.jobs.words, plan.jobs.advice))
    if checks:
        return checks
    machine = plan.machine
    ranks = f"{machine.num_ranks} rank{'' if machine.num_ranks == 1 else 's'}"
    return [Check("trainings", "OK", f"{ranks} each, on {machine.words}: {machine.chosen_by}")]


def installed_version(name: str) -> str | None:
    """Return the version of an installed Python package, or None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_packages(
    launcher: str | None, constraints_path: Path = CHECKOUT / "constraints.txt"
) -> Check:
    """Compare the versions of installed packages with constraints.txt. A different version of a
    package may give different numbers.
    """
    needed = (*NEEDED_PACKAGES, SLURM_PACKAGE) if launcher == "slurm" else NEEDED_PACKAGES
    missing = [name for name in needed if installed_version(name) is None]
    if missing:
        return Check(
            "packages", "FAIL", f"not installed: {', '.join(missing)}", "run `make install`"
        )
    num_pinned = 0
    deviations = []
    for name, pinned in _PIN.findall(constraints_path.read_text(encoding="utf-8")):
        version = installed_version(name)
        # The file also pins packages of extras that this installation does not have.
        if version is None:
            continue
        num_pinned += 1
        if version.partition("+")[0] != pinned:  # torch 2.13.0+cpu is 2.13.0
            deviations.append(f"{name} {version} (pinned {pinned})")
    # This is only a warning: training works with other versions, but the numbers may differ.
    if deviations:
        advice = "numbers may differ: run `make install`, or report the versions with the numbers"
        return Check(
            "packages", "WARN", f"{len(deviations)} other versions: {', '.join(deviations)}", advice
        )
    return Check(
        "packages", "OK", f"{num_pinned} installed, all as {constraints_path.name} pins them"
    )


def render_checks(checks: Sequence[Check]) -> str:
    """Return the results of the checks as text: a line for each check, with its next step below."""
    rows: list[tuple[str, str, str]] = []
    for check in checks:
        rows.append((check.outcome, check.name, check.evidence))
        if check.next_step:
            rows.append(("", "", f"-> {check.next_step}"))
    outcomes = [check.outcome for check in checks]
    counts = [f"{outcomes.count(outcome)} {outcome}" for outcome in ("OK", "WARN", "FAIL")]
    return sections(
        ("", table(rows, widths=[None, None, EVIDENCE_WIDTH])), ("", [", ".join(counts)])
    )
