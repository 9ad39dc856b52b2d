"""Finds the size of the paper's vocabulary from each number of parameters in the paper's Table 3.

Parameters are counted from the specs of the systems of scale paper (`aiayn.cost.num_parameters`),
without any training. The sizes are shown in the last column of Table 3 and in notes, which are the
same at every scale.
"""

from dataclasses import dataclass
from pathlib import Path

from aiayn.cost import LEARNED_POSITION_ROWS, num_parameters
from aiayn.printed import PAPER_SCALE, REFERENCE_SYSTEM, printed_number, read_table
from aiayn.spec.system import CONFIG_FOLDER, SystemSpec, read_system
from paper_tables.rounding import rounded

PRINTED_SIZE = 37_000  # section 5.1: "about 37000"
T2T_SIZE = 40_960  # tensor2tensor v1.0.4's wmt_ende_bpe32k
# tensor2tensor v1.0.4 adds an embedding of the task to its encoder's input. Our model does not have
# it.
TARGET_SPACE_ROWS = 32
MILLION = 1_000_000
DECIMALS = 2
BIG = "big"


@dataclass(frozen=True)
class CountedRow:
    """A row of Table 3 for which the paper gives a number of parameters: the spec of the row's
    system, and the paper's number in millions.
    """

    system: SystemSpec
    printed: str

    def count(self, vocabulary_size: int) -> int:
        """Return the number of the system's parameters with a joint vocabulary of this size."""
        return num_parameters(self.system.training, vocabulary_size, joint=True)

    @property
    def vocabulary_sizes(self) -> tuple[int, int]:
        """The smallest and the largest vocabulary with which the number of parameters rounds to the
        paper's number.
        """
        # A printed 65 stands for 64.5 to 65.5 million.
        printed = int(printed_number(self.printed))
        smallest = self._first_reaching(printed * MILLION - MILLION // 2)
        return smallest, self._first_reaching(printed * MILLION + MILLION // 2) - 1

    def _first_reaching(self, num_wanted: int) -> int:
        # The count grows by d_model for each entry of a joint vocabulary, so one division finds it.
        without_words = self.count(0)
        return -(-(num_wanted - without_words) // self.system.training.d_model)  # rounded up


def counted_rows(config_folder: Path = CONFIG_FOLDER) -> list[CountedRow]:
    """Return the rows of Table 3 for which the paper gives a number of parameters, in their
    order.
    """
    rows = []
    for cell in read_table(3):
        if cell.column == "params":
            rows.append(CountedRow(read_system(cell.row, PAPER_SCALE, config_folder), cell.value))
    return rows


def common_vocabulary_sizes(rows: list[CountedRow]) -> tuple[int, int]:
    """Return the sizes of the smallest and the largest vocabulary that fit the numbers of
    parameters of all rows.

    If no vocabulary fits all rows, the smallest size is larger than the largest size.
    """
    # The intersection of the ranges of all rows.
    smallest, largest = zip(*(row.vocabulary_sizes for row in rows), strict=True)
    return max(smallest), min(largest)


def in_millions(count: int) -> str:
    """Return a number of parameters as text in millions with two decimals."""
    return rounded(count / MILLION, DECIMALS)


def in_words(sizes: tuple[int, int]) -> str:
    """Return a range of vocabulary sizes (smallest and largest) as text."""
    return f"{sizes[0]:,} to {sizes[1]:,}"


def parameter_notes(rows: list[CountedRow]) -> tuple[str, ...]:
    """Return notes that say what the paper's numbers of parameters imply about the size of its
    vocabulary.
    """
    row_by_name = {row.system.name: row for row in rows}
    # Big does not fit the vocabulary of the other rows, so it is taken out and compared with them.
    base, big = row_by_name[REFERENCE_SYSTEM], row_by_name.pop(BIG)
    other_rows = list(row_by_name.values())
    # The paper's program has an embedding that our model lacks. It might explain why no vocabulary
    # fits both base and big.
    with_target_space = []
    for row in (base, big):
        count = row.count(T2T_SIZE) + TARGET_SPACE_ROWS * row.system.training.d_model
        with_target_space.append(in_millions(count))
    # Row (E) has learned positions, which are parameters, too.
    learned = LEARNED_POSITION_ROWS["transformer"]
    return (
        (
            "V: the size of a vocabulary for source, target and output, such that a row's"
            " parameters, counted from the paper's sizes, round to the printed count. No single V"
            f" fits both base and big. The {len(other_rows)} printed counts other than big's agree"
            f" on V = {in_words(common_vocabulary_sizes(other_rows))}, which includes"
            f" tensor2tensor's {T2T_SIZE:,}; big's {big.printed} needs fewer entries than any"
            f" other count allows. With section 5.1's {PRINTED_SIZE:,}, base comes to"
            f" {in_millions(base.count(PRINTED_SIZE))}, not {base.printed}. tensor2tensor v1.0.4,"
            " the paper's program, also learned a target-space embedding of"
            f" {TARGET_SPACE_ROWS} x d_model, which our model lacks. With it base has"
            f" {with_target_space[0]} and big {with_target_space[1]} at V = {T2T_SIZE:,}; every V"
            f" falls by {TARGET_SPACE_ROWS}, and still none fits both."
        ),
        (
            f"Row (E) counts {learned:,} learned positions on either side; how many the paper had"
            " it does not say."
        ),
    )
