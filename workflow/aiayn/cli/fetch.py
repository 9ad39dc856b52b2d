"""Get the text of a corpus: generate it, or download it and verify its checksum.

The text is written to `<split>.<language>` next to the record. The environment variables
http_proxy, https_proxy and no_proxy set a proxy. The environment variable SACREBLEU is the folder
in which sacreBLEU keeps public test sets (default: ~/.sacrebleu). Archives in sacreBLEU's folder
are used without a network.
"""

from pathlib import Path

from aiayn.cli.flags import ARCHIVES_FOLDER, CORPUS, TEXT_RECORD, choose_archives, flag
from aiayn.data.sources.fetch import fetch_corpus
from aiayn.records import write_record
from aiayn.spec.system import read_corpus

EXAMPLE = "aiayn fetch --corpus demo_en_de --record results/demo/fetch/demo_en_de/record.json"


class Flags:
    corpus: str = CORPUS
    mirror: str | None = flag(
        "a mirror's folder or address, file:// or http(s):// (default: AIAYN_MIRROR, else the"
        " public source)",
        "BASE",
    )
    archives_folder: Path | None = ARCHIVES_FOLDER
    record: Path = TEXT_RECORD


def run(args: Flags) -> None:
    """Get the text of a corpus, and write the record of the text."""
    folder = choose_archives(args.archives_folder)
    corpus = read_corpus(args.corpus)
    write_record(
        fetch_corpus(corpus, mirror=args.mirror, record_path=args.record, archives_folder=folder),
        args.record,
    )
