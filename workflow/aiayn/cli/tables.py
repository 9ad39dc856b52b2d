"""Render the paper's tables with the paper's numbers and our numbers side by side, from records or
from logs only.

With --configfile, the records of the scale's trainings in results/<scale>/ are read, and all of
them must exist. With --so-far, tables are made from the records that exist and are written to
results/<scale>/so-far/. Missing, running and failed runs are listed. --so-far does not change the
files that snakemake makes, so it may be used while snakemake is running.

With --from-logs, the tables are made from the files in these folders and their subfolders, without
a config, checkpoints, torch or fairseq. Runs of this project (results/, or a folder of
paper_tables/measured/) fill the tables of their scale, in <output>/<scale>/, as in the workflow.
The score of a run counts only if the translations that were scored are in the folder, too. Logs of
other projects that use fairseq 0.9 to 0.12 are recognised, too: a training log in the format
simple, tqdm or json, or the output of fairseq-generate, plain, .gz or .xz. The hyper-parameters in
the log decide in which row of a table its number is shown. A log that does not fill a cell of a
table is listed with the reason. Examples:
  aiayn tables --from-logs paper_tables/measured/multi30k
  aiayn tables --from-logs runs results --output results/from-logs
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aiayn.cli.config import read_changed_scale
from aiayn.cli.flags import CONFIG, JSON, RESULTS, flag
from aiayn.errors import TableError, UsageError
from aiayn.launch.launcher import QUEUES
from aiayn.paths import workflow_command
from aiayn.spec.system import convert_scale
from aiayn.terminal import json_text

# For annotations only: loading `paper_tables` takes a second, which --help should not cost.
if TYPE_CHECKING:
    from paper_tables.layout import Table

EXAMPLE = "aiayn tables --so-far --configfile workflow/config/demo.yaml"

MAX_NOT_READ = 20  # files that the terminal lists


def _parse_config(text: str) -> object:
    """Parse the text of a flag as JSON.

    Raises:
        ArgumentTypeError: if the text is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{error}; expected one JSON object") from None


class Flags:
    configfile: Path | None = flag("the scale's config file", "FILE", excludes="source")
    config_json: dict[str, object] | None = flag(
        "the merged config as one JSON object (for the pipeline)",
        "JSON",
        excludes="source",
        type=_parse_config,
    )
    from_logs: list[Path] | None = flag(
        "folders of logs and records, with their subfolders", "FOLDER", excludes="source"
    )
    config: list[str] = CONFIG
    results: Path = RESULTS
    so_far: bool = flag("render what exists; name what is missing")
    output: Path | None = flag(
        "for --from-logs: where to write (default: results/from-logs)", "FOLDER"
    )
    json: bool = JSON


def run(args: Flags) -> None:
    """Render all tables and figures. Print Table 2, a summary of the input, and the path of the
    page with all tables.
    """
    if args.config and args.configfile is None:
        raise UsageError(f"--config {args.config[0]}: belongs to --configfile; omit it")
    if args.from_logs is not None:
        _make_from_logs(args, args.from_logs)
        return
    if args.output is not None:
        raise UsageError(
            "--output: belongs to --from-logs; a scale's tables are written below --results;"
            " omit it"
        )
    if args.configfile is not None:
        scale = read_changed_scale(args.configfile, args.config)
    else:
        # argparse has required one of the three sources, so --config-json was given.
        scale = convert_scale(args.config_json or {}, "--config-json")
    # Imported last: it takes a second, which a wrong config should not cost.
    from paper_tables.render.tables import make_tables

    rendered = make_tables(scale, args.results, so_far=args.so_far, queues=QUEUES)
    # The terminal shows Table 2 only. The page and the folder of tables have all others.
    tables = [table for table in rendered.tables if table.name == "table2"]
    num_finished = rendered.num_finished
    summary = f"{num_finished} of {rendered.num_trainings} trainings finished"
    _print(args, tables, summary, [rendered.report_path])
    # The page is written all the same, but without numbers of ours the command has failed.
    if num_finished == 0 and args.configfile is not None:
        command = workflow_command(scale.scale, args.configfile)
        raise TableError(f"{args.results / scale.scale}: no training has finished; {command}")


def _make_from_logs(args: Flags, folders: list[Path]) -> None:
    if args.so_far:
        raise UsageError(
            "--so-far: belongs to --configfile; --from-logs always takes what there is; omit it"
        )
    from paper_tables.logs.pages import make_tables_from_logs

    # By default next to the folders of the scales, which snakemake writes.
    pages = make_tables_from_logs(folders, args.output or args.results / "from-logs")
    # A file that cannot be read does not stop the others. It is a line on standard error.
    for fault in pages.faults:
        print(f"aiayn tables: {fault.text}", file=sys.stderr)
    for sentence in pages.not_read[:MAX_NOT_READ]:
        print(f"aiayn tables: {sentence}", file=sys.stderr)
    if len(pages.not_read) > MAX_NOT_READ:
        num_others = len(pages.not_read) - MAX_NOT_READ
        print(
            f"aiayn tables: {num_others:,} more are not read; the table of logs names them",
            file=sys.stderr,
        )
    _print(args, pages.tables, pages.summary, pages.pages)


def _print(args: Flags, tables: Sequence["Table"], summary: str, pages: Sequence[Path]) -> None:
    from paper_tables.render.render import render_csv, render_text

    if args.json:
        # A list, because each scale and the logs have a Table 2 of their own.
        shown = [{"title": table.title, "csv": render_csv(table)} for table in tables]
        answer = {"summary": summary, "pages": list(map(str, pages)), "tables": shown}
        print(json_text(answer), end="")
        return
    print(*map(render_text, tables), sep="\n")
    print(summary, *pages, sep="\n")
