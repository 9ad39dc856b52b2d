"""Lays out Table 3. Each row of the paper is followed by our row with the hyper-parameters that we
used.

A row of Table 3 is a system. To add a system, write its file in workflow/config/systems/<scale>/,
its numbers in the paper in published/table3.csv and published/cells.csv, and a row in a scale's
sheet of trainings.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from aiayn.printed import METRIC_BY_PAIR, read_columns, read_table
from paper_tables.frame import Frame, Line
from paper_tables.layout import (
    DASH,
    SACRE_METRIC,
    Cell,
    CellsByColumn,
    Column,
    Note,
    Table,
    label,
    printed_rows,
)
from paper_tables.rounding import SEEDS_WORDS
from paper_tables.tables.ours import complete
from paper_tables.tables.parameters import counted_rows, in_words, parameter_notes
from paper_tables.tables.table2 import MARK_TEXT_OF_LOGS, our_cells

BLEU_METRIC = METRIC_BY_PAIR["en-de"]
CAPTION = (
    "Variations on the architecture, EN-DE, on the dev set without averaging (the paper's:"
    " newstest2013). A printed row leaves blank what is as in base; ours, under it, shows every"
    f" value really used. Ours: {SEEDS_WORDS}. BLEU in {BLEU_METRIC} as printed, and next to it in"
    f" {SACRE_METRIC}, a different quantity, which is never subtracted. Perplexity is per subword"
    " of ours, and the bits its logarithm to base 2: compare them with other lines of ours, not"
    " with the printed values. Bits a word are per word of the detokenised reference, cut at"
    " blanks, ends of sentences included, and can be compared across vocabularies."
)
CAPTION_OF_LOGS = (
    "Variations on the architecture, EN-DE, on the dev set (the paper's: newstest2013): printed,"
    " and from logs only. Perplexity is 2 to the nll_loss of the validation at the last update,"
    " per subword of the log's own vocabulary: compare it with other lines of the same data, not"
    " with the printed value."
)
SYMBOL_BY_COLUMN = {  # Table 3's columns of settings, and what they are in a spec
    "N": "num_layers",
    "d_model": "d_model",
    "d_ff": "d_ff",
    "h": "num_heads",
    "d_k": "d_k",
    "d_v": "d_v",
    "P_drop": "p_drop",
    "eps_ls": "eps_ls",
}


def lay_out_table3(frame: Frame) -> Table:
    """Return Table 3. A row of the paper has a row of ours below it if this scale runs the row's
    system.
    """
    columns, counted = table3_columns(), counted_rows()
    lines = [line for line in frame.lines if line.table == 3]
    below: dict[str, list[tuple[CellsByColumn, None]]] = {}
    for line in lines:
        # The settings of Table 3 are columns, too. At a small scale ours differ: d_model of base is
        # not 512.
        cells = _settings(line) | our_cells(frame, line)
        below.setdefault(line.row, []).append((cells, None))
    printed = read_table(3)
    ours: dict[str, dict[str, Cell]] = {}
    for cell in printed:
        ours[cell.row] = {"system": label(cell.row)}
    # The vocabulary is computed from the printed number, so it is in the printed row.
    for row in counted:
        sizes = in_words(row.vocabulary_sizes)
        ours[row.system.name]["vocabulary_sizes"] = Cell(sizes)
    table = Table(
        name="table3",
        title="Table 3",
        caption=CAPTION,
        columns=columns,
        cells=printed_rows(printed, columns, group_of, ours, below),
        notes=(*_notes(frame, lines), *map(Note, parameter_notes(counted))),
        first=("system", "bits_dev", "ppl_dev", "bleu_dev", "params"),
    )
    if not frame.is_of_logs:
        return complete(frame, table)
    table = replace(table, title="Table 3, from logs", caption=CAPTION_OF_LOGS)
    return complete(frame, table, mark_text=MARK_TEXT_OF_LOGS)


def group_of(row: str) -> str:
    """Return the name that the paper gives to the group of a row of Table 3: `base`, `(A)` to
    `(E)`, `big`.
    """
    return f"({row.split('_')[1].upper()})" if row.startswith("table3_") else row


def table3_columns() -> tuple[Column, ...]:
    """Return the columns of Table 3. Our BLEU in a definition other than the paper's has a separate
    column.
    """
    better: dict[str, Literal["higher", "lower"]] = {"ppl_dev": "lower", "bleu_dev": "higher"}
    columns = [Column("system", "row", side="label")]
    # Our columns follow the printed column of the same quantity.
    for column in read_columns()[3]:
        side: Literal["label", "printed"] = "label" if column.kind == "label" else "printed"
        columns.append(
            Column(column.name, column.heading, side=side, better=better.get(column.name, ""))
        )
        if column.name == "ppl_dev":
            columns += [
                Column("bits_dev", "bits a subword (dev)", side="ours", better="lower"),
                Column("bits_per_word_dev", "bits a word (dev)", side="ours", better="lower"),
            ]
        if column.name == "bleu_dev":
            columns += [
                Column("definition", "definition", side="ours"),
                Column("difference", "difference", side="ours"),
                Column("bleu_dev_sacre", "sacreBLEU 13a (dev)", side="ours", better="higher"),
            ]
    return (*columns, Column("vocabulary_sizes", "V that rounds to params"))


def _settings(line: Line) -> dict[str, Sequence[Cell]]:
    """Return the cells of our row with its name and with the hyper-parameters that were used."""
    cells: dict[str, Sequence[Cell]] = {
        "system": [label(line.label, *line.marks)],
    }
    for column, name in SYMBOL_BY_COLUMN.items():
        cells[column] = [Cell(str(line.settings.get(name, DASH)), "ours", line.marks)]
    return cells


def _notes(frame: Frame, lines: Sequence[Line]) -> list[Note]:
    """Return notes on the vocabulary size with which parameters are counted, and on learned
    positions.
    """
    notes = list(map(Note, frame.notes.get("table3", ())))
    # Only systems with a line in the table are mentioned.
    systems_by_corpus: dict[str, list[str]] = {}
    for line in lines:
        number = line.numbers["bleu_dev"][0]
        if number is not None:
            systems_by_corpus.setdefault(number.key.corpus, []).append(number.key.system)
    for corpus in systems_by_corpus:
        sizes = frame.vocabulary_sizes_by_corpus.get(corpus, {})
        sizes_text = " and ".join(
            f"{size:,} ({language})" for language, size in sorted(sizes.items())
        )
        if sizes_text:
            text = (
                f"Parameters of ours count {corpus}'s vocabulary, {sizes_text} entries with special"
            )
            notes.append(Note(f"{text} symbols."))
    for system in itertools.chain(*systems_by_corpus.values()):
        # Row (E) of the table differs in words only, which no column of numbers shows.
        spec = frame.system_by_name.get(system)
        if spec and spec.training.positions == "learned":
            notes.append(Note(f"{system}: learned positional embedding instead of sinusoids."))
    return notes
