"""The errors that ranks have met, each in a file of its own in the run's folder: `rank5.error`.

When a rank's process ends, the others see no more than a closed connection. So a rank notes its error before it ends,
for rank 0, and for the driver where no attempt began; a rank that left no note was killed.
"""

import platform
import traceback
from pathlib import Path

from aiayn.errors import AiaynError

_PATTERN = "rank*.error"


def describe_error(error: BaseException) -> str:
    """Return an error in one line: our own speak for themselves, others need their type."""
    return str(error) if isinstance(error, AiaynError) else f"{type(error).__name__}: {error}"


def describe_rank_error(index: int, error: BaseException) -> str:
    """Return what a rank has met, and on which host: a full disk may be full there alone."""
    return f"rank {index} on {platform.node()}: {describe_error(error)}"


def note_error(run_folder: Path, index: int, error: BaseException) -> None:
    """Note what a rank has met, with its traceback."""
    text = describe_rank_error(index, error)
    trace = "".join(traceback.format_exception(error))
    (run_folder / f"rank{index}.error").write_text(f"{text}\n\n{trace}", encoding="utf-8", newline="\n")


def noted_errors(run_folder: Path) -> list[str]:
    """Return what the ranks have noted, the earliest first, without tracebacks."""
    paths = sorted(run_folder.glob(_PATTERN), key=lambda path: path.stat().st_mtime_ns)
    return [path.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0] for path in paths]


def forget_noted_errors(run_folder: Path) -> None:
    """Remove what an earlier job's ranks have noted."""
    for path in run_folder.glob(_PATTERN):
        path.unlink(missing_ok=True)
