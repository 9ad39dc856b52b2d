"""The pipeline's verbs for one training, with the flags that its rules give them.

`record` returns the path of a verb's record.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

RecordPath = Callable[[str], str | Path]


def data_commands(corpus: str, record: RecordPath) -> Iterator[list[str]]:
    """Yield the commands from text to data-bin."""
    text = ["--text", record("clean")]
    flags_by_verb: dict[str, list[str | Path]] = {
        "fetch": [],
        "clean": ["--raw", record("fetch")],
        "segment": text,
        "binarize": [*text, "--segmented", record("segment")],
    }
    for verb, flags in flags_by_verb.items():
        yield [verb, "--corpus", corpus, *map(str, flags), "--record", str(record(verb))]


def training_commands(
    corpus: str,
    record: RecordPath,
    *,
    scale: str,
    system: str,
    testset: str,
    updates: int,
    num_averaged: int = 1,
    device: str = "cpu",
) -> Iterator[list[str]]:
    """Yield the commands from a training to its scores."""
    of_system: list[str | Path] = ["--scale", scale, "--system", system]
    on_data = ["--binarized", record("binarize")]
    on_testset = ["--checkpoint", record("average"), *on_data, "--testset", testset]
    on_testset += ["--device", device]
    training = ["--corpus", corpus, "--seed", "1", *on_data, "--launcher", "debug"]
    training += ["--updates", str(updates), "--num-models", str(num_averaged)]
    flags_by_verb = {
        "train": of_system + training,
        "average": ["--train", record("train"), "--last", str(num_averaged)],
        "decode": of_system + on_testset,
        "perplexity": on_testset,
        "score": ["--decoded", record("decode"), "--raw", record("fetch")],
    }
    for verb, flags in flags_by_verb.items():
        yield [verb, *map(str, flags), "--record", str(record(verb))]
