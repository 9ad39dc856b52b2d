"""Every product of every stage is damaged in four ways, and each stage that reads it is run.

A stage must refuse it in a sentence, or give the result of the undamaged product. A different
result without a word, or a traceback, is a fault.
"""

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiayn.__main__ import main
from tests.engine.pipeline_verbs import data_commands, training_commands

CORPUS = "demo_en_de"
SEEDS = (52, 916_245_307)
KINDS = ("flip", "cut", "empty", "gone")
# Fields that differ from run to run.
TIMED = {"provenance", "checksum", "sentences_per_second", "learning_by_model", "wall_seconds"}
READERS_BY_PRODUCT = {
    "fetch/train.en": ["clean"],
    "fetch/demo_dev.de": ["clean", "score"],
    "fetch/record.json": ["clean", "score"],
    "clean/train.de": ["segment", "binarize"],
    "clean/record.json": ["segment", "binarize"],
    "segment/joint.model": ["binarize"],
    "segment/record.json": ["binarize"],
    "binarize/data-bin/train.en-de.en.bin": ["train"],
    "binarize/data-bin/train.en-de.de.idx": ["train"],
    "binarize/data-bin/dict.en.txt": ["train", "decode", "perplexity"],
    "binarize/data-bin/valid.en-de.en.bin": ["decode", "perplexity"],
    "binarize/data-bin/valid.en-de.en.idx": ["decode", "perplexity"],
    "binarize/data-bin/valid.en-de.de.bin": ["decode", "perplexity"],
    "binarize/data-bin/valid.en-de.de.idx": ["decode", "perplexity"],
    "binarize/record.json": ["train", "decode", "perplexity"],
    "train/record.json": ["average"],
    "average/record.pt": ["decode", "perplexity"],
    "average/record.json": ["decode", "perplexity"],
    "decode/record.txt": ["score"],
    "decode/record.json": ["score"],
    "model": ["average"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the products of all stages, of a training of two updates."""
    folder = tmp_path_factory.mktemp("made")
    for command in commands(folder):
        assert main(command) == 0
    return folder


def commands(folder: Path, written: Path | None = None) -> Iterator[list[str]]:
    """Yield each stage's command. With `written` its record is written there instead."""

    def record(verb: str) -> Path:
        return folder / verb / "record.json"

    for command in data_commands(CORPUS, record):
        yield redirected(command, written)
    for command in training_commands(
        CORPUS, record, scale="demo", system="base", testset="demo_dev", updates=2
    ):
        runs = ["--runs-folder", str((written or folder) / "runs")]
        yield redirected(command, written) + (runs if command[0] == "train" else [])


def redirected(command: list[str], written: Path | None) -> list[str]:
    """Return a command that writes its record below a folder."""
    if written is None:
        return command
    position = command.index("--record") + 1
    return [
        *command[:position],
        str(written / command[0] / "record.json"),
        *command[position + 1 :],
    ]


def product_path(folder: Path, name: str) -> Path:
    """Return the path of a product. `model` is the last checkpoint of the training."""
    if name == "model":
        return next(iter(sorted(folder.glob("runs/*/checkpoints/model_*.pt"))))
    return folder / name


def damage(path: Path, kind: str, random_source: random.Random) -> None:
    """Flip a bit of a file, cut it, empty it or delete it."""
    content = bytearray(path.read_bytes())
    if kind == "gone":
        path.unlink()
        return
    if kind == "flip":
        content[random_source.randrange(len(content))] ^= 1 << random_source.randrange(8)
    length = {"flip": len(content), "empty": 0}.get(kind, random_source.randrange(len(content)))
    path.write_bytes(content[:length])


def result_of(path: Path) -> dict[str, object]:
    """Return what a stage recorded, without times, hosts and places."""
    values = json.loads(path.read_bytes())
    texts = {}
    for key, value in values.items():
        if key not in TIMED and "path" not in key and key != "pair_by_split" and key != "folder":
            texts[key] = value
    for split, pair in values.get("pair_by_split", {}).items():
        texts[split] = pair["sha256_by_language"]
    return texts


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_no_damage_is_silent_and_none_ends_in_a_traceback(
    seed: int, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random_source, outcomes = random.Random(seed), Counter[str]()
    faults = []
    for name, readers in READERS_BY_PRODUCT.items():
        path = product_path(made, name)
        shutil.copy2(path, tmp_path / "whole")
        for kind in KINDS:
            damage(path, kind, random_source)
            for verb in readers:
                written = tmp_path / "written"
                (command,) = (c for c in commands(made, written) if c[0] == verb)
                outcome = run(command, made / verb / "record.json", written / verb / "record.json")
                outcomes[outcome] += 1
                if outcome not in ("refused", "unharmed"):
                    faults.append(f"{name} {kind}, {verb}: {outcome}")
                shutil.rmtree(written, ignore_errors=True)
            shutil.copy2(tmp_path / "whole", path)
    with capsys.disabled():
        print(f"seed {seed}: {dict(outcomes)}")
    assert faults == []
    assert outcomes.total() >= 103


def run(command: list[str], expected: Path, written: Path) -> str:
    """Return how a stage treats damaged input: refused, unharmed, silent, or its exception."""
    try:
        if main(command) != 0:
            return "silent, with a record" if written.exists() else "refused"
    except Exception as error:
        return f"traceback: {type(error).__name__} {error}"
    is_equal = written.exists() and result_of(written) == result_of(expected)
    return "unharmed" if is_equal else "silent"


@pytest.mark.slow
def test_undamaged_products_give_the_same_result_again(made: Path, tmp_path: Path) -> None:
    for command in commands(made, tmp_path):
        verb = command[0]
        outcome = run(command, made / verb / "record.json", tmp_path / verb / "record.json")
        assert (verb, outcome) == (verb, "unharmed")


def test_a_damaged_byte_is_found_by_each_kind_of_damage(tmp_path: Path) -> None:
    for kind in KINDS:
        path = tmp_path / "file"
        path.write_bytes(bytes(range(100)))
        damage(path, kind, random.Random(1))
        assert not path.exists() or path.read_bytes() != bytes(range(100))
