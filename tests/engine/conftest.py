"""A tiny corpus and one finished training, made once for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from aiayn.data.sources.fetch import fetch_corpus
from aiayn.data.text.binarize import binarize_corpus
from aiayn.data.text.clean import clean_corpus
from aiayn.data.text.subword import load_encoders, segment_corpus
from aiayn.records import BinarizedCorpus, SegmentedText, TrainRecord, read_record, write_record
from tests.engine.tiny_spec import CORPUS, TWO_BATCHES
from tests.engine.tiny_training import make_request, train, write_results


@pytest.fixture(scope="session", autouse=True)
def _few_validations() -> Iterator[None]:
    """Validate 4 times in a training of this process, not 20: it takes a third of the time and changes no tensor."""
    with mock.patch("aiayn.train.fairseq_args.NUM_VALIDATIONS", 4):
        yield


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> BinarizedCorpus:
    """Return the data-bin of 600 training pairs, made by our own stages."""
    folder = tmp_path_factory.mktemp("corpus")
    raw = fetch_corpus(CORPUS, mirror=None, record_path=folder / "fetch" / "record.json")
    cleaned = clean_corpus(CORPUS, raw, record_path=folder / "clean" / "record.json")
    segmented = segment_corpus(CORPUS, cleaned, record_path=folder / "segment" / "record.json")
    write_record(segmented, folder / "segment" / "record.json")
    record_path = folder / "binarize" / "record.json"
    record = binarize_corpus(CORPUS, cleaned, {**load_encoders(segmented)}, record_path=record_path)
    write_record(record, record_path)
    return record


@pytest.fixture(scope="session")
def segmented(data: BinarizedCorpus) -> SegmentedText:
    """Return the record of the subwords behind the data-bin."""
    return read_record(Path(data.folder).parents[1] / "segment" / "record.json", SegmentedText)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus) -> TrainRecord:
    """Return the record of an uninterrupted training; its folder is not to be changed."""
    return train(make_request(tmp_path_factory.mktemp("runs") / "uninterrupted", data))


@pytest.fixture(scope="session")
def finished_by_two_batches(tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus) -> TrainRecord:
    """Return the record of one whose updates are each of two batches."""
    return train(make_request(tmp_path_factory.mktemp("runs") / "by_two_batches", data, **TWO_BATCHES))


@pytest.fixture(scope="session")
def results(
    tmp_path_factory: pytest.TempPathFactory, finished: TrainRecord, data: BinarizedCorpus, segmented: SegmentedText
) -> Path:
    """Return a results folder in which the finished training is the demo's base, averaged over its last two models."""
    folder = tmp_path_factory.mktemp("results")
    write_results(folder, finished, data, segmented)
    return folder


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """Return the folder of a run of one's own."""
    return tmp_path / "run"
