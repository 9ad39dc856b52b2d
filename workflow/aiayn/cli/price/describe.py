"""Show what a system is and what it costs to train. Needs its file alone: no data, no run, no GPU.

Prints all keys; what differs from the system that it inherits from, and from the paper; the number of parameters; the
floating-point operations of a token and of the whole training; and the command line of fairseq-train. V, the size of
the vocabulary, is by default that of the corpus file (37,000 for the paper's En-De, section 5.1).
"""

from aiayn.cli.flags import JSON, PRECISION, SCALE, UPDATES, flag
from aiayn.price.describe import describe_system
from aiayn.price.text import render_description
from aiayn.spec.system import Overrides
from aiayn.spec.training import Precision
from aiayn.terminal import json_text

EXAMPLE = "aiayn describe table3_b_dk16 --vocabulary-size 40960"


class Flags:
    system: str = flag(
        "base, big, table3_b_dk16: a file of workflow/config/systems/SCALE", "SYSTEM", is_positional=True
    )
    scale: str = SCALE
    vocabulary_size: int | None = flag("entries, with special symbols", "V")
    updates: int | None = UPDATES
    precision: Precision | None = PRECISION
    json: bool = JSON


def run(args: Flags) -> None:
    """Print the description."""
    description = describe_system(
        args.system,
        args.scale,
        vocabulary_size=args.vocabulary_size,
        overrides=Overrides(updates=args.updates, precision=args.precision),
    )
    print(json_text(description) if args.json else render_description(description), end="")
