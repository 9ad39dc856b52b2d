"""What GPUs sustain, draw and cost, read strictly from workflow/config/hardware.yaml, each value with its source."""

import re
from pathlib import Path
from typing import Literal

from aiayn.errors import ConfigError
from aiayn.spec import CONFIG_FOLDER, Spec
from aiayn.strict_yaml import convert, read_document

PAPER_GPU, NUM_PAPER_GPUS = "P100", 8  # section 5.2


class SourcedValue(Spec, frozen=True, kw_only=True):
    """A number, where it comes from, and how far to trust it.

    `kind`: `paper` is the paper's own figure, `vendor` is from the maker's data sheet, `assumption` is ours.
    """

    value: float
    kind: Literal["paper", "vendor", "assumption"]
    source: str


class GpuSpec(Spec, frozen=True, kw_only=True):
    """One kind of GPU; per single GPU, though a K80 board carries two. Operations are single precision.

    `dollars_per_hour` is null where nobody rents it out.
    """

    sustained_flops_per_second: SourcedValue
    peak_flops_per_second: SourcedValue
    watts: SourcedValue
    dollars_per_hour: SourcedValue | None


class HardwareSpec(Spec, frozen=True, kw_only=True):
    """All GPUs, by the word that its product name contains (`P100` for `Tesla P100-SXM2-16GB`)."""

    gpu_by_name: dict[str, GpuSpec]

    def find_gpu(self, product_name: str) -> GpuSpec | None:
        """Return the GPU whose name is a word of `product_name`, or None if no one's is."""
        name = self.find_name(product_name)
        return None if name is None else self.gpu_by_name[name]

    def find_name(self, product_name: str) -> str | None:
        """Return the name that is a word of `product_name`, in any case: Slurm may say `nvidia_h100_80gb_hbm3`."""
        words = re.findall(r"[a-z0-9]+", product_name.lower())
        return next((name for name in self.gpu_by_name if name.lower() in words), None)


def read_hardware(path: Path = CONFIG_FOLDER / "hardware.yaml") -> HardwareSpec:
    """Read the GPUs.

    Raises:
        ConfigError: with file and line, if a key or value is wrong, a value is not positive, or a sustained rate
            is above its peak.
    """
    document = read_document(path)
    hardware = convert(document, HardwareSpec)
    for name, gpu in hardware.gpu_by_name.items():
        place = document.place(f"gpu_by_name.{name}")
        sourced = (gpu.sustained_flops_per_second, gpu.peak_flops_per_second, gpu.watts, gpu.dollars_per_hour)
        for value in (entry.value for entry in sourced if entry is not None):
            if value <= 0:
                raise ConfigError(f"{place}: {name} has the value {value}; expected more than 0")
        if gpu.sustained_flops_per_second.value > gpu.peak_flops_per_second.value:
            raise ConfigError(
                f"{place}: {name} sustains {gpu.sustained_flops_per_second.value:.3g} FLOP/s, above its peak of "
                f"{gpu.peak_flops_per_second.value:.3g}; correct one of them"
            )
    return hardware
