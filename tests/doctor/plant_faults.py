"""Trains base at the scale of the demo with each fault of faults.py in it, keeps the fixtures, and
writes the table.

    make doctor-faults        ten trainings of a minute or two; what is done is not done again

`--table-only` writes the table from the fixtures as they are.
"""

import argparse
from pathlib import Path

from tests.doctor.faults import CLEAN, FAULTS, MULTI30K
from tests.doctor.fixtures import write_fixture
from tests.doctor.planting import run_pipeline
from tests.doctor.table import TABLE_PATH, Answer, render_table


def main() -> None:
    """Do what is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("runs/doctor-faults"), help="folder of the trainings"
    )
    parser.add_argument("--table-only", action="store_true")
    args = parser.parse_args()
    faults = (CLEAN, *FAULTS)
    for fault in () if args.table_only else faults:
        print(f"{fault.name}: {fault.words}", flush=True)
        write_fixture(fault, run_pipeline(fault, args.folder))
    answers = {name: Answer(name) for name in (*(fault.name for fault in faults), MULTI30K)}
    TABLE_PATH.write_text(render_table(answers), encoding="utf-8", newline="\n")
    print(TABLE_PATH.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
