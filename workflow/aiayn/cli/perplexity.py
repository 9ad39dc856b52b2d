"""Measure perplexity per subword on a test set (Table 3): no dropout, no label smoothing, end of sentence counted."""

import argparse
from pathlib import Path

from aiayn.cli.flags import add_device_arguments
from aiayn.provenance import gather_provenance
from aiayn.records import BinarizedCorpus, CheckpointRecord, PerplexityRecord, read_record, write_record

EXAMPLE = (
    "aiayn perplexity --checkpoint average/last1.json "
    "--binarized results/demo/binarize/demo_en_de/record.json --testset demo_dev --record perplexity/demo_dev.json"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn perplexity`."""
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="RECORD", help="record of average")
    parser.add_argument("--binarized", type=Path, required=True, metavar="RECORD", help="record of binarize")
    parser.add_argument("--testset", required=True, help="a test set of the corpus")
    parser.add_argument("--record", type=Path, required=True, help="the record to write")
    add_device_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Measure and write the record."""
    import torch

    from aiayn.decode.perplexity import SIGNATURE, perplexity
    from aiayn.train.train import resolve_device

    torch.set_num_threads(args.threads)
    checkpoint = read_record(args.checkpoint, CheckpointRecord)
    data = read_record(args.binarized, BinarizedCorpus)
    split = data.split_of(args.testset)
    value, num_tokens = perplexity(checkpoint.path, data.folder, split, device=resolve_device(args.device))
    record = PerplexityRecord(
        provenance=gather_provenance([args.checkpoint, args.binarized]),
        run=checkpoint.run,
        average=checkpoint.average,
        testset=args.testset,
        value=value,
        unit="subword",
        num_tokens=num_tokens,
        signature=SIGNATURE,
    )
    write_record(record, args.record)
