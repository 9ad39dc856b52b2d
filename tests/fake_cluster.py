"""A stand-in for sbatch that accepts every job except one pattern."""

from dataclasses import dataclass
from pathlib import Path

import pytest

SBATCH = """#!/bin/sh
/bin/cat > {folder}/text
case "$*" in {refused}) echo "allocation failure: Requested node configuration is not available" >&2; exit 1 ;; esac
case "$(/bin/cat {folder}/text)" in {refused}) echo "sbatch: error: invalid partition specified" >&2; exit 1 ;; esac
echo "sbatch: Job 7 to start at 2026-01-01T12:00:00 using 1 processors on nodes n1 in partition gpu" >&2
"""


@dataclass(frozen=True)
class FakeCluster:
    """A Slurm that refuses jobs whose options or text match `refused`, a pattern of the shell."""

    refused: str = "nothing"

    def install(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let PATH hold sbatch and no other command."""
        folder.mkdir(exist_ok=True, parents=True)
        (folder / "sbatch").write_text(
            SBATCH.format(folder=folder, refused=self.refused), encoding="utf-8"
        )
        (folder / "sbatch").chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
