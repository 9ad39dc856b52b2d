"""Turns the prologue (shell lines in the file of a cluster, which a job runs first) into bash. If a
line of the prologue fails, the job ends and leaves a file with a message for the driver, the
process that submitted the job.

`eval` runs each line of the prologue in the job's own shell. So the prologue's exports and
definitions stay in the job, and a syntax error is reported for its own line. A line of the prologue
fails if bash's exit code for the line is not 0: `export A=$(command)` succeeds even if the command
fails, and `a; b` fails if `b` fails. A line that ends the shell itself, such as `exit` or
`${SCRATCH:?}`, does not leave a file for the driver. The message of a line that ends the shell is
only in the job's log.
"""

import shlex
from pathlib import Path

from aiayn.spec.cluster import ClusterSpec

# EX_CONFIG of sysexits.h. In Slurm's accounting it shows that the training did not begin.
PROLOGUE_EXIT_CODE = 78
_NOTE_SUFFIX = "_prologue.txt"
_FAIL = f"""\
aiayn_fail() {{
    printf '%s\\n' "prologue of cluster $1, on $HOSTNAME: this line ended the job, with exit code $3; correct it in \
the cluster's file, or add '|| true' if it may fail: $4" | tee "$2" >&2
    exit {PROLOGUE_EXIT_CODE}
}}"""  # noqa: E501


def prologue_lines(cluster: ClusterSpec, notes_folder: Path) -> list[str]:
    """Return the bash lines that run a cluster's prologue in a job, or [] for an empty prologue."""
    if not cluster.prologue:
        return []
    name = shlex.quote(cluster.name)
    # $SLURM_JOB_ID is in double quotes, because bash must expand it in the job. `shlex.quote` would
    # use single quotes.
    note = f'{shlex.quote(str(notes_folder))}/"$SLURM_JOB_ID"{_NOTE_SUFFIX}'
    # A requeued job has the same number. An old note would make the driver give up.
    lines = [f"rm -f {note}  # of this job before it was requeued", _FAIL]
    for line in map(shlex.quote, map(str.strip, cluster.prologue)):
        lines.append(f"eval {line} || aiayn_fail {name} {note} $? {line}")
    return [*lines, "unset -f aiayn_fail"]


def prologue_failure(notes_folder: Path, job: str) -> str:
    """Return the message about the line of the prologue that ended a job, or '' if no line of the
    prologue failed.
    """
    path = notes_folder / f"{job}{_NOTE_SUFFIX}"
    return path.read_text(encoding="utf-8", errors="replace").strip() if path.exists() else ""
