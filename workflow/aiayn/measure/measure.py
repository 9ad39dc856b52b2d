"""Measures what readers of the paper claim and no training is needed for: seconds on one core, no corpus.

paper_tables/published/claims.csv names each number and what is expected of it.
"""

import torch

from aiayn.measure.measured_attention import measure_attention
from aiayn.measure.measured_layers import measure_layers
from aiayn.records import Measurement


def measure_all(seed: int) -> list[Measurement]:
    """Return every measurement, each name once; the same seed, torch and processor give the same numbers."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums of another number of threads differ in their last digits
    try:
        return [*measure_attention(seed), *measure_layers(seed)]
    finally:
        torch.set_num_threads(num_threads)
