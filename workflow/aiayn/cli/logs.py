"""Print the end of a run's log, or follow it. Updates and validations become sentences; other lines
are unchanged.

What a job printed before the training began is shown too, with the name of its file: a job that
failed in its prologue or at an import leaves nothing else. --follow names that file, continues
through stops and new attempts, and ends when the run is done, or with Ctrl-C.
"""

import logging
from pathlib import Path

from aiayn.cli.flags import RUN, RUNS_FOLDER, flag, whole_number
from aiayn.runs.logs import follow, in_words, show_end
from aiayn.runs.run_folder import RunFolder
from aiayn.runs.status import find_run_folder
from aiayn.terminal import visible

EXAMPLE = "aiayn logs demo_en_de-base-seed1 --follow"


class Flags:
    run: str = RUN
    runs_folder: Path = RUNS_FOLDER
    follow: bool = flag("continue to print as the log grows")
    lines: int = flag(
        "number of lines, from the end (default: 20)", "N", parse=whole_number, default=20
    )
    raw: bool = flag("print the lines of the file unchanged")


def run(args: Flags) -> None:
    """Print the log."""
    folder = RunFolder(find_run_folder(args.runs_folder, args.run))
    logger = logging.getLogger(__name__)

    def note(text: str) -> None:
        if args.raw:  # standard output has only the lines of the file
            logger.info(text)
        else:
            print(visible(in_words(text)), flush=args.follow)

    show = follow if args.follow else show_end
    for line in show(folder, num_lines=args.lines, note=note):
        print(line if args.raw else visible(in_words(line)), flush=args.follow)
