"""What a person hands in is what its file says, and odd input ends in one sentence."""

import argparse
import hashlib
import io
import os
import tarfile
from pathlib import Path

import msgspec
import numpy as np
import pytest

from aiayn.cli.flags import num_threads, seed
from aiayn.data.sources.archives import open_members
from aiayn.data.text.index import INDEX_HEADER, INDEX_MAGIC
from aiayn.data.text.lines import read_shipped
from aiayn.errors import AiaynError, ConfigError, CorpusError, FileError, UsageError, one_sentence
from aiayn.experiment import num_kept
from aiayn.packed import open_unpacked, read_bounded
from aiayn.paths import split_alpha
from aiayn.plan.feasibility import check_evaluations
from aiayn.runs.attempts import Ended, Started, attempt_seconds, sum_seconds
from aiayn.scoring.outputs.system_output import read_output
from aiayn.spec.corpus import ShippedSource
from aiayn.spec.strict_yaml import read_document
from aiayn.terminal import visible
from tests.records_factory import BINARIZED, made_of
from tests.unit.test_launch import make_request

SIZES = {"train": 2, "dev": 1}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("trian\ta\tb", r"text\.tsv:2: split 'trian'; did you mean 'train'\?"),
        ("train\ta\tb", "no lines of split dev, but num_pairs_by_split says 1"),
        ("dev\ta\tb", "1 lines of split train, but num_pairs_by_split says 2"),
        ("train\tgood morning", r"text\.tsv:2: .*expected split, source and target"),
        ("train\ta\tb\tc", r"text\.tsv:2: .*expected split, source and target"),
        ("", r"text\.tsv:2: .*expected split, source and target"),
    ],
)
def test_a_shipped_corpus_has_whole_lines_and_the_pairs_that_its_file_says(
    line: str, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "text.tsv"
    path.write_text(f"train\ta\tb\n{line}\n", encoding="utf-8")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(CorpusError, match=problem):
        read_shipped(ShippedSource(file=str(path), sha256=sha256, num_pairs_by_split=SIZES))


def test_an_archive_with_a_member_twice_is_refused(tmp_path: Path) -> None:
    # Which of the two is read would depend on the reader.
    with tarfile.open(tmp_path / "text.tar", "w") as archive:
        for name in ("a/train.en", "./a/train.en"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(CorpusError, match=r"text\.tar: holds 'a/train\.en' twice"):
        list(open_members(tmp_path / "text.tar", ["a/train.en"]))


def write_lengths(folder: Path, split: str, lengths: list[int]) -> None:
    """Write the lengths of a split, equal on both sides, as a data-bin has them."""
    for language in ("en", "de"):
        header = INDEX_HEADER.pack(INDEX_MAGIC, 1, 8, len(lengths))
        path = folder / f"{split}.en-de.{language}.idx"
        path.write_bytes(header + np.array(lengths, "<i4").tobytes())


@pytest.mark.parametrize(
    ("train", "dev", "problem"),
    [
        ([10, 501, 2000], [10, 2000], ""),
        ([10], [10, 501], "the longest usable line of valid has 501 tokens; expected 1 to 500"),
        ([10], [2000], "the longest usable line of valid has 0 tokens"),
        ([501], [10], "the longest usable line of train has 0 tokens"),
    ],
)
def test_lines_that_would_end_a_training_are_refused_before_it(
    train: list[int], dev: list[int], problem: str, tmp_path: Path
) -> None:
    write_lengths(tmp_path, "train", train)
    write_lengths(tmp_path, "valid", dev)
    data = msgspec.structs.replace(
        BINARIZED,
        folder=tmp_path,
        source_language="en",
        target_language="de",
        vocabulary_size_by_language={"en": 504, "de": 504},
    )
    request = make_request(tmp_path)
    training = msgspec.structs.replace(request.training, max_tokens_per_batch=500)
    request = msgspec.structs.replace(request, training=training, system="base")
    if not problem:
        check_evaluations(request, data, "demo")
        small = {"vocabulary_size_by_language": {"en": 7, "de": 7}}
        with pytest.raises(ConfigError, match="beam_size is 4; expected 1 to 3"):
            check_evaluations(request, msgspec.structs.replace(data, **small), "demo")
        return
    with pytest.raises(ConfigError, match=problem):
        check_evaluations(request, data, "demo")


def test_flags_have_bounds() -> None:
    assert seed("2147483647") == 2**31 - 1
    for parse, text in (
        (seed, "-1"),
        (seed, "2147483648"),
        (seed, "9" * 5000),
        (num_threads, "0"),
        (num_threads, "99999"),
    ):
        with pytest.raises(argparse.ArgumentTypeError, match="expected a whole number of"):
            parse(text)
    assert split_alpha("val") == ("val", None)
    assert split_alpha("val-alpha1.4") == ("val", 1.4)
    for alpha in ("", "x", "nan", "inf", "-1", "1-alpha2"):
        with pytest.raises(UsageError, match="expected a number of 0 or more"):
            split_alpha(f"val-alpha{alpha}")


def test_a_run_keeps_what_the_paper_averages_of_its_system() -> None:
    systems = (("en-de", "base"), ("en-de", "big"), ("en-de", "table3_c_n2"), ("en-fr", "big_enfr"))
    assert [num_kept(*system) for system in systems] == [5, 20, 1, 20]
    assert num_kept("en-de", "pre_norm") == 1


def test_an_attempt_that_ended_before_it_began_counts_no_time() -> None:
    started = msgspec.structs.replace(made_of("started", Started), time="2026-01-01T12:00:00+00:00")
    ended = msgspec.structs.replace(made_of("ended", Ended), time="2026-01-01T11:00:00+00:00")
    assert sum_seconds([started, ended]) == (0, 0)
    assert attempt_seconds([started, ended]) == [(started, -3600)]  # as the record counts it


def test_only_regular_files_of_a_bounded_size_are_read(tmp_path: Path) -> None:
    # A pipe or a device could be read for ever.
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(FileError, match="a pipe, a socket or a device"):
            open_unpacked(path)
        with pytest.raises(AiaynError, match="a pipe, a socket or a device"):
            read_output(path)
    (tmp_path / "large").write_bytes(bytes(11))
    with pytest.raises(FileError, match="more than 10 bytes"):
        read_bounded(tmp_path / "large", 10)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: " + "[" * 60, ":1: more than 50 levels"),
        ("a: &b 1\nc: *b\n", r":2: an alias \(\*name\)"),
        ("x: 1\n" * 300_000, r"more than 1,048,576 bytes"),
    ],
)
def test_yaml_is_bounded(text: str, problem: str, tmp_path: Path) -> None:
    # Ten lines of anchors can stand for billions of values.
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AiaynError, match=problem):
        read_document(path)


def test_what_a_foreign_reader_raises_is_one_sentence_with_the_file() -> None:
    for error in (RecursionError("deep"), KeyError("best_loss"), MemoryError()):
        with pytest.raises(FileError, match=r"^x\.pt: cannot be read .*; expected a checkpoint;"):
            with one_sentence("x.pt", "a checkpoint"):
                raise error


def test_control_characters_and_direction_marks_are_text() -> None:
    assert visible("a\tb\nc \x1b[2J\x07 \u202egpj") == "a\tb\nc \\x1b[2J\\x07 \\u202egpj"
