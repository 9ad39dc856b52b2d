"""Render the paper's tables with ours beside them, from the records below results/<scale>/.

Without --so-far every record must be there. With it, whatever is there is rendered below results/<scale>/so-far/,
missing, running and failed runs named as such; it may be called while snakemake runs, and touches nothing of its.
"""

import argparse
from pathlib import Path

EXAMPLE = "aiayn tables --so-far --configfile workflow/config/demo.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn tables`."""
    config = parser.add_mutually_exclusive_group(required=True)
    config.add_argument("--configfile", type=Path, metavar="FILE", help="the scale's config file")
    config.add_argument("--config-json", metavar="JSON", help="the merged config as one JSON mapping")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="FOLDER", help="default: results")
    parser.add_argument("--so-far", action="store_true", help="render what is there")


def run(args: argparse.Namespace) -> None:
    """Render everything and print where the page is."""
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
