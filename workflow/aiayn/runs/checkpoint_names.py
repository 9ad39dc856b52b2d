"""Names a training's checkpoints for their updates: `model_00001500.pt`, `full_00001500.pt`."""

import re
from pathlib import Path

CHECKPOINT_NAME = re.compile(r"(model|full)_\d{8}\.pt")


def checkpoint_path(folder: Path, kind: str, update: int) -> Path:
    """Return the path of a checkpoint. `kind` is `model` or `full`."""
    return folder / f"{kind}_{update:08d}.pt"


def update_of(path: Path) -> int:
    """Return the update in a checkpoint's name."""
    return int(path.stem.partition("_")[2])


def list_checkpoints(folder: Path, kind: str) -> list[Path]:
    """Return the checkpoints of a kind, oldest first."""
    paths = [path for path in folder.glob(f"{kind}_*.pt") if CHECKPOINT_NAME.fullmatch(path.name)]
    return sorted(paths)
