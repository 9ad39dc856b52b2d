"""Checks by `sbatch --test-only` whether Slurm would accept trainings and CPU rules, before anything is submitted.

A training is tested by its sbatch file, CPU rules by the resources that snakemake resolves from the profile. Where
Slurm enforces no limits (EnforcePartLimits=NO, AccountingStorageEnforce=none) sbatch does not check the time limits of
partitions, account and QoS; they are compared here.
"""

import contextlib
import getpass
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec

from aiayn.errors import ConfigError
from aiayn.launch.slurm.launcher import without_foreign_variables
from aiayn.launch.slurm.queue import SlurmError, run_slurm
from aiayn.price.preflight.checks import Check
from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.strict_yaml import read_document
from aiayn.spec.system import CHECKOUT

COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
# Snakemake's executor looks at its jobs up to so many seconds apart. If squeue forgets a job between two looks,
# Snakemake waits for ever.
SECONDS_BETWEEN_LOOKS = 180
SHOW_NODES = "sinfo --Node --format='%N %P %c %m %G %f %T'"
_MIN_JOB_AGE = re.compile(r"^MinJobAge\s*=\s*(?P<seconds>\d+)", re.MULTILINE)
_CLUSTER = re.compile(r"^ClusterName\s*=\s*(?P<name>\S+)", re.MULTILINE)
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})")
DEFAULT_PROFILE = CHECKOUT / "profiles" / "slurm"
USER_PROFILES = Path(".config") / "snakemake"  # below the home folder; snakemake looks there, too
DRY_RUN_SECONDS = 300.0
# For a profile without them: a dry run needs a number of jobs, and by default limits each rule to one core.
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
Options = tuple[tuple[str, str], ...]  # of sbatch, with their values


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that a training, or some CPU rules, request; `words` describe them, `file` is where to change them.

    `check` is the name of the check. None is Slurm's own default.
    """

    check: str
    name: str
    command: list[str]
    text: str
    words: str
    file: str
    partition: str | None
    account: str | None
    qos: str | None
    minutes: float | None


def check_slurm(cluster: ClusterSpec, training_text: str, rule_requests: Sequence[JobRequest]) -> list[Check]:
    """Return the checks of a training, by its sbatch file, and of the requests of CPU rules."""
    missing = [command for command in COMMANDS if shutil.which(command) is None]
    if missing:
        advice = "start from a machine of the cluster that has Slurm's commands, or choose `--launcher local`"
        return [Check("slurm", "FAIL", f"not on PATH: {', '.join(missing)}", advice)]
    config = _lines_of(["scontrol", "show", "config"])
    if config is None:
        advice = "run this on a login node, where `scontrol show config` answers; if it fails, ask the administrator"
        return [Check("slurm", "FAIL", "scontrol does not answer", advice)]
    requests = [_training_request(cluster, training_text), *rule_requests]
    minutes_by_partition, associations = _read_time_limits(), _read_associations("\n".join(config))
    with without_foreign_variables(cluster):
        answers = [_ask_sbatch(request) for request in requests]
    return [
        *_summarised(answers),
        *(check for request in requests for check in _check_minutes(request, minutes_by_partition)),
        *(check for request in requests for check in _check_account(request, associations)),
        _check_min_job_age("\n".join(config)),
    ]


def _lines_of(command: Sequence[str]) -> list[str] | None:
    """Return what one of Slurm's commands prints, None if it does not answer."""
    with contextlib.suppress(SlurmError):
        return run_slurm(command).stdout.splitlines()
    return None


