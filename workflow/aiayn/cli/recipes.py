"""Compare the recipes of training text: archives, pairs, checksums, filters and subwords, one column a recipe."""

import argparse

from aiayn.data.sources.recipe_table import differing, recipe_rows, rendered
from aiayn.spec.recipe import ArchiveSource
from aiayn.spec.system import CONFIG_FOLDER, read_corpus
from aiayn.terminal import json_text

EXAMPLE = "aiayn recipes wmt14_en_de wmt16_en_de_google --differing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn recipes`."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="recipes to compare (default: all)")
    parser.add_argument("--differing", action="store_true", help="only what differs")
    parser.add_argument("--json", action="store_true", help="print a JSON object: for each recipe its values")


def run(args: argparse.Namespace) -> None:
    """Print the table."""
    names = args.names or sorted(path.stem for path in (CONFIG_FOLDER / "corpora").glob("*.yaml"))
    corpora = [read_corpus(name) for name in names]
    if not args.names:
        corpora = [corpus for corpus in corpora if isinstance(corpus.source, ArchiveSource)]
    names = [corpus.name for corpus in corpora]
    rows = recipe_rows(corpora)
    rows = differing(rows) if args.differing else rows
    if args.json:
        print(json_text({name: {what: cells[i] for what, cells in rows} for i, name in enumerate(names)}), end="")
    else:
        print(rendered(names, rows))
