"""Makes the page and the tables of logs that are not ours, or are of runs without records.

They fill Tables 2 and 3 under the printed rows; every log is listed with what it fills, what not,
and why.
"""

import html
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pandas as pd

from aiayn.logs.completeness import broken
from aiayn.logs.evidence import join_logs
from aiayn.logs.findings import Finding
from aiayn.logs.listing import LeftOut, list_folder
from aiayn.logs.reader import read_log
from aiayn.logs.symbols import is_ours
from aiayn.logs.types import LogFile, TrainingLog
from aiayn.printed import PAPER_SCALE, PERPLEXITY_METRIC
from aiayn.provenance import commit_label, utc_now
from aiayn.records import TrainRecord
from aiayn.spec.hardware import read_hardware
from aiayn.spec.system import SCALES
from paper_tables.compare.judgement import Judgement
from paper_tables.compare.lines import AveragedLine, JudgedFolder, average_trainings, judge_folder
from paper_tables.compare.systems import read_systems
from paper_tables.layout import Table, compact
from paper_tables.logs.frame import frame_of_logs
from paper_tables.logs.tables import file_problems, lay_out_logs
from paper_tables.render.draw import draw_figures
from paper_tables.render.drawn import FIGURES_FOLDER, DrawnFigure
from paper_tables.render.render import Popovers
from paper_tables.render.report import Origin, card_words, render_cards, render_page
from paper_tables.render.tables import REPORT_NAME, write_frame, write_table, write_text
from paper_tables.scale_results import RecordedResults, RecordFault
from paper_tables.tables.table2 import lay_out_table2
from paper_tables.tables.table3 import lay_out_table3

TRAINING_COLUMNS = (
    "path",
    "averaged",
    "scale",
    "system",
    "language_pair",
    "seed",
    "version",
    "configuration",
    "metric",
    "value",
)
MAX_LINES = 6  # that the first look names
LOGS_PAGE_NAME = "logs.html"  # the page of the logs, if report.html is the page of a scale
FINDING_COLUMNS = ("path", "rule", "severity", "line", "message", "next_step")


class Read(NamedTuple):
    """The folders asked for, each once, and the results of each scale that lie below them."""

    folders: tuple[Path, ...]
    recorded_by_scale: dict[str, RecordedResults]

    @property
    def faults(self) -> list[RecordFault]:
        """The records that are left out."""
        return [fault for recorded in self.recorded_by_scale.values() for fault in recorded.faults]


def make_page_of_logs(
    read: Read, output_folder: Path, config_folder: Path
) -> tuple[Path, tuple[str, ...]]:
    """Write tables/, figures/, trainings.tsv, findings.tsv and the page of the logs.

    Tables 2 and 3 from logs are of trainings without records. They are absent if all trainings have
    records.

    Returns:
        The path of the page (`logs.html` if all numbers are of the records of one scale, whose page
        is then `report.html`), and one sentence for each file that could not be read.

    Raises:
        RecordError: if a folder cannot be read.
        ConfigError: if a system or the hardware file cannot be read.
    """
    root, file_by_path, left_out = _read_files(read.folders)
    refused = [
        file_problems(path, one)[0]
        for path, one in sorted(file_by_path.items())
        if one.refusal is not None
    ]
    named = [one.why for one in left_out if not one.path.rpartition("/")[2].startswith("(")]
    not_read = (*refused, *named)
    judged = judge_folder(
        join_logs(root, file_by_path), read_systems(_scales_of(file_by_path), config_folder)
    )
    recorded_by_path = {
        training.path: (scale, train)
        for scale, recorded in read.recorded_by_scale.items()
        for train in recorded.results.train_by_key.values()
        for training in judged.trainings
        if posixpath.basename(posixpath.dirname(training.path))
        == train.run  # a run's folder has its name
    }
    scale_by_path = {path: scale for path, (scale, _) in recorded_by_path.items()}
    alone = [training for training in judged.trainings if training.path not in scale_by_path]
    lines, findings_by_path = average_trainings(alone)
    lines.sort(
        key=lambda line: (
            line.system.scale != PAPER_SCALE,
            line.system.scale,
            len(line.configuration),
        )
    )
    for training in judged.trainings:
        if training.path in recorded_by_path:
            found = _contradictions(training.training.log, recorded_by_path[training.path][1])
            findings_by_path.setdefault(training.path, []).extend(found)
    tables = [lay_out_logs(judged, findings_by_path, scale_by_path, left_out)]
    if alone or not read.recorded_by_scale:
        hardware = read_hardware(config_folder / "hardware.yaml")
        frame = frame_of_logs(lines, hardware)
        tables = [lay_out_table2(frame), lay_out_table3(frame), *tables]
    tables = [compact(table) for table in tables]
    for table in tables:
        write_table(table, output_folder / "tables")
    write_frame(_training_frame(lines), output_folder / "trainings.tsv")
    write_frame(
        _finding_frame(judged, findings_by_path, read.faults, left_out),
        output_folder / "findings.tsv",
    )
    figures = draw_figures(
        "logs_figures", output_folder / FIGURES_FOLDER, root, file_by_path, lines
    )
    # Runs of one scale, and no number that comes from a log alone: the scale's page answers first.
    is_first_page = len(read.recorded_by_scale) != 1 or bool(lines or judged.others)
    page_path = output_folder / (REPORT_NAME if is_first_page else LOGS_PAGE_NAME)
    scale_pages = {
        scale: f"{scale}/{REPORT_NAME}" if is_first_page else REPORT_NAME
        for scale in read.recorded_by_scale
    }
    text = _render_page(read, scale_pages, judged, lines, tables, figures, not_read)
    write_text(text, page_path)
    return page_path, not_read


