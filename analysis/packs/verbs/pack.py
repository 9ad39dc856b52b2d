"""Pack the files of a scale's finished runs, small enough to be shipped, with their tables.

The folder <output>/<scale>/ gets one archive, aiayn-pack.zip, with the records, logs, attempts and
translations of every finished run that the config asks for. Next to the archive are the tables, two
figures (with the extra `figures`), and a README.md with the tables, dates, hardware and commits.
`aiayn tables --from-logs` makes tables and figures again from this folder. Packing the same runs
again gives the same bytes. Reference translations are not packed. The pack states their digest and
public location. Unfinished runs are listed, but not packed. An existing pack is replaced. Its runs
that the results folder lacks, because they were trained elsewhere or deleted, stay in the pack if
the config asks for them and they have the same spec and data. Runs that are removed from the pack
are listed.

--model RUN ships the averaged model of a packed run, too, in models/<run>: tensors (safetensors),
vocabularies, subword models, and the NOTICE of its corpus, which is next to the corpus's file. With
a shipped model, `aiayn translate RUN` works without a training. Later packs keep the model.
"""

from pathlib import Path

from aiayn.cli.config import read_changed_scale
from aiayn.cli.flags import AVERAGE, CONFIG, CONFIGFILE, RESULTS, flag
from aiayn.runs.finished import find_finished

EXAMPLE = "aiayn pack --configfile workflow/config/multi30k.yaml --output paper_tables/measured"
MAX_MB = 20.0


class Flags:
    configfile: Path = CONFIGFILE
    config: list[str] = CONFIG
    results: Path = RESULTS
    output: Path = flag(
        "where the scale's folder is written or replaced (default: paper_tables/measured)",
        "FOLDER",
        default=Path("paper_tables/measured"),
    )
    model: str | None = flag("ship the averaged model of this run, too", "RUN")
    average: str | None = AVERAGE
    max_mb: float = flag(f"refuse to write more (default: {MAX_MB:g})", "MB", default=MAX_MB)


def run(args: Flags) -> None:
    """Pack the finished runs of a scale, and print what was packed and what is missing."""
    from analysis.packs.pack import pack_scale

    scale = read_changed_scale(args.configfile, args.config)
    model = None
    if args.model is not None:
        model = find_finished(args.results, args.model, args.average)
    max_bytes = round(args.max_mb * 1e6)
    packed = pack_scale(scale, args.results, args.output, max_bytes=max_bytes, model=model)
    kept = f" ({packed.num_kept} kept from the earlier pack)" if packed.num_kept else ""
    print(
        f"{packed.folder}: {packed.num_runs} of {packed.num_asked} trainings{kept},"
        f" {packed.num_translations} translations, {packed.num_bytes / 1e6:.2f} MB"
    )
    for name in packed.missing:
        print(f"missing: {name}")
    for name in packed.left_out:
        print(f"left out, though in the earlier pack: {name}")
