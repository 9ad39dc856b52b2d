"""Lays out Table 2: BLEU on the test sets of both languages and the cost of training, printed and ours side by side."""

from collections.abc import Iterable
from dataclasses import replace

from aiayn.paths import Evaluation
from aiayn.records import TrainRecord
from paper_tables.conditions import PAPER_PRECISION
from paper_tables.findings import Findings
from paper_tables.judged import JudgedCell, is_bleu, unlike_paper
from paper_tables.layout import (
    DASH,
    NAME_BY_PAIR,
    SACRE_METRIC,
    SEEDS_WORDS,
    Cell,
    Column,
    Note,
    Part,
    Row,
    Table,
    blank_cell,
    format_difference,
    format_value,
    text_cell,
)
from paper_tables.layout_ours import (
    mark_note,
    mark_of,
    metric_cell,
    precision_note,
    provenance_of,
    seeds_cell,
    signatures_of,
    state_notes,
)
from paper_tables.published import CellJoin, PublishedCell, read_cells, read_table
from paper_tables.run_costs import estimate_of, model_flops_of

MARK_BY_EDITION = {"neurips2017": "a", "arxiv": "b"}
NO_GPU_MARK, UNKNOWN_GPU_MARK = "c", "d"
MODEL_FLOPS_NOTE = (
    "Model FLOPs: what the model's products of matrices came to, by the formula in table `costs`. Footnote 5's "
    "estimate is another quantity: what the GPUs could have done in the time. `costs` has the ratio of the two."
)
METRIC_BY_PAIR = {"en-de": "bleu_tok_compound_split", "en-fr": "bleu_tok_moses"}  # cells.csv; a test compares


OUR_ROWS = ("base", "big")


def _column(kind: str, pair: str) -> str:
    return f"{kind}_{pair.replace('-', '_')}"


def _columns() -> tuple[Column, ...]:
    columns = [Column("model", "Model", side="label")]
    for pair, name in NAME_BY_PAIR.items():
        bleu, group = _column("bleu", pair), f"BLEU {name}"
        columns += [
            Column(bleu, "printed", group, better="higher"),
            Column(f"{bleu}_ours", "ours", group, "ours", "higher"),
            Column(f"{bleu}_difference", "difference", group, "ours"),
            Column(f"{bleu}_ours_sacre", "sacreBLEU 13a", group, "ours", "higher"),
        ]
    group = "Training Cost (FLOPs)"
    columns += [
        Column(_column("flops", pair), f"printed {name}", group, better="lower") for pair, name in NAME_BY_PAIR.items()
    ]
    columns += [
        Column(f"{_column('flops', pair)}_ours", f"ours {name}", group, "ours", "lower")
        for pair, name in NAME_BY_PAIR.items()
    ]
    columns += [
        Column(f"{_column('model_flops', pair)}_ours", f"model FLOPs, ours {name}", group, "ours")
        for pair, name in NAME_BY_PAIR.items()
    ]
    return tuple(columns)


def lay_out_table2(findings: Findings, judged: list[JudgedCell]) -> Table:
    """Return Table 2; a system of the paper's that is not run at this scale says so."""
    printed = read_table(2)
    joins = [join for join in read_cells() if join.table == 2]
    evaluations = [e for join in joins if (e := _evaluation(findings, join)) is not None]
    rows = [_row(findings, row, printed, joins, judged) for row in dict.fromkeys(cell.row for cell in printed)]
    used_marks = {mark for row in rows for cell in row.cells for mark in cell.marks}
    return Table(
        name="table2",
        title="Table 2",
        caption="BLEU and training cost on the test sets (the paper's: newstest2014). Printed: as in the paper. Ours: "
        f"{SEEDS_WORDS}. Definitions as printed: EN-DE in {METRIC_BY_PAIR['en-de']}, EN-FR in "
        f"{METRIC_BY_PAIR['en-fr']}; beside it the same translations in {SACRE_METRIC}, which is another quantity and "
        "never subtracted.",
        columns=_columns(),
        rows=tuple(rows),
        notes=(
            *mark_note(findings, evaluations),
            *precision_note(findings, evaluations),
            *_notes(findings, used_marks),
            *state_notes(findings, evaluations),
        ),
        signatures=signatures_of(findings, shown_metrics(evaluations)),
    )


