"""Translate a test set with an averaged checkpoint, by beam search with the settings in the
system's `decoding` (section 6.1).

Two files are written next to the record: detokenised translations (.txt), and the same translations
as subword pieces (.pieces.txt).
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
from aiayn.spec.system import DecodingSpec, read_corpus, read_system

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
    """Translate a test set, then write the translations and their record."""
    decoding = read_system(args.system, args.scale).decoding
    decode_testset(
        args.checkpoint,
        args.binarized,
        args.testset,
        args.record,
        decoding=decoding,
        device=args.device,
        threads=args.threads,
    )


def searched_as(decoding: DecodingSpec, testset: str) -> DecodingSpec:
    """Return the search settings for a test set. If the name of the test set ends in an alpha
    (`val-alpha1.4`), this alpha replaces the length penalty's alpha in the system's file.
    """
    alpha = split_alpha(testset)[1]
    if alpha is None:
        return decoding
    return msgspec.structs.replace(decoding, length_penalty_alpha=alpha)


def decode_testset(
    checkpoint_path: Path,
    binarized_path: Path,
    searched: str,
    record_path: Path,
    *,
    decoding: DecodingSpec,
    device: Device,
    threads: int,
) -> None:
    """Translate a test set with an averaged checkpoint that has a record, and write the
    translations and their record.

    `searched` is the name of the test set, which may end in an alpha (`val-alpha1.4`) that replaces
    the length penalty's alpha in `decoding`.
    """
    import torch

    from aiayn.decode.decode import Translator, decode_split
    from aiayn.train.device import resolve_device

    # By default torch takes all cores, which other jobs of Snakemake use at the same time.
    torch.set_num_threads(threads)
    checkpoint = read_record(checkpoint_path, CheckpointRecord, "--checkpoint")
    data = read_record(binarized_path, BinarizedCorpus, "--binarized")
    require_fitting({"--checkpoint": checkpoint, "--binarized": data})
    # The data-bin has the test set under its own name, without the alpha.
    testset, _ = split_alpha(searched)
    split = require_recorded_split(data, testset)
    decoding = searched_as(decoding, searched)
    corpus = read_corpus(data.corpus)
    chosen_device = resolve_device(device)
    translator = Translator(checkpoint, data.folder, decoding, device=chosen_device)
    hypotheses, sentences_per_second = decode_split(translator, split)

    text_path = record_path.with_suffix(".txt")
    pieces_path = record_path.with_suffix(".pieces.txt")
    # The pieces are kept next to the text: detokenising loses where the model split a word.
    pieces = [" ".join(hypothesis.pieces) for hypothesis in hypotheses]
    # The old record is removed before the files are replaced. So a record never describes the
    # translations of a different search.
    with replace_outputs_on_success(record_path) as folder:
        write_lines(pieces, folder / pieces_path.name)
        write_lines((detokenise(line, corpus) for line in pieces), folder / text_path.name)
    record = Hypotheses(
        provenance=gather_provenance([checkpoint_path, binarized_path], stage="decode"),
        corpus=data.corpus,
        run=checkpoint.run,
        average=checkpoint.average,
        testset=testset,
        path=text_path,
        pieces_path=pieces_path,
        num_lines=len(hypotheses),
        # `aiayn check` and `aiayn evaluations` find a changed file by these digests.
        hypotheses_sha256=file_sha256(text_path),
        pieces_sha256=file_sha256(pieces_path),
        beam_size=decoding.beam_size,
        length_penalty_alpha=decoding.length_penalty_alpha,
        length_penalty_form=decoding.length_penalty_form,
        stop=decoding.stop,
        signature=decoding.signature,
        sentences_per_second=sentences_per_second,
    )
    write_record(record, record_path)
