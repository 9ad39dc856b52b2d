"""Makes tables and pages from folders of logs and records (`aiayn tables --from-logs`).

It needs no checkpoints, GPU, torch or fairseq: every value is in a log or a record. Runs of
ours whose records are there fill the tables of their scale, by the layouts of the DAG; any other log fills Tables 2 and
3 from logs, under the printed rows.
"""

import html
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pandas as pd

from aiayn.printed import PAPER_SCALE, read_cells
from aiayn.provenance import commit_label, utc_now
from aiayn.spec.hardware import read_hardware
from aiayn.spec.system import CONFIG_FOLDER, SCALES, read_system
from aiayn.wings import log_readers
from analysis.findings import Finding
from analysis.logs.cache import read_folder
from analysis.logs.folder import judge_folder
from analysis.logs.listing import LeftOut, list_folder
from analysis.logs.logged import LoggedFolder, PaperRow
from analysis.logs.rules import AveragedLine, average_trainings, broken
from analysis.logs.symbols import Symbols, is_ours, symbols_of_spec
from analysis.logs.types import LogFile, TrainingLog
from paper_tables.cell_verdicts import JudgedCell, judge_cells
from paper_tables.layout import Table, compact
from paper_tables.logs.tables import file_problems, lay_out_logged_table2, lay_out_logged_table3, lay_out_logs
from paper_tables.render.render import Popovers
from paper_tables.render.report import DrawnFigure, Origin, card_words, render_cards, render_page, render_report
from paper_tables.render.tables import (
    FIGURES_FOLDER,
    REPORT_NAME,
    draw_figures,
    make_recorded_tables,
    write_frame,
    write_table,
    write_text,
)
from paper_tables.scale_results import RecordedResults, RecordFault, gather_from_records

TRAINING_COLUMNS = (
    "path", "averaged", "scale", "system", "language_pair", "seed", "version", "configuration", "metric", "value",
)  # fmt: skip
MAX_LINES = 6  # that the first look names
FINDING_COLUMNS = ("path", "rule", "severity", "line", "message", "next_step")


class Made(NamedTuple):
    """The pages that were written, that of the logs first; records left out of the tables; files not read."""

    pages: tuple[Path, ...]
    faults: tuple[RecordFault, ...]
    not_read: tuple[str, ...] = ()


class _Read(NamedTuple):
    """What lies below the folders: logs by path (below `root`, '.' for several folders), and results by scale.

    `of_wings` are the logs that are a wing's alone, a reader each (`aiayn.wings.Wing.log_reader`).
    """

    root: Path
    file_by_path: dict[str, LogFile]
    results_folders_by_scale: dict[str, list[Path]]
    left_out: list[LeftOut]
    of_wings: list[Any]

    @property
    def not_read(self) -> tuple[str, ...]:
        """One sentence for each file that could not be read."""
        refused = ((path, one) for path, one in self.file_by_path.items() if one.refusal is not None)
        named = (one.why for one in self.left_out if not one.path.rpartition("/")[2].startswith("("))
        return (*(file_problems(path, one)[0] for path, one in sorted(refused)), *named)


def make_tables_from_logs(
    folders: Sequence[Path], output_folder: Path, cache_folder: Path | None, config_folder: Path = CONFIG_FOLDER
) -> Made:
    """Write the tables of each scale below `<output_folder>/<scale>/`, those of other logs below `output_folder`.

    Raises:
        RecordError: if there is no such folder, or a record is torn.
        ConfigError: if a system or the hardware file cannot be read.
    """
    read = _read_folders(folders, cache_folder)
    recorded_by_scale = {
        scale: gather_from_records(scale, results_folders, config_folder)
        for scale, results_folders in read.results_folders_by_scale.items()
    }
    faults = [fault for recorded in recorded_by_scale.values() for fault in recorded.faults]
    origin = Origin(made=utc_now(), commit=commit_label(), so_far=False)
    pages = [_write_logs(folders, read, recorded_by_scale, faults, output_folder, config_folder)]
    for scale, recorded in recorded_by_scale.items():
        page = output_folder / scale / REPORT_NAME
        tables = make_recorded_tables(recorded, output_folder / scale)
        judged = judge_cells(recorded.results)
        figures_folder = output_folder / scale / FIGURES_FOLDER
        draw = partial(_write_figures_of_records, recorded, judged, read, figures_folder)
        figures = draw_figures(draw, figures_folder)
        write_text(render_report(recorded.results, judged, tables, origin, figures), page)
        pages.append(page)
    return Made(tuple(pages), tuple(faults), read.not_read)


