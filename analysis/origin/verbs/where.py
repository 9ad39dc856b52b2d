"""Show where a cell of a table comes from: value, run, commit and hardware of each seed.

CELL is table:row:column, such as table2:base:bleu_en_de. --list prints the names of all cells of
the paper's tables. For any other table, take row and column from its CSV file. A cell with a
difference between two systems has two numbers. released:wmt16.en-de:bleu_sacre_13a is a score that
`aiayn evaluate --released` computed. Without --results, the numbers that are shipped with the
project are shown if results/ does not have results of the scale.
"""

from pathlib import Path

from aiayn.cli.config import read_changed_scale
from aiayn.cli.flags import CONFIG, JSON, RESULTS, SCALE, flag
from aiayn.errors import RecordError, UsageError
from aiayn.launch.launcher import QUEUES
from aiayn.paths import results_or_shipped, workflow_command
from aiayn.spec.system import CONFIG_FOLDER
from aiayn.terminal import json_text

EXAMPLE = "aiayn where table3:base:bleu_dev --scale multi30k"


class Flags:
    cell: str | None = flag("table:row:column", "CELL", is_positional=True)
    scale: str = SCALE
    configfile: Path | None = flag("a scale's config file, instead of --scale", "FILE")
    config: list[str] = CONFIG
    results: Path = RESULTS
    list: bool = flag("print every cell's name")
    json: bool = JSON


def run(args: Flags) -> None:
    """Print the runs from which the number in a cell is computed, or the names of all cells."""
    from analysis.origin.where import (
        RELEASED_PREFIX,
        find_released,
        find_sources,
        named_cells,
        render_list,
        render_released,
        render_sources,
    )
    from paper_tables.make_frame import make_frame
    from paper_tables.scale_results import gather_results

    if args.cell is None and not args.list:
        raise UsageError(
            "CELL is missing; give table:row:column, such as table2:base:bleu_en_de, or --list; see"
            " --help"
        )
    # Released models have a folder and a record of their own, outside of the scales.
    if args.cell is not None and args.cell.startswith(RELEASED_PREFIX):
        record = find_released(args.cell, args.results)
        print(json_text(record) if args.json else render_released(args.cell, record), end="")
        return
    configfile = args.configfile or CONFIG_FOLDER / f"{args.scale}.yaml"
    scale = read_changed_scale(configfile, args.config)
    results = results_or_shipped(args.results, scale.scale)
    # With `so_far`, a scale answers although some of its trainings are unfinished.
    frame = make_frame(gather_results(scale, results, so_far=True, queues=QUEUES))
    cell_by_name = named_cells(frame)
    if args.cell is None or args.list:
        print(
            json_text(list(cell_by_name.values())) if args.json else render_list(cell_by_name),
            end="",
        )
        return
    answers = find_sources(args.cell, frame)
    if args.json:
        print(json_text(answers[0] if len(answers) == 1 else answers), end="")
    else:
        print("\n".join(map(render_sources, answers)), end="")
    # The lines above have the printed number. This error says how to get a number of ours.
    if not any(answer.sources for answer in answers):
        raise RecordError(
            f"{results / scale.scale}: no run has this number;"
            f" {workflow_command(scale.scale, configfile)}; a number that is shipped: `{EXAMPLE}`"
        )
