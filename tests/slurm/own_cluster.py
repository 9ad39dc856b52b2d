"""A cluster that lasts as long as the process that asked for it; if that is killed, the next start
cleans it away.
"""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.slurm.cluster import Cluster

PARENT_FOLDER = Path(tempfile.gettempdir()) / "aiayn-cluster-tests"
OWNER_SUFFIX = ".owner"  # a file beside the cluster's folder, which its owner holds locked


@contextlib.contextmanager
def own_cluster(parent_folder: Path = PARENT_FOLDER) -> Iterator[Cluster]:
    """Bring up a cluster of this process's own, after those whose owners have ended have been
    brought down.
    """
    parent_folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with _locked(parent_folder):
            remove_abandoned(parent_folder)
            owner_path = parent_folder / f"{os.getpid()}{OWNER_SUFFIX}"
            stack.callback(owner_path.unlink, missing_ok=True)
            owner = stack.enter_context(owner_path.open("w"))
            fcntl.flock(owner, fcntl.LOCK_EX)
        cluster = Cluster(owner_path.with_suffix(""))
        stack.callback(cluster.down)
        cluster.up()
        yield cluster


def remove_abandoned(parent_folder: Path = PARENT_FOLDER) -> list[Path]:
    """Bring down all clusters whose owners have ended, and return their folders."""
    removed = []
    for owner_path in sorted(parent_folder.glob(f"*{OWNER_SUFFIX}")):
        with owner_path.open("r+") as owner:
            try:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            cluster = Cluster(owner_path.with_suffix(""))
            cluster.down()
            owner_path.unlink()
            removed.append(cluster.folder)
    return removed


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