def _read_folders(folders: Sequence[Path], cache_folder: Path | None) -> _Read:
    """Read every log below the folders, and find where results lie; a folder named twice is read once."""
    folders = [folder for index, folder in enumerate(folders) if not _is_read_with(folder, index, folders)]
    results_folders_by_scale: dict[str, list[Path]] = {}
    file_by_path: dict[str, LogFile] = {}
    left_out: list[LeftOut] = []
    prefix_by_folder = {folder: "" if len(folders) == 1 else f"{folder.as_posix()}/" for folder in folders}
    listing_by_folder = {folder: list_folder(folder) for folder in folders}
    path_by_name = {
        f"{prefix_by_folder[folder]}{path}": folder / path
        for folder, listing in listing_by_folder.items()
        for path in listing.log_paths
    }
    of_wings = [read_logs(path_by_name) for read_logs in log_readers()]
    taken = {name for logs in of_wings for name in logs.names}
    left_out += [LeftOut(name, "log", why) for logs in of_wings for name, why in logs.refused]
    for folder, listing in listing_by_folder.items():
        prefix = prefix_by_folder[folder]
        for scale_folder in listing.scale_folders:
            place = scale_folder if scale_folder.name else scale_folder.resolve()  # '.' has no name
            results_folders_by_scale.setdefault(place.name, []).append(place.parent)
        paths = [path for path in listing.log_paths if f"{prefix}{path}" not in taken]
        read = read_folder(folder, cache_folder, paths=paths)
        file_by_path |= {f"{prefix}{path}": log_file for path, log_file in read.items()}
        left_out += [msgspec.structs.replace(one, path=f"{prefix}{one.path}") for one in listing.left_out]
    root = folders[0] if len(folders) == 1 else Path()
    ordered = {scale: results_folders_by_scale[scale] for scale in SCALES if scale in results_folders_by_scale}
    return _Read(root, file_by_path, ordered, left_out, of_wings)


def _is_read_with(folder: Path, index: int, folders: Sequence[Path]) -> bool:
    """Return whether a folder lies in another of the folders, or is the same as an earlier one."""
    place, places = folder.resolve(), [other.resolve() for other in folders]
    return place in places[:index] or any(place.is_relative_to(other) for other in places if other != place)


def _write_logs(
    folders: Sequence[Path],
    read: _Read,
    recorded_by_scale: Mapping[str, RecordedResults],
    faults: Sequence[RecordFault],
    output_folder: Path,
    config_folder: Path,
) -> Path:
    """Write tables/, figures/, trainings.tsv, findings.tsv and the page of the logs; return the page's path.

    Tables 2 and 3 from logs are of trainings without records. They are absent if all trainings have records.
    """
    judged = judge_folder(read.root, read.file_by_path, read_rows(_scales_of(read.file_by_path), config_folder))
    scale_by_run = {
        train.run: scale
        for scale, recorded in recorded_by_scale.items()
        for train in recorded.results.train_by_key.values()
    }
    scale_by_path = {
        one.path: scale_by_run[run] for one in judged.trainings if (run := run_of_log(one.path)) in scale_by_run
    }
    alone = [training for training in judged.trainings if training.path not in scale_by_path]
    lines, findings_by_path = average_trainings(alone)
    lines.sort(key=lambda line: (line.row.scale != PAPER_SCALE, line.row.scale, len(line.configuration)))
    for path, finding in _contradictions(judged, recorded_by_scale):
        findings_by_path.setdefault(path, []).append(finding)
    hardware = read_hardware(config_folder / "hardware.yaml")
    tables = [lay_out_logs(judged, findings_by_path, scale_by_path, read.left_out)]
    if alone or not recorded_by_scale:
        tables = [lay_out_logged_table2(lines, hardware), lay_out_logged_table3(lines), *tables]
    tables += [table for logs in read.of_wings for table in logs.tables()]
    tables = [compact(table) for table in tables]
    for table in tables:
        write_table(table, output_folder / "tables")
    write_frame(_training_frame(lines), output_folder / "trainings.tsv")
    write_frame(_finding_frame(judged, findings_by_path, faults, read.left_out), output_folder / "findings.tsv")
    figures_folder = output_folder / FIGURES_FOLDER
    figures = draw_figures(partial(_write_figures_of_logs, read, lines, figures_folder), figures_folder)
    page = _render_page(folders, judged, lines, tables, figures, recorded_by_scale, faults, read)
    write_text(page, output_folder / REPORT_NAME)
    return output_folder / REPORT_NAME


