"""Translate a test set with an averaged checkpoint, by beam search as in the system's `decoding`
(section 6.1).

Writes next to the record: detokenised translations (.txt), and the same as subword pieces
(.pieces.txt).
"""

from pathlib import Path

import msgspec

from aiayn.cli.flags import BINARIZED, CHECKPOINT, DEVICE, SYSTEM_SCALE, THREADS, Device, flag
from aiayn.data.text.binarize import require_recorded_split
from aiayn.data.text.detokenise import detokenise
from aiayn.data.text.lines import write_lines
from aiayn.paths import split_alpha
from aiayn.provenance import file_sha256, gather_provenance, replace_outputs_on_success
from aiayn.records import (
    BinarizedCorpus,
    CheckpointRecord,
    Hypotheses,
    read_record,
    require_fitting,
    write_record,
)
from aiayn.spec.system import read_corpus, read_system

EXAMPLE = (
    "aiayn decode --scale demo --system base --checkpoint average/last5.json --binarized"
    " results/demo/binarize/demo_en_de/record.json --testset demo_test --record"
    " decode/demo_test.json"
)


class Flags:
    scale: str = SYSTEM_SCALE
    system: str = flag("the system whose `decoding` is used")
    checkpoint: Path = CHECKPOINT
    binarized: Path = BINARIZED
    testset: str = flag(
        "a test set of the corpus; val-alpha1.4 is val with 1.4 for the system's alpha"
    )
    record: Path = flag("the record to write; translations are written next to it")
    device: Device = DEVICE
    threads: int = THREADS


def run(args: Flags) -> None:
    """Decode; write the lines and the record."""
    import torch

    from aiayn.decode.decode import Translator, decode_split, decoding_signature
    from aiayn.train.device import resolve_device

    torch.set_num_threads(args.threads)
    checkpoint = read_record(args.checkpoint, CheckpointRecord, "--checkpoint")
    data = read_record(args.binarized, BinarizedCorpus, "--binarized")
    require_fitting({"--checkpoint": checkpoint, "--binarized": data})
    testset, alpha = split_alpha(args.testset)
    split = require_recorded_split(data, testset)
    decoding = read_system(args.system, args.scale).decoding
    if alpha is not None:
        decoding = msgspec.structs.replace(decoding, length_penalty_alpha=alpha)
    corpus = read_corpus(data.corpus)
    device = resolve_device(args.device)
    translator = Translator(checkpoint, data.folder, decoding, device=device)
    hypotheses, sentences_per_second = decode_split(translator, split)

    text_path = args.record.with_suffix(".txt")
    pieces_path = args.record.with_suffix(".pieces.txt")
    pieces = [" ".join(hypothesis.pieces) for hypothesis in hypotheses]
    with replace_outputs_on_success(args.record) as folder:
        write_lines(pieces, folder / pieces_path.name)
        write_lines((detokenise(line, corpus) for line in pieces), folder / text_path.name)
    record = Hypotheses(
        provenance=gather_provenance([args.checkpoint, args.binarized]),
        corpus=data.corpus,
        run=checkpoint.run,
        average=checkpoint.average,
        testset=testset,
        path=text_path,
        pieces_path=pieces_path,
        num_lines=len(hypotheses),
        hypotheses_sha256=file_sha256(text_path),
        pieces_sha256=file_sha256(pieces_path),
        beam_size=decoding.beam_size,
        length_penalty_alpha=decoding.length_penalty_alpha,
        length_penalty_form=decoding.length_penalty_form,
        stop=decoding.stop,
        signature=decoding_signature(decoding),
        sentences_per_second=sentences_per_second,
    )
    write_record(record, args.record)
