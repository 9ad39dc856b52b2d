"""Makes the README of a folder of measured runs: what was run, when, on what, at which commit, and
what came of it.

It follows from records alone, not from the time or the checkout that renders it.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from aiayn.paths import RECORD_NAME, corpus_record
from aiayn.printed import PAPER_SCALE
from aiayn.records import RawCorpus, TrainRecord, read_record
from aiayn.spec.system import CorpusSpec, ParallelSource
from paper_tables.layout import MARK_BY_SCALE, Table
from paper_tables.make_frame import commit_words, make_frame
from paper_tables.render.render import render_markdown
from paper_tables.render.tables import make_recorded_tables, write_text
from paper_tables.scale_results import REQUEST_NAME, RecordedResults

README_NAME = "README.md"
SHOWN_TABLES = ("table2", "table3", "conclusions", "replications")  # in full; the others are named
HOURS = 3600.0


def write_tables_of_pack(recorded: RecordedResults, folder: Path) -> None:
    """Write what follows from a pack's files: frames, tables, and the README of them."""
    tables = make_recorded_tables(recorded, make_frame(recorded.results), folder)
    write_text(render_readme(recorded, tables), folder / README_NAME)


def render_readme(recorded: RecordedResults, tables: Sequence[Table]) -> str:
    """Return the README of one scale; `tables` lie beside it in tables/."""
    scale = recorded.results.experiment.scale.scale
    shown = [
        render_markdown(table) for name in SHOWN_TABLES for table in tables if table.name == name
    ]
    parts = [
        _head(scale, num_runs=len(recorded.results.train_by_key)),
        _runs(recorded),
        _not_there(recorded),
        *shown,
        _further(tables),
        _testsets(recorded),
        _files(),
    ]
    return "\n".join(part for part in parts if part)


def _head(scale: str, num_runs: int) -> str:
    smaller = (
        "Another corpus and smaller systems than the paper's: no number here reproduces one of the"
        f" paper's; the mark {MARK_BY_SCALE[scale]} says so."
    )
    lines = [
        f"# Measured: scale {scale}",
        "",
        (
            f"{num_runs} finished training{'' if num_runs == 1 else 's'}: logs, translations,"
            " records, and the tables that follow from them. Generated from these files; no cell"
            " is typed by hand."
        ),
        *([] if scale == PAPER_SCALE else ["", smaller]),
        "",
        "Rendered again from the files of this folder, with the core dependencies alone:",
        "",
        "```",
        f"aiayn tables --from-logs paper_tables/measured/{scale} --output again",
        f"diff -r again/{scale}/tables paper_tables/measured/{scale}/tables",
        "```",
    ]
    return "\n".join(lines) + "\n"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in (header, *rows)]
    return [lines[0], "|" + "---|" * len(header), *lines[1:]]


