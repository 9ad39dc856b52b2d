"""Lays out the table of the logs, and what they add to Tables 2 and 3: lines under the printed rows.

Under each printed row is a line for each configuration that was trained, named by its differences from the row;
its numbers are means over seeds. No difference to a printed BLEU is taken: fairseq's own BLEU is of another definition.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from aiayn.cost import training_flops
from aiayn.printed import PAPER_SCALE, PERPLEXITY_METRIC, read_cells, read_table
from aiayn.spec.hardware import HardwareSpec
from analysis.findings import Finding
from analysis.logs.folder import entries_by_name
from analysis.logs.listing import LeftOut
from analysis.logs.logged import Difference, LoggedFolder, LoggedTraining
from analysis.logs.rules import AveragedLine
from analysis.logs.symbols import reasons_unknown
from analysis.logs.types import AveragingLog, GenerationLog, LogEntry, LogFile, TrainingLog
from paper_tables.layout import (
    DASH,
    MARK_BY_SCALE,
    Aside,
    Cell,
    CellProvenance,
    Column,
    Note,
    OurLine,
    Part,
    Row,
    Source,
    Table,
    anchor_of,
    blank_cell,
    format_seeds,
    format_value,
    rows_of_printed,
    text_cell,
)
from paper_tables.tables.table2 import group_of as table2_group
from paper_tables.tables.table2 import table2_columns
from paper_tables.tables.table3 import SYMBOL_BY_COLUMN, table3_columns
from paper_tables.tables.table3 import group_of as table3_group

MAX_DIFFERENCES = 6  # from a row, that are named
NOTHING_OF_TABLE_2 = "Logs without a BLEU of a test set, and without a GPU whose rate is known"
DEFINITION_NOTES = (
    "bleu_as_given: fairseq-generate's BLEU4, on the data's tokens as they stand, compounds unsplit; on text that was "
    "tokenised otherwise it is another number. fairseq's length penalty is n^alpha, not GNMT's ((5 + n) / 6)^alpha.",
    "bleu_sacre_13a_of_detokenised: sacreBLEU 13a of --eval-bleu, hypothesis and reference both detokenised from the "
    "data's tokens; bleu_sacre_on_tokens: the same on tokens.",
)


def lay_out_logged_table2(lines: Sequence[AveragedLine], hardware: HardwareSpec) -> Table:
    """Return Table 2: printed rows, and under base and big the lines of logs with the BLEU on test and the cost."""
    columns = table2_columns("from logs")
    places = dict.fromkeys((join.row, join.system) for join in read_cells() if join.table == 2)
    ours = [_table2_line(row, line, hardware) for row, system in places for line in lines if line.row.system == system]
    return Table(
        name="table2",
        title="Table 2, from logs",
        caption="BLEU on the test sets and training cost: printed, and from logs alone. A number of a log has "
        "the name of its definition and is never subtracted from a printed one, which is of another.",
        columns=columns,
        rows=rows_of_printed(read_table(2), columns, table2_group, ours),
        notes=(*_scale_notes(lines), *(Note("", text) for text in DEFINITION_NOTES), *_cost_notes(lines, hardware)),
    )


def _table2_line(row: str, line: AveragedLine, hardware: HardwareSpec) -> OurLine:
    pair = line.language_pair.replace("-", "_")
    bleu, definition = _bleu_cells(line, "test")
    cost_by_path = {one.path: cost for one in line.trainings if (cost := _cost(one, hardware)) is not None}
    ours = {
        f"bleu_{pair}_ours": bleu,
        f"bleu_{pair}_definition": definition,
        f"flops_{pair}_ours": _number_cell(line, "training cost", "training_flops", cost_by_path),
    }
    is_empty = all(cell.kind != "ours" for cell in ours.values())
    name = _label_cell(line)
    aside = Aside(f"{name.parts[0].text}, {line.language_pair}", NOTHING_OF_TABLE_2) if is_empty else None
    return OurLine(row, {"model": name, **ours}, aside)


def _marks(line: AveragedLine) -> tuple[str, ...]:
    return () if line.row.scale == PAPER_SCALE else (MARK_BY_SCALE[line.row.scale],)


def _label_cell(line: AveragedLine) -> Cell:
    words = "; ".join((line.row.system, *line.configuration))
    return text_cell(f"logs: {words}", "label", *_marks(line))


def _bleu_cells(line: AveragedLine, role: str) -> list[Cell]:
    """Return the BLEU of a role and its definition; several definitions or settings are side by side."""
    by_definition = line.evaluations(role)
    if not by_definition:
        return [text_cell(DASH, "state"), blank_cell()]
    values, definitions, sources = [], [], []
    for (metric, settings), evaluations in by_definition.items():
        text = format_seeds([one.value for one in evaluations], metric, len(line.trainings))
        values.append(Part(text, _marks(line)))
        sources += [(one.path, f"{one.value:.2f}") for one in evaluations]
        definitions.append(Part("; ".join(filter(None, (metric, settings)))))
    provenance = _provenance(line, f"BLEU ({role})", sources)
    return [Cell(tuple(values), "ours", provenance=provenance), Cell(tuple(definitions), "label")]


def _provenance(line: AveragedLine, of: str, value_by_path: Sequence[tuple[str, str]]) -> CellProvenance:
    """Return the logs of a number, each with its own value; seed and GPU are those of the training."""
    training_by_path = {training.path: training for training in line.trainings}
    sources = []
    for path, value in value_by_path:
        training = training_by_path.get(path)
        seed = training.seed if training else None
        gpu = training.log.gpu if training else ""
        sources.append(Source(path, seed if isinstance(seed, int) else None, value, hardware=gpu or ""))
    return CellProvenance(f"{of} of {line.row.system}, {line.language_pair}, from logs", tuple(sources))


def _number_cell(line: AveragedLine, of: str, metric: str, value_by_path: Mapping[str, float]) -> Cell:
    """Return the cell of a number over the logs that have it; a dash if none has."""
    if not value_by_path:
        return text_cell(DASH, "state", *_marks(line))
    text = format_seeds(list(value_by_path.values()), metric, len(line.trainings))
    values = [(path, format_value(value, metric)) for path, value in value_by_path.items()]
    return replace(text_cell(text, "ours", *_marks(line)), provenance=_provenance(line, of, values))


def _cost(training: LoggedTraining, hardware: HardwareSpec) -> float | None:
    """Return footnote 5's cost: GPU seconds x sustained rate; None where the log lacks one of them."""
    gpu = hardware.find_gpu(training.log.gpu) if training.log.gpu else None
    if gpu is None or training.gpu_seconds is None:
        return None
    return training_flops(training.gpu_seconds, gpu.sustained_flops_per_second.value)


