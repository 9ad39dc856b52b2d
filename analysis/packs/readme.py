"""Makes the README of a pack (a folder of measured runs) with a list of the runs (date, hardware
and commit) and the tables.

The README depends only on the records in the pack, not on the time or on the checkout.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from aiayn.packed import exists
from aiayn.paths import PACK_README_NAME, RECORD_NAME, corpus_record
from aiayn.printed import PAPER_SCALE
from aiayn.records import RawCorpus, TrainRecord, read_record
from aiayn.spec.sheet import SHEET_NAME
from aiayn.spec.system import CorpusSpec, ParallelSource
from paper_tables.layout import MARK_BY_SCALE, Table
from paper_tables.make_frame import commit_words, make_frame
from paper_tables.render.render import render_markdown
from paper_tables.render.tables import ONLY_ON_THE_PAGE, make_recorded_tables, write_text
from paper_tables.scale_results import RecordedResults

# These tables are shown in full. The others are only listed.
SHOWN_TABLES = ("table2", "table3", "conclusions", "replications")
SECONDS_OF_HOUR = 3600.0
RUN_COLUMNS = (
    "corpus",
    "system",
    "seed",
    "updates",
    "hours",
    "attempts",
    "ended",
    "hardware",
    "commit",
)
FILES = f"""## Files

Laid out like `results/<scale>/`; texts are packed by xz, and neither hosts nor their paths are named.

