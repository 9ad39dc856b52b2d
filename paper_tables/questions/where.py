"""Traces a cell of a table to its origin: run, attempts, log line, digests, commit, commands.

Cells and states are those of the frame of a scale. Of each seed it reads the records and the run's own folder, and
computes only the digest of the hypotheses. A checkpoint's digest is of its tensors, which need torch to read: it is
shown as recorded.

A cell of ours is `table:row:column`. `table2:base:bleu_en_de` and its like are the joins of published/cells.csv,
`replications:<row>:value` the rows of replications.csv; `variants:<system>:<column>` and
`architectures:<system>:<column>` are ours alone.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

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
from aiayn.terminal import sections, table, titled
from paper_tables.frame import Frame, Run
from paper_tables.layout import format_value
from paper_tables.make_frame import COMMIT_DIGITS, training_values

TRAINING_METRICS = ("num_parameters", "steps", "training_flops")  # of the training itself, no evaluation
METRIC_BY_COMPARED_COLUMN = {
    "ppl_dev": "ppl_per_subword",
    "bleu_dev": "bleu_tok_compound_split",
    "bleu_dev_sacre": "bleu_sacre_13a",
}
RECORD_BY_VERB: dict[str, type[Record]] = {
    "train": TrainRecord, "average": CheckpointRecord, "perplexity": PerplexityRecord, "decode": Hypotheses,
    "score": ScoreRecords,
}  # fmt: skip
COLUMN = 13  # of the labels of a text
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


class SeedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of one seed's number: what its records say, by label; `problems` is what is missing, and why.

    A fact without a label goes on with the one before it.
    """

    seed: int
    status: str
    value: float | None
    facts: list[tuple[str, str]]
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
        found[name] = NamedCell(name=name, printed_by_edition=editions, metric=metric, **msgspec.structs.asdict(key))
    return found


def find_cell(name: str, cell_by_name: Mapping[str, NamedCell]) -> NamedCell:
    """Return the cell of a name.

    Raises:
        UsageError: if there is none, with similar names.
    """
    if name in cell_by_name:
        return cell_by_name[name]
    hint = did_you_mean(name, cell_by_name, "see `aiayn where --list`", most=3)
    parts, known = name.split(":"), [cell.split(":") for cell in cell_by_name]
    columns = [column for *place, column in known if place == parts[:2]]
    rows = dict.fromkeys(row for table, row, _ in known if table == parts[0])
    if len(parts) != 3:
        problem = "expected table:row:column, as table2:base:bleu_en_de"
    elif columns:
        problem = f"{parts[0]}, row {parts[1]} has the columns {', '.join(columns)}"
    elif rows:
        problem = f"{parts[0]} has the rows {', '.join(rows)}"
    else:
        problem = f"the tables are {', '.join(dict.fromkeys(table for table, *_ in known))}"
    raise UsageError(f"cell {name!r}: {problem}; {hint}")


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


def last_update_line(log_path: Path) -> tuple[int, int, str] | None:
    """Return number, update and text of the last line of a training's log that has an update; None if none has.

    Raises:
        CorpusError: if a packed log is torn.
    """
    last: tuple[int, int, bytes] | None = None
    with open_bytes(log_path) as lines:
        for number, line in enumerate(lines, start=1):
            if found := _UPDATE_LINE.search(line):
                last = (number, int(found[1]), line)
    return last and (*last[:2], last[2].decode("utf-8", errors="replace").rstrip("\n"))


def _trace_seed(frame: Frame, cell: NamedCell, run: Run, results_folder: Path) -> SeedTrace:
    """Return the origin of a seed's number: as its records have it, also those of a run that no table shows."""
    paths = _record_paths(cell, run, results_folder, frame.scale)
    records: dict[str, Any] = {
        verb: read_record(path, RECORD_BY_VERB[verb]) for verb, path in paths.items() if path.exists()
    }
    steps = [_step(verb, paths[verb]) for verb in records]
    train, checkpoint, decoded = (records.get(verb) for verb in ("train", "average", "decode"))
    value, signature = _value(cell, records, frame.hardware)
    facts = [("run", run.state.run or "none yet")]
    facts += [("signature", signature)] if signature else []
    run_folder = _run_folder(run, Path(frame.runs_folder), results_folder)
    log_path = None if run_folder is None else find_packed(run_folder / LOG_NAME)
    log_line = None if log_path is None else last_update_line(log_path)
    for attempt in [] if run_folder is None else list_attempts(read_events(run_folder)):
        facts.append((f"attempt {attempt.attempt}", _attempt_words(attempt)))
    if log_line is not None:
        facts += [("log", f"{log_path}:{log_line[0]}, update {log_line[1]:,}"), ("", log_line[2])]
    hypotheses = state = None
    if decoded is not None:
        hypotheses, state = _hypotheses_state(decoded)
        facts += [("hypotheses", f"{hypotheses} ({state})"), ("", f"sha256 {decoded.hypotheses_sha256}")]
    if checkpoint is not None:
        there = "there" if checkpoint.path.is_file() else "missing"
        updates = ", ".join(f"{update:,}" for update in checkpoint.averaged_updates)
        facts.append(("checkpoint", f"{checkpoint.path} ({there}), of update {updates}"))
        facts.append(("", f"sha256 of its tensors {checkpoint.tensors_sha256}"))
    for commit in dict.fromkeys(step.commit for step in steps):
        facts.append(("commit", f"{commit} ({', '.join(step.verb for step in steps if step.commit == commit)})"))
    if newest := records.get("score") or records.get("perplexity") or run.train:
        made = newest.provenance
        facts.append(("versions", f"Python {made.python}, {_listed(made.version_by_package)}"))

    problems = [f"{run.state.status}: {run.state.reason}"] if run.state.reason else []
    if train is not None:
        problems += [f"{verb}: no record {path}" for verb, path in paths.items() if verb not in records]
        if value is None and cell.metric == "training_flops":
            problems.append("no cost by footnote 5: no GPU, or one that is not in hardware.yaml")
    problems += _contradictions(records, steps)
    if run.state.run and log_line is None:
        problems.append(f"{run.state.run}: no log line of an update; its folder is gone, or its log was cleared")
    if state not in (None, "as recorded"):
        problems.append(f"{hypotheses}: {state}; rerun `decode`")
    return SeedTrace(
        seed=run.seed or 0, status=run.state.status, value=value, facts=facts, steps=steps, problems=problems
    )


