"""A GPU or driver that the installed torch does not support is reported with the build to install."""

import pytest

from aiayn.train.torch_builds import CUDA_BUILDS, check_gpu, has_kernels, installed_build

CU130, CU126 = CUDA_BUILDS
CU126_COMMAND = "`make install TORCH_INDEX_URL=https://download.pytorch.org/whl/cu126`"


def test_the_package_indexs_build_is_the_newest() -> None:
    assert installed_build("2.13.0") is CU130
    assert installed_build("2.13.0+cu126") is CU126
    assert installed_build("2.13.0+cpu") is None


@pytest.mark.parametrize(
    ("gpu", "capability"), [("Tesla P100-SXM2-16GB", (6, 0)), ("Tesla V100-SXM2-32GB", (7, 0))]
)
def test_an_old_card_is_told_which_build_has_its_kernels(
    gpu: str, capability: tuple[int, int]
) -> None:
    numbers = ".".join(map(str, capability))
    expected = (
        f"{gpu} (compute capability {numbers}): the installed torch has no kernels for it; install"
        " the build for "
    )
    assert check_gpu(gpu, capability, 580, CU130) == f"{expected}CUDA 12.6: {CU126_COMMAND}"
    assert check_gpu(gpu, capability, 550, CU126) == ""


def test_an_old_driver_is_told_which_build_it_supports() -> None:
    reason = check_gpu("NVIDIA H100", (9, 0), 550, CU130)
    assert reason.startswith(
        "NVIDIA driver 550, but torch for CUDA 13.0 needs 580 or newer; install the build for "
    )
    assert CU126_COMMAND in reason
    assert check_gpu("NVIDIA H100", (9, 0), 580, CU130) == ""
    assert check_gpu("NVIDIA B200", (10, 0), 550, CU130).endswith(
        "use another GPU, or have the driver updated"
    )


@pytest.mark.parametrize(
    ("capability", "architectures", "is_enough"),
    [((7, 0), ["sm_75", "sm_80", "sm_90"], False), ((8, 9), ["sm_80", "sm_90"], True), ((8, 0), ["sm_86"], False),
     ((12, 0), ["sm_90", "compute_90"], True), ((12, 0), ["sm_90"], False), ((9, 0), ["sm_90a"], True)],
)  # fmt: skip
def test_kernels_run_on_the_same_major_version_and_intermediate_code_on_any_newer_gpu(
    capability: tuple[int, int], architectures: list[str], is_enough: bool
) -> None:
    assert has_kernels(capability, architectures) is is_enough
