"""A seeded sample of lines, drawn while files stream by: every set of so many lines is equally likely."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from aiayn.data.text.lines import read_blocks
from aiayn.errors import CorpusError

LINES_PER_DRAW = 1 << 16  # of the algorithm, not of any reader: another number draws another sample


def sample_lines(
    paths: Sequence[Path], num_lines_by_path: Sequence[int], num_samples: int, rng: np.random.Generator
) -> Iterator[str]:
    """Yield `num_samples` lines of all the files' together, in their order; all lines, if there are no more.

    How many of a block's lines belong to the sample is hypergeometric, which of them is uniform (Fan, Muller and
    Rezucha 1962, by blocks): memory is a block's, and no list of line numbers is made.

    Raises:
        CorpusError: if a file has not as many lines as it is said to have.
    """
    lines_left = sum(num_lines_by_path)
    samples_left = min(num_samples, lines_left)
    for path, num_lines in zip(paths, num_lines_by_path, strict=True):
        num_read = 0
        for block in read_blocks(path, LINES_PER_DRAW):
            num_read += len(block)
            if num_read > num_lines:
                break
            num_chosen = int(rng.hypergeometric(samples_left, lines_left - samples_left, len(block)))
            chosen = rng.choice(len(block), num_chosen, replace=False, shuffle=False)
            yield from (block[index] for index in np.sort(chosen))
            lines_left -= len(block)
            samples_left -= num_chosen
        if num_read != num_lines:
            raise CorpusError(f"{path}: another number of lines than the {num_lines} recorded; rerun `aiayn clean`")
