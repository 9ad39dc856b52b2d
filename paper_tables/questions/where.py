"""Traces a cell of a table to its origin: run, attempts, log line, digests, commit, commands.

Cells and states are those of the frame of a scale. Of each seed it reads the records and the run's own folder, and
computes only the digest of the hypotheses. A checkpoint's digest is of its tensors, which need torch to read: it is
shown as recorded.

A cell of ours is `table:row:column`. `table2:base:bleu_en_de` and its like are the joins of published/cells.csv,
`replications:<row>:value` the rows of replications.csv; `variants:<system>:<column>` and
`architectures:<system>:<column>` are ours alone.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from aiayn.data.text.lines import open_bytes
from aiayn.errors import UsageError, did_you_mean
from aiayn.packed import UNPACK_ERRORS, find_packed, unpacked_sha256
from aiayn.paths import CellKey, Evaluation, average_record, corpus_record, evaluation_record, train_record
from aiayn.printed import EDITION_WORDS, PAPER_SCALE, REFERENCE_SYSTEM
from aiayn.records import (
    DATA_RECORD_BY_VERB,
    CheckpointRecord,
    Hypotheses,
    PerplexityRecord,
    Record,
    ScoreRecords,
    TrainRecord,
    read_provenance,
    read_record,
)
from aiayn.runs.attempts import LOG_NAME, Attempt, list_attempts, read_events
from aiayn.spec.hardware import HardwareSpec
from aiayn.terminal import table, titled
from paper_tables.frame import Frame, Run
from paper_tables.layout import format_value
from paper_tables.make_frame import training_values

TRAINING_METRICS = ("num_parameters", "steps", "training_flops")  # of the training itself, no evaluation
RECORD_BY_VERB: dict[str, type[Record]] = {
    "train": TrainRecord,
    "average": CheckpointRecord,
    "decode": Hypotheses,
    "perplexity": PerplexityRecord,
    "score": ScoreRecords,
}
METRIC_BY_COMPARED_COLUMN = {
    "ppl_dev": "ppl_per_subword",
    "bleu_dev": "bleu_tok_compound_split",
    "bleu_dev_sacre": "bleu_sacre_13a",
}
COLUMN = 13  # of the labels of a text
COMMIT_DIGITS = 12  # of a commit in a sentence
_UPDATE_LINE = re.compile(rb'\| train_inner \| \{.*"num_updates": "?([0-9]+)')  # fairseq's log, JSON form


class NamedCell(CellKey, frozen=True, kw_only=True):
    """A cell of ours: its name, what is printed there by edition (nothing in a table of ours), its metric."""

    name: str
    printed_by_edition: dict[str, str]
    metric: str


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that was run: its record, when and where it was written, by which command at which commit."""

    verb: str
    record: str
    created: str
    host: str
    commit: str
    command: str


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a training's log, counted from 1, and its update."""

    path: str
    number: int
    update: int
    text: str


class FileTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A file, the digest in its record, and the state of the file: `as recorded`, `changed` or `missing`."""

    path: str
    sha256: str
    state: str


class CheckpointTrace(msgspec.Struct, frozen=True, kw_only=True):
    """An averaged checkpoint, the digest of its sorted tensors as recorded, and the updates that were averaged."""

    path: str
    is_there: bool
    tensors_sha256: str
    averaged_updates: list[int]


class SeedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of one seed's number; what is missing is None or empty, and `problems` gives the reason."""

    seed: int
    status: str
    run: str
    value: float | None
    signature: str
    attempts: list[Attempt]
    log_line: LogLine | None
    hypotheses: FileTrace | None
    checkpoint: CheckpointTrace | None
    version_by_package: dict[str, str]
    python: str
    steps: list[Step]
    problems: list[str]


class CellTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A cell of a scale, the data that all its seeds share, and each seed's trace."""

    cell: NamedCell
    scale: str
    data_steps: list[Step]
    seeds: list[SeedTrace]


def named_cells(frame: Frame) -> dict[str, NamedCell]:
    """Return every cell by name, in the order of the tables; one that the editions print differently is one cell."""
    cells = [(f"{'table' * cell.table.isdigit()}{cell.table}:{cell.row}:{cell.column}", cell.key, cell.metric,
              {cell.edition: cell.printed}) for cell in frame.cells]  # fmt: skip
    cells += [
        (f"{table}:{system}:{column}", frame.compared(system), metric, {})
        for table, systems in frame.known.items()
        for system in (REFERENCE_SYSTEM, *systems)
        for column, metric in METRIC_BY_COMPARED_COLUMN.items()
    ]
    found: dict[str, NamedCell] = {}
    for name, key, metric, printed in cells:
        editions = (found[name].printed_by_edition if name in found else {}) | printed
        found[name] = NamedCell(
            name=name, printed_by_edition=editions, metric=metric, **msgspec.structs.asdict(key)
        )  # fmt: skip
    return found


