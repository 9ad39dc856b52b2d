"""Lays out the table of logs: what each log contains, which of its numbers Tables 2 and 3 use,
which numbers they do not use, and why.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from aiayn.facts.listing import OTHER_FILES, reason_not_read
from aiayn.facts.trainings import Generation, JoinedLogs, Problem, Training
from aiayn.facts.types import show
from aiayn.printed import PERPLEXITY_METRIC
from paper_tables.layout import DASH, Column, Table, anchor_of, cell_frame, label, row_of
from paper_tables.rounding import BLEU, rounded

MAX_PROBLEMS = 25  # problems of one log that are listed, and as many notes
MAX_DIFFERENCES = 6  # differences from a row that are listed


def lay_out_logs(
    logs: JoinedLogs,
    scale_by_name: Mapping[str, str],
) -> Table:
    """Return the table with a row for each log: what the log contains, its row in the paper's
    tables or the nearest row, which of its numbers the tables use, which numbers they do not use,
    and why.

    The last row of the table has the number of files that are not logs. If the tables of a scale
    contain a run from its records, `scale_by_name` maps the name of the run's log to the scale.
    """
    columns = (
        Column("file", "File", side="label"),
        Column("what", "What it is", side="label"),
        Column("row", "Row", side="label"),
        Column("fills", "Fills", side="label"),
        Column("why_not", "Set apart or not filled, and why", side="label"),
    )
    # Rows are sorted by file at the end, so that each log is next to its neighbours in the folder.
    rows: list[tuple[str, list[dict[str, Any]]]] = []
    for file in logs.file_by_path.values():
        if problem := reason_not_read(file):
            size = f"{file.num_lines:,} lines" if file.num_lines else "not read"
            rows.append((file.path, _log_row(file.path, size, "", "", problem)))
    for training in logs.trainings:
        name = training.name
        fills, unused = _numbers(training)
        # If a run of ours has records, the tables use the records and not the log.
        if name in scale_by_name:
            fills = f"the tables of scale {scale_by_name[name]}, by its records"
        why = _why(unused, training.problems)
        row = _log_row(name, _describe_training(training), _row_words(training), fills, why)
        rows.append((name, row))
        # The same log is often saved twice, such as by Slurm and by fairseq. It counts once, but a
        # reader looks for each file.
        for copy in training.copies:
            text = f"{copy}: the same training as {name}: it counts once"
            rows.append((copy, _log_row(copy, "copy of a training", "", "", text)))
        # A training that was resumed may have a log for each start. Starts in one file have one
        # row.
        for section in training.sections[1:]:
            if section.path != training.first.path:
                text = f"a further start of {name}"
                rows.append((section.path, _log_row(section.name, text, "", "", "")))
    for generation in logs.generations:
        rows.append((generation.name, _generation_row(generation)))
    for averaging in logs.averagings:
        output = averaging.value("output") or "no file"
        text = f"average of {len(averaging.averaged_paths)} checkpoints: {output}"
        rows.append((averaging.name, _log_row(averaging.name, text, "", "", "")))
    # False comes before true, so the count of other files is last.
    rows.sort(key=lambda row: (row[0].endswith(OTHER_FILES), row[0]))
    return Table(
        name="logs",
        title="Logs",
        caption=(
            "Each log: what it is, its row or the nearest one with what differs, the numbers that"
            " it fills, and for every other number each fact that keeps it out. Notes keep nothing"
            " out."
        ),
        columns=columns,
        cells=cell_frame([cells for _, cells in rows]),
        first=("file", "row", "fills", "why_not"),
    )


def _why(unused: Sequence[str], problems: Sequence[Problem]) -> str:
    """Return a text that says why the tables do not use numbers of a log: the unused numbers, the
    problems and the notes, without repetitions.
    """
    # The problems of a log come before its notes, because only problems keep numbers out.
    reasons = [problem.text for problem in problems if problem.keeps_out]
    notes = [problem for problem in problems if not problem.keeps_out]
    texts = [*unused, *dict.fromkeys(reasons)]
    more = len(texts) - MAX_PROBLEMS
    texts = texts[:MAX_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
    texts += [f"note: {note.text}" for note in notes[:MAX_PROBLEMS]]
    if len(texts) == 1:
        return texts[0]
    return " ".join(f"({number}) {text}." for number, text in enumerate(texts, start=1))


def _log_row(name: str, kind: str, row: str, fills: str, why: str) -> list[dict[str, Any]]:
    cells = {
        "file": label(name),
        "what": label(kind),
        "row": label(row),
        "fills": label(fills or DASH),
        "why_not": label(why or DASH),
    }
    # The side decides the look of the row: a log that fills numbers looks like our results.
    return row_of(cells, name, "ours" if fills else "printed", anchor=anchor_of(name))


def _generation_row(generation: Generation) -> list[dict[str, Any]]:
    section, training = generation.section, generation.training
    fills, unused = "", []
    if generation.bleu is not None:
        # A BLEU means something only with its definition and its test set.
        role = generation.role or "test set not stated"
        score = f"{generation.metric} ({role}) {rounded(generation.bleu, BLEU)}"
        if generation.value is not None:
            fills = score
        else:
            unused = [f"{score} is set apart"]
    number = section.value("num_sentences") or section.num_hypotheses
    size = f"{show(number)} sentences" if number else "sentences not counted"
    text = f"generation, {size}, {generation.model_path or 'model not named'}"
    row = training.name if training is not None else ""
    return _log_row(generation.name, text, row, fills, _why(unused, generation.problems))


def _describe_training(training: Training) -> str:
    """Describe a training in a log in one line."""
    parts = ["training", f"update {training.last.last_update:,}"]
    parts += [f"seed {training.seed}"] if training.seed is not None else []
    # fairseq also prints `training on 1 GPUs` on a CPU, so `--cpu` is tested first.
    num_gpus = training.last.value("num_gpus")
    if training.last.arguments.get("cpu") is True:
        parts.append("CPU")
    elif isinstance(num_gpus, int):
        parts.append("1 GPU" if num_gpus == 1 else f"{num_gpus} GPUs")
    num_starts = len(training.sections)
    parts += [f"{num_starts} starts"] if num_starts > 1 else []
    parts += [training.last.log_format or "no statistics"]
    return ", ".join(parts)


def _row_words(training: Training) -> str:
    target = training.target
    if training.row is not None:
        return training.row.name
    # A log without its start, such as a pasted part, does not state the hyper-parameters. It cannot
    # be compared with any row.
    if not training.last.arguments:
        return "unknown: no hyper-parameters in the log"
    if target is None:
        return "none"
    differing = [problem for problem in training.problems if "row" in problem.keeps_out]
    texts = [f"{problem.label}, not {problem.expected}" for problem in differing[:MAX_DIFFERENCES]]
    if len(differing) > MAX_DIFFERENCES:
        texts.append(f"and {len(differing) - MAX_DIFFERENCES} more")
    return f"none; nearest {target.name}: {'; '.join(texts)}"


def _numbers(training: Training) -> tuple[str, list[str]]:
    """Return the numbers of a training that the tables use, and a list with a sentence about the
    numbers that the tables do not use. The list is empty if all numbers are used.
    """
    fills: list[str] = []
    unused: list[str] = []
    for name, value in training.stated.items():
        unit = " million" if name == "num_parameters" else ""
        number = f"{name} {rounded(value, name)}{unit}"
        # Each number of the log is in one of the two columns, so that none disappears silently.
        (fills if name in training.value_by_metric else unused).append(number)
    # A perplexity counts only if it is from a validation at the last update.
    if PERPLEXITY_METRIC not in training.stated:
        unused.append(f"no {PERPLEXITY_METRIC}")
    sentences = [f"set apart: {', '.join(unused)}"] if unused else []
    return "; ".join(fills), sentences
