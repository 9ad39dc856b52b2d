"""Builds and parses the file names of a training's checkpoints. A name contains the number of
updates: `model_00001500.pt` (only the model) and `full_00001500.pt` (with the state of the
optimiser).
"""

import re
from pathlib import Path

# Eight digits, so that names sort by update.
CHECKPOINT_NAME = re.compile(r"(model|full)_\d{8}\.pt")


def checkpoint_path(folder: Path, kind: str, update: int) -> Path:
    """Return the path of the checkpoint of an update. `kind` is `model` or `full`."""
    return folder / f"{kind}_{update:08d}.pt"


def update_of(path: Path) -> int:
    """Return the update in the file name of a checkpoint."""
    return int(path.stem.partition("_")[2])


def list_checkpoints(folder: Path, kind: str) -> list[Path]:
    """Return the paths of the checkpoints in a folder that are of the kind `kind`, oldest first."""
    # The glob also finds names without an update, such as `full_copy.pt`.
    paths = [path for path in folder.glob(f"{kind}_*.pt") if CHECKPOINT_NAME.fullmatch(path.name)]
    return sorted(paths)