def _training_request(cluster: ClusterSpec, text: str) -> JobRequest:
    gpus = f"{cluster.gpus_per_node} {cluster.gpu_type or ''}".strip()
    memory = f"{cluster.memory_gb_per_node} GB" if cluster.memory_gb_per_node else "Slurm's default memory"
    num_cpus = cluster.ranks_per_node * cluster.cpus_per_rank
    constraint = f", {cluster.constraint}" if cluster.constraint else ""
    return JobRequest(
        check="training",
        name="a training",
        command=["sbatch", "--test-only"],
        text=text,
        words=f"nodes: {cluster.num_nodes}, each with {gpus} GPUs, {num_cpus} CPUs, {memory}{constraint}",
        file=f"workflow/config/clusters/{cluster.name}.yaml",
        partition=cluster.partition,
        account=cluster.account,
        qos=cluster.qos,
        minutes=cluster.time_limit_minutes,
    )


def read_profile(folder: Path | None, snakemake_arguments: Sequence[str]) -> tuple[list[JobRequest], list[Check]]:
    """Return the requests of a config's CPU rules, none where they are no Slurm jobs, and the checks of a profile.

    `snakemake_arguments` name the config; without a folder the checkout's profile counts. Memory, minutes, threads,
    partition, account, QoS and GPUs are as a dry run of snakemake resolves them; the options of sbatch are those that
    its Slurm executor writes.
    """
    if not (CHECKOUT / "Snakefile").is_file():
        advice = "run from a checkout, or compare the profile with `sinfo` yourself"
        said = f"{CHECKOUT}: no Snakefile: the resources of CPU rules are unknown"
        return [], [Check("profile", "WARN", said, advice)]
    try:
        path = find_profile(folder)
        settings = read_document(path).values
        unset = {key: value for key, value in _DRY_RUN_DEFAULTS.items() if key not in settings}
        arguments = [*snakemake_arguments, *(text for key, value in unset.items() for text in (f"--{key}", value))]
        jobs = list(_JOB.finditer(_dry_run(path.parent.absolute(), arguments)))
    except ConfigError as error:
        return [], [
            Check("profile", "FAIL", str(error), "correct it, or name the folder of your own: `--profile FOLDER`")
        ]
    launcher, rules_by_options = _resolved(jobs, settings.get("slurm-qos"))
    checks = []
    if launcher != "slurm":
        advice = "write `set-resources: {train: {launcher: slurm}}` there, or choose `--launcher local`"
        said = f"launcher of train is {launcher or 'not set'}: trainings would run where snakemake does"
        checks.append(Check("profile", "WARN", f"{path}: {said}", advice))
    if settings.get("executor") != "slurm":
        said = f"executor is {settings.get('executor') or 'not set'}: CPU rules would run where snakemake does"
        advice = "write `executor: slurm` there, to run them by Slurm"
        return [], [*checks, Check("profile", "WARN", f"{path}: {said}", advice)]
    return [_rule_request(options, names, path) for options, names in rules_by_options.items()], checks


def _rule_request(options: Options, names: Sequence[str], path: Path) -> JobRequest:
    value_by_option, flags = dict(options), [f"{option}={value}" for option, value in options]
    minutes = value_by_option.get("--time", "")
    return JobRequest(
        check="CPU rules",
        name=", ".join(sorted(names)),
        command=["sbatch", "--test-only", "--ntasks=1", *flags],
        text="#!/bin/sh\n",
        words=" ".join(flags),
        file=str(path),
        partition=value_by_option.get("--partition"),
        account=value_by_option.get("--account"),
        qos=value_by_option.get("--qos"),
        minutes=float(minutes) if minutes.isdecimal() else None,
    )