- `{SHEET_NAME}`: the sheet of trainings: which systems and seeds were requested, and by what.
- `runs/<run>/`: the training's own log, as fairseq printed it, and its attempts.
- `train/<corpus>/<system>/seed<k>.json`: the record of the training.
- `decode/`, `score/`, `perplexity/`, each `<corpus>/<system>/seed<k>/<average>/<testset>.json`: the record, and for decode the translations in the same folder. Scores are used if the translations have the digest that they name.
- `average/<corpus>/<system>/seed<k>/<average>.json`: which updates were averaged, and the tensors' digest.
- `fetch/`, `clean/`, `segment/`, `binarize/`, each `<corpus>/{RECORD_NAME}`: digests of the text, what was dropped and why, subwords, vocabulary sizes.
- `scores.tsv`, `summary.tsv`, `verdicts.tsv`, `tables/`: the results that follow from these files.
"""  # noqa: E501


def write_tables_of_pack(recorded: RecordedResults, folder: Path) -> None:
    """Write the TSV files, the tables and the README into the folder of a pack, only from the files
    of the pack.
    """
    tables_made = make_recorded_tables(recorded, make_frame(recorded.results), folder)
    tables = [table for table in tables_made if table.name not in ONLY_ON_THE_PAGE]
    write_text(render_readme(recorded, tables), folder / PACK_README_NAME)


def render_readme(recorded: RecordedResults, tables: Sequence[Table]) -> str:
    """Return the text of the README of a pack. The files of `tables` are in tables/ in the folder
    of the README.
    """
    scale = recorded.results.experiment.scale.scale
    shown = [table for table in tables if table.name in SHOWN_TABLES]
    # SHOWN_TABLES has the order of the README. `tables` are in the order of the page.
    shown.sort(key=lambda table: SHOWN_TABLES.index(table.name))
    parts = [
        _head(scale, num_runs=len(recorded.results.train_by_key)),
        _runs(recorded),
        _missing(recorded),
        *map(render_markdown, shown),
        _further(tables),
        _testsets(recorded),
        FILES,
    ]
    return "\n".join(filter(None, parts))


def _head(scale: str, num_runs: int) -> str:
    trainings = f"{num_runs} finished {'training' if num_runs == 1 else 'trainings'}"
    lines = [
        f"# Measured: scale {scale}",
        "",
        (
            f"{trainings}: logs, translations, records, and the tables that follow from them."
            " Generated from these files; no cell is typed by hand."
        ),
    ]
    if scale != PAPER_SCALE:
        lines += [
            "",
            (
                "Another corpus and smaller systems than the paper's: no number here reproduces a"
                f" number of the paper; the mark {MARK_BY_SCALE[scale]} says so."
            ),
        ]
    # The README can be checked: these commands compare the tables with what its files give.
    lines += [
        "",
        "The core dependencies are enough to make the tables again; in this folder type:",
        "",
        "```",
        "aiayn tables --from-logs . --output /tmp/again",
        f"diff -r /tmp/again/{scale}/tables tables",
        "```",
    ]
    return "\n".join(lines) + "\n"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in (header, *rows)]
    return [lines[0], "|" + "---|" * len(header), *lines[1:]]


def _runs(recorded: RecordedResults) -> str:
    rows = []
    hours = 0.0
    # By corpus, system and seed, so that the order does not depend on the order of training.
    for _, train in sorted(recorded.results.train_by_key.items()):
        hours += train.wall_seconds / SECONDS_OF_HOUR
        row = (
            train.corpus,
            train.system,
            str(train.seed),
            f"{train.updates:,}",
            f"{train.wall_seconds / SECONDS_OF_HOUR:.2f}",
            str(train.num_attempts),
            train.provenance.created[:10],
            _hardware(train),
            f"`{commit_words(train.provenance)}`",
        )
        rows.append(row)
    lines = ["## Runs", "", *_table(RUN_COLUMNS, rows), ""]
    lines.append(f"{hours:.2f} hours of training in all.")
    return "\n".join(lines) + "\n"


def _hardware(train: TrainRecord) -> str:
    hardware = train.hardware
    # The name of the processor does not matter if GPUs trained the run.
    if hardware.num_gpus:
        return f"{hardware.num_gpus} x {hardware.gpu}"
    # On a CPU each rank is a process with its own threads.
    threads = hardware.num_ranks * hardware.threads_per_rank
    return f"{hardware.cpu or 'CPU'}, {threads} thread{'s' if threads > 1 else ''}"


def _missing(recorded: RecordedResults) -> str:
    """Return a text with the trainings that the config requests but the pack lacks, by system."""
    seeds_by_system: dict[tuple[str, str], list[int]] = {}
    # The sheet of the pack lists the requested trainings. The records are from the finished
    # trainings.
    for corpus, system, seed in recorded.results.status_by_key:
        if (corpus, system, seed) not in recorded.results.train_by_key:
            seeds_by_system.setdefault((corpus, system), []).append(seed)
    if not seeds_by_system:
        return ""
    # One line for each system: its missing seeds.
    items = [
        f"- {corpus} {system}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
        for (corpus, system), seeds in seeds_by_system.items()
    ]
    return "\n".join(["Requested and missing:", "", *items]) + "\n"


def _further(tables: Sequence[Table]) -> str:
    further = [table for table in tables if table.name not in SHOWN_TABLES]
    if not further:
        return ""
    # The README is in the folder of the pack, and the tables are in its folder `tables/`.
    links = [f"- [{table.title}](tables/{table.name}.md)" for table in further]
    return "\n".join(["## Further tables", "", *links]) + "\n"


def _testsets(recorded: RecordedResults) -> str:
    """Return the section of the README about the test sets: number of lines, digest of the
    references, and where the references are public.
    """
    experiment = recorded.results.experiment
    evaluated = {(evaluation.corpus, evaluation.testset) for evaluation in experiment.evaluations}
    rows = []
    for name, corpus in experiment.corpora.items():
        raw = None
        # The records may come from several results folders. The first record of `fetch` is taken.
        for folder in dict.fromkeys(recorded.folder_by_key.values()):
            path = corpus_record(folder, experiment.scale.scale, "fetch", name)
            if raw is None and exists(path):
                raw = read_record(path, RawCorpus)
        for testset in corpus.testsets:
            if (name, testset) in evaluated:
                num_lines, digest = _references(raw, corpus, testset)
                location = _public_location(corpus, testset)
                rows.append((name, testset, num_lines, digest, location))
    if not rows:
        return ""
    header = ("corpus", "test set", "lines", "sha256 of the references", "where they are public")
    text = "References are not shipped here: their digest and public location are given instead."
    return "\n".join(["## Test sets", "", text, "", *_table(header, rows)]) + "\n"


def _references(raw: RawCorpus | None, corpus: CorpusSpec, testset: str) -> tuple[str, str]:
    # Without a record of `fetch`, the test set is listed without its number of lines and digest.
    pair = None if raw is None else raw.pair_by_split.get(testset)
    if pair is None:
        return "", ""
    return f"{pair.num_lines:,}", f"`{pair.sha256_by_language[corpus.target_language]}`"


def _public_location(corpus: CorpusSpec, testset: str) -> str:
    """Return where the references of a test set are public, or how the references are made."""
    source = corpus.source
    # Only line-aligned files have a public address for each split. Other test sets are made from
    # archives.
    if isinstance(source, ParallelSource) and testset in source.file_by_split:
        return f"{source.public_url}/{source.file_by_split[testset][corpus.target_language].path}"
    return f"`aiayn fetch --corpus {corpus.name}` makes or fetches them"
