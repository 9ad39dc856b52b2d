"""The data-bin has the bytes that fairseq-preprocess writes, and its record holds to them."""

import filecmp
import importlib.util
import os
import random
import struct
import subprocess
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest

import aiayn.data.text.lines
from aiayn.__main__ import main
from aiayn.data.text import binarize, chunks
from aiayn.data.text.binarize import (
    binarize_corpus,
    data_bin_digest,
    data_bin_files,
    read_dictionary,
    require_recorded_data_bin,
)
from aiayn.data.text.encoder import LineEncoder, WordEncoder
from aiayn.data.text.lines import read_lines, write_lines
from aiayn.data.text.subword import CodesEncoder, PieceEncoder, learn_codes, learn_pieces
from aiayn.errors import CorpusError
from aiayn.records import BinarizedCorpus, read_record
from aiayn.spec.system import CorpusSpec, SubwordSpec
from tests.small_corpus import SMALL, write_raw

SPEC = msgspec.structs.replace(SMALL, test_testset="test_a", further_testsets=["test_b"])
LINES_BY_NAME = {
    "train.en": ["b a b", "", "c"],
    "train.de": ["a x", "c", "c"],
    "dev.en": ["a"],
    "dev.de": ["new c"],
    "test_a.en": ["x"],
    "test_a.de": ["x"],
    "test_b.en": ["b b"],
    "test_b.de": ["b"],
}


def joint_words() -> dict[str, LineEncoder]:
    """Return one encoder of words for both languages."""
    return dict.fromkeys(("en", "de"), WordEncoder())


def binarized(
    folder: Path,
    lines_by_name: dict[str, list[str]] = LINES_BY_NAME,
    spec: CorpusSpec = SPEC,
    encoders: dict[str, LineEncoder] | None = None,
    num_processes: int = 1,
) -> BinarizedCorpus:
    """Binarize text below a folder, by a joint dictionary of words unless encoders are given."""
    return binarize_corpus(
        spec,
        write_raw(folder / "text", lines_by_name),
        encoders or joint_words(),
        record_path=folder / "binarize" / "record.json",
        num_processes=num_processes,
    )


@pytest.fixture
def record(tmp_path: Path) -> BinarizedCorpus:
    """Binarize the small text with a joint dictionary."""
    return binarized(tmp_path)


def test_a_joint_dictionary_counts_both_sides_of_training(record: BinarizedCorpus) -> None:
    """In training c occurs 3 times, a and b 2 times, x once. `new` never does."""
    folder = Path(record.folder)
    assert list(read_lines(folder / "dict.en.txt")) == ["c 3", "a 2", "b 2", "x 1"]
    assert (folder / "dict.de.txt").read_bytes() == (folder / "dict.en.txt").read_bytes()
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "c", "a", "b", "x"]
    assert read_dictionary(folder / "dict.en.txt") == symbols
    assert record.vocabulary_size_by_language == {"en": 8, "de": 8}


def test_tokens_are_two_bytes_each_and_lines_end_with_2(record: BinarizedCorpus) -> None:
    folder = Path(record.folder)
    assert np.fromfile(folder / "train.en-de.en.bin", "<u2").tolist() == [6, 5, 6, 2, 2, 4, 2]
    assert np.fromfile(folder / "valid.en-de.de.bin", "<u2").tolist() == [3, 4, 2]  # `new` is <unk>
    expected = (
        b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, 8, 3) + struct.pack("<3i3q", 4, 1, 2, 0, 8, 10)
    )
    assert (folder / "train.en-de.en.idx").read_bytes() == expected


def test_test_sets_become_fairseqs_splits(record: BinarizedCorpus) -> None:
    assert record.fairseq_split_by_testset == {"dev": "valid", "test_a": "test", "test_b": "test1"}
    assert record.num_pairs_by_split == {"train": 3, "dev": 1, "test_a": 1, "test_b": 1}
    assert record.num_tokens_by_split_by_language["train"] == {"en": 7, "de": 7}
    assert record.num_tokens_by_split_by_language["test_b"] == {"en": 3, "de": 2}
    names = {path.name for path in Path(record.folder).iterdir()}
    assert names == {"dict.en.txt", "dict.de.txt"} | {
        f"{split}.en-de.{language}.{suffix}"
        for split in ("train", "valid", "test", "test1")
        for language in ("en", "de")
        for suffix in ("bin", "idx")
    }