def _resolved(jobs: Sequence[re.Match[str]], profile_qos: object) -> tuple[str | None, dict[Options, list[str]]]:
    """Return train's launcher, and the names of rules by the options of sbatch that they request."""
    rule_files = (CHECKOUT / "workflow" / "rules").glob("*.smk")
    local_rules = {name for file in rule_files for name in _LOCAL_RULE.findall(file.read_text(encoding="utf-8"))}
    rules_by_options: dict[Options, list[str]] = defaultdict(list)
    launcher = None
    for job in jobs:
        fields = {field["name"]: field["value"] for field in _FIELD.finditer(job["body"])}
        resources = dict(item.partition("=")[::2] for item in fields.get("resources", "").split(", "))
        if job["rule"] == "train":
            launcher = resources.get("launcher")
        if job["rule"] in local_rules or "output" not in fields:  # a target has none
            continue
        requested = {"--cpus-per-task": fields.get("threads", "1")}
        requested |= {} if profile_qos is None else {"--qos": str(profile_qos)}
        requested |= {
            option: resources[name]
            for name, option in _OPTION_BY_RESOURCE.items()
            if resources.get(name, "<TBD>") != "<TBD>"  # depends on the size of an input that does not exist yet
        }
        if job["rule"] not in rules_by_options[tuple(requested.items())]:
            rules_by_options[tuple(requested.items())].append(job["rule"])
    return launcher, rules_by_options


def find_profile(name: Path | None) -> Path:
    """Return the config file of a profile, found as snakemake finds it; without a name that of the checkout.

    Raises:
        ConfigError: if there is none.
    """
    folders = [DEFAULT_PROFILE] if name is None else [name, Path.home() / USER_PROFILES / name]
    for folder in folders:
        matches = [(_CONFIG_NAME.fullmatch(path.name), path) for path in folder.glob("*")]
        configs = [(int(match["version"] or 0), path) for match, path in matches if match]
        if configs:
            return max(configs)[1]
    looked = " and ".join(f"{folder}/config.yaml" for folder in folders)
    raise ConfigError(f"{looked}: no such file; name the folder that `snakemake --profile` is given")


def _dry_run(profile_folder: Path, arguments: Sequence[str]) -> str:
    """Return the output of a dry run of all jobs; in a temporary folder, because snakemake writes files also then."""
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


def _ask_sbatch(request: JobRequest) -> Check:
    """Return the check of a request by `sbatch --test-only`."""
    where = f"in {request.file}; `{SHOW_NODES}` shows what nodes have"
    try:
        return Check(request.check, "OK", _evidence(request, run_slurm(request.command, request.text).stderr))
    except SlurmError as error:
        if not error.has_answered:
            evidence, advice = f"{request.name}: sbatch does not answer", "repeat it when `squeue --me` answers"
            return Check(request.check, "FAIL", evidence, advice)
        return Check(request.check, "FAIL", _evidence(request, error.reason), f"request what Slurm has, {where}")


def _evidence(request: JobRequest, answer: str) -> str:
    said = [re.sub(r"^sbatch: (error: )?(Job \d+ )?|^allocation failure: ", "", line) for line in answer.splitlines()]
    return f"{request.name}: {request.words}: {'; '.join(dict.fromkeys(said))}"


def _summarised(answers: Sequence[Check]) -> list[Check]:
    """Return the answers, with one check for all CPU rules that Slurm accepts."""
    accepted = [check for check in answers if check.name == "CPU rules" and check.outcome == "OK"]
    names = ", ".join(sorted(name for check in accepted for name in check.evidence.partition(":")[0].split(", ")))
    others = [check for check in answers if check not in accepted]
    return [*others, Check("CPU rules", "OK", f"Slurm accepts {names}")] if accepted else others


def _read_time_limits() -> dict[str, float | None]:
    """Return each partition's time limit in minutes, None for no limit; '' is the default partition, too."""
    minutes_by_partition = {}
    for line in _lines_of(["sinfo", "--noheader", "--format=%P|%l"]) or []:
        name, _, limit = line.strip().partition("|")
        minutes_by_partition[name.rstrip("*")] = _read_minutes(limit)
        if name.endswith("*"):
            minutes_by_partition[""] = _read_minutes(limit)
    return minutes_by_partition


