"""The verb `aiayn tables --from-logs`: from a folder of logs to Tables 2 and 3, a table of the logs, and a page.

Neither checkpoints nor a GPU are needed, nor torch or fairseq: what a cell says stands in a log.
"""

import csv
import html
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from aiayn.hardware import read_hardware
from aiayn.provenance import commit_label, replace_on_success, utc_now
from aiayn.spec import CONFIG_FOLDER, SCALES, read_system
from analysis.logs.averages import AveragedLine, average_trainings
from analysis.logs.cache import default_cache_folder, read_folder
from analysis.logs.checks import Finding, read_rules
from analysis.logs.folder import judge_folder
from analysis.logs.judged import LoggedFolder
from analysis.logs.rows import PaperRow
from analysis.logs.symbols import Symbols, is_ours, symbols_of_spec
from analysis.logs.types import LogFile, TrainingLog
from paper_tables.conditions import PAPER_SCALE
from paper_tables.layout import Table
from paper_tables.layout_log_list import lay_out_logs
from paper_tables.layout_logs import lay_out_logged_table2, lay_out_logged_table3
from paper_tables.page import wrap_page
from paper_tables.published import read_cells
from paper_tables.render import RENDERER_BY_SUFFIX

__all__ = ["default_cache_folder", "make_tables_from_logs", "read_rows"]  # the first is for the verb

REPORT_NAME = "report.html"
TRAINING_COLUMNS = (
    "path", "averaged", "scale", "system", "language_pair", "seed", "version", "configuration", "metric", "value",
)  # fmt: skip
FINDING_COLUMNS = ("path", "rule", "severity", "line", "message", "next_step")


def make_tables_from_logs(
    folder: Path, output_folder: Path, cache_folder: Path | None, config_folder: Path = CONFIG_FOLDER
) -> Path:
    """Write tables/, trainings.tsv, findings.tsv and the report below `output_folder`; return the report's path.

    Raises:
        RecordError: if there is no such folder.
        ConfigError: if a rule, a system or the hardware file cannot be read.
    """
    file_by_path = read_folder(folder, cache_folder)
    rules = read_rules()
    judged = judge_folder(folder, file_by_path, read_rows(_scales_of(file_by_path), config_folder), rules)
    lines, findings_by_path = average_trainings(judged.trainings, rules)
    lines.sort(key=lambda line: (line.row.scale != PAPER_SCALE, line.row.scale, len(line.configuration)))
    hardware = read_hardware(config_folder / "hardware.yaml")
    tables = [
        lay_out_logged_table2(lines, hardware),
        lay_out_logged_table3(lines),
        lay_out_logs(judged, findings_by_path),
    ]
    sections = []
    for table in tables:
        text_by_suffix = {suffix: render(table) for suffix, render in RENDERER_BY_SUFFIX.items()}
        sections.append(text_by_suffix["html"])
        text_by_suffix["html"] = wrap_page(table.title, sections[-1])
        for suffix, text in text_by_suffix.items():
            _write(text, output_folder / "tables" / f"{table.name}.{suffix}")
    _write(_training_lines(lines), output_folder / "trainings.tsv")
    _write(_finding_lines(judged, findings_by_path), output_folder / "findings.tsv")
    _write(_render_page(folder, judged, lines, tables, sections), output_folder / REPORT_NAME)
    return output_folder / REPORT_NAME


def read_rows(scales: Sequence[str], config_folder: Path = CONFIG_FOLDER) -> list[PaperRow]:
    """Return the rows that the paper prints, as the systems of these scales, the paper's scale first.

    Raises:
        ConfigError: if a system of the tables cannot be read.
    """
    pairs_by_system: dict[str, dict[str, None]] = {}
    averages: dict[str, Symbols] = {}
    for join in read_cells():
        pairs_by_system.setdefault(join.system, {})[join.language_pair] = None
        averages.setdefault(join.system, {})[f"average_{join.role}"] = join.average
    rows = []
    for scale in scales:
        for system, pairs in pairs_by_system.items():
            if not (config_folder / "systems" / scale / f"{system}.yaml").exists():
                continue  # a smaller scale may lack a row
            spec = read_system(system, scale, config_folder)
            decoding: Symbols = {
                "beam_size": spec.decoding.beam_size,
                "length_penalty_alpha": spec.decoding.length_penalty_alpha,
            }
            symbols = symbols_of_spec(spec.training)
            rows.append(PaperRow(scale, system, tuple(pairs), symbols, decoding | averages[system]))
    return rows


