"""List the names of systems, corpora and scales that flags and configs accept, with one line about
each.

A scale is a size of the experiment, and has one config file: `--configfile
workflow/config/<scale>.yaml`.
"""

from collections.abc import Iterator
from typing import Literal

from aiayn.cli.flags import JSON, flag
from aiayn.spec.system import CONFIG_FOLDER, SCALES, read_corpus, read_scale, read_system
from aiayn.terminal import json_text, table

EXAMPLE = "aiayn list systems"
MAX_TEXT_WIDTH = 60  # the last column is wrapped
HEADINGS = {
    "systems": ("scale", "system", "description"),
    "corpora": ("pair", "corpus", "test sets"),
    "scales": ("scale", "config", "corpora"),
}


class Flags:
    what: Literal["systems", "corpora", "scales"] = flag(
        "systems, corpora or scales", is_positional=True
    )
    json: bool = JSON


def run(args: Flags) -> None:
    """Print the names as a table, or as lists in JSON."""
    rows = [HEADINGS[args.what], *_rows(args.what)]
    if args.json:
        print(json_text(rows), end="")
    else:
        print("\n".join(table(rows, num_headings=1, widths=(None, None, MAX_TEXT_WIDTH))))


def _rows(kind: str) -> Iterator[tuple[str, str, str]]:
    pattern = {"systems": "systems/*/*.yaml", "corpora": "corpora/*.yaml", "scales": "*.yaml"}[kind]
    # Each file is read, and not only listed: a file with a mistake must not look usable.
    for path in sorted(CONFIG_FOLDER.glob(pattern)):
        if kind == "systems" and path.parent.name in SCALES:
            system = read_system(path.stem, path.parent.name)
            yield path.parent.name, system.name, system.description
        elif kind == "corpora":
            corpus = read_corpus(path.stem)
            yield corpus.language_pair, corpus.name, ", ".join(corpus.testsets)
        # hardware.yaml is next to the scales. It has the speeds of GPUs.
        elif kind == "scales" and path.stem != "hardware":
            scale = read_scale(path)
            config = f"workflow/config/{path.name}"
            corpora = dict.fromkeys(row.corpus for row in scale.read_rows())
            yield scale.scale, config, ", ".join(corpora)
