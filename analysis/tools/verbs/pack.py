"""Pack what the finished runs of a scale left, small enough to be shipped, and render the tables
that follow from it.

Into <output>/<scale>/ go the records, logs, attempts and translations of every finished run that
the config asks for, the tables, three figures (with the extra `figures`), and a README.md with the
tables, when, on which hardware and at which commit. `aiayn tables --from-logs` makes tables and
figures again from that folder alone. The same runs give the same bytes. References are not packed:
their digest and public place are named. What is not finished is named and omitted. A pack that is
there is replaced; its runs that are not here any more, trained elsewhere or since deleted, stay if
the config asks for them and they are of the same spec and data. Those that leave it are named.

--model RUN also ships that run's averaged model, as `aiayn export --format safetensors` writes it,
in models/<run>/, with the NOTICE of its corpus (workflow/config/corpora/<corpus>.NOTICE): `aiayn
translate RUN` then needs no training. Later packs keep it.
"""

from functools import partial
from pathlib import Path

from aiayn.cli.config import read_changed_scale
from aiayn.cli.flags import CONFIG, CONFIGFILE, RESULTS, flag
from aiayn.runs.finished import find_finished
from analysis.tools.pack import pack_scale

EXAMPLE = "aiayn pack --configfile workflow/config/multi30k.yaml --output paper_tables/measured"
MAX_MB = 20.0


class Flags:
    configfile: Path = CONFIGFILE
    config: list[str] = CONFIG
    results: Path = RESULTS
    output: Path = flag(
        "where the scale's folder is made, or replaced (default: paper_tables/measured)",
        "FOLDER",
        default=Path("paper_tables/measured"),
    )
    model: list[str] = flag(
        "ship this run's averaged model, too; may be repeated", "RUN", is_repeated=True
    )
    max_mb: float = flag(f"refuse to write more (default: {MAX_MB:g})", "MB", default=MAX_MB)


def run(args: Flags) -> None:
    """Pack, and print what was packed and what is missing."""
    scale = read_changed_scale(args.configfile, args.config)
    if args.model:
        from analysis.tools.heavy_export import export_model  # needs torch
    export_by_run = {}
    for name in args.model:
        finished = find_finished(args.results, name, None)
        made = finished.checkpoint.provenance  # of the average
        export_by_run[finished.checkpoint.run] = partial(export_model, finished, provenance=made)
    max_bytes = round(args.max_mb * 1e6)
    packed = pack_scale(
        scale, args.results, args.output, max_bytes=max_bytes, export_by_run=export_by_run
    )
    kept = f" ({packed.num_kept} kept from the pack before)" if packed.num_kept else ""
    print(
        f"{packed.folder}: {packed.num_runs} of {packed.num_asked} trainings{kept},"
        f" {packed.num_translations} translations, {packed.num_bytes / 1e6:.2f} MB"
    )
    for name in packed.missing:
        print(f"missing: {name}")
    for name in packed.left_out:
        print(f"left out, though in the pack before: {name}")