def _runs(recorded: RecordedResults) -> str:
    trains = [train for _, train in sorted(recorded.results.train_by_key.items())]
    rows = [
        (
            train.corpus,
            train.system,
            str(train.seed),
            f"{train.updates:,}",
            f"{train.wall_seconds / HOURS:.2f}",
            str(train.num_attempts),
            train.provenance.created[:10],
            _hardware(train),
            f"`{commit_words(train.provenance)}`",
        )
        for train in trains
    ]
    header = (
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
    hours = sum(train.wall_seconds for train in trains) / HOURS
    return (
        "\n".join(
            ["## Runs", "", *_table(header, rows), "", f"{hours:.2f} hours of training in all."]
        )
        + "\n"
    )


def _hardware(train: TrainRecord) -> str:
    hardware = train.hardware
    if hardware.num_gpus:
        return f"{hardware.num_gpus} x {hardware.gpu}"
    threads = hardware.num_ranks * hardware.threads_per_rank
    return f"{hardware.cpu or 'CPU'}, {threads} thread{'s' if threads > 1 else ''}"


def _not_there(recorded: RecordedResults) -> str:
    """Return what was requested and is missing, by system."""
    seeds_by_system: dict[tuple[str, str], list[int]] = {}
    for corpus, system, seed in recorded.results.state_by_key:
        if (corpus, system, seed) not in recorded.results.train_by_key:
            seeds_by_system.setdefault((corpus, system), []).append(seed)
    if not seeds_by_system:
        return ""
    items = [
        f"- {corpus} {system}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
        for (corpus, system), seeds in seeds_by_system.items()
    ]
    return "\n".join(["Asked for and not there:", "", *items]) + "\n"


def _further(tables: Sequence[Table]) -> str:
    further = [table for table in tables if table.name not in SHOWN_TABLES]
    if not further:
        return ""
    links = [f"- [{table.title}](tables/{table.name}.md)" for table in further]
    return "\n".join(["## Further tables", "", *links]) + "\n"


def _testsets(recorded: RecordedResults) -> str:
    """Return the test sets: lines, the digest of the references as scored, and where they are
    public.
    """
    experiment = recorded.results.experiment
    evaluated = {(e.corpus, e.testset) for e in experiment.evaluations}
    rows = []
    for name, corpus in experiment.corpora.items():
        paths = [
            corpus_record(folder, experiment.scale.scale, "fetch", name)
            for folder in dict.fromkeys(recorded.folder_by_key.values())
        ]
        path = next((path for path in paths if path.exists()), None)
        raw = None if path is None else read_record(path, RawCorpus)
        for testset in corpus.testsets:
            if (name, testset) in evaluated:
                rows.append(
                    (
                        name,
                        testset,
                        *_references(raw, corpus, testset),
                        _public_place(corpus, testset),
                    )
                )
    if not rows:
        return ""
    header = ("corpus", "test set", "lines", "sha256 of the references", "where they are public")
    text = "References are not shipped here: their digest and public location are given instead."
    return "\n".join(["## Test sets", "", text, "", *_table(header, rows)]) + "\n"


def _references(raw: RawCorpus | None, corpus: CorpusSpec, testset: str) -> tuple[str, str]:
    pair = None if raw is None else raw.pair_by_split.get(testset)
    if pair is None:
        return "", ""
    return f"{pair.num_lines:,}", f"`{pair.sha256_by_language[corpus.target_language]}`"


def _public_place(corpus: CorpusSpec, testset: str) -> str:
    """Return where a test set's references are public, or how they are made."""
    source = corpus.source
    if isinstance(source, ParallelSource) and testset in source.file_by_split:
        return f"{source.public_url}/{source.file_by_split[testset][corpus.target_language].path}"
    return f"`aiayn fetch --corpus {corpus.name}` makes or fetches them"


def _files() -> str:
    lines = [
        "## Files",
        "",
        (
            "Laid out as `results/<scale>/` is, texts packed by xz; neither hosts nor their paths"
            " are named."
        ),
        "",
        f"- `{REQUEST_NAME}`: the config: which systems and seeds were asked for.",
        "- `runs/<run>/`: the training's own log, as fairseq printed it, and its attempts.",
        "- `train/<corpus>/<system>/seed<k>.json`: the record of the training.",
        (
            "- `decode/`, `score/`, `perplexity/`, each"
            " `<corpus>/<system>/seed<k>/<average>/<testset>.json`: the record, and of decode the"
            " translations beside it. Scores are taken if the translations have the digest they"
            " name."
        ),
        (
            "- `average/<corpus>/<system>/seed<k>/<average>.json`: which updates were averaged, and"
            " the tensors' digest."
        ),
        (
            f"- `fetch/`, `clean/`, `segment/`, `binarize/`, each `<corpus>/{RECORD_NAME}`: digests"
            " of the text, what was dropped and why, subwords, vocabulary sizes."
        ),
        "- `scores.tsv`, `summary.tsv`, `verdicts.tsv`, `tables/`: what follows from all that.",
    ]
    return "\n".join(lines) + "\n"
