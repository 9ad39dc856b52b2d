"""Defines the record that the rule `measure` writes: the timed layers of Table 1."""

from typing import Literal

import msgspec

from aiayn.records import Record

STAGE_VERSION = 3  # see `aiayn.stages`
LayerType = Literal["self_attention", "recurrent", "convolutional", "self_attention_restricted"]
# The rows of Table 1 in print order, with the variables of their complexity.
VARIABLES_BY_TYPE: dict[LayerType, tuple[str, ...]] = {
    "self_attention": ("n", "d"),
    "recurrent": ("n", "d"),
    "convolutional": ("n", "d", "k"),
    "self_attention_restricted": ("n", "d", "r"),
}


class LayerSize(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A layer of Table 1 at one size: number of tokens n, width d, kernel width k, neighbourhood r.

    If a type of layer has no kernel or no neighbourhood, `k` or `r` is 1.
    """

    layer: LayerType
    n: int
    d: int
    k: int = 1
    r: int = 1


class LayerTiming(LayerSize, frozen=True, kw_only=True):
    """The cost of one layer: torch's count of floating-point operations, and the seconds of a
    forward pass.

    `seconds` is the minimum over the rounds of timing.
    """

    flops: int
    seconds: float
    median_seconds: float


class TimedLayers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Layers of Table 1 that were timed on a device. `clock` says what the seconds measure."""

    device: str = "cpu"
    device_name: str
    dtype: str = "float32"
    num_threads: int = 1
    clock: str = "CPU seconds of the process"
    num_rounds: int
    torch_version: str
    timings: list[LayerTiming]

    @property
    def signature(self) -> str:
        """A text with everything that could change the measured seconds of a layer, except the
        layer's size.
        """
        return (
            f"device:{self.device}|{self.device_name}|dtype:{self.dtype}|threads:{self.num_threads}|batch:1|"
            f"pass:forward|clock:{self.clock}|rounds:{self.num_rounds}|torch:{self.torch_version}"
        )


class MeasureRecord(Record, frozen=True, kw_only=True, tag="MeasureRecord"):
    """The record of the rule `measure`: the timed layers of Table 1."""

    layers: TimedLayers
