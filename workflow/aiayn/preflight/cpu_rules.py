"""Which rules become Slurm jobs, and with how many threads, as the rule files say; snakemake is not asked.

Memory, minutes and partitions are the profile's alone (`aiayn.preflight.profile`).
"""

import re
from pathlib import Path

import msgspec

from aiayn.plan.plan import AskedScale
from aiayn.preflight.checks import CHECKOUT

RULES_FOLDER = CHECKOUT / "workflow" / "rules"
_RULE = re.compile(r"^rule (?P<name>\w+):\n(?P<body>(?:(?: .*)?\n)*)", re.MULTILINE)
_THREADS = re.compile(r"^    threads:\s*(?P<value>.*?)\s*$", re.MULTILINE)
_IS_LOCAL = re.compile(r"^    localrule: True$", re.MULTILINE)
_HAS_COMMAND = re.compile(r"^    shell:", re.MULTILINE)


class CpuRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that a Slurm profile makes a job of; `num_threads` is None where the file has an expression for it."""

    name: str
    num_threads: int | None
    place: str


def read_cpu_rules(folder: Path = RULES_FOLDER) -> list[CpuRule]:
    """Return all rules with a command that are not local, none without the folder; no `threads` is one, as there."""
    rules = []
    for path in sorted(folder.glob("*.smk")):
        text = path.read_text(encoding="utf-8")
        for found in _RULE.finditer(text):
            if _IS_LOCAL.search(found["body"]) or not _HAS_COMMAND.search(found["body"]):
                continue
            threads = _THREADS.search(found["body"])
            value = threads["value"] if threads else "1"
            start = found.start("body") + threads.start() if threads else found.start()
            rules.append(
                CpuRule(
                    name=found["name"],
                    num_threads=int(value) if value.isdecimal() else None,
                    place=f"{path.parent.name}/{path.name}:{text.count(chr(10), 0, start) + 1}",
                )
            )
    return rules


def unused_rules(asked: AskedScale) -> set[str]:
    """Return the CPU rules of which a config certainly needs no job, whatever its data turn out to be."""
    is_used_by_rule = {
        **dict.fromkeys(("clean", "segment"), any(not corpus.is_segmented for corpus in asked.corpora.values())),
        "vectors": any(system.training.embeddings == "vectors" for system in asked.systems.values()),
        "baselines": asked.num_baselines > 0,
    }
    return {rule for rule, is_used in is_used_by_rule.items() if not is_used}
