"""Compares our beam search with CTranslate2's: sentences per CPU-second, with one thread each.

    python -m tests.benchmarks.bench_decode [RUN] --results results

The command decodes the test set of a finished run, by default the newest run. Two searches are
measured: CTranslate2's (`len` and fairseq's stop), and the paper's (`gnmt` and tensor2tensor's
stop), which is compared with CTranslate2's own search. The programs take turns, so that other work of the machine affects all of them. The results
are medians, with the smallest and the largest value. CTranslate2 uses its fastest batch size below.
Hypotheses are compared with the oracle's (`tests/engine/reference_search.py`). Hypotheses with the
same score, to 1e-5, are counted as ties.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import ctranslate2
import msgspec
import torch

from aiayn.decode.beam_search import BestHypothesis
from aiayn.decode.decode import Translator, load_split
from aiayn.errors import AiaynError
from aiayn.runs.finished import find_finished
from aiayn.spec.system import DecodingSpec, TrainingSpec
from tests.benchmarks.ctranslate2_model import save_ctranslate2
from tests.engine.reference_search import search_by_reference, unequal

SEARCHES = {
    "len, fairseq's stop": {"length_penalty_form": "len", "stop": "fairseq"},
    "gnmt, tensor2tensor's stop (the paper's)": {
        "length_penalty_form": "gnmt",
        "stop": "tensor2tensor",
    },
}
CTRANSLATE2_BATCHES: tuple[dict[str, Any], ...] = (
    {"max_batch_size": 0},
    {"max_batch_size": 32},
    {"max_batch_size": 1024, "batch_type": "tokens"},
    {"max_batch_size": 4096, "batch_type": "tokens"},
)


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return user and system seconds of this process while it works."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def make_ctranslate2(
    translator: Translator, training: TrainingSpec, lines: Sequence[list[str]]
) -> Callable[[], Any]:
    """Return what translates the lines by CTranslate2, alpha 0.6 and beam 4, in the batches that
    suit it best.
    """
    with tempfile.TemporaryDirectory() as folder:
        save_ctranslate2(translator.model, translator.task, training, Path(folder))
        reader = ctranslate2.Translator(folder, intra_threads=1, inter_threads=1)

    def translate(batches: dict[str, Any]) -> Any:
        return reader.translate_batch(
            lines, beam_size=4, length_penalty=0.6, max_decoding_length=1000, **batches
        )

    fastest = min(CTRANSLATE2_BATCHES, key=lambda batches: cpu_seconds(lambda: translate(batches)))
    return lambda: translate(fastest)


def compare(
    name: str,
    translator: Translator,
    decoding: DecodingSpec,
    sources: list[torch.Tensor],
    by_ctranslate2: Callable[[], Any],
    repetitions: int,
) -> None:
    """Print a line a side for one search, and the hypotheses that differ."""
    translator.decoding = decoding
    dictionary = translator.task.target_dictionary
    kept: dict[str, Any] = {}

    def ours() -> None:
        kept["ours"] = translator.translate(sources)

    def peer() -> None:
        kept["peer"] = by_ctranslate2()

    sides = {"ours": ours, "CTranslate2": peer}
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(repetitions):
        for side, work in sides.items():
            rates[side].append(len(sources) / cpu_seconds(work))
    print(f"\n{name}: {len(sources)} sentences, beam {decoding.beam_size}")
    for side, values in rates.items():
        ratios = [ours / other for ours, other in zip(rates["ours"], values, strict=True)]
        print(
            f"  {side:12} {median(values):7.1f} sentences a CPU-second ({min(values):.1f} to"
            f" {max(values):.1f})   ours is {median(ratios):.2f} x ({min(ratios):.2f} to"
            f" {max(ratios):.2f})"
        )
    own_best = [
        BestHypothesis([dictionary.index(piece) for piece in hypothesis.pieces], hypothesis.score)
        for hypothesis in kept["ours"]
    ]
    lines = unequal(own_best, search_by_reference(translator.model, dictionary, decoding, sources))
    others = sum(
        own.pieces != other.hypotheses[0]
        for own, other in zip(kept["ours"], kept["peer"], strict=True)
    )
    print(f"  {len(lines)} hypotheses other than the oracle's, {others} other than CTranslate2's")
    print("".join(f"    {line}\n" for line in lines), end="")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both searches."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", nargs="?", metavar="RUN")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--num-lines", type=int, default=1000)
    parser.add_argument("--repetitions", type=int, default=5)
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        finished = find_finished(args.results, args.run, None)
    except AiaynError as error:
        raise SystemExit(f"nothing to decode with: {error}") from None
    training, decoding, checkpoint = finished.training, finished.decoding, finished.checkpoint
    if training is None:
        raise SystemExit(f"nothing to decode with: {checkpoint.run} was trained by another version")
    translator = Translator(checkpoint.path, finished.data.folder, decoding, device="cpu")
    sources = load_split(translator.task, "test")[0][: args.num_lines]
    symbols = translator.task.source_dictionary.symbols
    by_ctranslate2 = make_ctranslate2(
        translator, training, [[symbols[i] for i in line[:-1]] for line in sources]
    )
    print(f"torch {torch.__version__}, CTranslate2 {ctranslate2.__version__}, {checkpoint.path}")
    for name, changes in SEARCHES.items():
        decoding_of_search = msgspec.structs.replace(
            decoding, beam_size=4, length_penalty_alpha=0.6, **changes
        )
        compare(name, translator, decoding_of_search, sources, by_ctranslate2, args.repetitions)


if __name__ == "__main__":
    main()
