"""Draw the curves of runs, live or done: loss, dev perplexity, learning rate and tokens per second.

Each RUN is a run's name, any unique beginning of the name, the run's folder (also in packed
results, as in paper_tables/measured), or the path of any fairseq log. Runs that differ only in
their seed are drawn as a mean and a band. The command writes the figure curves_by_update as SVG and
PDF, and the numbers in the figure as TSV.
"""

from pathlib import Path

from aiayn.cli.flags import RUNS_FOLDER, flag
from aiayn.errors import StateError
from aiayn.packed import find_packed, is_dir, is_file
from aiayn.runs.attempts import LOG_NAME
from aiayn.runs.status import find_run_folder

EXAMPLE = "aiayn plot demo_en_de-base-seed1 demo_en_de-base-seed2"


class Flags:
    runs: list[str] = flag(
        "a run's name, a beginning of it, or a log's path", "RUN", is_positional=True
    )
    runs_folder: Path = RUNS_FOLDER
    output: Path | None = flag("where to write (default: results/plots/<first run>)", "FOLDER")


def run(args: Flags) -> None:
    """Draw the curves of the runs, and print the path of each picture."""
    from analysis.figures.heavy_curves import CURVES_BY_UPDATE, curve_frame, curves_of_files
    from paper_tables.render.figure import write_figure

    named: list[tuple[str, Path]] = []
    for name in args.runs:
        path = Path(name)
        if is_file(path):
            named.append((name, path))
            continue
        # A run's folder may be in the zip of a pack, which `is_dir` and `find_packed` look into.
        folder = path if is_dir(path) else find_run_folder(args.runs_folder, name)
        log_path = find_packed(folder / LOG_NAME)
        if log_path is None:
            raise StateError(
                f"{folder}: holds no {LOG_NAME}, packed or not; name a run's folder, or a log"
                " itself"
            )
        named.append((folder.name, log_path))
    frame = curve_frame(curves_of_files(named))
    # The name of the folder comes from the first run, because several runs are one figure.
    output_folder = args.output or Path("results") / "plots" / Path(named[0][0]).name
    for path in write_figure(CURVES_BY_UPDATE, frame, output_folder):
        print(path)
