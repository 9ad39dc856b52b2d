"""Compares the time of the paper's big with CTranslate2's: CPU-seconds a line, one thread each.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.bench_big --lines-per-length 48

The model has fairseq's form of 2018 (joint dictionary of 32,768 symbols, biases) and random weights.
Every line has as many pieces as its translation, and the end of sentence is forced there, so both
programs make the same number of steps: beam 4, fairseq's penalty and stop. The lengths are six
quantiles of newstest2014's German references in pieces. The programs take turns.
"""

import argparse
import resource
import tempfile
from pathlib import Path
from statistics import mean, median
from types import SimpleNamespace

import ctranslate2
import msgspec
import torch
from fairseq.data import Dictionary

from aiayn.decode.beam_search import BatchSearch
from aiayn.decode.decoder_steps import steps_of
from aiayn.machine import cpu_flops_per_second_per_core
from aiayn.spec.system import read_system
from aiayn.train.fairseq_model import AiaynTransformer, AiaynTransformerConfig
from tests.benchmarks.bench_decode import cpu_seconds
from tests.benchmarks.ctranslate2_model import save_ctranslate2

NUM_SYMBOLS = 32_768
LENGTHS = (9, 16, 23, 30, 38, 58)  # mean 29.0; newstest2014 has 29.1 German pieces a line
NUM_TESTSET_LINES = 3003
SETTINGS = {"norm_epsilon": 1e-5, "attention_biases": True}


def main() -> None:
    """Print the CPU-seconds of both programs a line, their ratio, and the hours of newstest2014."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines-per-length", type=int, default=48, help="lines of a batch")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--repetitions", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dictionary = Dictionary()
    for number in range(NUM_SYMBOLS - len(dictionary)):
        dictionary.add_symbol(f"s{number}")
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    system = read_system("big", "paper")
    training = msgspec.structs.replace(system.training, **SETTINGS)
    sizes = {"num_layers": 6, "d_model": 1024, "d_ff": 4096, "num_heads": 16, "d_k": 64, "d_v": 64}
    form = {"positions": "sinusoidal_halves", "position_offset": 2}
    model = AiaynTransformer.build_model(
        AiaynTransformerConfig(**sizes, **form, **SETTINGS), task
    ).eval()
    with tempfile.TemporaryDirectory() as folder:
        save_ctranslate2(model, task, training, Path(folder))
        reader = ctranslate2.Translator(folder, intra_threads=1, inter_threads=1)
    decoding = msgspec.structs.replace(
        system.decoding,
        length_penalty_form="len",
        stop="fairseq",
        max_length_per_source_token=1,
        max_extra_tokens=0,
    )
    steps = steps_of(model)
    seconds: dict[str, list[float]] = {"ours": [], "CTranslate2": []}
    for _ in range(args.repetitions):
        totals = dict.fromkeys(seconds, 0.0)
        for length in args.lengths:
            shape = (args.lines_per_length, length - 1)
            source_BS = torch.randint(4, NUM_SYMBOLS, shape)
            end_B1 = torch.full((len(source_BS), 1), dictionary.eos())
            batch_BS = torch.cat([source_BS, end_B1], dim=1)
            lines = [[dictionary.symbols[n] for n in line] for line in source_BS.tolist()]

            def ours(batch_BS: torch.Tensor = batch_BS, length: int = length) -> None:
                lengths = [length] * len(batch_BS)
                BatchSearch(
                    steps,
                    batch_BS,
                    lengths,
                    decoding,
                    padding=dictionary.pad(),
                    end=dictionary.eos(),
                ).run()

            def peer(lines: list[list[str]] = lines, length: int = length) -> None:
                reader.translate_batch(
                    lines,
                    beam_size=4,
                    length_penalty=0.6,
                    min_decoding_length=length + 1,
                    max_decoding_length=length + 1,
                )

            for side, work in (("ours", ours), ("CTranslate2", peer)):
                totals[side] += cpu_seconds(work) / args.lines_per_length / len(args.lengths)
        for side, value in totals.items():
            seconds[side].append(value)
        print({side: f"{value:.2f} CPU-s a line" for side, value in totals.items()}, flush=True)
    ratios = [peer / ours for ours, peer in zip(*seconds.values(), strict=True)]
    peak = cpu_flops_per_second_per_core()
    ours_seconds = median(seconds["ours"])
    print(f"speed, ours over CTranslate2: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    print(f"mean length {mean(args.lengths):.1f}, peak {peak / 1e9:.0f} GFLOP/s a core")
    print(f"{ours_seconds * peak:.2e} operations of the peak a line")
    hours = ours_seconds * NUM_TESTSET_LINES / 3600
    print(f"{NUM_TESTSET_LINES} lines: {hours:.1f} hours of a core, {hours / 2:.1f} on two cores")
    print(
        f"memory of both models: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB"
    )


if __name__ == "__main__":
    main()
