"""Detects, without torch, what this machine has: its GPUs by name, and the FLOP/s that one CPU core sustains."""

import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

_MATRIX_SIZE = 768


def gpu_names() -> list[str]:
    """Return the product names of the GPUs that this process may use, as nvidia-smi lists them."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=index,name", "--format=csv,noheader"]
    listing = subprocess.run(command, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        return []
    name_by_index = dict(line.split(", ", maxsplit=1) for line in listing.stdout.strip().split("\n") if ", " in line)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return list(name_by_index.values())
    return [name_by_index[index] for index in visible.split(",") if index in name_by_index]


def cpu_name() -> str:
    """Return the product name of this machine's CPU, as its kernel reports it."""
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def cpu_flops_per_second_per_core() -> float:
    """Measure the best of eight float32 matrix products: about a tenth of a second.

    Seconds are those that cores were busy with it, so that neither other processes nor more threads change the figure.
    """
    matrix = np.ones((_MATRIX_SIZE, _MATRIX_SIZE), dtype=np.float32)
    cpu_seconds = []
    for _ in range(8):
        begin = time.process_time()
        matrix @ matrix
        cpu_seconds.append(time.process_time() - begin)
    return float(2 * _MATRIX_SIZE**3 / min(cpu_seconds))
