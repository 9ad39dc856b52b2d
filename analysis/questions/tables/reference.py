"""Lays out what others published for the paper's systems on WMT14, beside ours where the two can be
compared.
"""

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
    """Return one row a published replication, comparable ones together, the highest value first.

    Ours is beside one only on the same test set and in the same definition; values are never
    subtracted here.
    """
    replications = sorted(read_reference_replications(), key=_order)
    fields: tuple[Field[ReferenceReplication], ...] = (
        label_field("who", "who", lambda one: one.who),
        label_field("system", "system", lambda one: one.system),
        label_field("language_pair", "languages", lambda one: one.language_pair),
        label_field("testset", "test set", lambda one: one.testset),
        label_field("metric", "definition", lambda one: one.metric),
        printed_field("printed", "printed", lambda one: one.value),
        our_field("ours", "ours", lambda one: _our_cell(frame, one)),
        label_field("definition", "as printed", lambda one: one.definition),
        label_field("conditions", "steps, batch, hardware", lambda one: one.conditions),
        label_field("remarks", "remarks", lambda one: one.remarks),
        label_field("source", "source", lambda one: one.source),
    )
    rows = rows_of(fields, replications)
    is_alone = not any(cell.shows for row in rows for cell in row.cells)
    scale = frame.scale
    note = Note(
        "", f"Scale {scale} has none of these test sets, so nothing of ours stands beside them."
    )
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
        notes=(note,) if is_alone else (),
    )
    return complete(frame, table, has_precisions=False, has_states=False)


def _order(one: ReferenceReplication) -> tuple[str, str, str, bool, str, float]:
    return (
        one.language_pair,
        one.system,
        one.testset,
        one.metric == OTHER_DEFINITION,  # last: they are not even known to be like each other
        one.metric,
        -float(one.value),
    )


def _our_cell(frame: Frame, one: ReferenceReplication) -> Cell:
    """Return ours of the same system on the same test set; blank if it is not at this scale, or not
    comparable.
    """
    role = next(
        (role for role, testset in PAPER_TESTSET_BY_ROLE.items() if testset == one.testset), None
    )
    if role is None or one.metric == OTHER_DEFINITION:
        return blank_cell()
    pair = one.language_pair
    system = next(
        join.system for join in read_cells() if (join.row, join.language_pair) == (one.system, pair)
    )
    averages = [
        average
        for average, evaluated_role in evaluations_of(pair, system)
        if evaluated_role == role
    ]
    if not averages:
        return blank_cell()
    key = frame.find(pair, system, averages[-1], role)
    return our_cell(frame.number(key, one.metric)) if key.testset == one.testset else blank_cell()
