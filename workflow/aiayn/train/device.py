"""Which device a training uses: a CPU or GPUs, as many of them as its job was promised, with its precision."""

import platform

import torch

from aiayn.errors import ConfigError, LaunchError
from aiayn.spec.hardware import CPU, CPU_PRECISIONS, FIRST_CAPABILITY, precision_refusal
from aiayn.spec.training import PRECISIONS
from aiayn.train.request import TrainingRequest


def available_device(device: str) -> str:
    """Return `cpu` or `cuda`, whichever a training with this `device` would use here."""
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


def resolve_device(device: str) -> str:
    """Return `cpu` or `cuda` for `auto`, and refuse `cuda` where there is none.

    Raises:
        LaunchError: if there is none.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise LaunchError("device: cuda, but torch sees no GPU here; set `device: auto`, or run where one is")
    return available_device(device)


def require_promised_gpus(request: TrainingRequest) -> None:
    """Refuse a node without the GPUs that Slurm was asked for: `device: auto` would train on its CPUs, for weeks.

    Raises:
        LaunchError: naming the host, how many there are, and what torch says of it.
    """
    if not request.gpus_per_node or request.training.device == "cpu":
        return
    try:
        # Before it device_count() is NVML's, which also counts GPUs that torch cannot use.
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:  # AssertionError: a build of torch without CUDA
        raise LaunchError(
            f"{_expected(0, request)}: {error}; a torch without CUDA, or one too new for the node's driver, is to be "
            "installed anew (TORCH_INDEX_URL: docs/install.md, 'Which torch'); a node that is broken is to be left out "
            "(`sbatch_lines: {exclude: NODE}`); to train on CPUs set gpus_per_node to 0"
        ) from error
    num_gpus = torch.cuda.device_count()
    if num_gpus < request.gpus_per_node:
        raise LaunchError(
            f"{_expected(num_gpus, request)}: some are broken, and the node is to be left out (`sbatch_lines: "
            "{exclude: NODE}`), or each task is bound to its own, and all are to see all (`srun_options: "
            "{gpu-bind: none}`), or the prologue sets CUDA_VISIBLE_DEVICES"
        )


def require_precision(request: TrainingRequest, local_rank: int, device: str) -> None:
    """Refuse a precision that this rank's device does not have: torch would compute in fp32, or emulate it slowly.

    Raises:
        ConfigError: naming the system and the device.
    """
    training = request.training
    if training.precision == "fp32":
        return
    if device == "cpu":
        name, has_all, otherwise = CPU, False, CPU_PRECISIONS
    else:
        name = torch.cuda.get_device_name(local_rank)
        has_all, otherwise = torch.cuda.get_device_capability(local_rank) >= FIRST_CAPABILITY, PRECISIONS[:1]
    refusal = precision_refusal(training.precision, name, PRECISIONS if has_all else otherwise)
    if refusal:
        raise ConfigError(f"{request.system}: {refusal}")


def _expected(num_gpus: int, request: TrainingRequest) -> str:
    return (
        f"{platform.node()}: torch sees {num_gpus} GPUs, expected {request.gpus_per_node} as in the cluster's file "
        "(gpus_per_node)"
    )
