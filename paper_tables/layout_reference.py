"""Lays out what others got for base and big, each in its own definition, with ours beside it where it is the same."""

from aiayn.paths import Evaluation
from paper_tables.conditions import PAPER_TESTSET_BY_ROLE
from paper_tables.findings import Findings
from paper_tables.layout import Cell, Column, Note, Row, Table, blank_cell, text_cell
from paper_tables.layout_ours import mark_note, metric_cell, signatures_of
from paper_tables.published import evaluations_of, read_cells
from paper_tables.reference import ReferenceReplication, read_reference_replications

OTHER_DEFINITION = "other"


def lay_out_reference(findings: Findings) -> Table:
    """Return one row a published replication, sorted so that like stands by like, the highest value first.

    Ours stands beside one only on the same test set and in the same definition; values are never subtracted here.
    """
    replications = sorted(read_reference_replications(), key=_order)
    evaluation_by_name = {
        one.name: evaluation for one in replications if (evaluation := _evaluation(findings, one)) is not None
    }
    measured = [(evaluation_by_name[one.name], one.metric) for one in replications if one.name in evaluation_by_name]
    notes = mark_note(findings, list(evaluation_by_name.values()))
    if not evaluation_by_name:
        scale = findings.scale.scale
        notes.append(Note("", f"Scale {scale} has none of these test sets, so nothing of ours stands beside them."))
    return Table(
        name="reference_replications",
        title="Reference replications",
        caption="What others published for base and big on WMT14 (other training data are named), each in the "
        "definition in which it was printed; other: not known to equal one of ours. Only numbers of one test set and "
        "one definition can be compared.",
        columns=(
            Column("who", "who", side="label"),
            Column("system", "system", side="label"),
            Column("language_pair", "languages", side="label"),
            Column("testset", "test set", side="label"),
            Column("metric", "definition", side="label"),
            Column("printed", "printed"),
            Column("ours", "ours", side="ours"),
            Column("definition", "as printed", side="label"),
            Column("conditions", "steps, batch, hardware", side="label"),
            Column("remarks", "remarks", side="label"),
            Column("source", "source", side="label"),
        ),
        rows=tuple(Row(_cells(findings, one, evaluation_by_name.get(one.name))) for one in replications),
        summary=f"{len(replications)} numbers that others published for base and big on WMT14",
        notes=tuple(notes),
        signatures=signatures_of(findings, measured),
    )


def _order(one: ReferenceReplication) -> tuple[str, str, str, bool, str, float]:
    return (
        one.language_pair,
        one.system,
        one.testset,
        one.metric == OTHER_DEFINITION,  # last: they are not even known to be like each other
        one.metric,
        -float(one.value),
    )


def _evaluation(findings: Findings, one: ReferenceReplication) -> Evaluation | None:
    """Return our evaluation of the same system on the same test set, or None: not at this scale, or not comparable."""
    role = next((role for role, testset in PAPER_TESTSET_BY_ROLE.items() if testset == one.testset), None)
    if role is None or one.metric == OTHER_DEFINITION:
        return None
    pair = one.language_pair
    system = next(join.system for join in read_cells() if (join.row, join.language_pair) == (one.system, pair))
    averages = [average for average, asked_role in evaluations_of(pair, system) if asked_role == role]
    if not averages:
        return None
    evaluation = findings.evaluation_of(findings.corpus_of(pair), system, averages[-1], role)
    return evaluation if evaluation is not None and evaluation.testset == one.testset else None


def _cells(findings: Findings, one: ReferenceReplication, evaluation: Evaluation | None) -> tuple[Cell, ...]:
    ours = blank_cell() if evaluation is None else metric_cell(findings, evaluation, one.metric)
    return (
        text_cell(one.who, "label"),
        text_cell(one.system, "label"),
        text_cell(one.language_pair, "label"),
        text_cell(one.testset, "label"),
        text_cell(one.metric, "label"),
        text_cell(one.value),
        ours,
        text_cell(one.definition, "label"),
        text_cell(one.conditions, "label"),
        text_cell(one.remarks, "label"),
        text_cell(one.source, "label"),
    )
