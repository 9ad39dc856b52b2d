"""Turns workflow/config/hardware.yaml into GPUs' rates, watts and prices, each with its source.

It also holds the share of a GPU's rate that trainings reach.
"""

import re
from collections.abc import Collection, Iterable
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
    """A number with its source and the kind of the source.

    `kind`: `paper` is the paper's own number, `vendor` comes from the maker's data sheet,
    `published` was measured by others, `assumption` is ours.
    """

    value: Annotated[float, msgspec.Meta(gt=0)]
    kind: Literal["paper", "vendor", "published", "assumption"]
    source: str


class GpuSpec(Spec, frozen=True, kw_only=True):
    """A kind of GPU; numbers are per GPU, although a K80 board has two GPUs.

    The first two rates are for single precision. `tf32_` and `bf16_flops_per_second` are the rates
    of the tensor cores, null if the GPU does not have them. `dollars_per_hour` is null if nobody
    rents it out.
    """

    sustained_flops_per_second: SourcedValue
    peak_flops_per_second: SourcedValue
    tf32_flops_per_second: SourcedValue | None
    bf16_flops_per_second: SourcedValue | None
    watts: SourcedValue
    dollars_per_hour: SourcedValue | None

    @property
    def rate_by_precision(self) -> dict[Precision, SourcedValue]:
        """The rates by precision; a training reaches a share of them."""
        rates = (
            self.sustained_flops_per_second,
            self.tf32_flops_per_second,
            self.bf16_flops_per_second,
        )
        return {
            name: rate for name, rate in zip(PRECISIONS, rates, strict=True) if rate is not None
        }


class UtilisationSpec(Spec, frozen=True, kw_only=True):
    """The share of its GPUs' rate that a training reached.

    It was measured in a precision on `gpu`, and holds for trainings of `min_d_model` or wider.
    """

    precision: Precision
    min_d_model: int
    gpu: str
    fraction: SourcedValue


class HardwareSpec(Spec, frozen=True, kw_only=True):
    """All GPUs and utilisations.

    A GPU's key is the word that its product name contains (`P100` for `Tesla P100-SXM2-16GB`).
    """

    gpu_by_name: dict[str, GpuSpec]
    utilisations: list[UtilisationSpec]

    def find_gpu(self, product_name: str) -> GpuSpec | None:
        """Return the GPU whose name is a word of `product_name`, or None."""
        name = self.find_name(product_name)
        return None if name is None else self.gpu_by_name[name]

    def find_name(self, product_name: str) -> str | None:
        """Return the name that is a word of `product_name`, or None.

        Case does not matter: a queue may say `nvidia_h100_80gb_hbm3`.
        """
        words = re.findall(r"[a-z0-9]+", product_name.lower())
        return next((name for name in self.gpu_by_name if name.lower() in words), None)


def find_utilisation(
    utilisations: Iterable[UtilisationSpec], precision: Precision, d_model: int
) -> UtilisationSpec:
    """Return the utilisation for a precision and width: the largest `min_d_model` that fits."""
    fitting = [u for u in utilisations if u.precision == precision and u.min_d_model <= d_model]
    return max(fitting, key=lambda utilisation: utilisation.min_d_model)


def precision_refusal(precision: Precision, device: str, available: Collection[Precision]) -> str:
    """Explain why a device with the `available` precisions cannot train in a precision.

    Returns '' if it can. `device` is in words, such as `a P100`. The text continues a sentence that
    begins with a system's name, and ends with the next step.
    """
    if precision in available:
        return ""
    others = " or ".join(name for name in PRECISIONS if name in available)
    return (
        f"precision is {precision}, which {device} does not have ({WHO_HAS_TENSOR_CORES}); take"
        f" {others}, such as `--config precision=fp32`, or a GPU that has it"
    )


def read_hardware(path: Path = CONFIG_FOLDER / "hardware.yaml") -> HardwareSpec:
    """Read the GPUs.

    Raises:
        ConfigError: with file and line, if a key or value is wrong, or a precision lacks the
            utilisation of the narrowest systems.
    """
    document = read_document(path)
    hardware = convert(document, HardwareSpec)
    widths = {(share.precision, share.min_d_model) for share in hardware.utilisations}
    for precision in PRECISIONS:
        expected = f"an entry for {precision} with min_d_model 1"
        document.require("utilisations", (precision, 1) in widths, sorted(widths), expected)
    return hardware
