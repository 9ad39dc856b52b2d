"""Learn the subword vocabulary from the training text: one vocabulary for both languages, or one
vocabulary for each language (section 5.1).
"""

from pathlib import Path

from aiayn.cli.flags import CORPUS, flag
from aiayn.records import ParallelText, read_record, require_fitting, write_record
from aiayn.spec.system import read_corpus

EXAMPLE = (
    "aiayn segment --corpus demo_en_de --text results/demo/clean/demo_en_de/record.json "
    "--record results/demo/segment/demo_en_de/record.json"
)


class Flags:
    corpus: str = CORPUS
    text: Path = flag("what clean wrote", "RECORD")
    record: Path = flag("the record to write; the models are written next to it")


def run(args: Flags) -> None:
    """Learn the subword vocabulary, and write its record."""
    from aiayn.data.text.subword import segment_corpus

    text = read_record(args.text, ParallelText, "--text")
    corpus = read_corpus(args.corpus)
    require_fitting({"--text": text}, corpus.name)
    write_record(segment_corpus(corpus, text, record_path=args.record), args.record)