def shown_metrics(evaluations: Iterable[Evaluation]) -> list[tuple[Evaluation, str]]:
    """Return each evaluation with the definition of its language pair, and with sacreBLEU's."""
    return [(e, metric) for e in evaluations for metric in (METRIC_BY_PAIR[e.language_pair], SACRE_METRIC)]


def _evaluation(findings: Findings, join: CellJoin) -> Evaluation | None:
    return findings.evaluation_of(findings.corpus_of(join.language_pair), join.system, join.average, join.role)


def _row(
    findings: Findings, row: str, printed: list[PublishedCell], joins: list[CellJoin], judged: list[JudgedCell]
) -> Row:
    join_by_column = {join.column: join for join in joins if join.row == row}
    judged_of_row = [cell for cell in judged if (cell.table, cell.row) == ("2", row)]
    cells = [text_cell(next(c.value for c in printed if (c.row, c.column) == (row, "model")), "label")]
    for pair in NAME_BY_PAIR:
        column = _column("bleu", pair)
        cells.append(_printed_cell(printed, row, column))
        judged_here = [cell for cell in judged_of_row if cell.column == column]
        cells += _our_bleu_cells(findings, join_by_column.get(column), judged_here)
    cells += _printed_costs(printed, row)
    flops_joins = [join_by_column.get(_column("flops", pair)) for pair in NAME_BY_PAIR]
    cells += [_our_cost_cell(findings, join) for join in flops_joins]
    cells += [_model_flops_cell(findings, join) for join in flops_joins]
    return Row(tuple(cells), group=group_of(row))


def group_of(row: str) -> str:
    """Return which of Table 2's three groups, set apart by rules, a row stands in."""
    if row in OUR_ROWS:
        return "this paper"
    return "ensembles" if row.endswith("ensemble") else "single models"


def _printed_cell(printed: list[PublishedCell], row: str, column: str) -> Cell:
    """Return the printed number; where the editions differ, both, each with its mark."""
    found = [cell for cell in printed if (cell.row, cell.column) == (row, column)]
    parts = [Part(cell.value, (MARK_BY_EDITION[cell.edition],) if cell.edition != "both" else ()) for cell in found]
    return Cell(tuple(parts)) if parts else blank_cell()


def _printed_costs(printed: list[PublishedCell], row: str) -> list[Cell]:
    """Return the printed costs; a number printed once under both language pairs stays one cell."""
    names = [_column("flops", pair) for pair in NAME_BY_PAIR]
    cells: list[Cell] = []
    while names:
        found = next((cell for cell in printed if (cell.row, cell.column) == (row, names[0])), None)
        num_columns = 1 if found is None else len(found.covered_columns)
        cells.append(blank_cell() if found is None else text_cell(found.value, num_columns=num_columns))
        names = names[num_columns:]
    return cells


def _our_bleu_cells(findings: Findings, join: CellJoin | None, judged: list[JudgedCell]) -> list[Cell]:
    """Return ours, the difference, and sacreBLEU; blank beside the paper's competitors."""
    if join is None:
        return [blank_cell()] * 3
    evaluation = _evaluation(findings, join)
    if evaluation is None or not is_bleu(join.metric):
        return [text_cell("not run", "state"), blank_cell(), blank_cell()]
    ours = metric_cell(findings, evaluation, join.metric)
    return [ours, difference_cell(findings, evaluation, judged), metric_cell(findings, evaluation, SACRE_METRIC)]


def difference_cell(findings: Findings, evaluation: Evaluation, judged: list[JudgedCell]) -> Cell:
    """Return ours minus printed, by edition where they differ; the mark alone where the two are unlike."""
    differences = [cell for cell in judged if cell.verdict.difference is not None]
    if unlike_paper(findings, evaluation):
        return text_cell("", "state", *mark_of(findings, evaluation))
    if not differences:
        return text_cell(DASH, "state")
    parts = []
    for cell in differences:
        marks = (MARK_BY_EDITION[cell.edition],) if cell.edition in MARK_BY_EDITION else ()
        parts.append(Part(format_difference(cell.verdict.difference or 0.0), marks))
    provenance = provenance_of(findings, evaluation, differences[0].metric)
    return replace(Cell(tuple(parts), "ours"), provenance=provenance)