def find_cell(name: str, cell_by_name: Mapping[str, NamedCell]) -> NamedCell:
    """Return the cell of a name.

    Raises:
        UsageError: if there is none, with similar names.
    """
    if name in cell_by_name:
        return cell_by_name[name]
    hint = did_you_mean(name, cell_by_name, "see `aiayn where --list`", most=3)
    parts = name.split(":")
    if len(parts) != 3:
        raise UsageError(f"cell {name!r}: expected table:row:column, as table2:base:bleu_en_de; {hint}")
    table, row, _ = parts
    columns = [cell.split(":")[2] for cell in cell_by_name if cell.startswith(f"{table}:{row}:")]
    if columns:
        raise UsageError(f"cell {name!r}: {table}, row {row} has the columns {', '.join(columns)}; {hint}")
    rows = dict.fromkeys(cell.split(":")[1] for cell in cell_by_name if cell.startswith(f"{table}:"))
    if rows:
        raise UsageError(f"cell {name!r}: {table} has the rows {', '.join(rows)}; {hint}")
    tables = dict.fromkeys(cell.split(":")[0] for cell in cell_by_name)
    raise UsageError(f"cell {name!r}: the tables are {', '.join(tables)}; {hint}")


def trace_cell(frame: Frame, cell: NamedCell, results_folder: Path) -> CellTrace:
    """Return the origin of a cell of a scale; a seed that is missing, running or failed is marked so.

    Raises:
        UsageError: if the scale does not run the cell's system on its corpus.
        RecordError: if a record is torn.
    """
    runs = frame.runs_by_system.get((cell.corpus, cell.system), [])
    if not runs:
        systems = ", ".join(system for corpus, system in frame.runs_by_system if corpus == cell.corpus) or "none"
        raise UsageError(
            f"cell {cell.name}: system {cell.system} is not run on {cell.corpus} at scale {frame.scale}, which runs "
            f"{systems} there; name another --scale, or add it to the lists of the scale's config"
        )
    paths = {verb: corpus_record(results_folder, frame.scale, verb, cell.corpus) for verb in DATA_RECORD_BY_VERB}
    return CellTrace(
        cell=cell,
        scale=frame.scale,
        data_steps=[_step(verb, path) for verb, path in paths.items() if path.exists()],
        seeds=[_trace_seed(frame, cell, run, results_folder) for run in runs],
    )


def last_update_line(log_path: Path) -> LogLine | None:
    """Return the last line of a training's log, plain or packed, that has an update, or None if none has.

    Raises:
        CorpusError: if a packed log is torn.
    """
    last: tuple[int, int, bytes] | None = None
    with open_bytes(log_path) as lines:
        for number, line in enumerate(lines, start=1):
            found = _UPDATE_LINE.search(line)
            if found:
                last = (number, int(found[1]), line)
    if last is None:
        return None
    text = last[2].decode("utf-8", errors="replace").rstrip("\n")
    return LogLine(path=str(log_path), number=last[0], update=last[1], text=text)


def _trace_seed(frame: Frame, cell: NamedCell, run: Run, results_folder: Path) -> SeedTrace:
    paths = _record_paths(cell, run, results_folder, frame.scale)
    records = {verb: read_record(path, RECORD_BY_VERB[verb]) for verb, path in paths.items() if path.exists()}
    run_folder = _run_folder(run, Path(frame.runs_folder), results_folder)
    log_path = None if run_folder is None else find_packed(run_folder / LOG_NAME)
    value, signature = _recorded(cell.metric, records, frame.hardware)
    newest = records.get("score") or records.get("perplexity") or run.train
    trace = SeedTrace(
        seed=run.seed or 0,
        status=run.state.status,
        run=run.state.run,
        value=value,
        signature=signature,
        attempts=[] if run_folder is None else list_attempts(read_events(run_folder)),
        log_line=None if log_path is None else last_update_line(log_path),
        hypotheses=_trace_hypotheses(records.get("decode")),
        checkpoint=_trace_checkpoint(records.get("average")),
        version_by_package={} if newest is None else newest.provenance.version_by_package,
        python="" if newest is None else newest.provenance.python,
        steps=[_step(verb, paths[verb]) for verb in records],
        problems=[f"{run.state.status}: {run.state.reason}"] if run.state.reason else [],
    )
    missing = [
        f"{verb}: no record {path}" for verb, path in paths.items() if "train" in records and verb not in records
    ]
    if value is None and "train" in records and cell.metric == "training_flops":
        missing.append("no cost by footnote 5: no GPU, or one that is not in hardware.yaml")
    return msgspec.structs.replace(trace, problems=[*trace.problems, *missing, *_contradictions(trace, records)])


