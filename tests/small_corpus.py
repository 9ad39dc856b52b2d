"""The corpus `small` of the tests of the data stages, its source and subwords still to be chosen,
and its text.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from aiayn.data.text.lines import text_pair, write_lines
from aiayn.provenance import gather_provenance
from aiayn.records import ParallelText, RawCorpus
from aiayn.spec.system import CorpusSpec, ShippedSource

SMALL = CorpusSpec(
    name="small",
    description="for these tests",
    language_pair="en-de",
    source=ShippedSource(file="", sha256="", num_pairs_by_split={}),
    dev_testset="dev",
    test_testset="test",
)


def write_train(folder: Path, lines_by_language: dict[str, list[str]]) -> ParallelText:
    """Write training text and return its record."""
    folder.mkdir(exist_ok=True)
    for language, lines in lines_by_language.items():
        write_lines(lines, folder / f"train.{language}")
    pair = text_pair({language: folder / f"train.{language}" for language in lines_by_language})
    return ParallelText(
        provenance=gather_provenance(),
        corpus="small",
        pair_by_split={"train": pair},
        num_pairs=pair.num_lines,
        num_dropped_by_reason={},
    )


def write_raw(folder: Path, lines_by_name: Mapping[str, Sequence[str]]) -> RawCorpus:
    """Write text files, such as train.en, and return their record."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in lines_by_name.items():
        write_lines(lines, folder / name)
    splits = dict.fromkeys(name.partition(".")[0] for name in lines_by_name)
    pair_by_split = {
        split: text_pair({k: folder / f"{split}.{k}" for k in ("en", "de")}) for split in splits
    }
    return RawCorpus(provenance=gather_provenance(), corpus="small", pair_by_split=pair_by_split)
