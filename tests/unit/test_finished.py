"""A finished run is found by any unique beginning of its name."""

import os
from pathlib import Path

import msgspec
import pytest

from aiayn.paths import (
    SHIPPED_FOLDER,
    average_record,
    corpus_record,
    results_or_shipped,
    train_record,
)
from aiayn.records import CheckpointRecord, SegmentedText, TrainRecord, read_record, write_record
from aiayn.runs.finished import find_finished
from aiayn.spec.system import read_system
from tests.records_factory import BINARIZED, PROVENANCE, TRAINED

DATA = msgspec.structs.replace(BINARIZED, folder=Path("/scratch/data-bin"))
SEGMENTED = SegmentedText(
    provenance=PROVENANCE, corpus="demo_en_de", normalise="none", tokenise="none", method="sentencepiece",
    model_path_by_language={}, learning_by_model={},
)  # fmt: skip


def write_run(results: Path, system: str, seed: int, digest8: str, *averages: str) -> str:
    """Write the records of a finished run and return its name."""
    run = f"demo_en_de-{system}-seed{seed}-{digest8}"
    train = msgspec.structs.replace(TRAINED, run=run, system=system, seed=seed)
    path = train_record(results, "demo", "demo_en_de", system, seed)
    write_record(train, path)
    os.utime(
        path, (0, 1_000_000 + len(list(results.glob("demo/train/*/*/*.json"))))
    )  # each later than the one before
    for average in averages:
        checkpoint = CheckpointRecord(
            provenance=PROVENANCE,
            run=run,
            average=average,
            path=Path(f"{average}.pt"),
            averaged_updates=[],
            tensors_sha256="",
        )
        write_record(
            checkpoint, average_record(results, "demo", "demo_en_de", system, seed, average)
        )
    return run


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a results folder with base (seeds 1 and 2) and big (seed 1), in this order of time."""
    write_record(DATA, corpus_record(tmp_path, "demo", "binarize", "demo_en_de"))
    write_run(tmp_path, "base", 1, "aaaa0001", "last1", "last5", "last10")
    write_run(tmp_path, "base", 2, "aaaa0002", "last1")
    write_run(tmp_path, "big", 1, "bbbb0001", "last20")
    return tmp_path


@pytest.mark.parametrize(
    ("beginning", "average", "run", "expected"),
    [
        (
            "demo_en_de-base-seed1",
            None,
            "demo_en_de-base-seed1-aaaa0001",
            "last10",
        ),  # though `last5` sorts after it
        ("demo_en_de-base-seed1-aaaa0001", "last1", "demo_en_de-base-seed1-aaaa0001", "last1"),
        ("demo_en_de-bi", None, "demo_en_de-big-seed1-bbbb0001", "last20"),
        (None, None, "demo_en_de-big-seed1-bbbb0001", "last20"),  # the newest
    ],
)
def test_any_unique_beginning_of_the_name_means_the_longest_average_of_its_run_unless_one_is_named(
    beginning: str | None, average: str | None, run: str, expected: str, results: Path
) -> None:
    checkpoint = find_finished(results, beginning, average).checkpoint
    assert (checkpoint.run, checkpoint.average) == (run, expected)


def test_a_whole_name_wins_over_longer_ones(results: Path) -> None:
    path = train_record(results, "demo", "demo_en_de", "base", 1)
    train = read_record(path, TrainRecord)
    write_record(
        msgspec.structs.replace(train, run="demo_en_de-base-seed2-aaaa00021", seed=2), path
    )
    assert find_finished(results, "demo_en_de-base-seed2-aaaa0002", None).checkpoint.run.endswith(
        "-aaaa0002"
    )


def test_all_that_translating_needs_comes_along(results: Path) -> None:
    finished = find_finished(results, "demo_en_de-big", None)
    assert (finished.data, finished.segmented) == (DATA, None)
    assert finished.decoding == read_system("big", "demo").decoding
    write_record(SEGMENTED, corpus_record(results, "demo", "segment", "demo_en_de"))
    assert find_finished(results, "demo_en_de-big", None).segmented == SEGMENTED


def test_without_any_run_the_shipped_model_translates_and_this_is_said(
    tmp_path: Path, results: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A shipped model is used only if there is nothing else, and never in silence."""
    with caplog.at_level("INFO"):
        finished = find_finished(tmp_path / "nothing", None, None)
    assert finished.checkpoint.path.is_file()
    assert f"this is the shipped model {finished.checkpoint.run}" in caplog.text
    assert find_finished(results, None, None).checkpoint.run.startswith("demo_en_de-big")


def test_shipped_numbers_are_read_only_if_no_folder_is_named_and_none_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    default = Path("results")
    assert results_or_shipped(default, "multi30k") == SHIPPED_FOLDER
    assert results_or_shipped(default, "paper") == default
    assert results_or_shipped(Path("other"), "multi30k") == Path("other")
    (default / "multi30k").mkdir(parents=True)
    assert results_or_shipped(default, "multi30k") == default
