"""What each CPU rule asks Slurm for by a snakemake profile: memory, minutes, threads, partition, account, QoS, GPUs.

The profile may be a copy of profiles/slurm; it is read as snakemake and its Slurm executor read it, without them.
"""

import math
import os
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from aiayn.errors import ConfigError
from aiayn.preflight.asked_job import AskedJob
from aiayn.preflight.checks import CHECKOUT
from aiayn.preflight.cpu_rules import CpuRule
from aiayn.strict_yaml import Document, read_document

DEFAULT_PROFILE = CHECKOUT / "profiles" / "slurm"
USER_PROFILES = Path(".config") / "snakemake"  # below the home folder; snakemake looks there, too
_CONFIG_NAME = re.compile(r"(?:profile|config)(?:\.v(?P<version>\d+)\+)?\.yaml")
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]?)(?P<binary>i?)B?", re.IGNORECASE)
_SPAN = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[smhdw])[a-z]*", re.IGNORECASE)
_MINUTES_BY_UNIT = {"s": 1 / 60, "m": 1, "h": 60, "d": 1440, "w": 10080}
_MEMORY_KEYS = ("mem_mb", "mem", "mem_mib")
_GPU_KEYS = ("gpu", "gpus", "nvidia_gpu", "gres")


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A profile's settings, the job of each CPU rule, and what of it could not be read as a number.

    `num_jobs` is the most Slurm jobs at once, None where the profile does not say.
    """

    path: str
    executor: str | None
    launcher: str | None
    num_jobs: int | None
    jobs: list[AskedJob]
    unread: list[str]


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


def read_profile(folder: Path | None, rules: Sequence[CpuRule], *, unused: Collection[str] = ()) -> Profile:
    """Read a profile and what it asks for each CPU rule but the unused.

    Raises:
        ConfigError: if it is not there, or no YAML mapping.
    """
    path = find_profile(folder)
    shown = Path(os.path.relpath(path)) if path.is_relative_to(Path.cwd()) else path
    document = read_document(shown)
    reader = _Reader(document)
    jobs = [reader.job_of(rule) for rule in rules if rule.name not in unused]
    num_jobs, executor = document.values.get("jobs"), document.values.get("executor")
    launcher = reader.resources_of("train").get("launcher")
    return Profile(
        path=str(shown),
        executor=None if executor is None else str(executor),
        launcher=None if launcher is None else str(launcher),
        num_jobs=num_jobs if isinstance(num_jobs, int) else None,
        jobs=jobs,
        unread=list(dict.fromkeys(reader.unread)),
    )


class _Reader:
    """One profile's settings by rule, with the place of each; what is no plain value goes to `unread`."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.unread: list[str] = ["__use_yte__: a template"] if "__use_yte__" in document.values else []
        self.defaults = self._mapping("default-resources")
        self.by_rule = self._mapping("set-resources")
        self.threads = self._mapping("set-threads")

    def _mapping(self, key: str) -> dict[str, Any]:
        """Return a mapping of the profile, also where it is written as a list of `NAME=VALUE`, `RULE:NAME=VALUE`."""
        value = self.document.values.get(key)
        if isinstance(value, dict):
            return value
        pairs = [str(item).partition("=") for item in value] if isinstance(value, list) else []
        mapping: dict[str, Any] = {}
        for name, _, text in pairs:
            rule, colon, resource = name.partition(":")
            if colon:
                mapping.setdefault(rule, {})[resource] = _scalar(text)
            else:
                mapping[name] = _scalar(text)
        return mapping

    def resources_of(self, rule: str) -> dict[str, Any]:
        """Return what the profile sets for one rule by its name."""
        resources = self.by_rule.get(rule, {})
        return resources if isinstance(resources, dict) else {}

    def find(self, rule: str, names: Sequence[str]) -> tuple[str, Any, str]:
        """Return which of a resource's names a rule has, its value (None without any), and where to change it."""
        resources = self.resources_of(rule)
        places = [(resources, f"set-resources.{rule}"), (self.defaults, "default-resources")]
        for mapping, prefix in places:
            for name in names:
                if mapping.get(name) is not None:
                    place = self.document.place(f"{prefix}.{name}")
                    return name, mapping[name], f"{place} ({prefix}.{name})"
        return names[0], None, f"{self.document.path} (default-resources.{names[0]})"

    def number(self, rule: str, names: Sequence[str], read: Callable[[str, Any], float | None]) -> float | None:
        """Return a resource as a number, None if it is not set, or not one."""
        name, value, place = self.find(rule, names)
        if value is None:
            return None
        number = read(name, value)
        if number is None:
            self.unread.append(f"{place} {value!r}")
        return number

    def num_cpus(self, rule: CpuRule) -> tuple[int, str]:
        """Return a rule's CPUs, never more than the profile's `cores`, and where they are to be changed."""
        _, cpus, place = self.find(rule.name, ["cpus_per_task"])
        if isinstance(cpus, int):
            return max(1, cpus), place
        dotted = f"set-threads.{rule.name}"
        threads = self.threads.get(rule.name)
        place = f"{self.document.place(dotted)} ({dotted})"
        if threads is None:
            threads = rule.num_threads
            place = f"{self.document.path} ({dotted}, to be added; the rule has {threads}, {rule.place})"
        if not isinstance(threads, int):
            self.unread.append(place if threads is None else f"{place} {threads!r}")
            return 1, place
        cores = self.document.values.get("cores")
        return min(threads, cores) if isinstance(cores, int) else threads, place

    def job_of(self, rule: CpuRule) -> AskedJob:
        """Return what a rule asks Slurm for."""
        name = rule.name
        num_cpus, cpus_place = self.num_cpus(rule)
        memory_keys: Sequence[str] = _MEMORY_KEYS
        memory = self.number(name, ["mem_mb_per_cpu"], _megabytes)  # which the executor puts above `mem_mb`
        if memory is not None:
            memory_keys, memory = ["mem_mb_per_cpu"], memory * num_cpus
        else:
            memory = self.number(name, memory_keys, _megabytes)
        gpus, gpus_place = self.find(name, _GPU_KEYS)[1:]
        gpu_type, num_gpus = _gpus(gpus)
        key_by_subject = {
            "constraint": "constraint",
            "nodes": "nodes",
            "partition": "slurm_partition",
            "account": "slurm_account",
        }
        place_by_subject = {subject: self.find(name, [key])[2] for subject, key in key_by_subject.items()}
        qos, qos_place = self.find(name, ["qos"])[1:]
        of_all = self.document.values.get("slurm-qos")  # stands last on sbatch's command line
        if of_all is not None or qos is None:
            place = self.document.path if of_all is None else self.document.place("slurm-qos")
            qos, qos_place = of_all, f"{place} (slurm-qos)"
        return AskedJob(
            name=name,
            partitions=_names(self.find(name, ["slurm_partition"])[1]),
            account=next(iter(_names(self.find(name, ["slurm_account"])[1])), None),
            qos=None if qos is None else str(qos),
            constraint=_text(self.find(name, ["constraint"])[1]),
            num_nodes=1,
            num_cpus=num_cpus,
            memory_mb=None if memory is None else round(memory),
            num_gpus=num_gpus,
            gpu_type=gpu_type,
            minutes=self.number(name, ["runtime"], _minutes),
            place_by_subject=place_by_subject
            | {"qos": qos_place, "cpus": cpus_place, "gpus": gpus_place}
            | {"memory": self.find(name, memory_keys)[2], "minutes": self.find(name, ["runtime"])[2]},
        )


