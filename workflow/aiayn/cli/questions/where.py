"""Show where a cell of a table comes from: runs, attempts, log line, digests, commit, versions, commands to repeat it.

CELL is table:row:column, such as table2:base:bleu_en_de; --list prints the names of all cells.
"""

import argparse
from pathlib import Path

from aiayn.cli.config import add_changes_argument, read_changed_scale
from aiayn.errors import UsageError
from aiayn.spec.system import CONFIG_FOLDER, SCALES
from aiayn.terminal import json_text
from paper_tables.questions.where import find_cell, read_named_cells, trace_cell
from paper_tables.questions.where_text import render_list, render_trace

EXAMPLE = "aiayn where table2:base:bleu_en_de --scale demo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn where`."""
    parser.add_argument("cell", nargs="?", metavar="CELL", help="table:row:column")
    parser.add_argument("--scale", default="paper", help="demo, multi30k or paper (default: paper)")
    parser.add_argument("--configfile", type=Path, metavar="FILE", help="a scale's config file, instead of --scale")
    add_changes_argument(parser)
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="FOLDER", help="default: results")
    parser.add_argument("--list", action="store_true", help="print every cell's name")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> None:
    """Print where the cell comes from, or the names of all cells."""
    cell_by_name = read_named_cells()
    if args.list:
        print(json_text(list(cell_by_name.values())) if args.json else render_list(cell_by_name), end="")
        return
    if args.cell is None:
        raise UsageError(
            "CELL is missing; give table:row:column, such as table2:base:bleu_en_de, or --list; see --help"
        )
    if args.configfile is None and args.scale not in SCALES:
        raise UsageError(f"scale {args.scale!r}: expected one of {', '.join(SCALES)}, or --configfile FILE")
    cell = find_cell(args.cell, cell_by_name)
    scale = read_changed_scale(args.configfile or CONFIG_FOLDER / f"{args.scale}.yaml", args.config)
    trace = trace_cell(cell, scale, args.results)
    print(json_text(trace) if args.json else render_trace(trace), end="")
