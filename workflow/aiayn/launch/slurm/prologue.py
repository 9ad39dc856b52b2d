"""Turns the prologue of a cluster's file into bash: a line that fails ends the job and leaves a note for the driver.

Each line is run by `eval` in the job's own shell: what it exports or defines stays, and its syntax errors are its own.
bash's ERR trap sees a command that fails, also one in the middle of a line of several, or within an `if`; not one in a
condition, nor within a file or a function, which count by what they return. The EXIT trap sees a shell that ends
within a line, as by `exit` or `${SCRATCH:?}`. All traps are gone before Python.

bash does not report every failure: `export A=$(command)` succeeds whatever the command does (write `A=$(command)`, then
`export A`), and so does `module load` of Environment Modules before 4 (write `module load cuda && command -v nvcc`);
Environment Modules from 4 on and Lmod report it. Of `a && b`, the failure of `a` counts only where that ends its line:
write `a` on a line of its own.
"""

import shlex
from pathlib import Path

from aiayn.spec.cluster import ClusterSpec

PROLOGUE_EXIT_CODE = 78  # EX_CONFIG of sysexits.h; in the accounting it says that no training began
_TERMINATED = 143  # 128 + TERM: Slurm ends the job (scancel, preemption), which is no fault of a line
_NOTE_SUFFIX = "_prologue.txt"

# $1 is an exit code, $2 the depth of files it occurred in: 1 is the job's own script. A reported line is emptied,
# because `exit` calls the EXIT trap.
_BEGIN = f"""\
aiayn_fail() {{
    [ "$2" -eq 1 ] || return 0
    if [ -z "$aiayn_line" ] || [ "$1" -eq {_TERMINATED} ]; then exit "$1"; fi
    aiayn_told="prologue of cluster $aiayn_cluster, on $HOSTNAME: this line ended the job, with exit code $1; \
correct it in the cluster's file, or add '|| true' if it may fail: $aiayn_line"
    aiayn_line=
    printf '%s\\n' "$aiayn_told" >&2
    printf '%s\\n' "$aiayn_told" > "$aiayn_note"
    exit {PROLOGUE_EXIT_CODE}
}}
trap 'aiayn_fail $? "${{#BASH_SOURCE[@]}}"' ERR
trap 'aiayn_fail $? 1' EXIT
trap 'aiayn_fail {_TERMINATED} 1' TERM"""
# A line may have set a trap of its own, which stays.
_END = """\
for aiayn_trap in ERR EXIT TERM; do
    case $(trap -p "$aiayn_trap") in *aiayn_fail*) trap - "$aiayn_trap" ;; esac
done
unset -f aiayn_fail
unset aiayn_cluster aiayn_line aiayn_note aiayn_trap
# end of the prologue"""


def prologue_lines(cluster: ClusterSpec, notes_folder: Path) -> list[str]:
    """Return the bash lines that run a cluster's prologue in a job; none for an empty one."""
    if not cluster.prologue:
        return []
    lines = [
        "# the cluster's prologue: a line that fails ends the job",
        f"aiayn_cluster={shlex.quote(cluster.name)}",
        f'aiayn_note={shlex.quote(str(notes_folder))}/"$SLURM_JOB_ID"{_NOTE_SUFFIX}',
        "aiayn_line=",
        'rm -f "$aiayn_note"  # of this job before it was requeued',
        _BEGIN,
    ]
    for line in cluster.prologue:
        lines += [f"aiayn_line={shlex.quote(line.strip())}", 'eval "$aiayn_line"']
    return [*lines, _END]


def prologue_failure(notes_folder: Path, job: str) -> str:
    """Return the note on the prologue's line that ended a job, '' if none did."""
    path = notes_folder / f"{job}{_NOTE_SUFFIX}"
    return path.read_text(encoding="utf-8", errors="replace").strip() if path.exists() else ""