def sentences(num_lines: int, rng: random.Random) -> list[str]:
    """Return lines of what separates words for fairseq, of words named like its symbols, and of
    nothing.
    """
    words = [
        "the",
        "dog",
        "@@",
        "bar@@",
        "k@@",
        "s",
        "Hund",
        "über",
        "<unk>",
        "</s>",
        "<pad>",
        "a\xa0b",
    ]
    words += ["\u2028", "  "]
    return [" ".join(rng.choices(words, k=rng.randrange(9))) for _ in range(num_lines)]


def odd_text(rng: random.Random) -> dict[str, list[str]]:
    """Return all files of the small corpus, filled with odd sentences."""
    num_lines_by_split = {"train": 200, "dev": 20, "test_a": 10, "test_b": 1}
    return {
        f"{s}.{k}": sentences(num, rng)
        for s, num in num_lines_by_split.items()
        for k in ("en", "de")
    }


def wide_text(rng: random.Random) -> dict[str, list[str]]:
    """Return the small corpus with training text of 66,000 different words, too many for two bytes."""
    train = [" ".join(f"w{100 * row + column}" for column in range(100)) for row in range(660)]
    return odd_text(rng) | {"train.en": train, "train.de": train[::-1]}


def run_fairseq_preprocess(folder: Path, *, is_joint: bool) -> Path:
    """Run the real fairseq-preprocess on `<split>.<language>` of a folder, and return its data-bin."""
    options = (
        "--source-lang en --target-lang de --trainpref train --validpref dev"
        " --testpref test_a,test_b --destdir fairseq --padding-factor 1"
    )
    command = [sys.executable, "-m", "fairseq_cli.preprocess", *options.split()]
    finished = subprocess.run(
        [*command, *(["--joined-dictionary"] if is_joint else [])],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert finished.returncode == 0, finished.stderr
    return folder / "fairseq"


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("fairseq") is None,
    reason="fairseq is not installed: pip install .[train]",
)
@pytest.mark.parametrize("case", ["pieces", "separate pieces", "codes", "words", "wide"])
def test_the_bytes_are_fairseqs(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes and chunks of 33 lines here, fairseq-preprocess as it comes there."""
    rng = random.Random(1)
    lines_by_name = wide_text(rng) if case == "wide" else odd_text(rng)
    if case == "codes":  # subword-nmt accepts only tokens
        for name, lines in lines_by_name.items():
            lines_by_name[name] = [" ".join(line.split()) for line in lines]
    encoders, folder = joint_words(), tmp_path / "text"
    if case not in ("words", "wide"):  # fairseq is given the pieces as text, ours the text itself
        train = [*lines_by_name["train.en"], *lines_by_name["train.de"]]
        english = german = learnt_encoder(case, train, tmp_path / "first")
        if case == "separate pieces":
            german = learnt_encoder(case, lines_by_name["train.de"], tmp_path / "second")
        encoders = {"en": english, "de": german}
        folder = tmp_path / "pieces"
        pieces_by_name = {}
        for name, lines in lines_by_name.items():
            pieces_by_name[name] = list(map(encoders[name[-2:]].pieces, lines))
        write_raw(folder, pieces_by_name)
    monkeypatch.setattr(chunks, "LINES_PER_CHUNK", 33)
    monkeypatch.setattr(chunks, "LINES_PER_PROCESS", 100)
    ours = Path(binarized(tmp_path, lines_by_name, SPEC, encoders, num_processes=2).folder)
    theirs = run_fairseq_preprocess(folder, is_joint=case != "separate pieces")
    names = sorted(path.name for path in theirs.iterdir() if path.name != "preprocess.log")
    assert names == sorted(path.name for path in ours.iterdir())
    assert len(names) == 18
    assert filecmp.cmpfiles(ours, theirs, names, shallow=False)[1:] == ([], [])


def learnt_encoder(case: str, lines: list[str], folder: Path) -> PieceEncoder | CodesEncoder:
    """Learn a small model from lines and return its encoder."""
    folder.mkdir(exist_ok=True)
    if case == "codes":
        counts = Counter(word for line in lines for word in line.split())
        codes = learn_codes((f"{word} {count}" for word, count in counts.items()), 15, "text")
        write_lines(codes, folder / "joint.codes")
        return CodesEncoder(folder / "joint.codes")
    (folder / "joint.model").write_bytes(
        learn_pieces(lines, SubwordSpec(vocabulary_size=40, joint=True), "text")
    )
    return PieceEncoder(folder / "joint.model")


@pytest.mark.parametrize(("num_processes", "lines_per_chunk"), [(1, 2), (2, 1), (3, 250_000)])
def test_neither_processes_nor_chunks_nor_blocks_matter(
    record: BinarizedCorpus,
    tmp_path: Path,
    num_processes: int,
    lines_per_chunk: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(binarize, "_BYTES_PER_BLOCK", 8)
    monkeypatch.setattr(chunks, "LINES_PER_CHUNK", lines_per_chunk)
    monkeypatch.setattr(chunks, "LINES_PER_PROCESS", 1)
    again = binarized(tmp_path / "again", num_processes=num_processes)
    assert again.digest == record.digest
    assert again.num_tokens_by_split_by_language == record.num_tokens_by_split_by_language
    assert again.num_pairs_by_split == record.num_pairs_by_split


def test_memory_does_not_grow_with_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten times the text, 2.4 MB of numbers more. Block sizes are set far below that."""
    monkeypatch.setattr(binarize, "_BYTES_PER_BLOCK", 4096)
    monkeypatch.setattr(chunks, "LINES_PER_CHUNK", 500)
    monkeypatch.setattr(aiayn.data.text.lines, "_BLOCK_BYTES", 4096)
    peaks = []
    for num_lines in (5_000, 50_000):
        lines = ["a b c d e f"] * num_lines
        tracemalloc.start()
        binarized(tmp_path / str(num_lines), LINES_BY_NAME | {"train.en": lines, "train.de": lines})
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_the_digest_can_be_made_by_hand(tmp_path: Path) -> None:
    (tmp_path / "dict.en.txt").write_bytes(b"abc\n")
    (tmp_path / "preprocess.log").write_bytes(b"not part of it")
    # (cd FOLDER; sha256sum dict.en.txt) | sha256sum
    digest = "5c0efdfe3999071395b41daff9be323c519c9520bd3096947e259a1657efd496"
    assert data_bin_digest(data_bin_files(tmp_path)) == digest


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("dict.de.txt", b"a 2\n"),
        ("dict.de.txt", None),
        ("test.en-de.de.bin", b""),
    ],
)
def test_a_data_bin_of_another_vocabulary_or_text_is_refused(
    record: BinarizedCorpus, name: str, content: bytes | None
) -> None:
    assert require_recorded_data_bin(record) == Path(record.folder)
    path = Path(record.folder) / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    expected = (
        "data-bin: digest .*: a data-bin of other text or vocabulary, or an incomplete data-bin"
    )
    with pytest.raises(CorpusError, match=expected):
        require_recorded_data_bin(record)


