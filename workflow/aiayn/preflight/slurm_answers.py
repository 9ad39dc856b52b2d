"""Slurm's commands asked, and how it prints times, GPUs and tracked resources. An answer that does not come is None."""

import re
import subprocess
from collections import Counter
from collections.abc import Sequence

TIMEOUT_SECONDS = 20.0
_GPU = re.compile(r"gpu(?::(?P<type>[A-Za-z][^:(,]*))?:(?P<number>\d+)")
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})")
_TRES = re.compile(r"(?P<name>[^=,]+)=(?P<number>\d+(?:\.\d+)?)(?P<unit>[KMGTP]?)")
_MB_BY_UNIT = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}


def ask(command: Sequence[str]) -> str | None:
    """Return what a command prints, None if it fails, is not there or does not answer."""
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, timeout=TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None


def ask_table(command: Sequence[str], num_fields: int) -> list[list[str]] | None:
    """Return the fields of each line, cut at `|`; None without an answer, or if it is half a one."""
    answer = ask(command)
    if answer is None:
        return None
    lines = [[field.strip() for field in line.split("|")] for line in answer.splitlines() if line.strip()]
    return lines if all(len(line) == num_fields for line in lines) else None


def read_minutes(limit: str) -> float | None:
    """Return Slurm's `1-02:03:04`, `02:03:04`, `03:04` (minutes and seconds) in minutes; None for no limit."""
    found = _TIME.fullmatch(limit)
    if found is None:
        return None
    parts = [int(part) for part in found["parts"].split(":")]
    if found["days"] is not None:  # days-hours[:minutes[:seconds]]
        hours, minutes, seconds = [*parts, 0, 0][:3]
    else:  # [hours:]minutes:seconds, or minutes alone
        hours, minutes, seconds = [0, *parts, 0] if len(parts) == 1 else [0] * (3 - len(parts)) + parts
    return int(found["days"] or 0) * 1440 + hours * 60 + minutes + seconds / 60


def read_gpus(gres: str) -> dict[str, int]:
    """Return the number of GPUs by type of `gpu:h100:8(S:0-1),...`; '' is the type of those that have none."""
    number_by_type: Counter[str] = Counter()
    for found in _GPU.finditer(gres):
        number_by_type[found["type"] or ""] += int(found["number"])
    return dict(number_by_type)


def read_tres(text: str) -> dict[str, float]:
    """Return the numbers of `cpu=64,gres/gpu:h100=8,mem=1T` by name; memory in MB, which is Slurm's own unit."""
    return {
        found["name"].lower(): float(found["number"]) * (_MB_BY_UNIT[found["unit"]] if found["name"] == "mem" else 1)
        for found in _TRES.finditer(text)
    }


def read_count(text: str) -> int | None:
    """Return a limit that is a number, None for none."""
    return int(text) if text.isdecimal() else None
