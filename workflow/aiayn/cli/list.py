"""List the systems, corpora and scales that flags and configs can name, with a line on each.

Without --scale, systems of all scales are listed. A scale is a config file: `--configfile
workflow/config/<scale>.yaml`.
"""

from typing import Literal

from aiayn.cli.flags import JSON, flag
from aiayn.errors import UsageError, did_you_mean
from aiayn.spec.system import CONFIG_FOLDER, SCALES, read_corpus, read_scale, read_system
from aiayn.terminal import json_text, table

EXAMPLE = "aiayn list systems --scale multi30k"
MAX_TEXT_WIDTH = 60  # the last column is wrapped


class Flags:
    what: Literal["systems", "corpora", "scales"] = flag(
        "systems, corpora or scales", is_positional=True
    )
    scale: str | None = flag(f"only the systems of this scale: {', '.join(SCALES)}")
    json: bool = JSON


def run(args: Flags) -> None:
    """Print the names as a table, or as a list of JSON objects."""
    if args.scale not in (None, *SCALES):
        hint = did_you_mean(str(args.scale), SCALES, f"expected one of {', '.join(SCALES)}")
        raise UsageError(f"--scale {args.scale}: no such scale; {hint}")
    rows = {"systems": _systems, "corpora": _corpora, "scales": _scales}[args.what](args.scale)
    if args.json:
        print(json_text(rows), end="")
        return
    heading = tuple(rows[0])
    lines = table(
        [heading, *(tuple(row.values()) for row in rows)],
        num_headings=1,
        widths=[None] * (len(heading) - 1) + [MAX_TEXT_WIDTH],
    )
    print("\n".join(lines))


def _systems(scale: str | None) -> list[dict[str, str]]:
    rows = []
    for folder in [scale] if scale else SCALES:
        for path in sorted((CONFIG_FOLDER / "systems" / folder).glob("*.yaml")):
            system = read_system(path.stem, folder)
            rows.append({"scale": folder, "system": system.name, "what": system.description})
    return rows


def _corpora(_: str | None) -> list[dict[str, str]]:
    rows = []
    for path in sorted((CONFIG_FOLDER / "corpora").glob("*.yaml")):
        corpus = read_corpus(path.stem)
        testsets = ", ".join(corpus.testsets)
        rows.append({"corpus": corpus.name, "pair": corpus.language_pair, "test sets": testsets})
    return rows


def _scales(_: str | None) -> list[dict[str, str]]:
    rows = []
    for path in sorted(CONFIG_FOLDER.glob("*.yaml")):
        if path.stem == "hardware":
            continue
        scale = read_scale(path)
        corpora = f"{scale.en_de_corpus}, {scale.en_fr_corpus}"
        config = f"workflow/config/{path.name}"
        rows.append({"config": config, "scale": scale.scale, "corpora": corpora})
    return rows
