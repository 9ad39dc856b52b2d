"""Finds the names of this machine's GPUs, and measures the FLOP/s that one CPU core sustains. This
module does not need torch.
"""

import os
import platform
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

_MATRIX_SIZE = 768


class Gpu(NamedTuple):
    """A GPU that nvidia-smi lists. A MIG slice (a part of a GPU) has the number '' and a name such
    as `NVIDIA A100 MIG 1g.5gb`.
    """

    number: str
    uuid: str
    name: str


def list_gpus() -> list[Gpu]:
    """Return the GPUs and MIG slices that this process may use. The environment variable
    CUDA_VISIBLE_DEVICES restricts the GPUs by their numbers or UUIDs.
    """
    gpus = [Gpu(*row) for row in query_gpus("index", "uuid", "name")]
    slices = _mig_slices()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return slices or gpus  # CUDA does not use a GPU that is in slices as a whole
    named = [name.strip() for name in visible.split(",") if name.strip()]
    # CUDA takes a UUID's unambiguous beginning, too.
    return [
        gpu
        for name in named
        for gpu in [*gpus, *slices]
        if gpu.number == name or _is_beginning(name, gpu.uuid)
    ]


def _mig_slices() -> list[Gpu]:
    """Return the MIG slices of all GPUs. Only `nvidia-smi -L` lists MIG slices, on the lines after
    the line of their GPU.
    """
    name = ""
    slices = []
    # Slices follow the line of their GPU and do not repeat its name.
    for line in _ask_nvidia_smi("-L"):
        if gpu := re.match(r"GPU \d+: (.+) \(UUID: ", line):
            name = gpu[1]
        elif mig := re.match(r"\s+MIG (\S+) .*\(UUID: (MIG-[^)]+)\)", line):
            slices.append(Gpu("", mig[2], f"{name} MIG {mig[1]}"))
    return slices


def gpu_names() -> list[str]:
    """Return the product names of the GPUs that this process may use."""
    return [gpu.name for gpu in list_gpus()]


def query_gpus(*fields: str) -> list[list[str]]:
    """Return the given fields, such as `name`, of all GPUs from nvidia-smi, one list for each GPU.
    The result is empty if nvidia-smi is absent or fails.
    """
    lines = _ask_nvidia_smi(f"--query-gpu={','.join(fields)}", "--format=csv,noheader")
    rows = [line.split(", ", maxsplit=len(fields) - 1) for line in lines]
    # A line that is not a row, such as a message of the driver, is dropped.
    return [row for row in rows if len(row) == len(fields)]


def _ask_nvidia_smi(*options: str) -> list[str]:
    """Return the lines that nvidia-smi prints, or [] if nvidia-smi is absent or fails."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", *options]
    listing = subprocess.run(command, capture_output=True, text=True, check=False)
    return listing.stdout.rstrip().split("\n") if listing.returncode == 0 else []


def _is_beginning(name: str, uuid: str) -> bool:
    return name.startswith(("GPU-", "MIG-")) and uuid.startswith(name)


def cpu_name() -> str:
    """Return the product name of this machine's CPU, as the operating system reports it."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    # Some kernels, as on ARM, do not list a model name.
    return platform.processor()


def cpu_flops_per_second_per_core() -> float:
    """Measure the FLOP/s that one CPU core sustains: the best of eight float32 matrix products. The
    measurement takes about a tenth of a second.

    The CPU seconds of this process are measured, so other processes and more threads do not change
    the result.
    """
    import numpy as np  # imported here, because its import takes longer than most commands

    # A matrix of ones: a product of random numbers takes as long, but needs a generator.
    matrix = np.ones((_MATRIX_SIZE, _MATRIX_SIZE), dtype=np.float32)
    cpu_seconds = []
    for _ in range(8):
        begin = time.process_time()
        matrix @ matrix
        cpu_seconds.append(time.process_time() - begin)
    # A product of two n x n matrices has n^3 multiplications and n^3 additions.
    return float(2 * _MATRIX_SIZE**3 / min(cpu_seconds))
