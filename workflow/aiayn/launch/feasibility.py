"""Before a training begins: does it fit on the disk, and will it end? Said beforehand, and refused if not."""

import logging
import os
from pathlib import Path

from aiayn.cost import UTILISATION_FRACTION, num_parameters, predicted_training_seconds
from aiayn.errors import LaunchError
from aiayn.hardware import read_hardware
from aiayn.launch.job import TrainingRequest
from aiayn.machine import cpu_flops_per_second_per_core, gpu_names
from aiayn.plan.sizes import run_disk_bytes
from aiayn.provenance import require_free_space
from aiayn.records import BinarizedCorpus

logger = logging.getLogger(__name__)
LONGEST_UNASKED_HOURS = 24.0


def needed_disk_bytes(request: TrainingRequest, data: BinarizedCorpus) -> int:
    """Return what a run writes at most: its checkpoints, and one of each kind being written.

    What the run holds already is not counted again.
    """
    size = data.vocabulary_size_by_language[data.source_language]
    target_size = data.vocabulary_size_by_language[data.target_language]
    parameters = num_parameters(request.training, size, request.data.is_joint, target_size)
    held_bytes = sum(path.stat().st_size for path in (Path(request.run_folder) / "checkpoints").glob("*.pt"))
    return max(0, run_disk_bytes(parameters, request.num_models) - held_bytes)


def check_space(request: TrainingRequest, data: BinarizedCorpus) -> None:
    """Say what disk a run takes, and refuse what does not fit.

    Raises:
        SpaceError: if the disk is too small.
    """
    needed_bytes = needed_disk_bytes(request, data)
    logger.info(f"{request.run}: up to {needed_bytes / 1e6:.0f} MB of checkpoints in {request.run_folder}")
    require_free_space(Path(request.run_folder), needed_bytes, "a run's checkpoints")


def check_feasible(request: TrainingRequest, data: BinarizedCorpus, *, scale: str, allow_long_runs: bool) -> None:
    """Say what disk and time a run takes on this machine, and refuse what does not fit.

    Raises:
        SpaceError: if the disk is too small.
        LaunchError: if the run would take more than a day here, or is of paper scale without a GPU.
    """
    check_space(request, data)
    hours, machine = predict_hours(request, data)
    logger.info(f"{request.run}: about {_in_words(hours)} on {machine}, predicted")
    is_hopeless = scale == "paper" and "GPU" not in machine
    if (hours > LONGEST_UNASKED_HOURS or is_hopeless) and not allow_long_runs:
        raise LaunchError(
            f"{request.run}: about {_in_words(hours)} on {machine} ({request.training.updates} updates; "
            f"{UTILISATION_FRACTION:.0%} of its matrix speed assumed); train it on GPUs, take a smaller scale "
            "(`--configfile workflow/config/multi30k.yaml`), or, if you mean it: `--config allow_long_runs=true`"
        )


def _in_words(hours: float) -> str:
    return f"{hours:,.0f} hours" if hours >= 2 else f"{hours * 60:.1f} minutes"


def predict_hours(request: TrainingRequest, data: BinarizedCorpus) -> tuple[float, str]:
    """Return the predicted hours of training with this request's ranks, and the machine in words."""
    names = gpu_names() if request.training.device != "cpu" else []
    if names:
        gpu = read_hardware().find_gpu(names[0])
        per_gpu = gpu.sustained_flops_per_second.value if gpu else 1.0e13
        machine = f"{request.num_ranks} GPU(s) {names[0]}"
        flops_per_second = per_gpu * min(request.num_ranks, len(names))
    else:
        cores = min(request.num_ranks * request.threads_per_rank, os.cpu_count() or 1)
        machine = f"{cores} CPU core(s)"
        flops_per_second = cpu_flops_per_second_per_core() * cores
    seconds = predicted_training_seconds(
        request.training, data.vocabulary_size_by_language[data.target_language], flops_per_second=flops_per_second
    )
    return seconds / 3600, machine
