"""Who drives the pipeline in a working directory: each snakemake leaves a mark when it starts its jobs.

The Snakefile's `onstart` makes it, which snakemakes inside Slurm jobs do not run (they are started with --no-hooks). It
goes when its snakemake ends, whichever way but by KILL, HUP or the machine's end: a mark whose process is gone is that
of a driver that could not clean up behind itself. `aiayn unlock` reads them.
"""

import atexit
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from aiayn.errors import RecordError
from aiayn.provenance import utc_now

SNAKEMAKE_FOLDER = ".snakemake"
MARKS_FOLDER = "aiayn_drivers"
LOCKS_FOLDER = "locks"  # snakemake's own
Life = Literal["alive", "dead", "unknown"]
_BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")


class DriverMark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A snakemake at work: where, since when, its logs, and the lock files that it saw, by their time of change.

    `process_start` is in the kernel's ticks since `boot`, 0 where the system does not tell (not Linux); a process
    number alone may be another's by now. `namespace`
    tells containers of one machine apart, which cannot see one another's processes.
    """

    time: str
    host: str
    boot: str
    namespace: str
    process: int
    process_start: int
    process_group: int
    folder: str
    logs: list[str]
    changed_ns_by_lock: dict[str, int]


def mark_driver(logs: Sequence[str], folder: Path | None = None) -> None:
    """Write this process's mark below a working directory (default: the current one), until it ends."""
    folder = (folder or Path.cwd()).resolve()
    snakemake_folder = folder / SNAKEMAKE_FOLDER
    mark = DriverMark(
        time=utc_now(),
        host=platform.node(),
        boot=_boot(),
        namespace=_namespace(),
        process=os.getpid(),
        process_start=start_of_process(os.getpid()) or 0,
        process_group=os.getpgid(0),
        folder=str(folder),
        logs=[str(log) for log in logs],
        changed_ns_by_lock=list_locks(snakemake_folder),
    )
    path = snakemake_folder / MARKS_FOLDER / f"{mark.host}-{mark.process}-{mark.process_start}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial_path = path.with_suffix(".partial")
    partial_path.write_bytes(msgspec.json.format(msgspec.json.encode(mark), indent=1) + b"\n")
    partial_path.replace(path)
    atexit.register(_remove_own, path, mark.process)


def _remove_own(path: Path, process: int) -> None:
    if os.getpid() == process:  # and not a fork of it
        path.unlink(missing_ok=True)


def list_locks(snakemake_folder: Path) -> dict[str, int]:
    """Return snakemake's lock files and when each was last changed (nanoseconds since 1970)."""
    paths = sorted((snakemake_folder / LOCKS_FOLDER).glob("*.lock"))
    return {path.name: path.stat().st_mtime_ns for path in paths}


def read_marks(snakemake_folder: Path) -> dict[Path, DriverMark]:
    """Return all marks by their files, oldest first.

    Raises:
        RecordError: naming a file that holds none.
    """
    marks = {}
    for path in sorted((snakemake_folder / MARKS_FOLDER).glob("*.json")):
        try:
            marks[path] = msgspec.json.decode(path.read_bytes(), type=DriverMark)
        except FileNotFoundError:
            continue  # its driver ended just now
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise RecordError(
                f"{path}: not a driver's mark: {error}; make sure that no snakemake is at work here, then delete it"
            ) from error
    return dict(sorted(marks.items(), key=lambda entry: entry[1].time))


def driver_life(mark: DriverMark) -> Life:
    """Return whether the driver lives; of another machine or container nothing can be known from here."""
    if mark.host != platform.node():
        return "unknown"
    if mark.boot != _boot():
        return "dead"  # the machine was started anew since
    if mark.namespace != _namespace() or not mark.process_start:
        return "unknown"
    return "alive" if start_of_process(mark.process) == mark.process_start else "dead"


def start_of_process(process: int) -> int | None:
    """Return when a process began, in ticks since the machine did; None if there is no such process, or a dead one."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(") ")[2].split(" ")  # a process's name, in parentheses, may hold blanks
    return None if fields[0] in ("Z", "X") else int(fields[19])


def _boot() -> str:
    return _BOOT_ID_PATH.read_text(encoding="utf-8").strip() if _BOOT_ID_PATH.exists() else ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
