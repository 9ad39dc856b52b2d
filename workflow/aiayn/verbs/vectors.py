"""Make vectors of a corpus's subword pieces from its training text, for systems with `embeddings: vectors`.

Pieces that occur together more often than by chance get similar vectors; nothing is downloaded. The vectors are written
beside the record, as text in word2vec's format. `aiayn train --vectors` reads that file, or any other of the format.
"""

import argparse
from pathlib import Path

EXAMPLE = (
    "aiayn vectors --binarized results/demo/binarize/demo_en_de/record.json --dimensions 64 "
    "--record results/demo/vectors/demo_en_de/64.json"
)
DEFAULT_WINDOW = 5
DEFAULT_SEED = 1


def positive(text: str) -> int:
    """Return a flag's whole number of 1 or more.

    Raises:
        ArgumentTypeError: for anything else.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number of 1 or more")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn vectors`."""
    parser.add_argument("--binarized", type=Path, required=True, metavar="RECORD", help="record of binarize")
    parser.add_argument("--dimensions", type=positive, required=True, metavar="D", help="the system's d_model")
    parser.add_argument(
        "--window",
        type=positive,
        default=DEFAULT_WINDOW,
        metavar="N",
        help=f"pieces at most so far apart count as together (default: {DEFAULT_WINDOW})",
    )
    parser.add_argument(
        "--seed", type=int, default=DEFAULT_SEED, help=f"seed of the initial vector (default: {DEFAULT_SEED})"
    )
    parser.add_argument(
        "--record", type=Path, required=True, help="the record to write; the vectors go beside it (.txt)"
    )


def run(args: argparse.Namespace) -> None:
    """Make the vectors and write the record."""
    from aiayn.records import BinarizedCorpus, read_record, write_record
    from aiayn.text.binarize import read_dictionary, require_recorded_data_bin
    from aiayn.text.vectors import make_vectors

    data = read_record(args.binarized, BinarizedCorpus)
    folder = require_recorded_data_bin(data)
    record = make_vectors(
        data,
        read_dictionary(folder / f"dict.{data.source_language}.txt"),
        dimensions=args.dimensions,
        window=args.window,
        seed=args.seed,
        binarized_path=args.binarized,
        record_path=args.record,
    )
    write_record(record, args.record)
