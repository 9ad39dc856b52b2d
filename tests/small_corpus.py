"""The corpus `small` of the tests of the data stages, its source and subwords still to be chosen,
and its text.
"""

from pathlib import Path

from aiayn.data.text.lines import text_pair, write_lines
from aiayn.provenance import gather_provenance
from aiayn.records import ParallelText
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