def _recorded(metric: str, records: Mapping[str, Record], hardware: HardwareSpec) -> tuple[float | None, str]:
    """Return the value and signature that records hold, also those of a run that no table shows; (None, '') of none."""
    train, score, perplexity = records.get("train"), records.get("score"), records.get("perplexity")
    if isinstance(train, TrainRecord) and metric in TRAINING_METRICS:
        return training_values(train, None, hardware, None)[metric], ""
    if isinstance(perplexity, PerplexityRecord):
        return perplexity.value, perplexity.signature
    scores = score.scores if isinstance(score, ScoreRecords) else []
    return next(((one.value, one.signature) for one in scores if one.metric == metric), (None, ""))


def _record_paths(cell: NamedCell, run: Run, results_folder: Path, scale: str) -> dict[str, Path]:
    """Return the records behind a cell's number, by verb, in the order of the stages."""
    training = (run.corpus, run.system, run.seed or 0)
    paths = {"train": train_record(results_folder, scale, *training)}
    if cell.metric in TRAINING_METRICS:
        return paths
    paths["average"] = average_record(results_folder, scale, *training, cell.average)
    evaluation = Evaluation(**msgspec.structs.asdict(cell.key), seed=run.seed or 0)
    verbs = ("perplexity",) if cell.metric.startswith("ppl_") else ("decode", "score")
    return paths | {verb: evaluation_record(results_folder, scale, verb, evaluation) for verb in verbs}


def _run_folder(run: Run, runs_folder: Path, results_folder: Path) -> Path | None:
    """Return the folder of a run, of an unfinished one below the runs folder; None if there is none."""
    if not run.state.run:
        return None
    begun = [runs_folder / run.state.run, results_folder.parent / runs_folder / run.state.run]
    return next((folder for folder in ([run.train.run_folder] if run.train else begun) if folder.is_dir()), None)


def _trace_hypotheses(decoded: Record | None) -> FileTrace | None:
    if not isinstance(decoded, Hypotheses):
        return None
    path, state = find_packed(decoded.path), "missing"
    if path is not None:
        try:
            state = "as recorded" if unpacked_sha256(path) == decoded.hypotheses_sha256 else "changed"
        except UNPACK_ERRORS:
            state = "changed"
    return FileTrace(path=str(path or decoded.path), sha256=decoded.hypotheses_sha256, state=state)


def _trace_checkpoint(checkpoint: Record | None) -> CheckpointTrace | None:
    if not isinstance(checkpoint, CheckpointRecord):
        return None
    return CheckpointTrace(
        path=str(checkpoint.path),
        is_there=checkpoint.path.is_file(),
        tensors_sha256=checkpoint.tensors_sha256,
        averaged_updates=checkpoint.averaged_updates,
    )


def _step(verb: str, path: Path) -> Step:
    made = read_provenance(path)
    commit = f"{made.commit}+dirty" if made.is_dirty else made.commit
    return Step(verb=verb, record=str(path), created=made.created, host=made.host, commit=commit, command=made.command)


def _contradictions(trace: SeedTrace, records: dict[str, Record]) -> list[str]:
    """Return contradictions in words: between runs or commits, or a log or translations that are changed or missing."""
    found = []
    run_by_verb = {verb: getattr(record, "run", "") for verb, record in records.items()}
    if len(set(run_by_verb.values())) > 1:
        found.append(f"records of different runs ({_listed(run_by_verb)}); run `snakemake`")
    commit_by_verb = {step.verb: step.commit for step in trace.steps}
    if len(set(commit_by_verb.values())) > 1:
        short_by_verb = {verb: commit[:COMMIT_DIGITS] for verb, commit in commit_by_verb.items()}
        found.append(f"made at different commits ({_listed(short_by_verb)})")
    if any(commit.endswith("+dirty") for commit in commit_by_verb.values()):
        found.append("made with changes that are in no commit (+dirty): its commit alone does not repeat it")
    if trace.run and trace.log_line is None:
        found.append(f"{trace.run}: no log line of an update; its folder is gone, or its log was cleared")
    if trace.hypotheses is not None and trace.hypotheses.state != "as recorded":
        found.append(f"{trace.hypotheses.path}: {trace.hypotheses.state}; rerun `decode`")
    score = records.get("score")
    if isinstance(score, ScoreRecords) and trace.hypotheses is not None:
        scored = {one.hypotheses_sha256 for one in score.scores}
        if scored - {trace.hypotheses.sha256}:
            found.append("scored are other translations than those recorded; rerun `score`")
    return found


def _listed(value_by_verb: dict[str, str]) -> str:
    return ", ".join(f"{verb} {value}" for verb, value in value_by_verb.items())


