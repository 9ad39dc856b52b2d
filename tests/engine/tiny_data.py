"""The data-bin of the tiny corpus of tests/engine, made by our own stages."""

from pathlib import Path

from aiayn.data.sources.fetch import fetch_corpus
from aiayn.data.text.binarize import binarize_corpus
from aiayn.data.text.clean import clean_corpus
from aiayn.data.text.subword import load_encoders, segment_corpus
from aiayn.records import BinarizedCorpus, write_record
from tests.engine.tiny_spec import CORPUS


def make_tiny_data(folder: Path) -> BinarizedCorpus:
    """Make the data-bin and its record below a folder."""
    raw = fetch_corpus(CORPUS, mirror=None, record_path=folder / "fetch" / "record.json")
    cleaned = clean_corpus(CORPUS, raw, record_path=folder / "clean" / "record.json")
    segmented = segment_corpus(CORPUS, cleaned, record_path=folder / "segment" / "record.json")
    write_record(segmented, folder / "segment" / "record.json")
    record_path = folder / "binarize" / "record.json"
    record = binarize_corpus(CORPUS, cleaned, {**load_encoders(segmented)}, record_path=record_path)
    write_record(record, record_path)
    return record
