"""Average the weights of the last N checkpoints of a finished training (section 6.1: 5 for base, 20
for big). The checkpoints that are averaged contain only the model.
"""

from pathlib import Path

import msgspec

from aiayn.cli.flags import flag, positive
from aiayn.errors import CheckpointError
from aiayn.provenance import gather_provenance
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
    """Average the checkpoints, and write the record of the average."""
    average_run(args.train, args.runs_folder, args.last, args.record)


def average_run(train_path: Path, runs_folder: Path, last: int, record_path: Path) -> None:
    """Average the last `last` checkpoints of a training that has a record, and write the record of
    the average.
    """
    from aiayn.train.average import average_checkpoints

    train = read_train_record(train_path, runs_folder)
    # Results may have been copied here without the folder of runs, which has the checkpoints.
    if not train.run_folder.is_dir():
        raise CheckpointError(
            f"{train_path}: no folder {train.run_folder}, expected there with the checkpoints; "
            "name the folder that holds the run with --runs-folder"
        )
    record = average_checkpoints(train, last=last, record_path=record_path)
    # `average_checkpoints` gets the content of the training's record, not its path. The provenance
    # lists the path as the input.
    provenance = gather_provenance([train_path], stage="average")
    write_record(msgspec.structs.replace(record, provenance=provenance), record_path)
