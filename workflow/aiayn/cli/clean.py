"""Prepare text as the corpus file says: normalise punctuation, make Moses tokens, drop unfit training pairs.

The record counts dropped pairs by reason; test sets lose none. The output does not depend on the number of processes.
"""

import argparse
from pathlib import Path

from aiayn.cli.flags import positive
from aiayn.data.text.clean import clean_corpus
from aiayn.records import RawCorpus, read_record, write_record
from aiayn.spec.system import read_corpus

EXAMPLE = (
    "aiayn clean --corpus demo_en_de --raw results/demo/fetch/demo_en_de/record.json "
    "--record results/demo/clean/demo_en_de/record.json"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn clean`."""
    parser.add_argument("--corpus", required=True, metavar="NAME", help="a corpus of workflow/config/corpora/")
    parser.add_argument("--raw", type=Path, required=True, metavar="RECORD", help="what fetch wrote")
    parser.add_argument(
        "--num-processes", type=positive, default=1, metavar="N", help="processes for chunks of text (default: 1)"
    )
    parser.add_argument("--record", type=Path, required=True, help="the record to write; the text goes beside it")


def run(args: argparse.Namespace) -> None:
    """Clean and write the record."""
    raw, corpus = read_record(args.raw, RawCorpus), read_corpus(args.corpus)
    record = clean_corpus(corpus, raw, record_path=args.record, num_processes=args.num_processes)
    write_record(record, args.record)
