"""Render the paper's tables with ours beside them, from the records below results/<scale>/, or from logs alone.

Without --so-far every record must be there. With it, whatever is there is rendered below results/<scale>/so-far/,
missing, running and failed runs named as such; it may be called while snakemake runs, and touches nothing of its.

With --from-logs, Tables 2 and 3 are rendered from fairseq's logs (0.9 to 0.12: train.log as simple, tqdm or json, the
output of fairseq-generate), ours or anybody's, below a folder. A log finds its row by its hyper-parameters; what fills
nothing is listed with the reason. Neither checkpoints nor torch nor fairseq are needed:
  aiayn tables --from-logs runs --output results/from-logs
"""

import argparse
from pathlib import Path

EXAMPLE = "aiayn tables --so-far --configfile workflow/config/demo.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn tables`."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--configfile", type=Path, metavar="FILE", help="the scale's config file")
    source.add_argument("--config-json", metavar="JSON", help="the merged config as one JSON mapping")
    source.add_argument("--from-logs", type=Path, metavar="FOLDER", help="a folder of logs, read with all below it")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="FOLDER", help="default: results")
    parser.add_argument("--so-far", action="store_true", help="render what is there")
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="of --from-logs (default: from-logs below --results)"
    )
    parser.add_argument(
        "--log-cache",
        type=Path,
        metavar="FOLDER",
        help="where what --from-logs has read is kept (default: $XDG_CACHE_HOME/aiayn/logs)",
    )


def run(args: argparse.Namespace) -> None:
    """Render everything and print where the page is."""
    from aiayn.errors import UsageError

    if args.from_logs is not None:
        if args.so_far:
            raise UsageError("--so-far: is of --configfile; --from-logs takes whatever is there, leave it out")
        from paper_tables.from_logs import default_cache_folder, make_tables_from_logs

        output_folder = args.output or args.results / "from-logs"
        print(make_tables_from_logs(args.from_logs, output_folder, args.log_cache or default_cache_folder()))
        return
    for flag, value in (("--output", args.output), ("--log-cache", args.log_cache)):
        if value is not None:
            raise UsageError(f"{flag}: is of --from-logs; a scale's tables lie below --results, leave it out")
    _run_scale(args)


def _run_scale(args: argparse.Namespace) -> None:
    import json

    from aiayn.errors import UsageError
    from aiayn.spec import convert_scale, read_scale
    from paper_tables.tables import make_tables

    if args.configfile is not None:
        scale = read_scale(args.configfile)
    else:
        try:
            config = json.loads(args.config_json)
        except json.JSONDecodeError as error:
            raise UsageError(f"--config-json: not JSON ({error}); expected one mapping of keys to values") from error
        if not isinstance(config, dict):
            raise UsageError(f"--config-json: {type(config).__name__}; expected one mapping of keys to values")
        scale = convert_scale(config, "--config-json")
    print(make_tables(scale, args.results, so_far=args.so_far))
