"""Models and data-bins as other versions of fairseq leave them: a small transformer of fairseq's own
code, rewritten to the form of 2018.

The form was read in fairseq's source of 2018 and compared with files that fairseq 0.6.2 wrote.
"""

import io
import os
import subprocess
import sys
import types
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

import aiayn.train.model  # noqa: F401  # fairseq installs its own meters when it is imported
from aiayn.data.text.lines import read_shipped
from aiayn.data.text.tokenize_moses import tokenize_lines
from aiayn.spec.system import ShippedSource, read_corpus
from tests.engine.hooked_job import CHECKOUT

NUM_PAIRS, NUM_TEST_LINES, NUM_MERGES = 1000, 100, 100
LANGUAGES = ("en", "de")
TINY = (
    "--encoder-layers 1 --decoder-layers 1 --encoder-attention-heads 2 --decoder-attention-heads 2"
    " --encoder-embed-dim 32 --decoder-embed-dim 32 --encoder-ffn-embed-dim 64"
    " --decoder-ffn-embed-dim 64 --share-all-embeddings"
)


class Foreign(NamedTuple):
    """Text with codes, the data-bin of the training, its checkpoint, and what fairseq-generate
    prints for the test set with its own limits.
    """

    text: Path
    data: Path
    checkpoint: Path
    expected: list[str]


def make_foreign(folder: Path) -> Foreign:
    """Train fairseq's own transformer on the demo's text, and translate with fairseq-generate."""
    text = folder / "text"
    text.mkdir()
    write_text(text)
    data = make_data_bin(text, folder / "mmap", "mmap")
    checkpoint = train(data, folder / "training", updates=150)
    flags = "--gen-subset test --beam 4 --lenpen 0.6 --cpu --remove-bpe --scoring sacrebleu"
    paths = [str(data), "--path", str(checkpoint), "--results-path", str(folder)]
    call_fairseq("generate", *paths, *flags.split(), "--num-workers", "0", "--batch-size", "1")
    line_by_index = {}
    for row in (folder / "generate-test.txt").read_text(encoding="utf-8").splitlines():
        if row.startswith("H-"):
            name, _, line = row.split("\t")
            line_by_index[int(name[2:])] = line
    expected = [line_by_index[index] for index in range(NUM_TEST_LINES)]
    return Foreign(text, data, checkpoint, expected)


def call_fairseq(command: str, *arguments: str) -> str:
    """Run a command of fairseq in a process of its own; our plugin replaces the compiled
    batching.
    """
    plugin = ["--user-dir", str(CHECKOUT / "workflow" / "aiayn_fairseq")]
    called = [sys.executable, "-m", f"fairseq_cli.{command}", *arguments, *plugin]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}  # many for so small a model are slower
    answer = subprocess.run(called, capture_output=True, text=True, check=False, env=one_thread)
    assert answer.returncode == 0, answer.stderr[-2000:]
    return answer.stdout


def write_text(folder: Path) -> None:
    """Write the demo's pairs as text (`raw.test.en`), as pieces (`test.en`), and the codes."""
    source = read_corpus("demo_en_de").source
    assert isinstance(source, ShippedSource)
    shipped = read_shipped(source)
    pairs_by_split = {
        "train": shipped["train"][:NUM_PAIRS],
        "test": shipped["demo_test"][:NUM_TEST_LINES],
    }
    tokens = {}
    for split, pairs in pairs_by_split.items():
        for side, language in enumerate(LANGUAGES):
            lines = [pair[side] for pair in pairs]
            write(folder / f"raw.{split}.{language}", lines)
            tokens[split, language] = tokenize_lines(lines, language)
    codes = io.StringIO()
    text = [*tokens["train", "en"], *tokens["train", "de"]]
    learn_bpe(io.StringIO("\n".join(text) + "\n"), codes, NUM_MERGES)
    (folder / "bpecodes").write_text(codes.getvalue(), encoding="utf-8")
    bpe = BPE(io.StringIO(codes.getvalue()))
    for (split, language), lines in tokens.items():
        write(folder / f"{split}.{language}", [bpe.process_line(line) for line in lines])


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def make_data_bin(text: Path, folder: Path, dataset_impl: str, *flags: str) -> Path:
    """Return a data-bin of the text, made by fairseq, with a joint dictionary."""
    call_fairseq(
        "preprocess",
        *("--source-lang", "en", "--target-lang", "de", "--destdir", str(folder)),
        *("--trainpref", str(text / "train"), "--testpref", str(text / "test")),
        *("--joined-dictionary", "--dataset-impl", dataset_impl, *flags),
    )
    return folder


