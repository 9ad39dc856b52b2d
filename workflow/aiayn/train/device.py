"""Chooses the device of a training: CPU or GPU. Checks that the job has the GPUs that it requested,
and that the device supports the precision of the training.
"""

import platform
from typing import Any

import torch

from aiayn.errors import ConfigError, LaunchError
from aiayn.model.attention import refuse_cudnn
from aiayn.spec.hardware import CPU, CPU_PRECISIONS, FIRST_CAPABILITY, precision_refusal
from aiayn.spec.training import PRECISIONS
from aiayn.train.request import TrainingRequest
from aiayn.train.torch_builds import advise_build, has_kernels, refuse_gpu


def available_device(device: str) -> str:
    """Return `cpu` or `cuda`: the device that a training with the setting `device` would use on
    this machine.
    """
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


def resolve_device(device: str) -> str:
    """Resolve the setting `device` (`auto`, `cuda` or `cpu`) to `cuda` or `cpu`.

    Raises:
        LaunchError: if `device` is `cuda` and this machine does not have a GPU.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise LaunchError(
            "device: cuda, but torch sees no GPU here; set `device: auto`, or run on a machine"
            " with one"
        )
    return available_device(device)


def prepare_device(device: str) -> None:
    """Switch off the attention kernels of cuDNN if the device is `cuda`. Training and evaluation
    call this function before they compute.
    """
    if device == "cuda":
        refuse_cudnn()


def missing_kernels(index: int = 0) -> str:
    """Return an error message if the installed torch does not have kernels for this GPU, otherwise
    ''. The message says which build of torch has kernels for the GPU.
    """
    capability = torch.cuda.get_device_capability(index)
    if has_kernels(capability, torch.cuda.get_arch_list()):
        return ""
    return refuse_gpu(torch.cuda.get_device_name(index), capability)


def evaluated_on(device: str, model: Any) -> Any:
    """Move a model to a device, switch it to evaluation mode, and return it.

    Raises:
        LaunchError: if torch does not have kernels for the GPU.
    """
    prepare_device(device)
    # Otherwise the first kernel would fail, with an error that does not say what to install.
    if device == "cuda" and (reason := missing_kernels()):
        raise LaunchError(reason)
    return model.to(device).eval()


def require_promised_gpus(request: TrainingRequest) -> None:
    """Require that torch sees the GPUs that the job requested. If torch saw no GPU, a training with
    `device: auto` would run on CPUs for weeks.

    Raises:
        LaunchError: if torch sees fewer GPUs than the job requested.
    """
    if not request.gpus_per_node or request.training.device == "cpu":
        return
    try:
        # Before `init`, device_count() asks NVML, which also counts GPUs that torch cannot use.
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:
        # A build of torch without CUDA raises an AssertionError.
        raise LaunchError(
            f"{_expected(0, request)}: {error}; if torch has no CUDA, or is too new for the node's"
            f" driver, install it again ({advise_build(driver=525)}; docs/install.md, 'Which"
            " torch'); if the node is broken, exclude it (`sbatch_lines: {exclude: NODE}`); to"
            " train on CPUs set gpus_per_node to 0"
        ) from error
    # Fewer GPUs than requested are not an error for torch. The ranks without a GPU would fail
    # later, each with a message that does not say why.
    num_gpus = torch.cuda.device_count()
    if num_gpus < request.gpus_per_node:
        raise LaunchError(
            f"{_expected(num_gpus, request)}: if some are broken, exclude the node (`sbatch_lines:"
            " {exclude: NODE}`); if the cluster binds each task to one GPU, let all tasks see"
            " all (`srun_options: {gpu-bind: none}`); if the prologue sets CUDA_VISIBLE_DEVICES,"
            " remove that"
        )


def require_precision(request: TrainingRequest, local_rank: int, device: str) -> None:
    """Require that the device of this rank (process) supports the precision of the training. On a
    device without the precision, torch would compute in fp32 or emulate the precision slowly.

    Raises:
        ConfigError: if the device does not support the precision.
    """
    training = request.training
    # Every device has fp32.
    if training.precision == "fp32":
        return
    if device == "cpu":
        name = CPU
        has_all = False
        otherwise = CPU_PRECISIONS
    else:
        # tf32 and bf16 came with the same generation of GPUs. Older GPUs have only fp32.
        name = torch.cuda.get_device_name(local_rank)
        has_all = torch.cuda.get_device_capability(local_rank) >= FIRST_CAPABILITY
        otherwise = PRECISIONS[:1]
    if reason := precision_refusal(training.precision, name, PRECISIONS if has_all else otherwise):
        where = " (`gpu_type: TYPE` in the cluster's file)" if device == "cuda" else ""
        raise ConfigError(f"{request.system}: {reason}{where}")


def _expected(num_gpus: int, request: TrainingRequest) -> str:
    return (
        f"{platform.node()}: torch sees {num_gpus} GPUs, expected {request.gpus_per_node}"
        f" (`gpus_per_node: {request.gpus_per_node}` in the cluster's file)"
    )