def _scales_of(file_by_path: Mapping[str, LogFile]) -> list[str]:
    """Return the scales whose rows are sought: the paper's, and the others only if a log is ours."""
    entries = (entry for log_file in file_by_path.values() for entry in log_file.entries)
    has_ours = any(isinstance(entry, TrainingLog) and is_ours(entry.arguments) for entry in entries)
    return [PAPER_SCALE, *(scale for scale in SCALES if scale != PAPER_SCALE)] if has_ours else [PAPER_SCALE]


def _training_lines(lines: Sequence[AveragedLine]) -> str:
    """Return trainings.tsv: a line a number, and the number of the average that it went into."""
    rows: list[Sequence[object]] = []
    for number, line in enumerate(lines, start=1):
        shared = (line.row.scale, line.row.system, line.language_pair)
        for training in line.trainings:
            made = (training.facts.value_by_name["seed"], training.version, "; ".join(line.configuration))
            values = list(training.value_by_metric.items())
            values += [(f"{one.metric} ({one.role})", one.value) for one in training.evaluations]
            rows += [(training.path, number, *shared, *made, metric, value) for metric, value in values]
    return _tab_separated(TRAINING_COLUMNS, rows)


def _finding_lines(judged: LoggedFolder, findings_by_path: Mapping[str, list[Finding]]) -> str:
    """Return findings.tsv: a line for each rule that a log breaks."""
    found: list[tuple[str, Finding]] = []
    for training in judged.trainings:
        found += [(training.path, one) for one in (*training.findings, *findings_by_path.get(training.path, ()))]
    found += [(generation.path, one) for generation in judged.generations for one in generation.findings]
    rows = [(path, one.rule, one.severity, one.line or "", one.message, one.next_step) for path, one in sorted(
        found, key=lambda entry: (entry[0], entry[1].line))]  # fmt: skip
    return _tab_separated(FINDING_COLUMNS, rows)


def _tab_separated(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return stream.getvalue()


def _render_page(
    folder: Path,
    judged: LoggedFolder,
    lines: Sequence[AveragedLine],
    tables: Sequence[Table],
    sections: Sequence[str],
) -> str:
    """Return the page; `sections` are the tables as HTML."""
    num_averaged = sum(len(line.trainings) for line in lines)
    num_refused = sum(log_file.refusal is not None for log_file in judged.file_by_path.values())
    facts = [
        f"{len(judged.file_by_path):,} logs",
        f"{len(judged.trainings):,} trainings, {num_averaged:,} of them in the tables",
        f"{len(judged.generations):,} generations",
        f"{num_refused:,} logs that cannot be read",
    ]
    items = "".join(f"<li>{html.escape(fact)}</li>\n" for fact in facts)
    links = "".join(f'<a href="#{table.name}">{html.escape(table.title)}</a>\n' for table in tables)
    title = f"Tables from logs alone: {folder.name or folder}"
    header = (
        f"<header>\n<h1>{html.escape(title)}</h1>\n<p>Every number below stands in a log; the last table says what "
        f'each log is, and what it does not fill and why.</p>\n<ul class="facts">\n{items}</ul>\n<nav>\n{links}</nav>\n'
        "</header>\n"
    )
    made = f"<footer>Made {utc_now()} from commit <code>{html.escape(commit_label())}</code>.</footer>\n"
    body = header + "<main>\n" + "".join(sections) + "</main>\n" + made
    return wrap_page(title, body)


def _write(text: str, path: Path) -> None:
    with replace_on_success(path) as partial_path, partial_path.open("w", encoding="utf-8", newline="\n") as lines:
        lines.write(text)
