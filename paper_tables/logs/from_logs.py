"""Makes the page and the tables from logs without records: other people's logs, and logs of our
runs if the records are missing.

The numbers in the logs appear in Tables 2 and 3 below the paper's rows. A further table lists every
log: which of its numbers are used, which are not used, and why.
"""

import logging
import posixpath
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from aiayn.errors import RecordError
from aiayn.facts.join import join_logs
from aiayn.facts.listing import Listing, list_folder, not_read, reason_not_read
from aiayn.facts.reader import read_log
from aiayn.facts.trainings import JoinedLogs, Training
from aiayn.facts.types import LogFile
from aiayn.known_good.rows import judge_logs, rows_of
from aiayn.known_good.targets import read_targets
from aiayn.provenance import commit_label, utc_now
from aiayn.spec.hardware import read_hardware
from aiayn.spec.system import SCALES
from paper_tables.layout import Table, compact
from paper_tables.logs.frame import Rows, frame_of_logs
from paper_tables.logs.tables import lay_out_logs
from paper_tables.names import joined, name_of_key
from paper_tables.render.report import TITLE, Origin, Statement, render_page
from paper_tables.render.tables import REPORT_NAME, write_table, write_text
from paper_tables.scale_results import RecordedResults, RecordFault
from paper_tables.tables.table2 import lay_out_table2
from paper_tables.tables.table3 import lay_out_table3

MAX_NAMES = 6  # rows or files that a sentence lists
FEW_LOGS = 20  # so many logs are read in a second, and their table is short enough to come first
logger = logging.getLogger(__name__)
NO_VERDICT = "No verdict: a log's BLEU is of another definition than the printed one."


class Made(NamedTuple):
    """The result of `aiayn tables --from-logs`: the pages in the order in which to read them, and
    the tables.

    `not_read` has a sentence for each file that could not be read. `summary` is a sentence about
    the logs that were read. `faults` are the records that the tables leave out.
    """

    pages: tuple[Path, ...]
    not_read: tuple[str, ...]
    tables: tuple[Table, ...]
    summary: str
    faults: tuple[RecordFault, ...] = ()


def make_page_of_logs(
    listing_by_folder: Mapping[Path, Listing],
    recorded_by_scale: Mapping[str, RecordedResults],
    output_folder: Path,
    config_folder: Path,
) -> Made:
    """Write the folder tables/ and the page report.html with the numbers from logs.

    Tables 2 and 3 from logs show only trainings without records. If all trainings in the logs have
    records, Tables 2 and 3 from logs are left out.

    Raises:
        RecordError: if a folder of logs cannot be read.
        ConfigError: if the config file of a system or of the hardware cannot be read.
    """
    root, files = _read_files(listing_by_folder)
    _require_logs(listing_by_folder, files, recorded_by_scale)
    num_logs = sum(len(listing.log_paths) for listing in listing_by_folder.values())
    logs = judge_logs(join_logs(files), read_targets(SCALES, config_folder), root)
    scale_by_name = _scale_by_name(logs.trainings, recorded_by_scale)
    # A record is better than the log of the same run: it states the definition of its BLEU, and the
    # time of killed attempts.
    unrecorded = [training for training in logs.trainings if training.name not in scale_by_name]
    rows = rows_of(unrecorded)
    table_of_logs = compact(lay_out_logs(logs, scale_by_name))
    tables = []
    if unrecorded or not recorded_by_scale:
        # Without any record the tables are made even if no log fills a row: they show that nothing
        # did.
        frame = frame_of_logs(rows, read_hardware(config_folder / "hardware.yaml"))
        tables = [compact(lay_out_table2(frame)), compact(lay_out_table3(frame))]
    # The table of logs comes first: a user wants to see what became of the logs. If there are many
    # logs, it comes last, because a reader would not find Table 2 below it.
    first_tables = [table_of_logs] if unrecorded and num_logs <= FEW_LOGS else []
    tables = [*tables, *([] if first_tables else [table_of_logs])]
    for table in (*first_tables, *tables):
        write_table(table, output_folder / "tables")
    # The numbers of our recorded runs are on a page for each scale. This page links to these pages.
    facts = []
    banners = []
    for scale, recorded in recorded_by_scale.items():
        num_runs = len(recorded.results.train_by_key)
        text = f"Scale {scale}: {num_runs:,} runs with records."
        facts.append(Statement(text, f"{scale}/{REPORT_NAME}"))
        banners += [fault.text for fault in recorded.faults]
    num_trainings, num_generations = len(logs.trainings), len(logs.generations)
    facts.append(Statement(f"{num_trainings:,} trainings, {num_generations:,} translations."))
    unread = tuple(not_read(files))
    if unread:
        facts.append(Statement(f"{len(unread):,} files or folders are not read.", "#logs"))
    page_text = render_page(
        f"{TITLE}, from logs: {', '.join(map(_name, listing_by_folder))}",
        _sentence(num_logs, logs, rows, scale_by_name),
        tables,
        (),
        Origin(made=utc_now(), commit=commit_label(), so_far=False),
        lead=[NO_VERDICT] if unrecorded else [],
        banners=banners,
        first_tables=first_tables,
        facts=facts,
    )
    write_text(page_text, output_folder / REPORT_NAME)
    num_averaged = sum(len(trainings) for _, trainings in rows)
    return Made(
        pages=(output_folder / REPORT_NAME,),
        not_read=unread,
        tables=(*tables, *first_tables),
        summary=f"{num_logs:,} logs, {num_trainings:,} trainings, {num_averaged:,} of them in"
        " tables",
    )


