"""Measure properties of attention, norms and initial weights that readers of the paper make claims about.

Needs no corpus and no training, and takes seconds. paper_tables/published/claims.csv has the value that each claim
expects; the table `claims` compares them.
"""

import argparse
from pathlib import Path

EXAMPLE = "aiayn measure --seed 1 --record results/demo/measure/record.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn measure`."""
    parser.add_argument("--seed", type=int, required=True, help="seed of all random vectors")
    parser.add_argument("--record", type=Path, required=True, help="the record to write")


def run(args: argparse.Namespace) -> None:
    """Measure, write the record, and print each number."""
    from aiayn.engine.measure import measure_all
    from aiayn.provenance import gather_provenance
    from aiayn.records import MeasureRecord, write_record

    measurements = measure_all(args.seed)
    for one in measurements:
        error = f" +- {one.standard_error:.2g}" if one.standard_error else ""
        print(f"{one.name} = {one.value:.6g}{error} {one.unit}")
    record = MeasureRecord(provenance=gather_provenance([]), seed=args.seed, measurements=measurements)
    write_record(record, args.record)
