"""What Slurm's commands print about a cluster, put alone on PATH; sbatch refuses a pattern."""

from dataclasses import dataclass
from pathlib import Path

import pytest

CONFIG = "ClusterName             = ours\nMinJobAge               = 300 sec\n"
SCRIPT = "#!/bin/sh\n[ -s {text} ] || exit 1\n/bin/cat {text}\n"
SBATCH = """#!/bin/sh
echo "$*" >> {folder}/asked
/bin/cat > {folder}/text
case "$*" in {refused}) echo "allocation failure: Requested node configuration is not available" >&2; exit 1 ;; esac
case "$(/bin/cat {folder}/text)" in {refused}) echo "sbatch: error: invalid partition specified" >&2; exit 1 ;; esac
echo "sbatch: Job 7 to start at 2026-01-01T12:00:00 using 1 processors on nodes n1 in partition gpu" >&2
"""


@dataclass(frozen=True)
class FakeCluster:
    """The texts, each as the command prints it, '' for a command that fails; `refused` is a pattern of the shell.

    `partitions` are lines `name|time limit`, the default one marked *; `associations` are `cluster|account|qos`.
    """

    partitions: str = "gpu*|2-00:00:00\n"
    config: str = CONFIG
    associations: str = ""
    refused: str = "nothing"

    def install(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let PATH hold these commands and no others."""
        folder.mkdir(exist_ok=True, parents=True)
        text_by_command = {"sinfo": self.partitions, "scontrol": self.config, "sacctmgr": self.associations}
        script_by_command = {"sbatch": SBATCH.format(folder=folder, refused=self.refused)}
        for command in ("srun", "squeue", "scancel"):
            script_by_command[command] = "#!/bin/sh\n"
        for command, text in text_by_command.items():
            (folder / f"{command}.txt").write_text(text, encoding="utf-8")
            script_by_command[command] = SCRIPT.format(text=folder / f"{command}.txt")
        for command, script in script_by_command.items():
            (folder / command).write_text(script, encoding="utf-8")
            (folder / command).chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