def _name(folder: Path) -> str:
    return folder.name or str(folder)


def _require_logs(
    listing_by_folder: Mapping[Path, Listing],
    files: Sequence[LogFile],
    recorded_by_scale: Mapping[str, RecordedResults],
) -> None:
    """Raise an error if the folders contain neither logs of fairseq nor records.

    Raises:
        RecordError: if there are neither logs nor records. The error lists the kinds of file in the
            folders.
    """
    # An empty page would look like success.
    if recorded_by_scale or any(file.sections for file in files):
        return
    # The message lists the kinds of files, so that the user sees that the folder is the wrong one.
    seen = [reason_not_read(file) for file in files]
    kinds = "; ".join(list(dict.fromkeys(seen))[:MAX_NAMES]) or "no file at all"
    more = f"; and {len(seen) - MAX_NAMES:,} more" if len(seen) > MAX_NAMES else ""
    names = ", ".join(str(folder) for folder in listing_by_folder)
    raise RecordError(
        f"{names}: no log of fairseq and no results of ours; found: {kinds}{more}; name a folder"
        " with the output of fairseq-train or fairseq-generate, for example `aiayn tables"
        " --from-logs paper_tables/measured/multi30k`"
    )


def _scale_by_name(
    trainings: Sequence[Training], recorded_by_scale: Mapping[str, RecordedResults]
) -> dict[str, str]:
    """Return the scale of each training that has a record, by the name of the training's log."""
    scale_by_run: dict[str, str] = {}
    for scale, recorded in recorded_by_scale.items():
        for train in recorded.results.train_by_key.values():
            scale_by_run[train.run] = scale
    scale_by_name = {}
    for training in trainings:
        # Every log of ours is called train.log. The name of its folder is the name of the run.
        folder = posixpath.dirname(training.first.path)
        run = posixpath.basename(folder)
        if run in scale_by_run:
            scale_by_name[training.name] = scale_by_run[run]
    return scale_by_name


def _read_files(
    listing_by_folder: Mapping[Path, Listing],
) -> tuple[Path, list[LogFile]]:
    """Return the root folder of the logs ('.' for several folders), and all files in it. A file
    that could not be read has a reason.
    """
    is_single = len(listing_by_folder) == 1
    files: list[LogFile] = []
    num_logs = sum(len(listing.log_paths) for listing in listing_by_folder.values())
    if num_logs > FEW_LOGS:
        logger.info(f"reading {num_logs:,} logs, some twenty a second")
    for folder, listing in listing_by_folder.items():
        # Two folders may have files with the same name, so a name begins with its folder.
        prefix = "" if is_single else f"{folder.as_posix()}/"
        for path in listing.log_paths:
            files.append(read_log(folder / path, f"{prefix}{path}"))
        for file in listing.unread:
            files.append(msgspec.structs.replace(file, path=f"{prefix}{file.path}"))
    return next(iter(listing_by_folder)) if is_single else Path(), files


def judged_folder(folder: Path) -> JoinedLogs:
    """Return all trainings and translations in the logs below a folder, each with its row in the
    paper's tables and its problems.
    """
    root, files = _read_files({folder: list_folder(folder)})
    return judge_logs(join_logs(files), read_targets(SCALES), root)


def _sentence(num_logs: int, logs: JoinedLogs, rows: Rows, recorded: Collection[str]) -> str:
    """Return a sentence about which logs were read, and which rows of the paper's tables they
    fill.
    """
    num_trainings = len(logs.trainings)
    # All trainings have records, so Tables 2 and 3 are not on this page.
    if len(recorded) == num_trainings and num_trainings:
        return f"{num_logs:,} logs of {num_trainings:,} trainings, whose records fill the tables."
    num_averaged = sum(len(trainings) for _, trainings in rows)
    # A row occurs once for each version. The dict drops the repeats.
    names = list(dict.fromkeys(name_of_key(target.system) for target, _ in rows))
    beginning = f"{num_logs:,} logs read: {num_averaged:,} of {num_trainings:,} trainings fill"
    if not names:
        return f"{beginning} a row of the paper; each log has its reason below."
    if len(names) > MAX_NAMES:
        names[MAX_NAMES:] = [f"{len(names) - MAX_NAMES} more"]
    return f"{beginning} the {'row' if len(names) == 1 else 'rows'} {joined(names)}."
