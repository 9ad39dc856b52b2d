"""Lays out the table of the logs: the kind of each log, which of its numbers the tables use, which
they do not, and why.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from aiayn.facts.jobs import Training, Translation, inputs_of, name_of
from aiayn.facts.listing import LeftOut, reason_not_read
from aiayn.facts.types import Section
from aiayn.known_good.judge import Problem
from aiayn.known_good.rows import JudgedJobs, JudgedTraining, JudgedTranslation
from aiayn.known_good.table import show
from aiayn.known_good.targets import Target
from aiayn.printed import PERPLEXITY_METRIC, find_printed, read_cells, read_table
from paper_tables.frame import is_bleu
from paper_tables.layout import (
    DASH,
    Cell,
    Column,
    Note,
    Table,
    anchor_of,
    cell_frame,
    label,
    row_of,
)
from paper_tables.names import name_of_key
from paper_tables.rounding import BLEU, rounded

MAX_FIRST_LOOK = 20  # lines of the first screen
MAX_PROBLEMS = 25  # problems of one log that are listed
MAX_NEAR = 3  # differences from a row that the first screen still calls near
MAX_DIFFERENCES = 6  # differences from a row that are listed


def lay_out_logs(
    judged: JudgedJobs,
    scale_by_name: Mapping[str, str],
    left_out: Sequence[LeftOut] = (),
) -> Table:
    """Return the table of all logs: the kind of each, its row or the nearest row, and which of its
    numbers the tables use, which they do not, and why.

    Files that are not logs, and files that could not be read, come last. `scale_by_name` maps the
    name of a log to a scale if the tables of the scale already contain that run from its records.
    """
    columns = (
        Column("file", "File", side="label"),
        Column("what", "What it is", side="label"),
        Column("row", "Row", side="label"),
        Column("fills", "Fills", side="label"),
        Column("why_not", "Set apart or not filled, and why", side="label"),
    )
    rows: list[tuple[str, list[dict[str, Any]]]] = []
    for file in judged.jobs.file_by_path.values():
        if problem := reason_not_read(file):
            rows.append(
                (file.path, _log_row(file.path, f"{file.num_lines:,} lines", "", "", problem))
            )
    for one in judged.trainings:
        fills, apart = _numbers(one)
        if one.name in scale_by_name:
            fills = f"the tables of scale {scale_by_name[one.name]}, by its records"
        why = _why(apart, one.problems)
        row = _log_row(one.name, describe_training(one.training), _row_words(one), fills, why)
        rows.append((one.name, row))
        for copy in one.training.copies:
            text = f"{copy}: the same training as {one.name}: it counts once"
            rows.append((copy, _log_row(copy, "copy of a training", "", "", text)))
        for section in one.training.sections[1:]:
            if section.path != one.training.first.path:
                text = f"a further start of {one.name}"
                rows.append((section.path, _log_row(name_of(section), text, "", "", "")))
    for translation in judged.translations:
        rows.append((translation.name, _translation_row(translation)))
    for averaging in judged.jobs.averagings:
        name = name_of(averaging)
        rows.append((name, _log_row(name, describe_averaging(averaging), "", "", "")))
    listed = [row for _, row in sorted(rows, key=lambda entry: entry[0])]
    listed += [_log_row(left.path, left.what, "", "", left.why) for left in left_out]
    return Table(
        name="logs",
        title="Logs",
        caption=(
            "Each log: what it is, its row or the nearest one with what differs, the numbers that"
            " it fills, and for every other number each fact that keeps it out. Notes keep nothing"
            " out."
        ),
        columns=columns,
        cells=cell_frame(listed),
        first=("file", "row", "fills", "why_not"),
    )


def lay_out_first_look(trainings: Sequence[JudgedTraining]) -> Table:
    """Return a table with a line for each number of each training: the row that it fills and the
    printed number there, or the first reason why it fills none.

    Trainings that fill a row come first.
    """
    columns = (
        Column("file", "your log", side="label"),
        Column("row", "row of the paper", side="label"),
        Column("fills", "from your log", side="ours"),
        Column("printed", "printed"),
        Column("why_not", "what does not fill, and why", side="label"),
    )
    rows = []
    for one in sorted(trainings, key=lambda one: (not one.value_by_metric, one.name)):
        target = one.target
        num_differences = sum("row" in found.keeps_out for found in one.problems)
        if one.row is None and num_differences > MAX_NEAR:
            target = None
        row = "no row" if target is None else name_of_key(target.system)
        if target is not None and one.row is None:
            row = f"no row; nearest is {row}"
        # What fills, each with the printed number of the same quantity. Without any, the printed
        # perplexity says what the row has.
        pairs = []
        for metric, value in one.value_by_metric.items():
            if metric == PERPLEXITY_METRIC:
                pairs.append((f"PPL {rounded(value, metric)}", _printed_words(target, "PPL")))
        for scored in one.translations:
            if scored.value is not None:
                role = scored.translation.role or ""
                pairs.append((_bleu_words(scored), _printed_words(target, "BLEU", role)))
        fills = bool(pairs)
        pairs = pairs or [("", _printed_words(target, "PPL"))]
        problems = list(one.problems)
        for scored in one.translations:
            problems += scored.problems
        reasons = list(dict.fromkeys(found.text for found in problems if found.keeps_out))
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        why = f"{reasons[0]}{more}" if reasons else DASH
        for ours, printed in pairs:
            cells = {
                "file": label(one.name),
                "row": label(row),
                "fills": Cell(ours, "ours") if ours else Cell("nothing", "state"),
                "printed": Cell(printed),
                "why_not": label(why),
            }
            rows.append(row_of(cells, one.name, "ours" if fills else "printed"))
    return Table(
        name="first_look",
        title="Your trainings, and the rows of the paper",
        caption=(
            "A line for each number that a log fills, next to the printed one of the same row; all"
            " reasons are in the table of logs."
        ),
        columns=columns,
        cells=cell_frame(rows[:MAX_FIRST_LOOK]),
        notes=(Note("More trainings are in the table of logs."),) * (len(rows) > MAX_FIRST_LOOK),
    )


def _printed_words(target: Target | None, name: str, role: str = "") -> str:
    """Return the printed PPL of a row, or its BLEU of a role. Return '' if the paper does not print
    it.

    Where the editions differ, it has both values.
    """
    values: dict[str, None] = {}
    for join in read_cells():
        is_same_row = target is not None and (
            (join.system, join.language_pair) == (target.system, target.language_pair)
        )
        is_perplexity = name == "PPL" and join.metric == PERPLEXITY_METRIC
        is_same_bleu = name == "BLEU" and is_bleu(join.metric) and join.role == role
        if is_same_row and (is_perplexity or is_same_bleu):
            values[find_printed(join, read_table(join.table)).value] = None
    return f"{name} {' / '.join(values)}" if values else ""


def _why(apart: Sequence[str], problems: Sequence[Problem]) -> str:
    """Return problems, each with its reason, and notes, without repetitions."""
    texts = [*apart, *dict.fromkeys(one.text for one in problems if one.keeps_out)]
    notes = [one for one in problems if not one.keeps_out]
    more = len(texts) - MAX_PROBLEMS
    texts = texts[:MAX_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
    texts += [f"note: {note.text}" for note in notes[:MAX_PROBLEMS]]
    if len(texts) == 1:
        return texts[0]
    return " ".join(f"({number}) {text}." for number, text in enumerate(texts, start=1))


def _log_row(name: str, what: str, row: str, fills: str, why: str) -> list[dict[str, Any]]:
    cells = {
        "file": label(name),
        "what": label(what),
        "row": label(row),
        "fills": label(fills or DASH),
        "why_not": label(why or DASH),
    }
    return row_of(cells, name, "ours" if fills else "printed", anchor=anchor_of(name))


def _translation_row(judged: JudgedTranslation) -> list[dict[str, Any]]:
    translation = judged.translation
    training = translation.training
    fills, apart = "", []
    if judged.value is not None:
        fills = _bleu_words(judged)
    elif judged.bleu is not None:
        apart = [f"{_bleu_words(judged)} is set apart"]
    row = training.name if training is not None else ""
    why = _why(apart, judged.problems)
    return _log_row(judged.name, describe_translation(translation), row, fills, why)


def _bleu_words(judged: JudgedTranslation) -> str:
    role = judged.translation.role or "test set not stated"
    value = "" if judged.bleu is None else rounded(judged.bleu, BLEU)
    return f"{judged.metric} ({role}) {value}"


def describe_averaging(averaging: Section) -> str:
    """Describe in one line which checkpoints were averaged."""
    output = averaging.value("output") or "no file"
    return f"average of {len(inputs_of(averaging))} checkpoints: {output}"


def describe_translation(translation: Translation) -> str:
    """Describe a translation in one line."""
    section = translation.section
    number = section.value("num_sentences") or section.num_hypotheses
    size = f"{show(number)} sentences" if number else "sentences not counted"
    return f"generation, {size}, {translation.model_path or 'model not named'}"


def describe_training(training: Training) -> str:
    """Describe a training in one line."""
    words = ["training", f"update {training.last_update:,}"]
    words += [f"seed {training.seed}"] if training.seed is not None else []
    num_gpus = training.last.value("num_gpus")
    if training.arguments.get("cpu") is True:
        words.append("CPU")
    elif isinstance(num_gpus, int):
        words.append("1 GPU" if num_gpus == 1 else f"{num_gpus} GPUs")
    num_starts = len(training.sections)
    words += [f"{num_starts} starts"] if num_starts > 1 else []
    words += [training.last.log_format or "no statistics"]
    return ", ".join(words)


def _row_words(judged: JudgedTraining) -> str:
    target = judged.target
    if judged.row is not None:
        return judged.row.name
    if not judged.training.arguments:
        return "unknown: no hyper-parameters in the log"
    if target is None:
        return "none"
    differing = [one for one in judged.problems if "row" in one.keeps_out]
    texts = [f"{one.label}, not {one.expected}" for one in differing[:MAX_DIFFERENCES]]
    if len(differing) > MAX_DIFFERENCES:
        texts.append(f"and {len(differing) - MAX_DIFFERENCES} more")
    return f"none; nearest {target.name}: {'; '.join(texts)}"


def _numbers(judged: JudgedTraining) -> tuple[str, list[str]]:
    """Return the numbers that the tables use, and a sentence about the numbers that they do not
    use.
    """
    filling = judged.value_by_metric
    fills: list[str] = []
    others: list[str] = []
    for name, value in judged.stated.items():
        unit = " million" if name == "num_parameters" else ""
        words = f"{name} {rounded(value, name)}{unit}"
        (fills if name in filling else others).append(words)
    if PERPLEXITY_METRIC not in judged.stated:
        others.append(f"no {PERPLEXITY_METRIC}")
    apart = [f"set apart: {', '.join(others)}"] if others else []
    return "; ".join(fills), apart