def _value(cell: NamedCell, records: dict[str, Any], hardware: HardwareSpec) -> tuple[float | None, str]:
    """Return the value of a cell in the records of one seed, with its signature."""
    if cell.metric in TRAINING_METRICS and "train" in records:
        return training_values(records["train"], None, hardware, None)[cell.metric], ""
    if "perplexity" in records:
        return records["perplexity"].value, records["perplexity"].signature
    scores = records["score"].scores if "score" in records else ()
    return next(((score.value, score.signature) for score in scores if score.metric == cell.metric), (None, ""))


def _contradictions(records: dict[str, Any], steps: list[Step]) -> Iterator[str]:
    """Yield where the records of one seed are not of one run, one commit and one translation."""
    run_by_verb = {verb: record.run for verb, record in records.items()}
    if len(set(run_by_verb.values())) > 1:
        yield f"records of different runs ({_listed(run_by_verb)}); run `snakemake`"
    if len({step.commit for step in steps}) > 1:
        commit_by_verb = {step.verb: step.commit[:COMMIT_DIGITS] for step in steps}
        yield f"made at different commits ({_listed(commit_by_verb)})"
    if any(step.commit.endswith("+dirty") for step in steps):
        yield "made with changes that are in no commit (+dirty): its commit alone does not repeat it"
    decoded, scored = records.get("decode"), records.get("score")
    if decoded and scored and {score.hypotheses_sha256 for score in scored.scores} - {decoded.hypotheses_sha256}:
        yield "scored are other translations than those recorded; rerun `score`"


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


def _hypotheses_state(decoded: Hypotheses) -> tuple[Path, str]:
    """Return the path of translations, and whether they are `as recorded`, `changed` or `missing`."""
    path = find_packed(decoded.path)
    if path is None:
        return decoded.path, "missing"
    try:
        return path, "as recorded" if unpacked_sha256(path) == decoded.hypotheses_sha256 else "changed"
    except UNPACK_ERRORS:
        return path, "changed"


def _step(verb: str, path: Path) -> Step:
    made = read_provenance(path)
    commit = f"{made.commit}+dirty" if made.is_dirty else made.commit
    return Step(verb=verb, record=str(path), created=made.created, host=made.host, commit=commit, command=made.command)


def _listed(value_by_verb: dict[str, str]) -> str:
    return ", ".join(f"{verb} {value}" for verb, value in value_by_verb.items())


def render_trace(trace: CellTrace) -> str:
    """Return the whole answer as lines of text."""
    cell = trace.cell
    facts = [("printed", _printed(cell)), ("definition", cell.metric),
             ("ours", f"{cell.corpus}, {cell.system}, {cell.average}, {cell.testset}")]  # fmt: skip
    if trace.scale != PAPER_SCALE and cell.name.startswith("table"):
        facts.append(("NOTE", f"scale {trace.scale} is not the paper's: no reproduction of the printed number"))
    values = ("no value" if seed.value is None else format_value(seed.value, cell.metric) for seed in trace.seeds)
    return sections(
        ("", [*titled(f"{cell.name}, scale {trace.scale}"), *_fact_lines(facts)]),
        *(
            (
                "",
                [
                    *titled(f"Seed {seed.seed}: {value}, {seed.status}", "-"),
                    *_fact_lines([*seed.facts, *(("NOTE", problem) for problem in seed.problems)]),
                ],
            )
            for seed, value in zip(trace.seeds, values, strict=True)
        ),
        ("", [*titled("To repeat", "-"), *_repeat_lines(trace)]),
    )


def render_list(cell_by_name: Mapping[str, NamedCell]) -> str:
    """Return a line a cell: its name, what is printed there, and the definition."""
    return "\n".join([*table([(name, _printed(cell), cell.metric) for name, cell in cell_by_name.items()]), ""])


def _printed(cell: NamedCell) -> str:
    values = [f"{value} ({EDITION_WORDS[edition]})" for edition, value in cell.printed_by_edition.items()]
    return ", ".join(values) or "-"


def _fact_lines(facts: Iterable[tuple[str, str]]) -> list[str]:
    """Return labels and texts as lines; none is broken, so that paths and log lines can be copied."""
    return [f"  {label:<{COLUMN}}{text}" for label, text in facts]


def _attempt_words(attempt: Attempt) -> str:
    job = f"job {attempt.job}, " if attempt.job else ""  # a pack has neither jobs nor hosts
    place = f"{attempt.device}, {job}commit {attempt.commit[:COMMIT_DIGITS]}"
    place = f"{attempt.host} ({place})" if attempt.host else place
    begun = f"{attempt.began}, update {attempt.first_update:,}, {place}"
    if not attempt.outcome:
        return f"{begun}, no end noted"
    reason = f": {attempt.reason}" if attempt.reason else ""
    return f"{begun}, to {attempt.ended}, update {attempt.last_update:,}, {attempt.outcome}{reason}"


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
