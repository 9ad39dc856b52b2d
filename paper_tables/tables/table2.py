"""Lays out Table 2: BLEU on the test sets of both language pairs, and training cost.

Our numbers are next to the paper's numbers in the same row. Numbers from logs are in separate rows
below the paper's row.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from aiayn.printed import METRIC_BY_PAIR, PAPER_PRECISION, read_table
from paper_tables.frame import Frame, Line, PrintedCell, is_bleu
from paper_tables.layout import (
    DASH,
    MARK_BY_EDITION,
    NAME_BY_PAIR,
    SACRE_METRIC,
    Cell,
    CellsByColumn,
    Column,
    Note,
    Table,
    label,
    printed_rows,
)
from paper_tables.rounding import BLEU, FLOPS_METRICS, SEEDS_WORDS, rounded
from paper_tables.tables.ours import complete, our_cell

# The letters a and b are the marks of the editions.
NO_GPU_MARK, UNKNOWN_GPU_MARK = "c", "d"
MODEL_FLOPS_NOTE = (
    "Model FLOPs: what the model's products of matrices came to, by the formula in table `costs`."
    " Footnote 5's estimate is another quantity: what the GPUs could have done in the time. `costs`"
    " has the ratio of the two."
)
NOTHING_OF_TABLE_2 = "Logs without a BLEU of a test set, and without a GPU whose rate is known"
CAPTION = (
    "BLEU and training cost on the test sets (the paper's: newstest2014). Printed: as in the"
    f" paper. Ours: {SEEDS_WORDS}. Definitions as printed: EN-DE in {METRIC_BY_PAIR['en-de']},"
    f" EN-FR in {METRIC_BY_PAIR['en-fr']}; next to it the same translations in {SACRE_METRIC}, a"
    " different quantity, which is never subtracted."
)
MARK_TEXT_OF_LOGS = (
    "Trained at scale {scale}: another corpus and smaller systems than the paper's; no reproduction"
    " of its number."
)
CAPTION_OF_LOGS = (
    "BLEU on the test sets and training cost: printed, and from logs only. A number from a log has"
    " the name of its definition and is not subtracted from a printed number of another definition."
)
OUR_ROWS = ("base", "big")


def table2_columns(heading: str = "ours") -> tuple[Column, ...]:
    """Return the columns of Table 2. `heading` is the heading of the columns with our numbers.

    Our BLEU in a definition other than the paper's has a separate column.
    """
    # Lower cost and higher BLEU are better, so the best values of these columns are bold.
    columns = [Column("model", "Model", side="label")]
    for pair, name in NAME_BY_PAIR.items():
        bleu, group = f"bleu_{pair.replace('-', '_')}", f"BLEU {name}"
        columns += [
            Column(bleu, "printed", group, better="higher"),
            Column(f"{bleu}_ours", heading, group, "ours", "higher"),
            Column(f"{bleu}_definition", "definition", group, "ours"),
            Column(f"{bleu}_difference", "difference", group, "ours"),
            Column(f"{bleu}_ours_sacre", "sacreBLEU 13a", group, "ours", "higher"),
        ]
    group = "Training Cost (FLOPs)"
    printed, ours, model = [], [], []
    for pair, name in NAME_BY_PAIR.items():
        flops = f"flops_{pair.replace('-', '_')}"
        printed.append(Column(flops, f"printed {name}", group, better="lower"))
        ours.append(Column(f"{flops}_ours", f"{heading} {name}", group, "ours", "lower"))
        model_heading = f"model FLOPs, ours {name}"
        model.append(Column(f"model_{flops}_ours", model_heading, group, "ours"))
    # The printed columns of both pairs are neighbours, because some printed costs cover both.
    return (*columns, *printed, *ours, *model)


def lay_out_table2(frame: Frame) -> Table:
    """Return Table 2. Our numbers are in the paper's rows. Numbers from logs are in separate rows
    below the paper's rows.
    """
    columns = table2_columns("from logs" if frame.is_of_logs else "ours")
    # By printed row: our cells in the row itself, and our rows below it.
    ours: dict[str, CellsByColumn] = {}
    below: dict[str, list[tuple[CellsByColumn, tuple[str, str] | None]]] = {}
    # A line without a label fills the printed row. A line with a label is a row of its own.
    for line in frame.lines:
        if line.table != 2:
            continue
        cells = our_cells(frame, line)
        if not line.label:
            ours[line.row] = cells
            continue
        shown = list(itertools.chain(*cells.values()))
        aside = None
        # A line of dashes would only make the table longer.
        if all(cell.kind != "ours" for cell in shown):
            pairs = {number.key.language_pair for cell in shown for number in cell.numbers}
            aside = (f"{line.label}, {', '.join(pairs)}", NOTHING_OF_TABLE_2)
        cells["model"] = [label(line.label, *line.marks)]
        below.setdefault(line.row, []).append((cells, aside))
    all_cells = printed_rows(read_table(2), columns, group_of, ours, below)
    table = Table(
        name="table2",
        title="Table 2",
        caption=CAPTION,
        columns=columns,
        cells=all_cells,
        notes=tuple(_notes(frame, set(all_cells.marks.explode()))),
        first=("model", "bleu_en_de", "bleu_en_de_ours", "bleu_en_fr", "bleu_en_fr_ours"),
    )
    if not frame.is_of_logs:
        return complete(frame, table)
    table = replace(table, title="Table 2, from logs", caption=CAPTION_OF_LOGS)
    return complete(frame, table, mark_text=MARK_TEXT_OF_LOGS)


def group_of(row: str) -> str:
    """Return the group of rows to which a row of Table 2 is assigned. Lines separate the three
    groups.
    """
    if row in OUR_ROWS:
        return "this paper"
    # The names of rows in published/table2.csv end in `_ensemble` where the paper has an ensemble.
    return "ensembles" if row.endswith("ensemble") else "single models"


def our_cells(frame: Frame, line: Line) -> dict[str, list[Cell]]:
    """Return the cells with our numbers for a row of Table 2 or 3, by column.

    A cost that cannot be known is a dash, with the footnote mark of the reason. A BLEU is followed
    by its difference to the paper's number. A BLEU from a log is followed by the name of its
    definition, without a difference. If a column has several numbers, they are the same quantity in
    several definitions.
    """
    cells: dict[str, list[Cell]] = {}
    for column, numbers in line.numbers.items():
        known_numbers = [number for number in numbers if number is not None]
        shown = [our_cell(number) for number in known_numbers] or [our_cell(None)]
        # If the number in one of several definitions has a value, the whole cell counts as ours.
        if any(cell.kind == "ours" for cell in shown):
            shown = [replace(cell, kind="ours") for cell in shown]
        cells[column] = shown
        # The scale does not run this system. The cell says so.
        if not known_numbers:
            continue
        number = known_numbers[0]
        runs = frame.trained(number.key)
        # The training is finished and its cost still unknown: it will stay so, and the mark says
        # why.
        if number.metric in FLOPS_METRICS and shown[0].kind != "ours" and runs:
            marks = number.marks
            if number.metric == "training_flops":
                has_gpu = any(run.train.hardware.num_gpus for run in runs if run.train)
                marks = (*marks, UNKNOWN_GPU_MARK if has_gpu else NO_GPU_MARK)
            cells[column] = [Cell(DASH, "state", marks, numbers=(number,))]
        # Table 2 has these columns once for each language pair: `bleu_en_de_difference`. Table 3
        # has them once.
        prefix = column.removesuffix("ours") if line.table == 2 else ""
        # A log's BLEU has its own definition, so it gets the name of the definition in place of a
        # difference.
        if frame.is_of_logs and is_bleu(number.metric):
            for scored_number in known_numbers:
                if scored_number.values:
                    definition = "; ".join(
                        filter(None, (scored_number.metric, scored_number.settings))
                    )
                    cells.setdefault(f"{prefix}definition", []).append(label(definition))
            continue
        printed_key = (str(line.table), line.row, column.removesuffix("_ours"))
        # There are two such cells if the editions print different numbers.
        judged_cells = [
            cell for cell in frame.judged if (cell.table, cell.row, cell.column) == printed_key
        ]
        if judged_cells:
            cells[f"{prefix}difference"] = difference_cells(judged_cells)
    return cells


def difference_cells(cells: Sequence[PrintedCell]) -> list[Cell]:
    """Return the cells with our number minus the paper's number, for each version of the paper. If
    our number was measured under other conditions than the paper's, return only the scale's
    footnote mark.
    """
    number = cells[0].number
    # A number with a mark was measured under other conditions: no difference is taken.
    if number is None or number.mark:
        return [Cell("", "state", number.marks if number else ())]
    shown = []
    # As long as our number is missing, an edition does not have a difference.
    for cell in cells:
        if cell.verdict.difference is not None:
            mark = MARK_BY_EDITION.get(cell.edition, "")
            text = rounded(cell.verdict.difference, BLEU, is_signed=True)
            shown.append(Cell(text, "ours", (mark,) if mark else (), numbers=(number,)))
    return shown or [Cell(DASH, "state")]


def _notes(frame: Frame, used_marks: set[str]) -> list[Note]:
    """Return notes that explain the footnote letters in the table, and a note on the rate of each
    GPU.
    """
    text_by_mark = {
        MARK_BY_EDITION["neurips2017"]: "As printed in the NeurIPS 2017 edition.",
        MARK_BY_EDITION["arxiv"]: "As printed in the arXiv edition, version 5 and later.",
        NO_GPU_MARK: (
            "Trained without a GPU: no cost by footnote 5. Wall time instead:"
            f" {_wall_times(frame)}."
        ),
        UNKNOWN_GPU_MARK: "The GPU is not in hardware.yaml; add its sustained rate there.",
    }
    notes = []
    for mark, text in text_by_mark.items():
        if mark in used_marks:
            notes.append(Note(text, mark))
    notes += map(Note, frame.notes.get("table2", ()))
    # '' in `gpus` is a training without a GPU.
    gpus, precisions = set(), set()
    for run in frame.runs:
        if run.train is not None:
            gpus.add(run.train.hardware.gpu if run.train.hardware.num_gpus else "")
    if gpus:
        notes.append(Note(MODEL_FLOPS_NOTE))
    for system in frame.system_by_name.values():
        precisions.add(system.training.precision)
    # Footnote 5 of the paper multiplies by the rate in single precision. A training in bf16 is
    # counted in the same way.
    single = ""
    if precisions - {PAPER_PRECISION}:
        single = "; as the paper counts it, in single precision whatever the training's"
    for product in sorted(gpus - {""}):
        gpu = frame.hardware.find_gpu(product)
        if gpu is not None:
            rate = gpu.sustained_flops_per_second
            text = (
                f"Cost of ours: GPU seconds of all attempts x"
                f" {rounded(rate.value, 'training_flops')} FLOP/s a GPU ({rate.kind}:"
                f" {rate.source}), {product}{single}."
            )
            notes.append(Note(text))
    return notes


def _wall_times(frame: Frame) -> str:
    """Return a text with the mean wall-clock seconds of each system of Table 2 that was trained
    without a GPU.
    """
    # Both editions have a cell with the same cost, which is listed once.
    texts: dict[str, None] = {}
    for cell in frame.cells:
        if (cell.table, cell.metric) != ("2", "training_flops") or cell.number is None:
            continue
        seconds = []
        for run in frame.trained(cell.key):
            if run.train and not run.train.hardware.num_gpus:
                seconds.append(run.train.wall_seconds)
        if seconds:
            mean = rounded(sum(seconds) / len(seconds), "wall_seconds")
            text = f"{cell.key.corpus} {cell.key.system} {mean} s (n={len(seconds)})"
            texts[text] = None
    return ", ".join(texts)