def train(data: Path, folder: Path, *, updates: int) -> Path:
    """Return the last checkpoint of fairseq's own transformer."""
    flags = (
        f"--arch transformer {TINY} --task translation --optimizer adam --lr 0.01 --max-tokens 1000"
        f" --max-update {updates} --cpu --disable-validation --seed 1 --num-workers 0 --dropout 0"
        " --lr-scheduler inverse_sqrt --warmup-updates 40 --no-epoch-checkpoints"
    )
    call_fairseq("train", str(data), "--save-dir", str(folder), *flags.split())
    return folder / "checkpoint_last.pt"


def rewrite_to_2018(checkpoint: Path, path: Path, **changes: Any) -> Path:
    """Write a checkpoint as fairseq of 2018 and its torch did, and return its path.

    Arguments are a Namespace, projections are joined, norms are numbered, embeddings are stored
    twice, meters are objects of fairseq's classes, and the file is no zip archive.
    """
    state = torch.load(checkpoint, map_location="cpu", weights_only=False)
    old = dict(rename(state["model"]))
    settings = {"task": "translation", "arch": "transformer", "source_lang": "en"}
    settings |= {"target_lang": "de", "data": ["elsewhere"], "share_all_embeddings": True}
    for side in ("encoder", "decoder"):
        sizes = {"embed_dim": 32, "ffn_embed_dim": 64, "attention_heads": 2, "layers": 1}
        settings |= {f"{side}_{name}": size for name, size in sizes.items()}
        settings |= {f"{side}_normalize_before": False, f"{side}_learned_pos": False}
    settings |= {"max_source_positions": 1024, "max_target_positions": 1024, "dropout": 0.1}
    settings |= {"left_pad_source": "True", "left_pad_target": "False", "raw_text": False}
    with fake_meters() as meter:
        extra = {"train_iterator": {"epoch": 1}, "val_loss": None, "train_meters": {"lr": meter}}
        history = {"criterion_name": "CrossEntropyCriterion", "best_loss": None}
        torch.save(
            {
                "args": Namespace(**(settings | changes)),
                "model": old,
                "optimizer_history": [history],
                "last_optimizer_state": {},
                "extra_state": extra,
            },
            path,
            _use_new_zipfile_serialization=False,
        )
    return path


def rename(tensors: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors under the names of 2018."""
    numbered = {
        "encoder": ("self_attn_layer_norm", "final_layer_norm"),
        "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
    }
    for name, tensor in tensors.items():
        parts = name.split(".")
        if name == "decoder.output_projection.weight" or parts[-2] in ("k_proj", "v_proj"):
            continue
        if parts[-2] == "q_proj":
            joined = [tensors[name.replace("q_proj", f"{letter}_proj")] for letter in "qkv"]
            yield name.replace("q_proj.", "in_proj_"), torch.cat(joined)
        elif parts[1] == "layers" and parts[3] in numbered[parts[0]]:
            index = numbered[parts[0]].index(parts[3])
            yield ".".join([*parts[:3], "layer_norms", str(index), parts[4]]), tensor
        elif parts[-1] != "version":
            yield name, tensor


@contextmanager
def fake_meters() -> Iterator[Any]:
    """Yield an object of a class that is pickled as `fairseq.meters.AverageMeter`."""
    meter_class = type("AverageMeter", (), {"__module__": "fairseq.meters"})
    module = types.ModuleType("fairseq.meters")
    module.AverageMeter = meter_class  # type: ignore[attr-defined]
    meter = meter_class()
    meter.val = 1.0
    with mock.patch.dict(sys.modules, {"fairseq.meters": module}):
        yield meter
