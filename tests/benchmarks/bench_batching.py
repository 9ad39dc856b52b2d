"""Batches of lengths like WMT14's, ours and those of fairseq's compiled function: seconds, memory, and equal or not.

python -m tests.benchmarks.bench_batching [--num-sentences 4500000] [--random-cases 2000] [--compiled FOLDER]

The compiled function is at hand where fairseq was installed from a wheel (there is one for Python 3.12), or in FOLDER,
where that wheel's `data_utils_fast` was unpacked; elsewhere ours is timed alone. WMT14 En-De has 4.5 million pairs,
En-Fr 36 million.
"""

import argparse
import importlib.util
import itertools
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from aiayn.train.compat import batch_by_size
from tests.benchmarks.table import tell

MAX_TOKENS = (3584, 26000)  # a GPU's share of the paper's 25,000, and all of them
MULTIPLES = (1, 8)
Batches = list[np.ndarray]
Cut = Callable[..., Batches]


def lengths_like_wmt14(num_sentences: int, rng: np.random.Generator) -> np.ndarray:
    """Return the longer side of pairs in fairseq's order, by source and then target: about 35 pieces, 250 at most."""
    source = np.clip(rng.lognormal(3.25, 0.6, num_sentences), 2, 250).astype(np.int64)
    target = np.clip(source * rng.lognormal(0.08, 0.22, num_sentences), 2, 250).astype(np.int64)
    order = np.lexsort((target, source))
    return np.maximum(source, target)[order]


def random_case(rng: np.random.Generator) -> tuple[np.ndarray, dict[str, int]]:
    """Return a few lengths, sorted, reversed or in no order, and limits of tokens, of sentences, of both or none."""
    longest = int(rng.choice([1, 3, 30, 300]))
    num_tokens = rng.integers(1, longest + 1, size=int(rng.choice([1, 5, 60, 2000])))
    order = rng.choice(["none", "sorted", "reversed", "longer side"])
    if order != "none":
        num_tokens = np.sort(num_tokens)[:: -1 if order == "reversed" else 1].copy()
    if order == "longer side":
        num_tokens = np.maximum(num_tokens, rng.integers(1, longest + 1, size=num_tokens.size) * 2 // 3)
    limits = {
        "max_tokens": longest + int(rng.integers(0, 50 * longest)) if rng.random() < 0.8 else -1,
        "max_sentences": int(rng.integers(1, 40)) if rng.random() < 0.5 else -1,
        "multiple": int(rng.choice(MULTIPLES)),
    }
    return num_tokens, limits


def ours(indices: np.ndarray, num_tokens: np.ndarray, max_tokens: int, max_sentences: int, multiple: int) -> Batches:
    """Return this project's batches."""
    return batch_by_size(indices, int, num_tokens, max_tokens, max_sentences, multiple)


def compiled_function(folder: Path | None) -> Cut | None:
    """Return fairseq's compiled `batch_by_size_vec`, or None where there is none."""
    if folder is not None:
        sys.path.insert(0, str(folder))
    name = "fairseq.data.data_utils_fast" if folder is None else "data_utils_fast"
    if importlib.util.find_spec(name) is None:
        return None
    module: Any = importlib.import_module(name)
    return module.batch_by_size_vec  # type: ignore[no-any-return]


def is_equal(one: Batches, other: Batches) -> bool:
    """Return whether both hold the same sentences in the same batches."""
    return [len(batch) for batch in one] == [len(batch) for batch in other] and np.array_equal(
        np.concatenate(one), np.concatenate(other)
    )


def main() -> None:
    """Print a line a case, and end with 1 if the two sides differ anywhere."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-sentences", type=int, default=4_500_000)
    parser.add_argument("--random-cases", type=int, default=2000)
    parser.add_argument("--compiled", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    compiled = compiled_function(arguments.compiled)
    sides: dict[str, Cut] = {"ours": ours} if compiled is None else {"ours": ours, "compiled": compiled}
    if compiled is None:
        print("fairseq's compiled function is not at hand: ours alone, compared with nothing")

    rng = np.random.default_rng(1)
    num_different = 0
    for _ in range(arguments.random_cases if compiled is not None else 0):
        num_tokens, limits = random_case(rng)
        indices = rng.permutation(num_tokens.size)
        num_different += not is_equal(*(cut(indices, num_tokens, *limits.values()) for cut in sides.values()))
    if compiled is not None:
        print(f"{arguments.random_cases:,} random cases: {num_different} differ")

    num_tokens = lengths_like_wmt14(arguments.num_sentences, rng)
    indices = np.arange(num_tokens.size)
    for max_tokens, multiple in itertools.product(MAX_TOKENS, MULTIPLES):
        batches_by_side, seconds_by_side = {}, {}
        for name, cut in sides.items():
            begin = time.process_time()
            batches = cut(indices, num_tokens, max_tokens, -1, multiple)
            cpu_seconds = seconds_by_side[name] = time.process_time() - begin
            tracemalloc.start()
            batches_by_side[name] = cut(indices, num_tokens, max_tokens, -1, multiple)
            peak_mib = tracemalloc.get_traced_memory()[1] / 2**20
            tracemalloc.stop()
            print(
                f"{num_tokens.size:,} sentences, {max_tokens} tokens, multiples of {multiple}, {name:8}: "
                f"{cpu_seconds:6.3f} CPU s, {peak_mib:4.0f} MiB, {len(batches):,} batches",
                flush=True,
            )
        theirs = seconds_by_side.get("compiled")
        tell(
            f"batches of {num_tokens.size:,} lengths, {max_tokens:,} tokens, multiples of {multiple}",
            f"{seconds_by_side['ours']:.3f} CPU s",
            "fairseq's compiled function is not at hand"
            if theirs is None
            else f"fairseq, compiled: {theirs:.3f} CPU s",
            [] if theirs is None else [theirs / seconds_by_side["ours"]],
        )
        if compiled is not None and not is_equal(*batches_by_side.values()):
            num_different += 1
            print("they differ")
    sys.exit(num_different > 0)


if __name__ == "__main__":
    main()