def _scalar(text: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _names(value: object) -> list[str]:
    return [] if value is None else [name for name in re.split(r"[,\s]+", str(value)) if name]


def _megabytes(name: str, value: object) -> float | None:
    """Return a size as snakemake reads it: a number is megabytes (mebibytes of `mem_mib`), `8GB` is for `mem` alone."""
    if isinstance(value, int | float):
        return value * 1.048576 if name == "mem_mib" else value
    text = str(value).strip("'\"")
    if text.isdecimal():
        return float(text)
    found = _SIZE.fullmatch(text)
    if found is None or name != "mem":
        return None
    base = 1024.0 if found["binary"] else 1000.0
    return float(found["number"]) * math.pow(base, " KMGT".index(found["unit"].upper() or " ")) / 1e6


def _minutes(name: str, value: object) -> float | None:
    """Return a span as snakemake reads it: a number is minutes, `8h` is eight hours."""
    if isinstance(value, int | float):
        return value
    text = str(value).strip("'\"")
    found = _SPAN.fullmatch(text)
    if found is None:
        return float(text) if text.isdecimal() else None
    return float(found["number"]) * _MINUTES_BY_UNIT[found["unit"].lower()]


def _gpus(value: object) -> tuple[str | None, int]:
    """Return type and number of `1` (gpu) or `gpu:h100:2` (gres)."""
    if isinstance(value, int):
        return None, value
    parts = str(value or "").split(":")
    if parts[0] != "gpu":
        return None, 0
    number = parts[-1] if parts[-1].isdecimal() else "1"
    return next((part for part in parts[1:] if not part.isdecimal()), None), int(number)
