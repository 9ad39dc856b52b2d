"""Measure perplexity per subword on a test set (Table 3): no dropout, no label smoothing, end of
sentence counted.

The record also shows whether the decoder attends to the source. The record has the entropy of the
cross-attention, and the increase of the loss, in bits per subword, if the cross-attention gives all
source tokens equal weights.
"""

from pathlib import Path

from aiayn.cli.flags import BINARIZED, CHECKPOINT, DEVICE, RECORD, TESTSET, THREADS, Device
from aiayn.data.text.binarize import require_recorded_split
from aiayn.data.text.detokenise import detokenise
from aiayn.provenance import gather_provenance
from aiayn.records import (
    BinarizedCorpus,
    CheckpointRecord,
    PerplexityRecord,
    read_record,
    require_fitting,
    write_record,
)
from aiayn.spec.system import read_corpus

EXAMPLE = (
    "aiayn perplexity --checkpoint average/last1.json --binarized"
    " results/demo/binarize/demo_en_de/record.json --testset demo_dev --record"
    " perplexity/demo_dev.json"
)


class Flags:
    checkpoint: Path = CHECKPOINT
    binarized: Path = BINARIZED
    testset: str = TESTSET
    record: Path = RECORD
    device: Device = DEVICE
    threads: int = THREADS


def run(args: Flags) -> None:
    """Measure the perplexity, and write its record."""
    measure_testset(
        args.checkpoint,
        args.binarized,
        args.testset,
        args.record,
        device=args.device,
        threads=args.threads,
    )


def measure_testset(
    checkpoint_path: Path,
    binarized_path: Path,
    testset: str,
    record_path: Path,
    *,
    device: Device,
    threads: int,
) -> None:
    """Measure the perplexity of an averaged checkpoint that has a record, on a test set, and write
    the record of the perplexity.
    """
    import torch

    from aiayn.decode.perplexity import SIGNATURE, perplexity
    from aiayn.train.device import resolve_device

    # By default torch takes all cores, which other jobs of Snakemake use at the same time.
    torch.set_num_threads(threads)
    checkpoint = read_record(checkpoint_path, CheckpointRecord, "--checkpoint")
    data = read_record(binarized_path, BinarizedCorpus, "--binarized")
    require_fitting({"--checkpoint": checkpoint, "--binarized": data})
    split = require_recorded_split(data, testset)
    corpus = read_corpus(data.corpus)
    measured = perplexity(checkpoint, data.folder, split, device=resolve_device(device))
    record = PerplexityRecord(
        provenance=gather_provenance([checkpoint_path, binarized_path], stage="perplexity"),
        run=checkpoint.run,
        average=checkpoint.average,
        testset=testset,
        value=measured.ppl_per_subword,
        unit="subword",
        num_tokens=measured.num_tokens,
        signature=SIGNATURE,
        # Words of plain text do not depend on the subwords: from them the tables compute bits per
        # word, which systems with different vocabularies have in common.
        num_words=sum(len(detokenise(line, corpus).split()) for line in measured.target_pieces),
        cross_attention_entropy=measured.cross_attention_entropy,
        bits_lost_uniform=measured.bits_lost_uniform,
    )
    write_record(record, record_path)
