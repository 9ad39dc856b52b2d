"""Reads workflow/config/hardware.yaml: the speed of GPUs in each precision and the price of GPUs,
each number with its source.
"""

import itertools
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from aiayn.spec.strict_yaml import convert, read_document
from aiayn.spec.system import CONFIG_FOLDER, Spec
from aiayn.spec.training import PRECISIONS, Precision

PAPER_GPU, NUM_PAPER_GPUS = "P100", 8  # section 5.2
CPU = "a CPU"  # the device's name in messages
CPU_PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16")  # every CPU has torch's bf16 autocast
# NVIDIA, CUDA C++ Programming Guide, "Compute Capabilities": tf32 and bf16 came with 8.0.
FIRST_CAPABILITY = (8, 0)
WHO_HAS_TENSOR_CORES = "NVIDIA's GPUs have it from compute capability 8.0 on, as the A100"


class SourcedValue(Spec, frozen=True, kw_only=True):
    """A number from hardware.yaml with its source and the kind of the source.

    The kind of the source (`kind`) is `paper` if the number is from the paper, `vendor` if it is
    from the data sheet of the GPU's maker, `published` if other authors published it, and
    `assumption` if it is our own estimate.
    """

    value: Annotated[float, msgspec.Meta(gt=0)]
    kind: Literal["paper", "vendor", "published", "assumption"]
    source: str


class GpuSpec(Spec, frozen=True, kw_only=True):
    """The speeds and the price of a GPU model. All values are for a single GPU, even if a board
    carries two GPUs, as the K80 does.

    The speed of matrix products in single precision is `sustained_flops_per_second`. The speeds of
    the tensor cores in TF32 and in bfloat16 are `tf32_flops_per_second` and
    `bf16_flops_per_second`, None if the GPU does not support the precision. The speed of the link
    between the GPUs of a node, in one direction, is `link_bytes_per_second`, None if it is not
    known.
    """

    sustained_flops_per_second: SourcedValue
    tf32_flops_per_second: SourcedValue | None
    bf16_flops_per_second: SourcedValue | None
    memory_bytes_per_second: SourcedValue
    link_bytes_per_second: SourcedValue | None
    dollars_per_hour: SourcedValue | None

    @property
    def rate_by_precision(self) -> dict[Precision, SourcedValue]:
        """The speed of matrix products in each precision that the GPU supports, in operations a
        second.
        """
        rates = (
            self.sustained_flops_per_second,
            self.tf32_flops_per_second,
            self.bf16_flops_per_second,
        )
        return {
            name: rate for name, rate in zip(PRECISIONS, rates, strict=True) if rate is not None
        }


class HardwareSpec(Spec, frozen=True, kw_only=True):
    """All GPU models in hardware.yaml, by a word of their product names (P100 for "Tesla
    P100-SXM2-16GB").
    """

    gpu_by_name: dict[str, GpuSpec]

    def find_gpu(self, product_name: str) -> GpuSpec | None:
        """Return the GPU model that a product name refers to, such as the P100 for "Tesla
        P100-SXM2-16GB", or None.
        """
        name = self.find_name(product_name)
        return None if name is None else self.gpu_by_name[name]

    def find_name(self, product_name: str) -> str | None:
        """Return the name of the GPU model in hardware.yaml that is a word of a product name, or
        two successive words written as one. Return None if no model matches.

        The result for a MIG slice is None, because a slice is not a whole GPU. Upper and lower case
        do not matter, because Slurm may call a GPU `nvidia_h100_80gb_hbm3` and NVIDIA's driver `RTX
        4090`.
        """
        words = re.findall(r"[a-z0-9]+", product_name.lower())
        if "mig" in words:
            return None
        # `RTX 4090` is one card, although `RTX` and `4090` are two words.
        words += [first + second for first, second in itertools.pairwise(words)]
        return next((name for name in self.gpu_by_name if name.lower() in words), None)


def precision_refusal(precision: Precision, device: str, available: Collection[Precision]) -> str:
    """Return the reason why a device cannot train in a precision, if the device does not have this
    precision.

    Returns '' if the device supports the precision. The argument `device` is a phrase such as `a
    P100`. The returned text continues an error message that begins with a system's name, and ends
    with the next step.
    """
    if precision in available:
        return ""
    # In the order of PRECISIONS, which is from slow to fast.
    available_names = " or ".join(name for name in PRECISIONS if name in available)
    return (
        f"precision is {precision}, which {device} does not have ({WHO_HAS_TENSOR_CORES}); take"
        f" {available_names}, such as `--config precision=fp32`, or a GPU that has it"
    )


def read_hardware(path: Path = CONFIG_FOLDER / "hardware.yaml") -> HardwareSpec:
    """Read the file hardware.yaml.

    Raises:
        ConfigError: if a key or value is wrong. The message contains file and line.
    """
    return convert(read_document(path), HardwareSpec)