def _our_cost_cell(findings: Findings, join: CellJoin | None) -> Cell:
    """Return seconds x GPUs x sustained rate over all attempts (footnote 5); a dash without a GPU that is known."""
    evaluation = None if join is None else _evaluation(findings, join)
    if join is None:
        return blank_cell()
    if evaluation is None:
        return text_cell("not run", "state")
    trains = trainings_of(findings, evaluation)
    cost_by_seed = {seed: cost for seed, train in trains.items() if (cost := estimate_of(findings, train)) is not None}
    if trains and not cost_by_seed:
        reason_mark = UNKNOWN_GPU_MARK if any(train.hardware.num_gpus for train in trains.values()) else NO_GPU_MARK
        return text_cell(DASH, "state", *mark_of(findings, evaluation), reason_mark)
    return seeds_cell(findings, evaluation, cost_by_seed, "training_flops")


def trainings_of(findings: Findings, evaluation: Evaluation) -> dict[int, TrainRecord]:
    """Return the finished trainings of an evaluation's system by seed."""
    wanted = (evaluation.corpus, evaluation.system)
    return {key[2]: train for key, train in sorted(findings.train_by_key.items()) if key[:2] == wanted}


def _model_flops_cell(findings: Findings, join: CellJoin | None) -> Cell:
    """Return what the model's products of matrices came to, which needs no GPU; a dash without the corpus's lengths."""
    evaluation = None if join is None else _evaluation(findings, join)
    if join is None or evaluation is None:
        return blank_cell()
    trains = trainings_of(findings, evaluation)
    flops_by_seed = {seed: f for seed, train in trains.items() if (f := model_flops_of(findings, train)) is not None}
    if trains and not flops_by_seed:
        return text_cell(DASH, "state", *mark_of(findings, evaluation))
    return seeds_cell(findings, evaluation, flops_by_seed, "training_flops")


def _notes(findings: Findings, used_marks: set[str]) -> list[Note]:
    """Return the legend of the letters that occur, and the rate of each GPU."""
    text_by_mark = {
        MARK_BY_EDITION["neurips2017"]: "As printed in the NeurIPS 2017 edition.",
        MARK_BY_EDITION["arxiv"]: "As printed in the arXiv edition, version 5 and later.",
        NO_GPU_MARK: f"Trained without a GPU: no cost by footnote 5. Wall time instead: {_wall_times(findings)}.",
        UNKNOWN_GPU_MARK: "The GPU is not in hardware.yaml; add its sustained rate there.",
    }
    notes = [Note(mark, text) for mark, text in text_by_mark.items() if mark in used_marks]
    if findings.train_by_key:
        notes.append(Note("", MODEL_FLOPS_NOTE))
    products = sorted({train.hardware.gpu for train in findings.train_by_key.values() if train.hardware.num_gpus})
    has_other = any(one.training.precision != PAPER_PRECISION for one in findings.system_by_name.values())
    for product in products:
        gpu = findings.hardware.find_gpu(product)
        if gpu is not None:
            rate = gpu.sustained_flops_per_second
            text = f"{format_value(rate.value, 'training_flops')} FLOP/s a GPU ({rate.kind}: {rate.source})"
            single = "; as the paper counts it, in single precision whatever the training's" if has_other else ""
            notes.append(Note("", f"Cost of ours: GPU seconds of all attempts x {text}, {product}{single}."))
    return notes


def _wall_times(findings: Findings) -> str:
    """Return the mean wall seconds of each of Table 2's systems that was trained without a GPU."""
    seconds_by_system: dict[tuple[str, str], list[float]] = {}
    joins = [join for join in read_cells() if join.table == 2 and join.metric == "training_flops"]
    for join in joins:
        evaluation = _evaluation(findings, join)
        for train in trainings_of(findings, evaluation).values() if evaluation else ():
            if not train.hardware.num_gpus:
                seconds_by_system.setdefault((train.corpus, train.system), []).append(train.wall_seconds)
    return ", ".join(
        f"{corpus} {system} {format_value(sum(seconds) / len(seconds), 'wall_seconds')} s (n={len(seconds)})"
        for (corpus, system), seconds in seconds_by_system.items()
    )
