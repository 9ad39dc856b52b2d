"""Pack what the finished runs of a scale left, small enough to be shipped, and render the tables that follow from it.

Into <output>/<scale>/ go the records, logs, attempts and translations of every finished run that the config asks for,
the tables, four figures (with the extra `figures`), and a README.md with the tables, when, on which hardware and at
which commit. `aiayn tables --from-logs` makes tables and figures again from that folder alone. The same runs give the
same bytes. References are not packed: their digest and public place are named. What is not finished is named and
omitted. A pack that is there is replaced; its runs that are not here any more, trained elsewhere or since deleted, stay
if the config asks for them and they are of the same spec and data. Those that leave it are named.
"""

import argparse
from pathlib import Path

from aiayn.cli.config import add_changes_argument, read_changed_scale
from paper_tables.tools.pack import pack_scale

EXAMPLE = "aiayn pack --configfile workflow/config/multi30k.yaml --output paper_tables/measured"
MAX_MB = 15.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn pack`."""
    parser.add_argument("--configfile", type=Path, required=True, metavar="FILE", help="the scale's config file")
    add_changes_argument(parser)
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="FOLDER", help="default: results")
    parser.add_argument(
        "--output", type=Path, default=Path("paper_tables/measured"), metavar="FOLDER",
        help="where the scale's folder is made, or replaced (default: paper_tables/measured)",
    )  # fmt: skip
    parser.add_argument(
        "--max-mb", type=float, default=MAX_MB, metavar="MB", help=f"refuse to write more (default: {MAX_MB:g})"
    )


def run(args: argparse.Namespace) -> None:
    """Pack, and print what was packed and what is missing."""
    scale = read_changed_scale(args.configfile, args.config)
    packed = pack_scale(scale, args.results, args.output, max_bytes=round(args.max_mb * 1e6))
    kept = f" ({packed.num_kept} kept from the pack before)" if packed.num_kept else ""
    print(
        f"{packed.folder}: {packed.num_runs} of {packed.num_asked} trainings{kept}, {packed.num_translations} "
        f"translations, {packed.num_bytes / 1e6:.2f} MB"
    )
    for name in packed.missing:
        print(f"missing: {name}")
    for name in packed.left_out:
        print(f"left out, though in the pack before: {name}")
