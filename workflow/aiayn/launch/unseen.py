"""Tells whether a job trains a run of which squeue knows nothing: by the heartbeat of its rank 0.

The controller may have lost the job (killed while that was seconds old), slurmd may be out of its reach, or it is no
Slurm job at all.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from aiayn.runs import attempts
from aiayn.runs.life import SILENT_SECONDS
from aiayn.runs.locks import is_held

logger = logging.getLogger(__name__)
STEP_SECONDS = 0.5  # between looks


def is_training_unseen(run_folder: Path, seconds: float, pause: Callable[[float], None]) -> bool:
    """Return whether rank 0 of a run lives that is not done; `pause` waits. Takes so many seconds to say no.

    A lock alone is no life: on NFS 3 that of a machine that crashed stays until it has booted again. But where rank 0's
    lock is held, it has longer to beat.
    """
    before, began = attempts.heartbeat(run_folder), time.monotonic()
    while not attempts.is_done(run_folder):
        if attempts.heartbeat(run_folder) != before:
            return True
        has_rank_lock = is_held(run_folder / attempts.RANK_LOCK_NAME)
        if time.monotonic() - began >= (max(seconds, SILENT_SECONDS) if has_rank_lock else seconds):
            if has_rank_lock:
                logger.warning(
                    f"{run_folder / attempts.RANK_LOCK_NAME}: locked, but not touched for {SILENT_SECONDS:.0f} s; "
                    "taken for the lock of a machine that went down"
                )
            return False
        pause(STEP_SECONDS)
    return False
