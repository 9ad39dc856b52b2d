"""Lays out table `reference_replications`: what others published for the paper's systems on WMT14,
with our values where the two can be compared.
"""

import operator

from aiayn.printed import PAPER_TESTSET_BY_ROLE, evaluations_of, read_cells
from paper_tables.frame import Frame
from paper_tables.layout import (
    Cell,
    Field,
    Note,
    Table,
    blank_cell,
    columns_of,
    label_field,
    our_field,
    printed_field,
    rows_of,
)
from paper_tables.published_data import ReferenceReplication, read_reference_replications
from paper_tables.tables.ours import complete, our_cell

OTHER_DEFINITION = "other"


def lay_out_reference(frame: Frame) -> Table:
    """Return a row for each published replication; comparable rows together, highest value first.

    Our value is shown only on the same test set and in the same definition. No values are
    subtracted here.
    """
    replications = sorted(read_reference_replications(), key=_order)
    fields: tuple[Field[ReferenceReplication], ...] = (
        *_words_fields(
            who="who",
            system="system",
            language_pair="languages",
            testset="test set",
            metric="definition",
        ),
        printed_field("printed", "printed", lambda replication: replication.value),
        our_field("ours", "ours", lambda replication: _our_cell(frame, replication)),
        *_words_fields(
            definition="as printed",
            conditions="steps, batch, hardware",
            remarks="remarks",
            source="source",
        ),
    )
    rows = rows_of(fields, replications)
    has_ours = any(cell.shows for row in rows for cell in row.cells)
    note = Note(f"Scale {frame.scale} does not use these test sets: our column is empty.")
    table = Table(
        name="reference_replications",
        title="Reference replications",
        caption=(
            "What others published for base and big on WMT14 (other training data are named), each"
            " in the definition in which it was printed; other: not known to equal one of ours."
            " Only numbers of one test set and one definition can be compared."
        ),
        columns=columns_of(fields),
        rows=rows,
        summary=f"{len(replications)} numbers that others published for base and big on WMT14",
        notes=() if has_ours else (note,),
    )
    return complete(frame, table, has_precisions=False, has_states=False)


def _words_fields(**heading_by_name: str) -> list[Field[ReferenceReplication]]:
    """Return columns with the replication's own words, by the names of its fields."""
    return [
        label_field(name, heading, operator.attrgetter(name))
        for name, heading in heading_by_name.items()
    ]


def _order(replication: ReferenceReplication) -> tuple[str, str, str, bool, str, float]:
    return (
        replication.language_pair,
        replication.system,
        replication.testset,
        replication.metric == OTHER_DEFINITION,  # last: these may differ among themselves
        replication.metric,
        -float(replication.value),
    )


def _our_cell(frame: Frame, replication: ReferenceReplication) -> Cell:
    """Return our value of the same system on the same test set; blank if it is not evaluated at
    this scale, or not comparable.
    """
    if replication.metric == OTHER_DEFINITION:
        return blank_cell()
    pair = replication.language_pair
    for join in read_cells():
        if (join.row, join.language_pair) == (replication.system, pair):
            break
    cell = blank_cell()
    for average, role in evaluations_of(pair, join.system):
        if PAPER_TESTSET_BY_ROLE.get(role) == replication.testset:
            key = frame.find(pair, join.system, average, role)
            if key.testset == replication.testset:
                cell = our_cell(frame.number(key, replication.metric))
    return cell
