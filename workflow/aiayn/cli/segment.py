"""Learn the subword vocabulary from the training text: one for both languages, or one for each (section 5.1)."""

import argparse
from pathlib import Path

from aiayn.records import ParallelText, read_record, write_record
from aiayn.spec.system import read_corpus

EXAMPLE = (
    "aiayn segment --corpus demo_en_de --text results/demo/clean/demo_en_de/record.json "
    "--record results/demo/segment/demo_en_de/record.json"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn segment`."""
    parser.add_argument("--corpus", required=True, metavar="NAME", help="a corpus of workflow/config/corpora/")
    parser.add_argument("--text", type=Path, required=True, metavar="RECORD", help="what clean wrote")
    parser.add_argument("--record", type=Path, required=True, help="the record to write; the models go beside it")


def run(args: argparse.Namespace) -> None:
    """Learn the pieces and write the record."""
    from aiayn.data.text.subword import segment_corpus

    text = read_record(args.text, ParallelText)
    write_record(segment_corpus(read_corpus(args.corpus), text, record_path=args.record), args.record)
