"""What our search is held to: the generators of `train/generator.py`, driven over lines of one length at a time."""

import itertools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from aiayn.spec.system import DecodingSpec
from aiayn.train.generator import make_generator

TOKENS_PER_BATCH = 4_000
LARGEST_DIFFERENCE = 1e-5  # of two scores between which float32 may decide either way


class Reference(NamedTuple):
    """The best hypothesis of a sentence: symbols without the end, summed log-probability (nats), and that penalised."""

    symbols: list[int]
    log_probability_nats: float
    score: float


def search_by_generator(model: Any, dictionary: Any, decoding: DecodingSpec, sources: list[Tensor]) -> list[Reference]:
    """Return the best hypothesis of each source; the generators limit a length by their batch's longest source."""
    generator = make_generator(
        [model],
        dictionary,
        length_penalty_form=decoding.length_penalty_form,
        search_stop=decoding.stop,
        beam_size=decoding.beam_size,
        len_penalty=decoding.length_penalty_alpha,
        max_len_a=decoding.max_length_per_source_token,
        max_len_b=decoding.max_extra_tokens,
    )
    found: dict[int, Reference] = {}
    by_length = sorted(range(len(sources)), key=lambda index: len(sources[index]))
    for length, group in itertools.groupby(by_length, key=lambda index: len(sources[index])):
        indices = list(group)
        lines_per_batch = max(1, TOKENS_PER_BATCH // length)
        for begin in range(0, len(indices), lines_per_batch):
            batch = indices[begin : begin + lines_per_batch]
            source_BS = torch.stack([sources[index] for index in batch])
            net_input = {"src_tokens": source_BS, "src_lengths": torch.full((len(batch),), length)}
            with torch.no_grad():
                beams = generator.generate([model], {"net_input": net_input})
            for index, (best, *_) in zip(batch, beams, strict=True):
                found[index] = Reference(
                    best["tokens"][:-1].tolist(), float(best["positional_scores"].sum()), float(best["score"])
                )
    return [found[index] for index in range(len(sources))]


def unequal(ours: list[Any], references: list[Reference]) -> list[str]:
    """Return a line for each hypothesis that differs, a `tie` if its score does not, and for each score that does."""
    lines = []
    for index, (one, other) in enumerate(zip(ours, references, strict=True)):
        is_near = abs(one.score - other.score) <= LARGEST_DIFFERENCE
        is_same_score = math.isclose(one.score, other.score, rel_tol=LARGEST_DIFFERENCE, abs_tol=LARGEST_DIFFERENCE)
        if one.symbols != other.symbols or not is_same_score:
            lines.append(
                f"{'tie' if is_near else 'differs'}: line {index + 1}, {one.score:.7f} for {other.score:.7f}, "
                f"{one.symbols} for {other.symbols}"
            )
    return lines