def test_binarizing_again_replaces_the_folder_whole(
    record: BinarizedCorpus, tmp_path: Path
) -> None:
    # Files of the earlier vocabulary beside new ones would be trained on.
    folder = Path(record.folder)
    (folder / "left.over").touch()
    again = binarized(tmp_path, LINES_BY_NAME | {"train.en": ["z", "z", "z"]})
    assert again.digest != record.digest
    assert require_recorded_data_bin(again) == folder
    assert not (folder / "left.over").exists()
    assert list(folder.parent.iterdir()) == [folder]


def test_a_dictionary_line_without_a_count_is_named(tmp_path: Path) -> None:
    (tmp_path / "dict.en.txt").write_bytes(b"a 3\nb\n")
    with pytest.raises(CorpusError, match=r"dict\.en\.txt:2: 'b'; expected `symbol count`"):
        read_dictionary(tmp_path / "dict.en.txt")


@pytest.mark.skipif(
    "AIAYN_MIRROR" not in os.environ, reason="set AIAYN_MIRROR to a base that has Revisit-MMT/data/"
)
def test_the_published_segmented_multi30k_has_its_known_size(tmp_path: Path) -> None:
    """9,712 types with the four special symbols, 426,793 and 429,507 tokens, as fairseq-preprocess
    counts.
    """
    fetched, binarized = tmp_path / "fetch" / "record.json", tmp_path / "binarize" / "record.json"
    corpus = ["--corpus", "multi30k_revisit_en_de"]
    assert main(["fetch", *corpus, "--record", str(fetched)]) == 0
    assert main(["binarize", *corpus, "--text", str(fetched), "--record", str(binarized)]) == 0
    record = read_record(binarized, BinarizedCorpus)
    assert record.vocabulary_size_by_language == {"en": 9712, "de": 9712}
    assert record.num_tokens_by_split_by_language["train"] == {"en": 426_793, "de": 429_507}
    assert list(record.num_pairs_by_split.values()) == [29_000, 1014, 1000, 1000, 461]
