"""Flags that several verbs have, each declared once; `aiayn.cli.config` has those that change a config or a search."""

import argparse
from pathlib import Path

_RUN = "a run's name, or any unique beginning of it"


def add_run_arguments(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    """Declare RUN of a runs folder, and that folder."""
    parser.add_argument("run", nargs="?" if is_optional else None, metavar="RUN", help=_RUN)
    add_runs_folder_argument(parser)


def add_runs_folder_argument(parser: argparse.ArgumentParser, what: str = "folder of runs") -> None:
    """Declare the folder of runs."""
    parser.add_argument(
        "--runs-folder", type=Path, default=Path("runs"), metavar="FOLDER", help=f"{what} (default: runs)"
    )


def add_finished_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare RUN of a results folder, that folder, and which of the run's averages is meant."""
    parser.add_argument("run", nargs="?", metavar="RUN", help=_RUN)
    add_average_arguments(parser)


def add_average_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the results folder, and which average of a run there is meant."""
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="FOLDER", help="default: results")
    parser.add_argument("--average", help="last1, last5, ... (default: the average of most checkpoints)")


def add_checkpoint_arguments(parser: argparse.ArgumentParser, *, record_help: str) -> None:
    """Declare the averaged checkpoint and the test set that a stage runs on, and the record that it writes."""
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="RECORD", help="record of average")
    parser.add_argument("--binarized", type=Path, required=True, metavar="RECORD", help="record of binarize")
    parser.add_argument("--testset", required=True, help="a test set of the corpus")
    parser.add_argument("--record", type=Path, required=True, help=record_help)
    add_device_arguments(parser)


def add_figure_arguments(parser: argparse.ArgumentParser, folder: str) -> None:
    """Declare where pictures are written, by default to `folder`, and in which formats."""
    parser.add_argument("--output", type=Path, metavar="FOLDER", help=f"where to write (default: {folder})")
    parser.add_argument(
        "--format", action="append", choices=("svg", "html", "png", "pdf"), help="may be repeated (default: svg)"
    )


def add_device_argument(parser: argparse.ArgumentParser, what: str = "default: a GPU if there is one") -> None:
    """Declare on which device a model runs."""
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"), help=what)


def add_device_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare on which device a model runs, and by how many CPU threads."""
    add_device_argument(parser)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default: 1)")


def whole_number(text: str, *, least: int = 0) -> int:
    """Return a flag's whole number.

    Raises:
        ArgumentTypeError: if it is none, or below the least.
    """
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number of {least} or more")
    return int(text)


def positive(text: str) -> int:
    """Return a flag's whole number of 1 or more."""
    return whole_number(text, least=1)
