"""Average the last N model-only checkpoints of a finished training (section 6.1: base 5, big
20).
"""

from pathlib import Path

from aiayn.cli.flags import flag, positive
from aiayn.errors import CheckpointError
from aiayn.records import read_train_record, write_record

EXAMPLE = (
    "aiayn average --train results/demo/train/demo_en_de/base/seed1.json --last 5 --record"
    " average/last5.json"
)


class Flags:
    train: Path = flag("the record that train wrote", "RECORD")
    last: int = flag("number of newest checkpoints to average", "N", type=positive)
    runs_folder: Path = flag(
        "folder of runs, if the run is not where its record says (default: runs)",
        "FOLDER",
        default=Path("runs"),
    )
    record: Path = flag("the record to write; the checkpoint is written next to it (.pt)")


def run(args: Flags) -> None:
    """Average and write the record."""
    from aiayn.train.average import average_checkpoints

    train = read_train_record(args.train, args.runs_folder)
    if not train.run_folder.is_dir():
        raise CheckpointError(
            f"{args.train}: no folder {train.run_folder}, expected there with the checkpoints; "
            "name the folder that holds the run with --runs-folder"
        )
    write_record(average_checkpoints(train, last=args.last, record_path=args.record), args.record)
