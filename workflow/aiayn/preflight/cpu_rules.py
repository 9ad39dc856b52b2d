"""What each CPU rule of a config asks Slurm for by a snakemake profile, as a dry run of snakemake says.

Memory, minutes, threads, partition, account, QoS and GPUs are as snakemake resolves them; the options of sbatch are
those into which its Slurm executor turns them.
"""

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from aiayn.errors import ConfigError
from aiayn.preflight.checks import CHECKOUT
from aiayn.strict_yaml import read_document

DEFAULT_PROFILE = CHECKOUT / "profiles" / "slurm"
USER_PROFILES = Path(".config") / "snakemake"  # below the home folder; snakemake looks there, too
DRY_RUN_SECONDS = 300.0
# Of a profile without them: a dry run wants a number of jobs, and takes one core for the most that a rule may have.
_DRY_RUN_DEFAULTS = {"jobs": "100", "cores": "100000"}
_CONFIG_NAME = re.compile(r"(?:profile|config)(?:\.v(?P<version>\d+)\+)?\.yaml")
_LOCAL_RULE = re.compile(r"^rule (\w+):\n(?:(?: .*)?\n)*?    localrule: True$", re.MULTILINE)
_JOB = re.compile(r"^(?:local)?rule (?P<rule>\w+):\n(?P<body>(?:    .*\n)+)", re.MULTILINE)
_FIELD = re.compile(r"^    (?P<name>output|threads|resources): (?P<value>.*)$", re.MULTILINE)
_OPTION_BY_RESOURCE = {
    "mem_mb": "--mem", "mem_mb_per_cpu": "--mem-per-cpu", "runtime": "--time", "slurm_partition": "--partition",
    "slurm_account": "--account", "qos": "--qos", "constraint": "--constraint", "gres": "--gres", "gpu": "--gpus",
    "nodes": "--nodes", "cpus_per_task": "--cpus-per-task",
}  # fmt: skip


class CpuRules(msgspec.Struct, frozen=True, kw_only=True):
    """A profile's file, its executor, train's launcher, and which rules ask sbatch for which values, by option."""

    path: str
    executor: str | None
    launcher: str | None
    rules_by_options: dict[tuple[tuple[str, str], ...], list[str]]


def find_profile(folder: Path | None) -> Path:
    """Return the config file of a profile, looked for where snakemake looks; without a name that of the checkout.

    Raises:
        ConfigError: if there is none.
    """
    folders = [DEFAULT_PROFILE] if folder is None else [folder, Path.home() / USER_PROFILES / folder]
    for one in folders:
        found = [
            (int(name["version"] or 0), path) for path in one.glob("*") if (name := _CONFIG_NAME.fullmatch(path.name))
        ]
        if found:
            return max(found)[1]
    looked = " and ".join(f"{one}/config.yaml" for one in folders)
    raise ConfigError(f"{looked}: no such file; name the folder that `snakemake --profile` is given")


def read_cpu_rules(profile_folder: Path | None, snakemake_arguments: Sequence[str]) -> CpuRules:
    """Return what a config's CPU rules ask for by a profile; `snakemake_arguments` name the config.

    Raises:
        ConfigError: if the profile is not there, or snakemake refuses it.
    """
    path = find_profile(profile_folder)
    settings = read_document(path).values
    executor, profile_qos = settings.get("executor"), settings.get("slurm-qos")
    unset = {key: value for key, value in _DRY_RUN_DEFAULTS.items() if key not in settings}
    arguments = [*snakemake_arguments, *(text for key, value in unset.items() for text in (f"--{key}", value))]
    jobs = list(_JOB.finditer(_dry_run(path.parent.absolute(), arguments)))
    rule_files = (CHECKOUT / "workflow" / "rules").glob("*.smk")
    local_rules = {name for file in rule_files for name in _LOCAL_RULE.findall(file.read_text(encoding="utf-8"))}
    rules_by_options: dict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
    launcher = None
    for job in jobs:
        fields = {found["name"]: found["value"] for found in _FIELD.finditer(job["body"])}
        resources = dict(item.partition("=")[::2] for item in fields.get("resources", "").split(", "))
        if job["rule"] == "train":
            launcher = resources.get("launcher")
        if job["rule"] in local_rules or "output" not in fields:  # a target has none
            continue
        options = tuple(_options(resources, fields.get("threads", "1"), profile_qos).items())
        if job["rule"] not in rules_by_options[options]:
            rules_by_options[options].append(job["rule"])
    return CpuRules(
        path=str(path),
        executor=None if executor is None else str(executor),
        launcher=launcher,
        rules_by_options=dict(rules_by_options),
    )


def _options(resources: Mapping[str, str], threads: str, profile_qos: object) -> dict[str, str]:
    defaults = {"--cpus-per-task": threads} | ({} if profile_qos is None else {"--qos": str(profile_qos)})
    return defaults | {
        option: resources[name]
        for name, option in _OPTION_BY_RESOURCE.items()
        if resources.get(name, "<TBD>") != "<TBD>"  # decided by the input's size, which is not there yet
    }


def _dry_run(profile_folder: Path, arguments: Sequence[str]) -> str:
    """Return what a dry run prints of all jobs; in a folder of its own, as snakemake leaves traces also then."""
    command = [
        sys.executable, "-m", "snakemake", "--snakefile", str(CHECKOUT / "Snakefile"),
        "--profile", str(profile_folder), *arguments, "--forceall", "--dry-run", "--nocolor",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        answer = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=DRY_RUN_SECONDS
        )
    if answer.returncode != 0:
        said = "; ".join([*answer.stderr.splitlines(), *answer.stdout.splitlines()][-3:])
        raise ConfigError(f"{profile_folder}: snakemake refuses it: {said}")
    return answer.stdout