def _read_files(folders: Sequence[Path]) -> tuple[Path, dict[str, LogFile], list[LeftOut]]:
    """Return the root of the logs ('.' for several folders), each log by its path below, and what
    is not read.
    """
    listings = {folder: list_folder(folder) for folder in folders}
    prefixes = {folder: "" if len(folders) == 1 else f"{folder.as_posix()}/" for folder in folders}
    left_out: list[LeftOut] = []
    file_by_path: dict[str, LogFile] = {}
    for folder, prefix in prefixes.items():
        file_by_path |= {
            f"{prefix}{path}": read_log(folder / path) for path in listings[folder].log_paths
        }
        left_out += [
            msgspec.structs.replace(one, path=f"{prefix}{one.path}")
            for one in listings[folder].left_out
        ]
    return folders[0] if len(folders) == 1 else Path(), file_by_path, left_out


def averaged_lines(folder: Path) -> list[AveragedLine]:
    """Return the lines of Tables 2 and 3 that the logs below a folder fill."""
    root, file_by_path, _ = _read_files([folder])
    systems = read_systems(_scales_of(file_by_path))
    return average_trainings(judge_folder(join_logs(root, file_by_path), systems).trainings)[0]


def _contradictions(log: TrainingLog, train: TrainRecord) -> Iterator[Finding]:
    """Yield the numbers of updates and of parameters in which a run's record and log differ."""
    pairs = {
        "updates": (train.updates, log.last_update),
        "parameters": (train.num_parameters, log.num_parameters),
    }
    for name, (recorded, logged) in pairs.items():
        if logged is not None and recorded != logged:
            values: dict[str, Any] = {
                "run": train.run,
                "recorded": recorded,
                "name": name,
                "logged": logged,
            }
            yield broken("log-and-record-agree", line=log.last_line, **values)


def _scales_of(file_by_path: Mapping[str, LogFile]) -> list[str]:
    """Return the scales whose rows are searched: the paper's, and the others only if a log is
    ours.
    """
    entries = (entry for log_file in file_by_path.values() for entry in log_file.entries)
    has_ours = any(isinstance(entry, TrainingLog) and is_ours(entry.arguments) for entry in entries)
    return (
        [PAPER_SCALE, *(scale for scale in SCALES if scale != PAPER_SCALE)]
        if has_ours
        else [PAPER_SCALE]
    )


def _training_frame(lines: Sequence[AveragedLine]) -> pd.DataFrame:
    """Return trainings.tsv: a line for each number, and the number of the average that it went
    into.
    """
    rows: list[Sequence[object]] = []
    for number, line in enumerate(lines, start=1):
        shared = (line.system.scale, line.system.system, line.language_pair)
        for judged in line.trainings:
            made = (judged.seed, judged.training.version, "; ".join(line.configuration))
            values = [
                (metric, value)
                for metric, value in judged.training.value_by_metric.items()
                if (
                    line.has_perplexity
                    if metric == PERPLEXITY_METRIC
                    else line.has_training_numbers
                )
            ]
            values += [
                (f"{one.metric} ({one.generation.role})", one.value)
                for one in line.generations
                if one.value is not None and one.generation.training_path == judged.path
            ]
            rows += [
                (judged.path, number, *shared, *made, metric, value) for metric, value in values
            ]
    return pd.DataFrame(rows, columns=list(TRAINING_COLUMNS), dtype=object)


