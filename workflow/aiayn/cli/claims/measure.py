"""Measure what needs no training: what readers claim of attention, norms and initial weights, and Table 1's layers.

Needs no corpus and takes seconds. paper_tables/published/claims.csv has the value that each claim expects; the table
`claims` compares them. `table1` has the exponents of n, d, k and r in the layers' seconds beside the printed O().
"""

from pathlib import Path

from aiayn.claims.records import MeasureRecord
from aiayn.cli.flags import RECORD, Device, flag
from aiayn.provenance import gather_provenance
from aiayn.records import write_record
from paper_tables.claims.table1 import lay_out_layers
from paper_tables.render.render import render_markdown

EXAMPLE = "aiayn measure --seed 1 --record results/demo/measure/record.json"


class Flags:
    seed: int = flag("seed of all random vectors")
    device: Device = flag("where layers are timed (default: a GPU, if any)", default="auto")
    record: Path = RECORD


def run(args: Flags) -> None:
    """Measure, write the record, and print each number and Table 1."""
    from aiayn.claims.layer_timing import time_layers
    from aiayn.claims.measure import measure_all

    layers = time_layers(args.device)  # first: it refuses a device that is not there
    measurements = measure_all(args.seed)
    for one in measurements:
        error = f" +- {one.standard_error:.2g}" if one.standard_error else ""
        print(f"{one.name} = {one.value:.6g}{error} {one.unit}")
    print(render_markdown(lay_out_layers(layers)), end="")
    record = MeasureRecord(provenance=gather_provenance([]), seed=args.seed, measurements=measurements, layers=layers)
    write_record(record, args.record)
