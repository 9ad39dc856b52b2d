"""Get the text of a corpus: generate it, or download it and verify its checksum.

Writes `<split>.<language>` beside the record. Environment: http_proxy, https_proxy and no_proxy name a proxy. SACREBLEU
names the folder in which sacreBLEU keeps public test sets (default: ~/.sacrebleu); archives there are used offline.
"""

import argparse
import os
from pathlib import Path

from aiayn.data.sources.fetch import ARCHIVES_FOLDER, fetch_corpus
from aiayn.records import write_record
from aiayn.spec.system import read_corpus

EXAMPLE = (
    "aiayn fetch --corpus wmt14_en_de --archives-folder /data/wmt --record results/paper/fetch/wmt14_en_de/record.json"
)
ARCHIVES_VARIABLE = "AIAYN_ARCHIVES"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn fetch`."""
    parser.add_argument("--corpus", required=True, metavar="NAME", help="a corpus of workflow/config/corpora/")
    parser.add_argument(
        "--mirror",
        metavar="BASE",
        help="file:// or http(s):// address of a mirror (default: AIAYN_MIRROR, else the public source)",
    )
    add_archives_argument(parser)
    parser.add_argument("--record", type=Path, required=True, help="the record to write; the text goes beside it")


def add_archives_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the folder of archives; `archives_folder` reads it."""
    parser.add_argument(
        "--archives-folder", type=Path, metavar="FOLDER",
        help="folder of archives under their public names: those there are used (also offline), missing ones are "
        f"downloaded into it (default: {ARCHIVES_VARIABLE}, else results/archives)",
    )  # fmt: skip


def archives_folder(args: argparse.Namespace) -> Path:
    """Return the folder that the flag names, else the environment, else the default."""
    return args.archives_folder or Path(os.environ.get(ARCHIVES_VARIABLE) or ARCHIVES_FOLDER)


def run(args: argparse.Namespace) -> None:
    """Fetch and write the record."""
    raw = fetch_corpus(
        read_corpus(args.corpus), mirror=args.mirror, record_path=args.record, archives_folder=archives_folder(args)
    )
    write_record(raw, args.record)
