"""Defines the record that the rule `measure` writes: the timed layers of Table 1."""

from typing import Literal

import msgspec

from aiayn.records import Record

STAGE_VERSION = 4  # see `aiayn.stages`
LayerType = Literal["self_attention", "recurrent", "convolutional", "self_attention_restricted"]


class LayerSize(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A layer of Table 1 at one size: number of tokens n, width d, and the kernel width k or the
    neighbourhood r. `k_or_r` is 1 if the layer has neither.
    """

    layer: LayerType
    n: int
    d: int
    k_or_r: int


class LayerTiming(LayerSize, frozen=True, kw_only=True):
    """The cost of one layer: torch's count of floating-point operations, and the seconds of a
    forward pass.
    """

    flops: int
    seconds: float


class MeasureRecord(Record, frozen=True, kw_only=True, tag="MeasureRecord"):
    """The record of the rule `measure`: the layers of Table 1 that were timed on one CPU thread."""

    device_name: str
    timings: list[LayerTiming]
