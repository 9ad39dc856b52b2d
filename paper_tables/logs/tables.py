"""Lays out the table of the logs: what each is, what it fills, what not, and why."""

from collections.abc import Mapping, Sequence

from aiayn.logs.evidence import entries_by_name
from aiayn.logs.findings import Finding
from aiayn.logs.listing import LeftOut
from aiayn.logs.reader import OTHER_TOOLKIT
from aiayn.logs.symbols import Symbol
from aiayn.logs.types import AveragingLog, GenerationLog, LogEntry, LogFile
from paper_tables.compare.lines import JudgedFolder, JudgedGeneration, JudgedTraining
from paper_tables.layout import DASH, Column, Row, Table, anchor_of, format_value, text_cell

MAX_DIFFERENCES = 6  # from a row, that are named


def lay_out_logs(
    folder: JudgedFolder,
    findings_by_path: dict[str, list[Finding]],
    scale_by_path: Mapping[str, str],
    left_out: Sequence[LeftOut] = (),
) -> Table:
    """Return the table of the logs: what each is, its row or the nearest, what it fills, and what
    not and why.

    Files that are not logs, or not read, come last. A log in `scale_by_path` belongs to a run of
    ours whose records are in the tables of that scale.
    """
    columns = (
        Column("file", "File", side="label"),
        Column("what", "What it is", side="label"),
        Column("row", "Row", side="label"),
        Column("fills", "Fills", side="label"),
        Column("why_not", "Set apart or not filled, and why", side="label"),
    )
    judged_by_name: dict[str, JudgedTraining | JudgedGeneration] = {}
    for training in folder.trainings:
        for generation in training.generations:
            judged_by_name[generation.generation.path] = generation
        judged_by_name[training.path] = training
    judged_by_name |= {generation.generation.path: generation for generation in folder.others}
    rows = []
    for path, log_file in sorted(folder.logs.file_by_path.items()):
        if problem := file_problem(path, log_file):
            rows.append(_log_row(path, f"{log_file.num_lines:,} lines", "", "", problem))
        for name, entry in entries_by_name(path, log_file).items():
            judged, found = judged_by_name.get(name), findings_by_path.get(name, [])
            row = fills = ""
            texts = []
            if isinstance(judged, JudgedTraining):
                row, fills = _row_words(judged), _fills(judged, found)
                if name in scale_by_path:
                    fills = f"the tables of scale {scale_by_path[name]}, by its records"
            elif judged is not None:
                row = judged.generation.training_path
                trained = judged_by_name.get(row)
                has_row = isinstance(trained, JudgedTraining) and trained.system is not None
                fills = _bleu_words(judged) if has_row and judged.value is not None else ""
            if judged is not None:
                texts += [finding.text(path) for finding in (*judged.findings, *found)]
                texts += [one.text for one in judged.judgements if one.verdict != "equal"]
            rows.append(_log_row(name, describe_entry(entry), row, fills, _numbered(texts)))
    rows += [_log_row(one.path, one.what, "", "", one.why) for one in left_out]
    return Table(
        name="logs",
        title="Logs",
        caption=(
            "Each log: what it is, its row or the nearest one with what differs (log's value, row's"
            " value), the numbers that it fills, every check that it fails, and every quantity that"
            " is not the system's."
        ),
        columns=columns,
        rows=tuple(rows),
    )


def file_problem(path: str, log_file: LogFile) -> str:
    """Return why a file holds nothing: it cannot be read, or is not a log; '' without a reason."""
    refusal = log_file.refusal
    if refusal is not None:
        place = f"{path}:{refusal.line}" if refusal.line else path
        return f"{place}: {refusal.text}; {refusal.next_step}"
    if not log_file.num_lines:
        return "is empty: copy the log again"
    return "" if log_file.entries else _what_else(log_file)


def _what_else(log_file: LogFile) -> str:
    """Return what a file without a training or translation is, by the arguments that it prints."""
    if not log_file.other_programs:
        return "not a log of fairseq"
    names = [
        f"fairseq-{name}" if name != OTHER_TOOLKIT else "another toolkit"
        for name in log_file.other_programs
    ]
    return f"a log of {', '.join(names)}: no training and no translation with a score"


def _numbered(texts: Sequence[str]) -> str:
    return (
        texts[0]
        if len(texts) == 1
        else " ".join(f"({number}) {text}." for number, text in enumerate(texts, start=1))
    )


def _log_row(name: str, what: str, row: str, fills: str, why: str) -> Row:
    cells = tuple(
        text_cell(text, "label") for text in (name, what, row, fills or DASH, why or DASH)
    )
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
    return ", ".join(words)


def _row_words(judged: JudgedTraining) -> str:
    match, training = judged.match, judged.training
    if match.system is not None:
        return f"{match.system.system} ({training.language_pair}, {match.system.scale})"
    if not training.log.arguments:
        return "unknown: no hyper-parameters in the log"
    if match.nearest is None:
        return "none"
    if not match.differences:
        return (
            f"none: {match.nearest.system}'s hyper-parameters, but"
            f" {training.language_pair or 'unknown languages'}"
        )
    differences = describe_differences(match.differences)
    return f"none; nearest {match.nearest.system} ({match.nearest.scale}): {differences}"


def _fills(judged: JudgedTraining, found: Sequence[Finding]) -> str:
    if judged.system is None or any(finding.severity == "error" for finding in found):
        return ""
    values = [
        f"{name} {format_value(value, name)}{' million' if name == 'num_parameters' else ''}"
        for name, value in judged.training.value_by_metric.items()
    ]
    own = [
        one
        for one in judged.generations
        if one.generation.path == judged.path and one.value is not None
    ]
    return "; ".join([*values, *(_bleu_words(one) for one in own)])


def _bleu_words(judged: JudgedGeneration) -> str:
    return f"{judged.metric} ({judged.generation.role}) {judged.value:.2f}"


def describe_differences(differences: Sequence[tuple[str, Symbol | None, Symbol]]) -> str:
    """Return `d_model 256, not 512`, and so on; at most MAX_DIFFERENCES of them in full."""
    texts = []
    for symbol, value, expected in differences[:MAX_DIFFERENCES]:
        texts.append(f"{symbol} {'not known' if value is None else value}, not {expected}")
    if len(differences) > MAX_DIFFERENCES:
        texts.append(f"and {len(differences) - MAX_DIFFERENCES} more")
    return "; ".join(texts)
