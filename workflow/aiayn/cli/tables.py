"""Render the paper's tables with our numbers beside the printed ones, from records or from logs alone.

With --configfile, the records below results/<scale>/ are read; all must exist. With --so-far, those that exist are
rendered into results/<scale>/so-far/, and missing, running and failed runs are named. --so-far changes no file of
snakemake and may run beside it.

With --from-logs, the tables are rendered from folders and their subfolders: no config, checkpoints, torch or fairseq
are needed. Runs of ours (results/, or a folder of paper_tables/measured/) fill the tables of their scale, in
<output>/<scale>/, as those of the pipeline; a score counts only if its translations are there. Any other
log of fairseq 0.9 to 0.12 (training logs in the formats simple, tqdm and json, the output of fairseq-generate; plain,
.gz or .xz) finds its row by its hyper-parameters; a log that fills no cell is listed with the reason. Result files of MLPerf's
Transformer benchmark (v0.5 to v0.7) become rows of the table public_runs:
  aiayn tables --from-logs paper_tables/measured/multi30k
  aiayn tables --from-logs runs results --output results/from-logs
"""

import argparse
import json
import sys
from pathlib import Path

from aiayn.cli.config import add_changes_argument, read_changed_scale
from aiayn.errors import UsageError
from aiayn.spec.system import convert_scale
from analysis.logs.cache import default_cache_folder
from paper_tables.render.from_logs import make_tables_from_logs
from paper_tables.render.tables import make_tables

EXAMPLE = "aiayn tables --so-far --configfile workflow/config/demo.yaml"


MAX_NOT_READ = 20  # files that are named on the terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn tables`."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--configfile", type=Path, metavar="FILE", help="the scale's config file")
    source.add_argument("--config-json", metavar="JSON", help="the merged config as one JSON object (for the pipeline)")
    source.add_argument(
        "--from-logs", type=Path, nargs="+", metavar="FOLDER", help="folders of logs and records, with their subfolders"
    )
    add_changes_argument(parser)
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="FOLDER", help="default: results")
    parser.add_argument("--so-far", action="store_true", help="render what exists; name what is missing")
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="for --from-logs: where to write (default: results/from-logs)"
    )
    parser.add_argument(
        "--log-cache",
        type=Path,
        metavar="FOLDER",
        help="for --from-logs: where to keep what was read of each log (default: $XDG_CACHE_HOME/aiayn/logs)",
    )


def run(args: argparse.Namespace) -> None:
    """Render everything and print where the page is."""
    if args.from_logs is not None:
        if args.so_far:
            raise UsageError("--so-far: belongs to --configfile; --from-logs always takes what there is; omit it")

        output_folder = args.output or args.results / "from-logs"
        made = make_tables_from_logs(args.from_logs, output_folder, args.log_cache or default_cache_folder())
        for fault in made.faults:
            print(f"aiayn tables: {fault.text}", file=sys.stderr)
        for sentence in made.not_read[:MAX_NOT_READ]:
            print(f"aiayn tables: {sentence}", file=sys.stderr)
        if len(made.not_read) > MAX_NOT_READ:
            num_others = len(made.not_read) - MAX_NOT_READ
            print(f"aiayn tables: {num_others:,} more are not read; the table of logs names them", file=sys.stderr)
        print(*made.pages, sep="\n")
        return
    if args.config and args.configfile is None:
        raise UsageError(
            f"--config {args.config[0]}: belongs to --configfile, and --config-json is the whole config; omit it"
        )
    for flag, value in (("--output", args.output), ("--log-cache", args.log_cache)):
        if value is not None:
            raise UsageError(f"{flag}: belongs to --from-logs; a scale's tables are written below --results; omit it")
    _run_scale(args)


def _run_scale(args: argparse.Namespace) -> None:
    if args.configfile is not None:
        scale = read_changed_scale(args.configfile, args.config)
    else:
        try:
            config = json.loads(args.config_json)
        except json.JSONDecodeError as error:
            raise UsageError(f"--config-json: not JSON ({error}); expected one mapping of keys to values") from error
        if not isinstance(config, dict):
            raise UsageError(f"--config-json: {type(config).__name__}; expected one mapping of keys to values")
        scale = convert_scale(config, "--config-json")
    print(make_tables(scale, args.results, so_far=args.so_far))