def _cost_notes(lines: Sequence[AveragedLine], hardware: HardwareSpec) -> list[Note]:
    """Return which GPUs are not known, and that a log without seconds of all its starts has no cost."""
    gpus = {training.log.gpu for line in lines for training in line.trainings if training.log.gpu}
    notes = [
        Note("", f"{gpu}: not in hardware.yaml, so no cost; add its sustained rate there.")
        for gpu in sorted(gpus)
        if hardware.find_gpu(gpu) is None
    ]
    return [*notes, Note("", "Cost: seconds of all starts x GPUs x sustained rate of the GPU that the log names.")]


def _scale_notes(lines: Sequence[AveragedLine]) -> list[Note]:
    scales = dict.fromkeys(line.row.scale for line in lines if line.row.scale != PAPER_SCALE)
    text = "another corpus and smaller systems than the paper's; no reproduction of its number."
    return [Note(MARK_BY_SCALE[scale], f"Trained at scale {scale}: {text}") for scale in scales]


def lay_out_logged_table3(lines: Sequence[AveragedLine]) -> Table:
    """Return Table 3: printed rows, and under each the lines of logs with every value really used."""
    columns = table3_columns()
    ours = [OurLine(line.row.system, _table3_cells(line)) for line in lines if line.language_pair == "en-de"]
    return Table(
        name="table3",
        title="Table 3, from logs",
        caption="Variations on the architecture, EN-DE, on the dev set (the paper's: newstest2013): printed, and from "
        "logs alone. Perplexity is 2 to the nll_loss of the validation at the last update, per subword of the log's "
        "own vocabulary: it compares with other lines of the same data, not with the printed one.",
        columns=columns,
        rows=rows_of_printed(read_table(3), columns, table3_group, ours),
        notes=(*_scale_notes(lines), *(Note("", text) for text in DEFINITION_NOTES)),
    )


def _table3_cells(line: AveragedLine) -> dict[str, Cell]:
    symbols, marks = line.trainings[0].symbols, _marks(line)
    bleu, definition = _bleu_cells(line, "dev")
    return {
        "label": _label_cell(line),
        **{
            column: text_cell(str(symbols.get(name, DASH)), "ours", *marks) for column, name in SYMBOL_BY_COLUMN.items()
        },
        "train_steps": _metric_cell(line, "steps"),
        "ppl_dev": _metric_cell(line, PERPLEXITY_METRIC),
        "bleu_dev": bleu,
        "definition": definition,
        "params": _metric_cell(line, "num_parameters"),
    }


def _metric_cell(line: AveragedLine, metric: str) -> Cell:
    trainings = [one for one in line.trainings if metric in one.value_by_metric]
    return _number_cell(line, metric, metric, {one.path: one.value_by_metric[metric] for one in trainings})


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
            rows.append(_log_row(path, f"{log_file.num_lines:,} lines", "", "", why, is_filled=False))
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
            rows.append(_log_row(name, describe_entry(entry), row, fills, why, is_filled=bool(fills)))
    rows += [_log_row(one.path, one.what, "", "", one.why, is_filled=False) for one in left_out]
    return Table(
        name="logs",
        title="Logs",
        caption="Each log: what it is, the row that it is of or the nearest with what differs (log's value, row's "
        "value), the numbers that it fills, and every rule that it breaks, with the next step.",
        columns=columns,
        rows=tuple(rows),
    )


def file_problems(path: str, log_file: LogFile) -> list[str]:
    """Return the problems of a file itself: it cannot be read, is no log, or has bytes that are no text."""
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


def _log_row(name: str, what: str, row: str, fills: str, why: str, *, is_filled: bool) -> Row:
    texts = (name, what, row, fills or DASH, why or DASH)
    cells = tuple(text_cell(text, "label") for text in texts)
    return Row(cells, "ours" if is_filled else "printed", anchor=anchor_of(name))


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
