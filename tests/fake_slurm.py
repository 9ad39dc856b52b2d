"""Slurm's commands as drivers and verbs see them: squeue shows a file's lines, sbatch adds one,
scancel changes one.
"""

import os
import stat
from pathlib import Path

import pytest

# The lines are those of aiayn.launch.slurm.queue: number, state, node, time left, name, reason,
# script.
SQUEUE = """#!/bin/sh
echo "squeue $*" >> "{folder}/calls"
env | grep '^SQUEUE_' >> "{folder}/foreign"
[ -e "{folder}/down" ] && {{ echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; }}
for argument; do case "$argument" in --name=*) name="${{argument#--name=}}";; esac; done
while IFS= read -r line; do
    case "$*|$line" in *--states=all*) ;; *"|CANCELLED|"*) continue;; esac
    case "$line" in *"|$name${{name:+|}}"*) echo "$line";; esac
done < "{folder}/queue"
"""
SBATCH = """#!/bin/sh
env | grep -E '^(SLURM_|SBATCH_|MASTER_)' | sort > "{folder}/sbatch_environment"
[ -e "{folder}/refused" ] && {{ cat "{folder}/refused" >&2; exit 1; }}
job=$(($(cat "{folder}/next")))
echo $((job + 1)) > "{folder}/next"
cp "$1" "{folder}/$job.sh"
name=$(sed -n 's/^#SBATCH --job-name=//p' "$1")
echo "$job|PENDING||1:00|$name|None|$1" >> "{folder}/queue"
[ -e "{folder}/unanswered" ] && {{ echo "sbatch: error: Socket timed out on send/recv operation" >&2; exit 1; }}
echo "Submitted batch job $job"
"""
NOTING = """#!/bin/sh
echo "{name} $*" >> "{folder}/calls"
if [ -e "{folder}/down" ]; then echo "Unable to contact slurm controller" >&2; exit 1; fi
"""
SCANCEL = f"""{NOTING}\
[ -e "{{folder}}/ignoring" ] && exit 0
for argument; do case "$argument" in --name=*) name="${{{{argument#--name=}}}}";; esac; done
sed -i "s/^\\([0-9]*\\)|[A-Z]*\\(|[^|]*|[^|]*|$name|\\)/\\1|CANCELLED\\2/" "{{folder}}/queue"
"""


class FakeSlurm:
    """A folder of commands, to be the first of PATH, and the state that they show. The first job is
    7.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands = folder / "bin"
        self.commands.mkdir(parents=True)
        (folder / "next").write_text("7\n", encoding="utf-8")
        self.set_queue()
        texts = {
            "squeue": SQUEUE,
            "sbatch": SBATCH,
            "scancel": SCANCEL,
            "scontrol": NOTING,
            "srun": NOTING,
        }
        for name, text in texts.items():
            self.replace_command(name, text.format(folder=folder, name=name))

    def replace_command(self, name: str, text: str) -> None:
        """Write a command."""
        path = self.commands / name
        path.write_text(text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def put(
        self,
        job: str,
        state: str,
        name: str,
        *,
        node: str = "",
        reason: str = "None",
        script: str = "",
    ) -> None:
        """Let the queue hold another job."""
        with (self.folder / "queue").open("a", encoding="utf-8") as queue:
            queue.write(f"{job}|{state}|{node}|10:00|{name}|{reason}|{script}\n")

    def set_queue(self, *lines: str) -> None:
        """Let squeue show these lines."""
        (self.folder / "queue").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def set_state(self, job: str, state: str, reason: str = "None", node: str = "n1") -> None:
        """Change a job of the queue. With state '' squeue forgets it."""
        lines = (self.folder / "queue").read_text(encoding="utf-8").split("\n")[:-1]
        kept = []
        for line in lines:
            number, _, _, left, name, _, script = line.split("|")
            if number != job:
                kept.append(line)
            elif state:
                kept.append("|".join([number, state, node, left, name, reason, script]))
        self.set_queue(*kept)

    def set_flag(self, name: str, text: str = "") -> None:
        """Switch on `down`, `refused` (with what sbatch prints), `unanswered`, or `ignoring` (of
        scancel).
        """
        (self.folder / name).write_text(text, encoding="utf-8")

    def clear_flag(self, name: str) -> None:
        """Switch it off."""
        (self.folder / name).unlink()

    def calls(self, command: str) -> list[str]:
        """Return the arguments of each call of a command."""
        path = self.folder / "calls"
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        return [
            line.removeprefix(f"{command} ") for line in lines if line.startswith(f"{command} ")
        ]

    @property
    def cancelled(self) -> list[str]:
        """The names of which scancel was to cancel the jobs."""
        return [call.partition("--name=")[2] for call in self.calls("scancel")]

    def num_submitted(self) -> int:
        """Return how many jobs sbatch has taken."""
        return int((self.folder / "next").read_text(encoding="utf-8")) - 7


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Put a fake Slurm before everything else on PATH."""
    fake = FakeSlurm(folder)
    monkeypatch.setenv("PATH", f"{fake.commands}{os.pathsep}{os.environ['PATH']}")
    return fake
