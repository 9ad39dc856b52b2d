"""Builds and parses the file names of a training's checkpoints, which contain the update:
`model_00001500.pt` (the model only) and `full_00001500.pt` (with optimiser).
"""

import re
from pathlib import Path

# Eight digits, so that names sort by update.
CHECKPOINT_NAME = re.compile(r"(model|full)_\d{8}\.pt")


def checkpoint_path(folder: Path, kind: str, update: int) -> Path:
    """Return the path of a checkpoint. `kind` is `model` or `full`."""
    return folder / f"{kind}_{update:08d}.pt"


def update_of(path: Path) -> int:
    """Return the update in a checkpoint's name."""
    return int(path.stem.partition("_")[2])


def list_checkpoints(folder: Path, kind: str) -> list[Path]:
    """Return the checkpoints of a kind, oldest first."""
    # The glob also finds names without an update, such as `full_copy.pt`.
    paths = [path for path in folder.glob(f"{kind}_*.pt") if CHECKPOINT_NAME.fullmatch(path.name)]
    return sorted(paths)
