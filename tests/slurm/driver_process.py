"""The process of a training's driver: what it prints and what it leaves."""

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Driver:
    """One `aiayn train`, in a process group of its own as a terminal starts it."""

    process: "subprocess.Popen[bytes]"
    log_path: Path
    record_path: Path

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def signal(self, number: signal.Signals) -> None:
        """Signal it and all that it has started itself, as a terminal does."""
        os.killpg(self.process.pid, number)
