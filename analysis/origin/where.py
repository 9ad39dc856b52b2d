"""Shows where the number in a cell of a table comes from: the runs from which it is computed.

The name of a cell is `table:row:column`. The cell contains a number of the paper
(`table2:base:bleu_en_de`), a row of replications.csv (`replications:<row>:value`), or a number of
ours in any other table. A cell with a difference between two systems has two numbers. The popovers
of the results page show the same runs. The name of a released model's score is
`released:wmt16.en-de:<metric>`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from aiayn.errors import UsageError, did_you_mean
from aiayn.paths import CellKey
from aiayn.printed import EDITION_WORDS, PAPER_SCALE
from aiayn.released import ReleasedRecord, read_released_records
from aiayn.terminal import entries, sections, table, titled
from paper_tables.frame import Frame, Number
from paper_tables.layout import cells_of_tables
from paper_tables.render.tables import lay_out_tables
from paper_tables.rounding import rounded

RELEASED_PREFIX = "released:"


class NamedCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell of a table with a number of ours: the key and the metric of our number, and the
    paper's values by version of the paper.
    """

    name: str
    key: CellKey
    metric: str
    printed_by_edition: dict[str, str]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A run from which a number is computed, with the run's own value, its commit and its
    hardware.
    """

    run: str
    seed: int | None
    value: str
    commit: str
    hardware: str


class CellSources(msgspec.Struct, frozen=True, kw_only=True):
    """A cell of a table, with the runs from which its number is computed.

    `missing` lists the trainings that lack a value for this number, and the reasons.
    """

    cell: NamedCell
    scale: str
    signatures: tuple[str, ...]
    sources: tuple[Source, ...]
    missing: list[str]


def named_cells(frame: Frame) -> dict[str, NamedCell]:
    """Return the cells of all numbers in the paper's tables by name, in the order of the tables. A
    cell has the values of the two versions of the paper.
    """
    cell_by_name: dict[str, NamedCell] = {}
    # A frame has one cell for each edition of a printed number. They differ in the printed value
    # only.
    for cell in frame.cells:
        prefix = f"table{cell.table}" if cell.table.isdigit() else cell.table
        # In the frame a table of the paper is `2` or `3`. A user types `table2`.
        name = f"{prefix}:{cell.row}:{cell.column}"
        named = NamedCell(name=name, key=cell.key, metric=cell.metric, printed_by_edition={})
        cell_by_name.setdefault(name, named).printed_by_edition[cell.edition] = cell.printed
    return cell_by_name


def numbers_by_cell(cells: pd.DataFrame) -> dict[str, list[Number]]:
    """Return our numbers by the name of the table cell that contains them. Cells without a number
    of ours are left out.
    """
    found: dict[str, list[Number]] = {}
    # mypy cannot know the fields of the named tuples that pandas makes. `line.numbers` is a tuple
    # of `Number`.
    line: Any
    for line in cells.itertuples():
        if line.numbers:
            numbers = found.setdefault(f"{line.table}:{line.row}:{line.column}", [])
            # A cell may have several lines, such as a difference for each edition, with the same
            # number.
            numbers += [number for number in line.numbers if number not in numbers]
    return found


def find_sources(name: str, frame: Frame) -> list[CellSources]:
    """Return the runs from which the numbers in a cell are computed. The cell of a number in the
    paper has one number of ours. A cell of any other table may have several numbers of ours.

    Raises:
        UsageError: if the cell does not exist (the error lists similar names), or if the scale does
            not run the system of a cell of the paper on the cell's corpus.
    """
    printed = named_cells(frame)
    if name in printed:
        return [sources_of_printed(frame, printed[name])]
    # Only cells without a printed number need all tables to be laid out.
    found = numbers_by_cell(cells_of_tables(lay_out_tables(frame)))
    if name not in found:
        hint = did_you_mean(name, [*printed, *found], "see `aiayn where --list`", most=3)
        raise UsageError(
            f"cell {name!r}: expected table:row:column, as table2:base:bleu_en_de; {hint}"
        )
    answers = []
    for number in found[name]:
        cell = NamedCell(name=name, key=number.key, metric=number.metric, printed_by_edition={})
        answers.append(sources_of_number(frame, cell, number))
    return answers


def sources_of_printed(frame: Frame, cell: NamedCell) -> CellSources:
    """Return the runs from which our number for a number of the paper is computed, and the
    trainings that lack a value.

    Raises:
        UsageError: if the scale does not run the cell's system on the cell's corpus.
    """
    number = frame.number(cell.key, cell.metric)
    if number is None:
        raise UsageError(
            f"cell {cell.name}: system {cell.key.system} is not run on {cell.key.corpus} at scale"
            f" {frame.scale}; name another --scale, or add the system to the scale's sheet"
            " of trainings"
        )
    # A printed number is expected from every seed of the sheet, so seeds without a value are
    # listed.
    seeds_with_value = {run.seed for run, _ in number.values}
    # A seed without a value is listed with the state of its training.
    missing = []
    for run in frame.runs_by_system[cell.key.corpus, cell.key.system]:
        if run.seed not in seeds_with_value:
            missing.append(f"seed {run.seed}: {run.status.reason or 'no value'}")
    return msgspec.structs.replace(sources_of_number(frame, cell, number), missing=missing)


def sources_of_number(frame: Frame, cell: NamedCell, number: Number) -> CellSources:
    """Return the runs from which one of our numbers in a cell is computed, each with its value."""
    sources = []
    for run, value in number.values:
        sources.append(
            Source(
                run=run.status.run,
                seed=run.seed,
                value=rounded(value, number.metric),
                commit=run.commit,
                hardware=run.hardware,
            )
        )
    return CellSources(
        cell=cell,
        scale=frame.scale,
        signatures=number.signatures,
        sources=tuple(sources),
        missing=[],
    )


def render_sources(origin: CellSources) -> str:
    """Return the runs behind the number in a cell as text for a terminal."""
    cell = origin.cell
    key = origin.cell.key
    note = ""
    # Printed numbers of replications have this scale, so the note is for Tables 2 and 3 only.
    if origin.scale != PAPER_SCALE and cell.name.startswith("table"):
        note = f"scale {origin.scale} is not the paper's: no reproduction of the printed number"
    facts = [
        ("printed", _printed(cell)),
        ("definition", cell.metric),
        ("ours", f"{key.corpus}, {key.system}, {key.average}, {key.testset}"),
        ("signature", " ".join(origin.signatures)),
        ("NOTE", note),
        *(("NOTE", reason) for reason in origin.missing),
    ]
    # One line for each seed, in the order of the seeds.
    rows = [("seed", "value", "run", "commit", "hardware")]
    for source in origin.sources:
        rows.append((str(source.seed), source.value, source.run, source.commit, source.hardware))
    title = titled(f"{cell.name}, scale {origin.scale}")
    return sections(
        ("", [*title, *entries(facts)]), ("", table(rows, num_headings=1) if origin.sources else [])
    )


def render_list(cell_by_name: Mapping[str, NamedCell]) -> str:
    """Return a line for each cell of the paper's tables: the cell's name, the paper's values, and
    the definition of the metric.
    """
    rows = [(name, _printed(cell), cell.metric) for name, cell in cell_by_name.items()]
    return "\n".join([*table(rows), ""])


def find_released(name: str, results: Path) -> ReleasedRecord:
    """Return the record of a released model with a single score. `name` has the form
    released:model:metric.

    Raises:
        UsageError: if the results do not have translations of this model, or if its translations
            were not scored in this definition of BLEU.
    """
    record_by_name = {}
    for record in read_released_records(results):
        for score in record.scores:
            of_score = msgspec.structs.replace(record, scores=[score])
            record_by_name[f"{RELEASED_PREFIX}{record.name}:{score.metric}"] = of_score
    if name not in record_by_name:
        hint = did_you_mean(
            name, list(record_by_name), "decode it first: `aiayn evaluate --released NAME`"
        )
        raise UsageError(f"cell {name!r}: no such score below {results}/released; {hint}")
    return record_by_name[name]


def render_released(name: str, record: ReleasedRecord) -> str:
    """Return in words where the single score in the record of a released model comes from."""
    (score,) = record.scores
    facts = [
        ("value", f"{rounded(score.value, score.metric)}, released model, decoded here"),
        ("lines", f"{record.num_lines:,} of {record.num_testset_lines:,}"),
        ("signature", score.signature),
        # These digests identify the archives of the model and of the test set.
        *((archive, f"sha256 {digest}") for archive, digest in record.sha256_by_archive.items()),
        ("command", record.provenance.command),
        ("commit", f"{record.provenance.commit}, {record.provenance.created}"),
        ("hardware", record.hardware),
    ]
    return sections(("", [*titled(name), *entries(facts)]))


def _printed(cell: NamedCell) -> str:
    values = [
        f"{value} ({EDITION_WORDS[edition]})" for edition, value in cell.printed_by_edition.items()
    ]
    return ", ".join(values)