def _write_figures_of_logs(read: _Read, lines: Sequence[AveragedLine], folder: Path) -> None:
    from paper_tables.figures.curves import curves_of_folder
    from paper_tables.figures.registry import figures_of_logs, write_figures

    of_wings = (figure for logs in read.of_wings for figure in logs.figures())
    write_figures((*figures_of_logs(curves_of_folder(read.root, read.file_by_path, lines)), *of_wings), folder)


def _write_figures_of_records(recorded: RecordedResults, judged: list[JudgedCell], read: _Read, folder: Path) -> None:
    """Draw the figures of one scale, its curves from the logs of its runs; its records hold no attention."""
    from paper_tables.figures.curves import curves_of_runs
    from paper_tables.figures.registry import figures_of_scale, write_figures

    paths = {run_of_log(path): read.root / path for path in read.file_by_path}
    curves = curves_of_runs(recorded.results, paths)
    write_figures(figures_of_scale(recorded.results, judged, curves, None), folder)


def run_of_log(path: str) -> str:
    """Return the folder of a log, which for a run of ours has the run's name."""
    return posixpath.basename(posixpath.dirname(path))


def _contradictions(
    judged: LoggedFolder, recorded_by_scale: Mapping[str, RecordedResults]
) -> list[tuple[str, Finding]]:
    """Return the updates and parameters in which records and logs of runs differ."""
    trains = [train for recorded in recorded_by_scale.values() for train in recorded.results.train_by_key.values()]
    train_by_run = {train.run: train for train in trains}
    found = []
    for training in judged.trainings:
        train = train_by_run.get(run_of_log(training.path))
        if train is None:
            continue
        log = training.log
        pairs = {"updates": (train.updates, log.last_update), "parameters": (train.num_parameters, log.num_parameters)}
        for name, (recorded, logged) in pairs.items():
            if logged is not None and recorded != logged:
                text = f"the record of {train.run} has {recorded:,} {name}, its log {logged:,}"
                fix = "find out which of the two is of another training"
                found.append((training.path, broken("note", "log-and-record-agree", text, fix, line=log.last_line)))
    return found


def read_rows(scales: Sequence[str], config_folder: Path = CONFIG_FOLDER) -> list[PaperRow]:
    """Return the rows that the paper prints, as the systems of these scales, the paper's scale first.

    Raises:
        ConfigError: if a system of the tables cannot be read.
    """
    pairs_by_system: dict[str, dict[str, None]] = {}
    averages: dict[str, Symbols] = {}
    for join in read_cells():
        pairs_by_system.setdefault(join.system, {})[join.language_pair] = None
        averages.setdefault(join.system, {})[f"average_{join.role}_{join.language_pair}"] = join.average
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
    """Return the scales whose rows are searched: the paper's, and the others only if a log is ours."""
    entries = (entry for log_file in file_by_path.values() for entry in log_file.entries)
    has_ours = any(isinstance(entry, TrainingLog) and is_ours(entry.arguments) for entry in entries)
    return [PAPER_SCALE, *(scale for scale in SCALES if scale != PAPER_SCALE)] if has_ours else [PAPER_SCALE]