def render_trace(trace: CellTrace) -> str:
    """Return the whole answer as lines of text."""
    cell = trace.cell
    title = f"{cell.name}, scale {trace.scale}"
    lines = [
        *titled(title),
        _labelled("printed", _printed(cell)),
        _labelled("definition", cell.metric),
        _labelled("ours", f"{cell.corpus}, {cell.system}, {cell.average}, {cell.testset}"),
    ]
    if trace.scale != PAPER_SCALE and cell.name.startswith("table"):
        lines.append(
            _labelled("NOTE", f"scale {trace.scale} is not the paper's: no reproduction of the printed number")
        )
    for seed in trace.seeds:
        lines += ["", *_seed_lines(trace, seed)]
    lines += ["", *titled("To repeat", "-"), *_repeat_lines(trace)]
    return "\n".join(lines) + "\n"


def render_list(cell_by_name: Mapping[str, NamedCell]) -> str:
    """Return a line a cell: its name, what is printed there, and the definition."""
    return "\n".join([*table([(name, _printed(cell), cell.metric) for name, cell in cell_by_name.items()]), ""])


def _printed(cell: NamedCell) -> str:
    values = [f"{value} ({EDITION_WORDS[edition]})" for edition, value in cell.printed_by_edition.items()]
    return ", ".join(values) or "-"


def _labelled(label: str, text: str) -> str:
    return f"  {label:<{COLUMN}}{text}"


def _indented(text: str) -> str:
    return " " * (COLUMN + 2) + text


def _seed_lines(trace: CellTrace, seed: SeedTrace) -> Iterable[str]:
    value = "no value" if seed.value is None else format_value(seed.value, trace.cell.metric)
    heading = f"Seed {seed.seed}: {value}, {seed.status}"
    yield from (*titled(heading, "-"), _labelled("run", seed.run or "none yet"))
    if seed.signature:
        yield _labelled("signature", seed.signature)
    for attempt in seed.attempts:
        yield _labelled(f"attempt {attempt.attempt}", _attempt_words(attempt))
    if seed.log_line is not None:
        yield _labelled("log", f"{seed.log_line.path}:{seed.log_line.number}, update {seed.log_line.update:,}")
        yield _indented(seed.log_line.text)
    if seed.hypotheses is not None:
        yield _labelled("hypotheses", f"{seed.hypotheses.path} ({seed.hypotheses.state})")
        yield _indented(f"sha256 {seed.hypotheses.sha256}")
    if seed.checkpoint is not None:
        state = "there" if seed.checkpoint.is_there else "missing"
        updates = ", ".join(f"{update:,}" for update in seed.checkpoint.averaged_updates)
        yield _labelled("checkpoint", f"{seed.checkpoint.path} ({state}), of update {updates}")
        yield _indented(f"sha256 of its tensors {seed.checkpoint.tensors_sha256}")
    for commit, verbs in _verbs_by_commit(seed.steps).items():
        yield _labelled("commit", f"{commit} ({', '.join(verbs)})")
    if seed.version_by_package:
        versions = ", ".join(f"{package} {version}" for package, version in seed.version_by_package.items())
        yield _labelled("versions", f"Python {seed.python}, {versions}")
    for problem in seed.problems:
        yield _labelled("NOTE", problem)


def _attempt_words(attempt: Attempt) -> str:
    job = f"job {attempt.job}, " if attempt.job else ""  # a pack has neither jobs nor hosts
    place = f"{attempt.device}, {job}commit {attempt.commit[:12]}"
    place = f"{attempt.host} ({place})" if attempt.host else place
    begun = f"{attempt.began}, update {attempt.first_update:,}, {place}"
    if not attempt.outcome:
        return f"{begun}, no end noted"
    reason = f": {attempt.reason}" if attempt.reason else ""
    return f"{begun}, to {attempt.ended}, update {attempt.last_update:,}, {attempt.outcome}{reason}"


def _verbs_by_commit(steps: Iterable[Step]) -> dict[str, list[str]]:
    verbs: dict[str, list[str]] = {}
    for step in steps:
        verbs.setdefault(step.commit, []).append(step.verb)
    return verbs


def _repeat_lines(trace: CellTrace) -> Iterable[str]:
    """Yield the commands as the records have them, the commit before those that were run at it."""
    steps = [*trace.data_steps, *(step for seed in trace.seeds for step in seed.steps)]
    if not steps:
        yield "  nothing was run yet: `snakemake` makes it"
    commit = None
    for step in steps:
        if step.commit != commit:
            commit = step.commit
            yield f"  git checkout {commit.removesuffix('+dirty')}" + ("  # and changes in no commit" * ("+" in commit))
        yield f"  {step.command}"
