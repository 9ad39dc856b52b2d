"""What Slurm's commands print about a cluster, put alone on PATH: nodes, partitions, configuration and accounting."""

from dataclasses import dataclass
from pathlib import Path

import pytest

NODE = "n1|gpu*|up|2-00:00:00|64|256000|gpu:h100:8(S:0-1)|fast,new|idle"
CONFIG = "ClusterName             = ours\nMinJobAge               = 300 sec\n"
ENFORCED = "AccountingStorageEnforce = associations,limits,qos\n"
SCRIPT = """#!/bin/sh
case "$*" in
{cases}
esac
"""


@dataclass(frozen=True)
class FakeCluster:
    """The texts, each as the command prints it; '' is a command that fails.

    `associations` have the fields of `aiayn.preflight.slurm_accounting.ASSOCIATION_FORMAT`, `qos` those of QOS_FORMAT,
    as sacctmgr(1) of Slurm 22.05 describes them.
    """

    nodes: str = NODE
    config: str = CONFIG
    partitions: str = ""
    associations: str = ""
    qos: str = ""
    default_account: str = ""

    def install(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let PATH hold these commands and no others."""
        folder.mkdir(exist_ok=True, parents=True)
        texts_by_command = {
            "sinfo": {"*": self.nodes},
            "scontrol": {"*partition*": self.partitions, "*config*": self.config},
            "sacctmgr": {
                "*associations*": self.associations, "*\\ qos\\ *": self.qos, "*\\ user\\ *": self.default_account
            },
            **{name: {"*": "x"} for name in ("sbatch", "srun", "squeue", "scancel")},
        }  # fmt: skip
        for command, text_by_words in texts_by_command.items():
            cases = []
            for index, (words, text) in enumerate(text_by_words.items()):
                (folder / f"{command}{index}.txt").write_text(text, encoding="utf-8")
                answer = f"/bin/cat {folder}/{command}{index}.txt" if text else "exit 1"
                cases.append(f"  {words}) {answer} ;;")
            (folder / command).write_text(SCRIPT.format(cases="\n".join(cases)), encoding="utf-8")
            (folder / command).chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