def _training_frame(lines: Sequence[AveragedLine]) -> pd.DataFrame:
    """Return trainings.tsv: a line a number, and the number of the average that it went into."""
    rows: list[Sequence[object]] = []
    for number, line in enumerate(lines, start=1):
        shared = (line.row.scale, line.row.system, line.language_pair)
        for training in line.trainings:
            made = (training.seed, training.version, "; ".join(line.configuration))
            values = list(training.value_by_metric.items())
            values += [(f"{one.metric} ({one.role})", one.value) for one in training.evaluations]
            rows += [(training.path, number, *shared, *made, metric, value) for metric, value in values]
    return pd.DataFrame(rows, columns=list(TRAINING_COLUMNS), dtype=object)


def _finding_frame(
    judged: LoggedFolder,
    findings_by_path: Mapping[str, list[Finding]],
    faults: Iterable[RecordFault],
    left_out: Iterable[LeftOut],
) -> pd.DataFrame:
    """Return findings.tsv: a line for each rule that a log breaks, each file not read, each record that is left out."""
    found: list[tuple[str, Finding]] = []
    for training in judged.trainings:
        found += [(training.path, one) for one in (*training.findings, *findings_by_path.get(training.path, ()))]
    found += [(generation.path, one) for generation in judged.generations for one in generation.findings]
    rows: list[Sequence[object]] = [
        (path, one.check, one.severity, one.line or "", one.title, one.fix)
        for path, one in sorted(found, key=lambda entry: (entry[0], entry[1].line))
    ]
    for path, log_file in sorted(judged.file_by_path.items()):
        if (refusal := log_file.refusal) is not None:
            rows.append((path, "readable", "error", refusal.line or "", refusal.text, refusal.next_step))
    rows += [(one.path, "left-out", "note", "", f"{one.what}: {one.why}", "") for one in left_out]
    rows += [(fault.path.as_posix(), "record", "error", "", fault.message, fault.next_step) for fault in faults]
    return pd.DataFrame(rows, columns=list(FINDING_COLUMNS), dtype=object)


def _render_page(
    folders: Sequence[Path],
    judged: LoggedFolder,
    lines: Sequence[AveragedLine],
    tables: Sequence[Table],
    figures: Sequence[DrawnFigure] | None,
    recorded_by_scale: Mapping[str, RecordedResults],
    faults: Sequence[RecordFault],
    folders_read: _Read,
) -> str:
    """Return the page of the logs: what was read, what it fills, what is left out, and where the records' pages are."""
    num_averaged = sum(len(line.trainings) for line in lines)
    pages = [
        f'<a href="{scale}/{REPORT_NAME}">Scale {scale}: {len(recorded.results.train_by_key):,} runs with records</a>'
        for scale, recorded in recorded_by_scale.items()
    ]
    read = [f"{len(judged.trainings):,} trainings", f"{len(judged.generations):,} generations"]
    read += [words for logs in folders_read.of_wings for words in logs.words()]
    num_logs = len(judged.file_by_path) + sum(len(logs.names) for logs in folders_read.of_wings)
    not_read = folders_read.not_read
    filled = dict.fromkeys(
        html.escape(f"{line.row.system}, {line.language_pair}: {len(line.trainings)}") for line in lines
    )
    shown, more = list(filled)[:MAX_LINES], len(filled) - MAX_LINES
    left_out = f"{len(not_read):,} files or folders are not read, named in the table of logs"
    cards = (
        ("Asked", card_words(f"{num_logs:,} logs", read)),
        ("Came out", card_words(f"{num_averaged:,} trainings in the tables",
                                [*pages, *shown, *([f"and {more} more rows"] if more > 0 else [])])),
        ("Verdict", card_words("None is judged", ["A log's BLEU is of another definition than the printed one"])),
        ("Missing", card_words(left_out if not_read else "Every file was read", [], "bad" if not_read else "good")),
    )  # fmt: skip
    title = f"Tables from logs alone: {', '.join(folder.name or str(folder) for folder in folders)}"
    lead = "Every number below is from a log; the table of logs lists what each is, what it fills, what not and why."
    banners = "".join(f'<p class="banner">{html.escape(text)}</p>\n' for text in (fault.text for fault in faults))
    origin = Origin(made=utc_now(), commit=commit_label(), so_far=False)
    opening = f'<p class="lead">{lead}</p>\n{banners}'
    return render_page(title, opening, render_cards(cards), tables, figures, origin, Popovers())