def _finding_frame(
    judged: JudgedFolder,
    findings_by_path: Mapping[str, list[Finding]],
    faults: Iterable[RecordFault],
    left_out: Iterable[LeftOut],
) -> pd.DataFrame:
    """Return findings.tsv: a line for each failed check, each quantity that is not the system's,
    each file not read.
    """
    rows: list[Sequence[object]] = []
    for training in judged.trainings:
        rows += _rows_of(
            training.path,
            (*training.findings, *findings_by_path.get(training.path, ())),
            training.judgements,
        )
        for generation in training.generations:
            rows += _rows_of(generation.generation.path, generation.findings, generation.judgements)
    for generation in judged.others:
        rows += _rows_of(generation.generation.path, generation.findings, generation.judgements)
    rows.sort(key=lambda row: (str(row[0]), int(row[3] or 0)))  # type: ignore[call-overload]
    for path, log_file in sorted(judged.logs.file_by_path.items()):
        if (refusal := log_file.refusal) is not None:
            rows.append(
                (path, "readable", "error", refusal.line or "", refusal.text, refusal.next_step)
            )
    rows += [(one.path, "left-out", "note", "", f"{one.what}: {one.why}", "") for one in left_out]
    rows += [
        (fault.path.as_posix(), "record", "error", "", fault.message, fault.next_step)
        for fault in faults
    ]
    return pd.DataFrame(rows, columns=list(FINDING_COLUMNS), dtype=object)


def _rows_of(
    path: str, findings: Iterable[Finding], judgements: Iterable[Judgement]
) -> Iterator[Sequence[object]]:
    for one in findings:
        yield path, one.check, one.severity, one.line or "", one.title, one.fix
    for judged in judgements:
        if judged.verdict != "equal":
            severity = "note" if judged.is_good else "apart"
            yield path, judged.quantity, severity, judged.line or "", judged.statement, judged.fix


def render_faults(faults: Iterable[RecordFault]) -> str:
    """Return a banner for each record that is left out."""
    return "".join(f'<p class="banner">{html.escape(fault.text)}</p>\n' for fault in faults)


def _render_page(
    read: Read,
    scale_pages: Mapping[str, str],
    judged: JudgedFolder,
    lines: Sequence[AveragedLine],
    tables: Sequence[Table],
    figures: Sequence[DrawnFigure] | None,
    not_read: Sequence[str],
) -> str:
    """Return the page of the logs: what was read, what it fills, what is left out, and where the
    records' pages are.
    """
    num_averaged = sum(len(line.trainings) for line in lines if line.has_training_numbers)
    pages = [
        f'<a href="{scale_pages[scale]}">Scale {scale}:'
        f" {len(recorded.results.train_by_key):,} runs with records</a>"
        for scale, recorded in read.recorded_by_scale.items()
    ]
    kinds = [
        f"{len(judged.trainings):,} trainings",
        f"{len(judged.logs.generations):,} translations",
    ]
    num_logs = len(judged.logs.file_by_path)
    filled = dict.fromkeys(
        html.escape(f"{line.system.system}, {line.language_pair}: {len(line.trainings)}")
        for line in lines
    )
    shown = list(filled)[:MAX_LINES]
    if len(filled) > MAX_LINES:
        shown.append(f"and {len(filled) - MAX_LINES} more rows")
    missing = card_words("Every file was read", [], "good")
    if not_read:
        left_out = f"{len(not_read):,} files or folders are not read, named in the table of logs"
        missing = card_words(left_out, [], "bad")
    cards = (
        ("Asked", card_words(f"{num_logs:,} logs", kinds)),
        (
            "Came out",
            card_words(
                f"{num_averaged:,} trainings in the tables",
                [*pages, *shown],
            ),
        ),
        (
            "Verdict",
            card_words(
                "None is judged", ["A log's BLEU is of another definition than the printed one"]
            ),
        ),
        ("Missing", missing),
    )
    title = (
        "Tables from logs alone:"
        f" {', '.join(folder.name or str(folder) for folder in read.folders)}"
    )
    lead = (
        "Every number below is from a log; the table of logs lists what each is, what it fills,"
        " what not and why."
    )
    origin = Origin(made=utc_now(), commit=commit_label(), so_far=False)
    opening = f'<p class="lead">{lead}</p>\n{render_faults(read.faults)}'
    return render_page(title, opening, render_cards(cards), tables, figures, origin, Popovers())
