"""Turn text into the binary format of fairseq, in the folder `data-bin/` next to the record.

Text in words needs the record of its subword models (--segmented). Text that was published already
split into subwords (`segmented` in the corpus file) does not need this record: give the record of
`aiayn fetch` as --text.
"""

from pathlib import Path

from aiayn.cli.flags import CORPUS, flag, positive
from aiayn.data.text.binarize import binarize_corpus
from aiayn.data.text.encoder import LineEncoder, WordEncoder
from aiayn.errors import UsageError
from aiayn.records import (
    ParallelText,
    RawCorpus,
    Record,
    SegmentedText,
    read_record,
    require_fitting,
    write_record,
)
from aiayn.spec.system import read_corpus

EXAMPLE = (
    "aiayn binarize --corpus demo_en_de --text results/demo/clean/demo_en_de/record.json"
    " --segmented results/demo/segment/demo_en_de/record.json --record"
    " results/demo/binarize/demo_en_de/record.json"
)


class Flags:
    corpus: str = CORPUS
    text: Path = flag("what clean wrote (fetch, for segmented text)", "RECORD")
    segmented: Path | None = flag("what segment wrote; not for segmented text", "RECORD")
    record: Path = flag("the record to write; data-bin/ is written next to it")
    num_processes: int = flag(
        "processes that encode text (default: 1)", "N", type=positive, default=1
    )


def run(args: Flags) -> None:
    """Binarize the text, and write the record of the data-bin (the folder of binary text)."""
    spec = read_corpus(args.corpus)
    # A second segmentation would split the pieces of a segmented corpus again.
    if spec.is_segmented != (args.segmented is None):
        state = (
            "in pieces: omit --segmented"
            if spec.is_segmented
            else "in words: give --segmented RECORD"
        )
        raise UsageError(f"corpus {spec.name}: its text comes {state}")
    # The stage `clean` is left out for a segmented corpus. Its text comes from fetch, which writes
    # a different type of record.
    text = (
        read_record(args.text, RawCorpus, "--text")
        if spec.is_segmented
        else read_record(args.text, ParallelText, "--text")
    )
    records: dict[str, Record] = {"--text": text}
    encoder_by_language: dict[str, LineEncoder]
    if args.segmented is None:
        # The corpus was published with both languages segmented jointly, so they share an encoder
        # and a dictionary.
        encoder_by_language = dict.fromkeys(spec.languages, WordEncoder())
        model_paths = []
        require_fitting(records, spec.name)
    else:
        from aiayn.data.text.subword import load_encoders

        segmented = read_record(args.segmented, SegmentedText, "--segmented")
        records["--segmented"] = segmented
        require_fitting(records, spec.name)
        # A new dict, because mypy does not accept a dict of encoders of a more specific type.
        encoder_by_language = {**load_encoders(segmented)}
        # Both languages have the same file if the model is joint. The provenance lists it once.
        model_paths = list(dict.fromkeys(segmented.model_path_by_language.values()))
    record = binarize_corpus(
        spec,
        text,
        encoder_by_language,
        model_paths=model_paths,
        record_path=args.record,
        num_processes=args.num_processes,
    )
    write_record(record, args.record)
