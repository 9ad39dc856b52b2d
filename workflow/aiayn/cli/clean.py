"""Prepare the text of a corpus as the corpus file says: split it into Moses tokens, and drop
sentence pairs of the training data that have an empty side, exceed a limit or are duplicates.

The record has the number of dropped sentence pairs for each reason. Test sets stay complete. The
output does not depend on the number of processes.
"""

from pathlib import Path

from aiayn.cli.flags import CORPUS, TEXT_RECORD, flag, positive
from aiayn.data.text.clean import clean_corpus
from aiayn.records import RawCorpus, read_record, require_fitting, write_record
from aiayn.spec.system import read_corpus

EXAMPLE = (
    "aiayn clean --corpus demo_en_de --raw results/demo/fetch/demo_en_de/record.json "
    "--record results/demo/clean/demo_en_de/record.json"
)


class Flags:
    corpus: str = CORPUS
    raw: Path = flag("what fetch wrote", "RECORD")
    num_processes: int = flag(
        "processes for chunks of text (default: 1)", "N", type=positive, default=1
    )
    record: Path = TEXT_RECORD


def run(args: Flags) -> None:
    """Clean the text, and write the record of the clean text."""
    raw = read_record(args.raw, RawCorpus, "--raw")
    corpus = read_corpus(args.corpus)
    require_fitting({"--raw": raw}, corpus.name)
    record = clean_corpus(corpus, raw, record_path=args.record, num_processes=args.num_processes)
    write_record(record, args.record)
