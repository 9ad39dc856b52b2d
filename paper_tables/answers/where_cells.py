"""Names every cell of ours in a table, `table:row:column`, with the evaluation that fills it.

`table2:base:bleu_en_de` and its like are the joins of published/cells.csv, `replications:<row>:value` the rows of
replications.csv; `variants:<system>:<column>` and `architectures:<system>:<column>` are ours alone.
"""

from collections.abc import Mapping

import msgspec

from aiayn.errors import UsageError, did_you_mean
from aiayn.experiment import COMPARED_AVERAGE, COMPARED_ROLE, REFERENCE_SYSTEM, all_compared
from aiayn.printed import find_printed, read_cells, read_replications, read_table
from aiayn.spec.system import ScaleSpec

COMPARED_LANGUAGE_PAIR = "en-de"  # the variants and architectures are dev systems of En-De, as Table 3's rows are
METRIC_BY_COMPARED_COLUMN = {
    "ppl_dev": "ppl_per_subword",
    "bleu_dev": "bleu_tok_compound_split",
    "bleu_dev_sacre": "bleu_sacre_13a",
}


class NamedCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell of ours: its name, what is printed there by edition (nothing in a table of ours), and its evaluation.

    `corpus` is '' where the scale names the corpus of the language pair.
    """

    name: str
    printed_by_edition: dict[str, str]
    language_pair: str
    corpus: str
    system: str
    average: str
    role: str
    metric: str

    def corpus_at(self, scale: ScaleSpec) -> str:
        """Return the corpus that the cell is filled from at a scale."""
        return self.corpus or {"en-de": scale.en_de_corpus, "en-fr": scale.en_fr_corpus}[self.language_pair]


def read_named_cells() -> dict[str, NamedCell]:
    """Return every cell by name, in the order of the tables; one that the editions print differently is one cell.

    Raises:
        TableError: if a file of published/ is malformed.
    """
    return {cell.name: cell for cell in (*_printed_cells(), *_replication_cells(), *_compared_cells())}


def find_cell(name: str, cell_by_name: Mapping[str, NamedCell]) -> NamedCell:
    """Return the cell of a name.

    Raises:
        UsageError: if there is none, with similar names.
    """
    if name in cell_by_name:
        return cell_by_name[name]
    hint = did_you_mean(name, cell_by_name, "see `aiayn where --list`", most=3)
    parts = name.split(":")
    if len(parts) != 3:
        raise UsageError(f"cell {name!r}: expected table:row:column, as table2:base:bleu_en_de; {hint}")
    table, row, _ = parts
    columns = [cell.split(":")[2] for cell in cell_by_name if cell.startswith(f"{table}:{row}:")]
    if columns:
        raise UsageError(f"cell {name!r}: {table}, row {row} has the columns {', '.join(columns)}; {hint}")
    rows = dict.fromkeys(cell.split(":")[1] for cell in cell_by_name if cell.startswith(f"{table}:"))
    if rows:
        raise UsageError(f"cell {name!r}: {table} has the rows {', '.join(rows)}; {hint}")
    tables = dict.fromkeys(cell.split(":")[0] for cell in cell_by_name)
    raise UsageError(f"cell {name!r}: the tables are {', '.join(tables)}; {hint}")


def _printed_cells() -> list[NamedCell]:
    cells_by_table = {number: read_table(number) for number in (2, 3)}
    found: dict[str, NamedCell] = {}
    for join in read_cells():
        name = f"table{join.table}:{join.row}:{join.column}"
        printed: dict[str, str] = {join.edition: find_printed(join, cells_by_table[join.table]).value}
        if name in found:  # of another edition
            printed = found[name].printed_by_edition | printed
        found[name] = NamedCell(
            name=name, printed_by_edition=printed, language_pair=join.language_pair, corpus="", system=join.system,
            average=join.average, role=join.role, metric=join.metric,
        )  # fmt: skip
    return list(found.values())


def _replication_cells() -> list[NamedCell]:
    return [
        NamedCell(
            name=f"replications:{one.row}:value", printed_by_edition={"": one.value}, language_pair=one.language_pair,
            corpus=one.corpus, system=one.system, average=one.average, role=one.role, metric=one.metric,
        )
        for one in read_replications()
    ]  # fmt: skip


def _compared_cells() -> list[NamedCell]:
    known = all_compared()
    systems_by_table = {"variants": known.variants, "architectures": known.architectures}
    return [
        NamedCell(
            name=f"{table}:{system}:{column}", printed_by_edition={}, language_pair=COMPARED_LANGUAGE_PAIR, corpus="",
            system=system, average=COMPARED_AVERAGE, role=COMPARED_ROLE, metric=metric,
        )
        for table, systems in systems_by_table.items()
        for system in (REFERENCE_SYSTEM, *systems)
        for column, metric in METRIC_BY_COMPARED_COLUMN.items()
    ]  # fmt: skip
