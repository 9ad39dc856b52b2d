"""Show what a system is and what it costs to train. Needs its file alone: no data, no run, no GPU.

Prints all keys; what differs from the system that it inherits from, and from the paper; the number of parameters; the
floating-point operations of a token and of the whole training; and the command line of fairseq-train. V, the size of
the vocabulary, is by default that of the corpus file (37,000 for the paper's En-De, section 5.1).
"""

import argparse

from aiayn.cli.config import add_override_arguments, named_overrides
from aiayn.price.describe import describe_system, render_description
from aiayn.terminal import json_text

EXAMPLE = "aiayn describe table3_b_dk16 --vocabulary-size 40960"
SCALE = "paper"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn describe`."""
    parser.add_argument(
        "system", metavar="SYSTEM", help="base, big, table3_b_dk16: a file of workflow/config/systems/SCALE"
    )
    parser.add_argument("--scale", default=SCALE, help=f"demo, multi30k or paper (default: {SCALE})")
    parser.add_argument("--vocabulary-size", type=int, metavar="V", help="entries, with special symbols")
    add_override_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> None:
    """Print the description."""
    description = describe_system(
        args.system, args.scale, vocabulary_size=args.vocabulary_size, overrides=named_overrides(args)
    )
    print(json_text(description) if args.json else render_description(description), end="")
