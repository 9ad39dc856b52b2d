"""Render the paper's tables with printed numbers and ours side by side, from records or from
logs only.

With --configfile, the records below results/<scale>/ are read; all must exist. With --so-far, the
records that exist are rendered into results/<scale>/so-far/, and missing, running and failed runs
are named. --so-far changes no file of snakemake and may run at the same time.

With --from-logs, the tables are rendered from folders and their subfolders: no config, checkpoints,
torch or fairseq are needed. Runs of ours (results/, or a folder of paper_tables/measured/) fill the
tables of their scale, in <output>/<scale>/, as in the pipeline; a score counts only if its
translations are there. Any other log of fairseq 0.9 to 0.12 (training logs in the formats simple,
tqdm and json, the output of fairseq-generate; plain, .gz or .xz) finds its row by its
hyper-parameters; a log that fills no cell is listed with the reason. Examples:
  aiayn tables --from-logs paper_tables/measured/multi30k
  aiayn tables --from-logs runs results --output results/from-logs
"""

import json
import sys
from pathlib import Path

from aiayn.cli.config import read_changed_scale
from aiayn.cli.flags import CONFIG, RESULTS, flag
from aiayn.errors import UsageError
from aiayn.spec.system import convert_scale

EXAMPLE = "aiayn tables --so-far --configfile workflow/config/demo.yaml"

MAX_NOT_READ = 20  # files that are named on the terminal


class Flags:
    configfile: Path | None = flag("the scale's config file", "FILE", excludes="source")
    config_json: dict[str, object] | None = flag(
        "the merged config as one JSON object (for the pipeline)",
        "JSON",
        excludes="source",
        parse=json.loads,
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


def run(args: Flags) -> None:
    """Render everything; print Table 2 of a scale, then the path of the page."""
    from paper_tables.logs.pages import make_tables_from_logs
    from paper_tables.render.render import render_text
    from paper_tables.render.tables import make_tables

    if args.from_logs is not None:
        if args.so_far:
            raise UsageError(
                "--so-far: belongs to --configfile; --from-logs always takes what there is; omit it"
            )
        made = make_tables_from_logs(args.from_logs, args.output or args.results / "from-logs")
        for fault in made.faults:
            print(f"aiayn tables: {fault.text}", file=sys.stderr)
        for sentence in made.not_read[:MAX_NOT_READ]:
            print(f"aiayn tables: {sentence}", file=sys.stderr)
        if len(made.not_read) > MAX_NOT_READ:
            num_others = len(made.not_read) - MAX_NOT_READ
            print(
                f"aiayn tables: {num_others:,} more are not read; the table of logs names them",
                file=sys.stderr,
            )
        print(*made.pages, sep="\n")
        return
    if args.config and args.configfile is None:
        raise UsageError(
            f"--config {args.config[0]}: belongs to --configfile, and --config-json is the whole"
            " config; omit it"
        )
    if args.output is not None:
        raise UsageError(
            "--output: belongs to --from-logs; a scale's tables are written below --results;"
            " omit it"
        )
    if args.configfile is not None:
        scale = read_changed_scale(args.configfile, args.config)
    else:
        scale = convert_scale(args.config_json or {}, "--config-json")
    rendered = make_tables(scale, args.results, so_far=args.so_far)
    table2 = next(table for table in rendered.tables if table.name == "table2")
    print(render_text(table2), rendered.report_path, sep="\n")
