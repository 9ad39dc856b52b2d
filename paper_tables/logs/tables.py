"""Lays out the table of the logs: what each is, what it fills, what not, and why."""

from collections.abc import Mapping, Sequence

from aiayn.logs.findings import Finding
from aiayn.logs.folder import entries_by_name
from aiayn.logs.listing import LeftOut
from aiayn.logs.logged import Difference, LoggedFolder, LoggedTraining
from aiayn.logs.symbols import reasons_unknown
from aiayn.logs.types import AveragingLog, GenerationLog, LogEntry, LogFile, TrainingLog
from paper_tables.layout import DASH, Column, Row, Table, anchor_of, format_value, text_cell

MAX_DIFFERENCES = 6  # from a row, that are named


def lay_out_logs(
    folder: LoggedFolder,
    findings_by_path: dict[str, list[Finding]],
    scale_by_path: Mapping[str, str],
    left_out: Sequence[LeftOut] = (),
) -> Table:
    """Return the table of the logs: what each is, its row or the nearest, what it fills, and what not and why.

    Files that are no log, or not read, are below. A log in `scale_by_path` is of a run of ours whose records are in the
    tables of that scale.
    """
    columns = (
        Column("file", "File", side="label"),
        Column("what", "What it is", side="label"),
        Column("row", "Row", side="label"),
        Column("fills", "Fills", side="label"),
        Column("why_not", "Set apart or not filled, and why", side="label"),
    )
    training_by_path = {training.path: training for training in folder.trainings}
    generation_by_path = {generation.path: generation for generation in folder.generations}
    rows = []
    for path, log_file in sorted(folder.file_by_path.items()):
        problems = file_problems(path, log_file)
        if problems and (log_file.refusal is not None or not log_file.entries):
            why = _numbered(problems)
            rows.append(_log_row(path, f"{log_file.num_lines:,} lines", "", "", why))
            problems = []
        for name, entry in entries_by_name(path, log_file).items():
            found = list(findings_by_path.get(name, ()))
            if isinstance(entry, TrainingLog):
                training = training_by_path[name]
                row, fills = _row_words(training), _fills(training, found)
                if name in scale_by_path:
                    fills = f"the tables of scale {scale_by_path[name]}, by its records"
                found = [*training.findings, *found]
            elif isinstance(entry, GenerationLog):
                generation = generation_by_path[name]
                row, fills = generation.training.path if generation.training else "", _fills_bleu(folder, name)
                found = [*generation.findings, *found]
            else:
                row, fills = "", ""
            why = _numbered([*problems, *(finding.text(path) for finding in found)])
            rows.append(_log_row(name, describe_entry(entry), row, fills, why))
    rows += [_log_row(one.path, one.what, "", "", one.why) for one in left_out]
    return Table(
        name="logs",
        title="Logs",
        caption="Each log: what it is, the row that it is of or the nearest with what differs (log's value, row's "
        "value), the numbers that it fills, and every rule that it breaks, with the next step.",
        columns=columns,
        rows=tuple(rows),
    )


def file_problems(path: str, log_file: LogFile) -> list[str]:
    """Return the problems of a file itself: it cannot be read, is not a log, or has bytes that are not text."""
    problems = []
    if log_file.refusal is not None:
        place = f"{path}:{log_file.refusal.line}" if log_file.refusal.line else path
        problems.append(f"{place}: {log_file.refusal.text}; {log_file.refusal.next_step}")
    elif not log_file.num_lines:
        problems.append("is empty: copy the log again")
    elif not log_file.entries:
        problems.append("no log of fairseq's")
    if log_file.not_utf8_line:
        problems.append(f"{path}:{log_file.not_utf8_line}: bytes that are no UTF-8 (Latin-1?) are read as they are")
    return problems


def _numbered(texts: Sequence[str]) -> str:
    return (
        texts[0] if len(texts) == 1 else " ".join(f"({number}) {text}." for number, text in enumerate(texts, start=1))
    )


def _log_row(name: str, what: str, row: str, fills: str, why: str) -> Row:
    cells = tuple(text_cell(text, "label") for text in (name, what, row, fills or DASH, why or DASH))
    return Row(cells, "ours" if fills else "printed", anchor=anchor_of(name))


def describe_entry(entry: LogEntry) -> str:
    """Return in a line what a log is."""
    if isinstance(entry, AveragingLog):
        return f"average of {len(entry.input_paths)} checkpoints: {entry.output_path}"
    if isinstance(entry, GenerationLog):
        number = entry.num_sentences or entry.num_hypotheses
        size = f"{number:,} sentences" if number else "sentences not counted"
        return f"generation, {size}, {entry.model_path or 'model not named'}"
    words = ["training", f"update {entry.last_update:,}"]
    words += [f"seed {entry.arguments['seed']}"] if "seed" in entry.arguments else []
    if entry.num_gpus is not None:
        words.append({0: "CPU", 1: "1 GPU"}.get(entry.num_gpus, f"{entry.num_gpus} GPUs"))
    words += [f"{len(entry.starts)} starts"] if len(entry.starts) > 1 else []
    words += [entry.log_format or "no statistics"]
    return ", ".join([*words, *(f"line {note.line}: {note.text}" for note in entry.notes)])


def _row_words(training: LoggedTraining) -> str:
    match = training.match
    if match.row is not None:
        return f"{match.row.system} ({training.language_pair}, {match.row.scale})"
    if not training.log.arguments:
        return "unknown: no hyper-parameters in the log"
    if match.nearest is None:
        return "none"
    if not match.differences:
        return f"none: {match.nearest.system}'s hyper-parameters, but {training.language_pair or 'unknown languages'}"
    differences = describe_differences(match.differences, reasons_unknown(training.log.arguments))
    return f"none; nearest {match.nearest.system} ({match.nearest.scale}): {differences}"


def _fills(training: LoggedTraining, found: Sequence[Finding]) -> str:
    if training.row is None or any(finding.severity == "error" for finding in found):
        return ""
    values = [
        f"{name} {format_value(value, name)}{' million' if name == 'num_parameters' else ''}"
        for name, value in training.value_by_metric.items()
    ]
    values += [
        f"{one.metric} ({one.role}) {one.value:.2f}" for one in training.evaluations if one.path == training.path
    ]
    return "; ".join(values)


def _fills_bleu(folder: LoggedFolder, name: str) -> str:
    found = (one for training in folder.trainings if training.row for one in training.evaluations if one.path == name)
    return "; ".join(f"{one.metric} ({one.role}) {one.value:.2f}" for one in found)


def describe_differences(differences: Sequence[Difference], reason_by_symbol: Mapping[str, str]) -> str:
    """Return `d_model 256, not 512`, and so on; at most MAX_DIFFERENCES of them in full.

    `reason_by_symbol` explains why the log does not determine a symbol (`symbols.reasons_unknown`).
    """
    texts = []
    for one in differences[:MAX_DIFFERENCES]:
        if one.found is None and one.symbol in reason_by_symbol:
            texts.append(f"{one.symbol} unknown ({reason_by_symbol[one.symbol]}), the row has {one.expected}")
        else:
            texts.append(f"{one.symbol} {'not in the log' if one.found is None else one.found}, not {one.expected}")
    if len(differences) > MAX_DIFFERENCES:
        texts.append(f"and {len(differences) - MAX_DIFFERENCES} more")
    return "; ".join(texts)
