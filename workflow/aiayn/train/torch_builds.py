"""Says which GPUs and NVIDIA drivers each build of torch supports, and which build to install for a
given GPU and driver. This module does not import torch.
"""

import importlib.metadata
from collections.abc import Iterable

import msgspec

INDEX = "https://download.pytorch.org/whl/"
Capability = tuple[int, int]


class CudaBuild(msgspec.Struct, frozen=True, kw_only=True):
    """A build of torch for a version of CUDA, with the compute capabilities that this build
    supports and the oldest NVIDIA driver that it works with.
    """

    # `name` is the last part of the index's address, such as `cu126`.
    name: str
    cuda: str
    lowest: Capability
    highest: Capability
    min_driver: int


# The builds of torch 2.11 to 2.13, the newest first. Source for the kernels:
# torch.cuda.get_arch_list() of each build. Source for the drivers: NVIDIA, CUDA Toolkit Release
# Notes, "CUDA Toolkit and Minimum Required Driver Version for CUDA Minor Version Compatibility".
CUDA_BUILDS = (
    CudaBuild(name="cu130", cuda="13.0", lowest=(7, 5), highest=(12, 1), min_driver=580),
    CudaBuild(name="cu126", cuda="12.6", lowest=(6, 0), highest=(9, 0), min_driver=525),
)
# By the names in hardware.yaml. Source: NVIDIA, CUDA C++ Programming Guide, "Compute Capabilities".
CAPABILITY_BY_GPU: dict[str, Capability] = {
    "K80": (3, 7),
    "K40": (3, 5),
    "M40": (5, 2),
    "P100": (6, 0),
    "V100": (7, 0),
    "T4": (7, 5),
    "A100": (8, 0),
    "A10": (8, 6),
    "A40": (8, 6),
    "A6000": (8, 6),
    "RTX3090": (8, 6),
    "L4": (8, 9),
    "L40S": (8, 9),
    "RTX4090": (8, 9),
    "H100": (9, 0),
    "H200": (9, 0),
    "B200": (10, 0),
    "RTX5090": (12, 0),
}


def installed_build(version: str | None = None) -> CudaBuild | None:
    """Return the build of the installed torch, or of the torch version `version`. Return None for a
    CPU build and for an unknown build.

    A torch version without a suffix such as `+cu126` comes from PyPI, which has the newest CUDA
    build for Linux.
    """
    if version is None:
        try:
            version = importlib.metadata.version("torch")
        except importlib.metadata.PackageNotFoundError:
            return None
    # The suffix of `2.11.0+cu126` is `cu126`.
    suffix = version.partition("+")[2]
    return next(
        (build for build in CUDA_BUILDS if build.name == (suffix or CUDA_BUILDS[0].name)), None
    )


def has_kernels(capability: Capability, architectures: Iterable[str]) -> bool:
    """Return whether kernels that were compiled for these architectures, such as `sm_75` or
    `compute_120`, run on a GPU of this compute capability.

    A binary kernel (`sm_`) runs on GPUs of the same major version and the same or a higher minor
    version. Intermediate code (`compute_`) runs on all GPUs of the same or a higher version.
    """
    for architecture in architectures:
        kind, _, digits = architecture.partition("_")
        # `sm_90a` and `sm_100f` are variants for one GPU or one family of GPUs.
        digits = digits.rstrip("af")
        compiled = (int(digits[:-1]), int(digits[-1]))
        # Intermediate code (PTX): the driver compiles it for any newer GPU.
        if kind == "compute" and compiled <= capability:
            return True
        if kind == "sm" and compiled[0] == capability[0] and compiled <= capability:
            return True
    return False


def refuse_gpu(gpu: str, capability: Capability) -> str:
    """Return the error message for a GPU for which the installed torch does not have kernels. The
    message says which build of torch has kernels for this GPU.
    """
    problem = (
        f"{gpu} (compute capability {capability[0]}.{capability[1]}): the installed torch has no"
        " kernels for it"
    )
    return f"{problem}; {advise_build(capability)}"


def refuse_driver(driver: int, build: CudaBuild, capability: Capability | None = None) -> str:
    """Return the error message for an NVIDIA driver that is too old for a build of torch. The
    message says which build of torch supports this driver.
    """
    problem = (
        f"NVIDIA driver {driver}, but torch for CUDA {build.cuda} needs {build.min_driver} or newer"
    )
    return f"{problem}; {advise_build(capability, driver)}, or have the driver updated"


def advise_build(capability: Capability | None = None, driver: int | None = None) -> str:
    """Return a sentence that says which build of torch to install for a GPU and an
    NVIDIA driver.
    """
    # The newest build comes first, so it is recommended where several builds fit.
    for build in CUDA_BUILDS:
        is_fitting = capability is None or build.lowest <= capability <= build.highest
        if is_fitting and (driver is None or driver >= build.min_driver):
            return (
                f"install the build for CUDA {build.cuda}: `make install"
                f" TORCH_INDEX_URL={INDEX}{build.name}`"
            )
    return "no build of torch 2.11 or newer supports that: use another GPU"


def check_gpu(gpu: str, capability: Capability | None, driver: int | None, build: CudaBuild) -> str:
    """Return why a build of torch cannot use a GPU, or '' if no reason against it is known."""
    if capability is not None and not build.lowest <= capability <= build.highest:
        return refuse_gpu(gpu, capability)
    if driver is not None and driver < build.min_driver:
        return refuse_driver(driver, build, capability)
    return ""
