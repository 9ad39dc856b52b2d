"""Drop the training pairs that the corpus file says to drop, counted by reason; test sets pass untouched."""

import argparse
from pathlib import Path

EXAMPLE = (
    "aiayn clean --corpus demo_en_de --raw results/demo/fetch/demo_en_de/record.json "
    "--record results/demo/clean/demo_en_de/record.json"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn clean`."""
    parser.add_argument("--corpus", required=True, metavar="NAME", help="a corpus of workflow/config/corpora/")
    parser.add_argument("--raw", type=Path, required=True, metavar="RECORD", help="what fetch wrote")
    parser.add_argument("--record", type=Path, required=True, help="where to write; the text goes beside it")


def run(args: argparse.Namespace) -> None:
    """Clean and write the record."""
    from aiayn.clean import clean_corpus
    from aiayn.records import RawCorpus, read_record, write_record
    from aiayn.spec import read_corpus

    raw = read_record(args.raw, RawCorpus)
    write_record(clean_corpus(read_corpus(args.corpus), raw, record_path=args.record), args.record)
