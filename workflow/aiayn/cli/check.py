"""Compare every file below a folder with its SHA-256 in a record. The folder is `results`, `runs`,
or a pack (an archive of finished runs).

`aiayn check` lists each file that differs or is missing, with the command that makes the file
again. Only files below the folder are compared: to compare checkpoints, give the folder `runs`. The
exit code is 1 if a file differs.
"""

from collections import Counter
from pathlib import Path

from aiayn.cli.flags import flag
from aiayn.errors import UsageError

EXAMPLE = "aiayn check results/demo --scores"


class Flags:
    folder: Path | None = flag("default: results", "FOLDER", is_positional=True)
    scores: bool = flag("also compute scores again, from translations and references")


def run(args: Flags) -> int:
    """Compare the files, and print which files differ and a summary."""
    from aiayn.integrity import check_folder

    folder = args.folder or Path("results")
    counts = Counter[str]()
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; name a folder of results or runs")
    num_faults = 0
    # Printed as they are found, because the digests of many checkpoints take minutes.
    for fault in check_folder(folder, counts, with_scores=args.scores):
        print(fault)
        num_faults += 1
    compared = ", ".join(f"{number:,} {noun}" for noun, number in sorted(counts.items()) if number)
    print(f"{folder}: {num_faults} differ or are gone; compared: {compared or 'nothing'}")
    # For scripts: the exit code says whether anything differs.
    return 1 if num_faults else 0
