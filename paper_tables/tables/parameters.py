"""Lays out how many parameters each row of Table 3 has: printed, ours, and which vocabulary the printed count implies.

Counted from the specs of scale paper (`aiayn.cost.num_parameters`); it needs no run and is the same at every scale.
"""

from dataclasses import dataclass
from pathlib import Path

from aiayn.cost import LEARNED_POSITION_ROWS, num_parameters
from aiayn.printed import PAPER_SCALE, printed_number, read_table
from aiayn.spec.system import CONFIG_FOLDER, SystemSpec, read_system
from paper_tables.layout import Column, Field, Note, Table, columns_of, label_field, our_field, rows_of, text_cell

VOCABULARY_SIZES = (37_000, 40_960)  # section 5.1's "about 37000"; tensor2tensor v1.0.4's wmt_ende_bpe32k
TARGET_SPACE_ROWS = 32  # tensor2tensor v1.0.4 adds an embedding of the task to its encoder's input; ours has none
MILLION = 1_000_000
DECIMALS = 2
SAME_AS_BASE = "a"  # the mark of a count that Table 3 leaves blank
BASE, BIG = "base", "big"


@dataclass(frozen=True)
class CountedRow:
    """A row of Table 3, its spec, its count in millions as printed, and whether it has a printed count of its own."""

    system: SystemSpec
    printed: str
    is_own: bool

    @property
    def marks(self) -> tuple[str, ...]:
        """The mark of a count that Table 3 leaves blank."""
        return () if self.is_own else (SAME_AS_BASE,)

    def count(self, vocabulary_size: int) -> int:
        """Return the number of parameters with one vocabulary for both languages."""
        return num_parameters(self.system.training, vocabulary_size, joint=True)

    @property
    def vocabulary_sizes(self) -> tuple[int, int]:
        """The smallest and the largest vocabulary with which the count rounds to the printed millions."""
        printed = int(printed_number(self.printed))
        smallest = self._first_reaching(printed * MILLION - MILLION // 2)
        return smallest, self._first_reaching(printed * MILLION + MILLION // 2) - 1

    def _first_reaching(self, num_wanted: int) -> int:
        without_words = self.count(0)
        return -(-(num_wanted - without_words) // self.system.training.d_model)  # rounded up


def counted_rows(config_folder: Path = CONFIG_FOLDER) -> list[CountedRow]:
    """Return the rows of Table 3 in their order; a blank count is base's, as every blank of that table."""
    cells = read_table(3)
    printed_by_row = {cell.row: cell.value for cell in cells if cell.column == "params"}
    return [
        CountedRow(
            system=read_system(name, PAPER_SCALE, config_folder),
            printed=printed_by_row.get(name, printed_by_row[BASE]),
            is_own=name in printed_by_row,
        )
        for name in dict.fromkeys(cell.row for cell in cells)
    ]


def common_vocabulary_sizes(rows: list[CountedRow]) -> tuple[int, int]:
    """Return the smallest and the largest vocabulary that all rows agree with; the first is larger if there is none."""
    ranges = [row.vocabulary_sizes for row in rows]
    return max(low for low, _ in ranges), min(high for _, high in ranges)


def lay_out_parameters(config_folder: Path = CONFIG_FOLDER) -> Table:
    """Return a line for each of the 20 rows of Table 3."""
    rows = counted_rows(config_folder)
    fields: tuple[Field[CountedRow], ...] = (
        label_field("row", "row", lambda row: row.system.description),
        label_field("system", "system", lambda row: row.system.name),
        Field(Column("printed", "printed"), lambda row: text_cell(row.printed, "printed", *row.marks)),
        *(_counted_field(size) for size in VOCABULARY_SIZES),
        Field(
            Column("vocabulary_sizes", "V that rounds to the printed"),
            lambda row: text_cell(_range(row.vocabulary_sizes), "printed", *row.marks),
        ),
    )
    return Table(
        name="parameters",
        title="Parameters",
        caption="Trained parameters of the 20 rows of Table 3, in millions: as printed, and ours at the paper's sizes "
        "with one vocabulary of V entries for source, target and output. Counted from the systems' files, without any "
        "run: the same at every scale. Which V rounds to the printed count is in the last column.",
        columns=columns_of(fields),
        rows=rows_of(fields, rows),
        notes=_notes(rows),
    )


def _counted_field(size: int) -> Field[CountedRow]:
    return our_field(
        f"ours_{size}", f"V = {size:,}", lambda row: text_cell(in_millions(row.count(size)), "ours"), "ours"
    )


def in_millions(count: int) -> str:
    """Return a count in millions with two decimals."""
    return f"{count / MILLION:.{DECIMALS}f}"


def _range(sizes: tuple[int, int]) -> str:
    return f"{sizes[0]:,} to {sizes[1]:,}"


def _notes(rows: list[CountedRow]) -> tuple[Note, ...]:
    row_by_name = {row.system.name: row for row in rows}
    base, big = row_by_name[BASE], row_by_name[BIG]
    others = [row for row in rows if row.is_own and row is not big]
    printed_size, size = VOCABULARY_SIZES
    with_target_space = [
        in_millions(row.count(size) + TARGET_SPACE_ROWS * row.system.training.d_model) for row in (base, big)
    ]
    learned = LEARNED_POSITION_ROWS["transformer"]
    return (
        Note(SAME_AS_BASE, "Blank in the paper, which means as in base; not counted among the printed ones below."),
        Note(
            "",
            f"No single V fits both base and big. The {len(others)} printed counts but big's meet at V = "
            f"{_range(common_vocabulary_sizes(others))}, where tensor2tensor's {size:,} lies; big's {big.printed} "
            f"needs V = {_range(big.vocabulary_sizes)}, fewer entries than any of the others allows. With section "
            f"5.1's {printed_size:,}, base comes to {in_millions(base.count(printed_size))}, not {base.printed}.",
        ),
        Note(
            "",
            "tensor2tensor v1.0.4, with which the paper was made, also learned a target-space embedding of "
            f"{TARGET_SPACE_ROWS} x d_model, which ours lacks. With it base has {with_target_space[0]} and big "
            f"{with_target_space[1]} at V = {size:,}; every V above falls by {TARGET_SPACE_ROWS}, and still none fits "
            "both.",
        ),
        Note(
            "", f"Row (E) counts {learned:,} learned positions on either side; how many the paper had it does not say."
        ),
    )