def _read_minutes(limit: str) -> float | None:
    """Return Slurm's `1-02:03:04`, `02:03:04`, `03:04` (minutes and seconds) in minutes; None for no limit."""
    match = _TIME.fullmatch(limit)
    if match is None:
        return None
    parts = [int(part) for part in match["parts"].split(":")]
    if match["days"] is not None:  # days-hours[:minutes[:seconds]]
        hours, minutes, seconds = [*parts, 0, 0][:3]
    else:  # [hours:]minutes:seconds, or minutes alone
        hours, minutes, seconds = [0, *parts, 0] if len(parts) == 1 else [0] * (3 - len(parts)) + parts
    return int(match["days"] or 0) * 1440 + hours * 60 + minutes + seconds / 60


def _check_minutes(request: JobRequest, minutes_by_partition: dict[str, float | None]) -> list[Check]:
    """Compare a job's minutes with the limit of its partition, of several the longest."""
    names = (request.partition or "").split(",")
    limits = [minutes_by_partition[name] for name in names if name in minutes_by_partition]
    known = [limit for limit in limits if limit is not None]
    if request.minutes is None or not limits or len(known) < len(limits) or request.minutes <= max(known):
        return []
    evidence = f"{request.minutes:,.0f} minutes, partition {request.partition or '(default)'} allows {max(known):,.0f}"
    advice = f"request {max(known):.0f} or less in {request.file}, or name another partition there"
    return [Check("time limit", "FAIL", f"{request.name}: {evidence}", advice)]


def _read_associations(config: str) -> list[tuple[str, list[str]]] | None:
    """Return this user's accounts on this cluster, each with its QoS; None where accounting does not answer."""
    cluster = _CLUSTER.search(config)
    command = ["sacctmgr", "--noheader", "--parsable2", "show", "associations", f"user={getpass.getuser()}"]
    lines = _lines_of([*command, "format=cluster,account,qos"])
    if lines is None:
        return None
    fields = [line.split("|") for line in lines if line.count("|") == 2]
    return [
        (account, [name.removeprefix("+") for name in qos.split(",") if name])
        for where, account, qos in fields
        if cluster is None or where.lower() == cluster["name"].lower()
    ]


def _check_account(request: JobRequest, associations: list[tuple[str, list[str]]] | None) -> list[Check]:
    """Compare account and QoS, where they are named, with this user's."""
    checks = []
    accounts = sorted({account for account, _ in associations or []})
    of_account = [qos for account, qos in associations or [] if request.account in (None, account)]
    mine_by_subject = {"account": accounts, "qos": sorted({name for names in of_account for name in names})}
    for subject, value in (("account", request.account), ("qos", request.qos)):
        if value is None or value in mine_by_subject[subject]:
            continue
        if not associations:
            evidence = f"{request.name}: {subject} {value}: unknown, accounting lists none for you"
            checks.append(Check("account", "WARN", evidence, "ask the administrator, or submit one job"))
        else:
            advice = f"name one of {', '.join(mine_by_subject[subject]) or 'another account'} in {request.file}"
            checks.append(Check("account", "FAIL", f"{request.name}: {subject} {value!r} is not among yours", advice))
    return checks


def _check_min_job_age(config: str) -> Check:
    """Check that squeue shows an ended job long enough to be seen; Slurm's default is 300 s, and 0 is for ever."""
    match = _MIN_JOB_AGE.search(config)
    if match is None:
        advice = f"ask the administrator whether it is {SECONDS_BETWEEN_LOOKS} s or more"
        return Check("MinJobAge", "WARN", "unknown, `scontrol show config` does not print it", advice)
    seconds = int(match["seconds"])
    evidence = f"squeue shows an ended job {f'for {seconds} s' if seconds else 'for ever'}"
    if 0 < seconds < SECONDS_BETWEEN_LOOKS:
        advice = "ask the administrator for MinJobAge=300; until then run CPU rules on this machine: `--executor local`"
        evidence += f", below the {SECONDS_BETWEEN_LOOKS} s between two looks: Snakemake would wait for ever"
        return Check("MinJobAge", "FAIL", evidence, advice)
    return Check("MinJobAge", "OK", evidence)
