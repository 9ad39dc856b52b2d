"""Time the layers of Table 1 at several sizes on a CPU, without a corpus or a training. The command
takes seconds.

The table `table1` shows the measured exponents of n, d, k and r in the layers' seconds next to the
paper's O().
"""

from pathlib import Path

from aiayn.cli.flags import RECORD
from aiayn.engine_import import engine_import
from aiayn.machine import cpu_name
from aiayn.provenance import gather_provenance
from aiayn.records import write_record

EXAMPLE = "aiayn measure --record results/demo/measure/record.json"


class Flags:
    record: Path = RECORD


def run(args: Flags) -> None:
    """Time the layers of Table 1, write the record, and print the table."""
    with engine_import():
        from analysis.layers.heavy_layer_timing import time_layers
    from analysis.layers.records import MeasureRecord
    from analysis.layers.tables.table1 import lay_out_record
    from paper_tables.render.render import render_markdown

    record = MeasureRecord(
        provenance=gather_provenance([]),
        device_name=cpu_name(),
        timings=time_layers(),
    )
    print(render_markdown(lay_out_record(record)), end="")
    write_record(record, args.record)
