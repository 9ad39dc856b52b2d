"""Lays out Table 2: BLEU on the test sets of both languages and the cost of training, printed and ours side by side."""

from collections.abc import Iterable

from aiayn.paths import Evaluation
from aiayn.printed import METRIC_BY_PAIR, PAPER_PRECISION, CellJoin, read_cells, read_table
from paper_tables.cell_verdicts import JudgedCell, has_condition_mismatch, is_bleu
from paper_tables.layout import (
    DASH,
    NAME_BY_PAIR,
    SACRE_METRIC,
    SEEDS_WORDS,
    Cell,
    Column,
    Note,
    Part,
    Table,
    format_difference,
    format_value,
    rows_of_printed,
    text_cell,
)
from paper_tables.scale_results import ScaleResults
from paper_tables.tables.costs import estimate_of, model_flops_of
from paper_tables.tables.ours import complete, mark_of, metric_cell, provenance_of, training_cell

MARK_BY_EDITION = {"neurips2017": "a", "arxiv": "b"}
NO_GPU_MARK, UNKNOWN_GPU_MARK = "c", "d"
MODEL_FLOPS_NOTE = (
    "Model FLOPs: what the model's products of matrices came to, by the formula in table `costs`. Footnote 5's "
    "estimate is another quantity: what the GPUs could have done in the time. `costs` has the ratio of the two."
)
OUR_ROWS = ("base", "big")


def table2_columns(heading: str = "ours") -> tuple[Column, ...]:
    """Return the columns; `heading` is that of our numbers. Definitions are named where they are not the printed."""
    columns = [Column("model", "Model", side="label")]
    name_by_pair = {pair.replace("-", "_"): name for pair, name in NAME_BY_PAIR.items()}
    for pair, name in name_by_pair.items():
        bleu, group = f"bleu_{pair}", f"BLEU {name}"
        columns += [
            Column(bleu, "printed", group, better="higher"),
            Column(f"{bleu}_ours", heading, group, "ours", "higher"),
            Column(f"{bleu}_definition", "definition", group, "ours"),
            Column(f"{bleu}_difference", "difference", group, "ours"),
            Column(f"{bleu}_ours_sacre", "sacreBLEU 13a", group, "ours", "higher"),
        ]
    group = "Training Cost (FLOPs)"
    pairs = name_by_pair.items()
    columns += [Column(f"flops_{pair}", f"printed {name}", group, better="lower") for pair, name in pairs]
    columns += [Column(f"flops_{pair}_ours", f"{heading} {name}", group, "ours", "lower") for pair, name in pairs]
    columns += [Column(f"model_flops_{pair}_ours", f"model FLOPs, ours {name}", group, "ours") for pair, name in pairs]
    return tuple(columns)


def lay_out_table2(results: ScaleResults, judged: list[JudgedCell]) -> Table:
    """Return Table 2; a system of the paper's that is not run at this scale is marked so."""
    columns = table2_columns()
    beside: dict[str, dict[str, Cell]] = {}
    for join in read_cells():
        if join.table == 2:
            cells = _bleu_cells(results, join, judged) if is_bleu(join.metric) else _cost_cells(results, join)
            beside.setdefault(join.row, {}).update(cells)
    rows = rows_of_printed(read_table(2), columns, group_of, (), MARK_BY_EDITION, beside)
    used_marks = {mark for row in rows for cell in row.cells for mark in cell.marks}
    return complete(
        results,
        Table(
            name="table2",
            title="Table 2",
            caption="BLEU and training cost on the test sets (the paper's: newstest2014). Printed: as in the paper. "
            f"Ours: {SEEDS_WORDS}. Definitions as printed: EN-DE in {METRIC_BY_PAIR['en-de']}, EN-FR in "
            f"{METRIC_BY_PAIR['en-fr']}; beside it the same translations in {SACRE_METRIC}, which is another quantity "
            "and never subtracted.",
            columns=columns,
            rows=rows,
            notes=tuple(_notes(results, used_marks)),
        ),
    )


def group_of(row: str) -> str:
    """Return which of Table 2's three groups, separated by rules, a row is in."""
    if row in OUR_ROWS:
        return "this paper"
    return "ensembles" if row.endswith("ensemble") else "single models"


def _bleu_cells(results: ScaleResults, join: CellJoin, judged: Iterable[JudgedCell]) -> dict[str, Cell]:
    """Return ours, the difference, and sacreBLEU."""
    evaluation = results.evaluation_for(join)
    if evaluation is None:
        return {f"{join.column}_ours": text_cell("not run", "state")}
    here = [cell for cell in judged if (cell.table, cell.row, cell.column) == ("2", join.row, join.column)]
    return {
        f"{join.column}_ours": metric_cell(results, evaluation, join.metric),
        f"{join.column}_difference": difference_cell(results, evaluation, here),
        f"{join.column}_ours_sacre": metric_cell(results, evaluation, SACRE_METRIC),
    }


def difference_cell(results: ScaleResults, evaluation: Evaluation, judged: Iterable[JudgedCell]) -> Cell:
    """Return ours minus printed, by edition where they differ; the mark alone where conditions differ."""
    if has_condition_mismatch(results, evaluation):
        return text_cell("", "state", *mark_of(results, evaluation))
    parts, metrics = [], []
    for cell in judged:
        if cell.verdict.difference is not None:
            marks = (MARK_BY_EDITION[cell.edition],) if cell.edition in MARK_BY_EDITION else ()
            parts.append(Part(format_difference(cell.verdict.difference), marks))
            metrics.append(cell.metric)
    if not parts:
        return text_cell(DASH, "state")
    return Cell(tuple(parts), "ours", provenance=provenance_of(results, evaluation, metrics[0]))


def _cost_cells(results: ScaleResults, join: CellJoin) -> dict[str, Cell]:
    """Return seconds x GPUs x sustained rate over all attempts (footnote 5), and the operations of the model.

    A dash is where the GPU or the lengths of the corpus's sentences are unknown.
    """
    evaluation = results.evaluation_for(join)
    if evaluation is None:
        return {f"{join.column}_ours": text_cell("not run", "state")}
    trains = results.trainings_of(evaluation.corpus, evaluation.system).values()
    dash = text_cell(DASH, "state", *mark_of(results, evaluation))
    cost = training_cell(results, evaluation, lambda train: estimate_of(results, train), "training_flops")
    if trains and cost.kind != "ours":
        reason = UNKNOWN_GPU_MARK if any(train.hardware.num_gpus for train in trains) else NO_GPU_MARK
        cost = text_cell(DASH, "state", *dash.marks, reason)
    flops = training_cell(results, evaluation, lambda train: model_flops_of(results, train), "training_flops")
    return {
        f"{join.column}_ours": cost,
        f"model_{join.column}_ours": dash if trains and flops.kind != "ours" else flops,
    }


def _notes(results: ScaleResults, used_marks: set[str]) -> list[Note]:
    """Return the legend of the letters that occur, and the rate of each GPU."""
    text_by_mark = {
        MARK_BY_EDITION["neurips2017"]: "As printed in the NeurIPS 2017 edition.",
        MARK_BY_EDITION["arxiv"]: "As printed in the arXiv edition, version 5 and later.",
        NO_GPU_MARK: f"Trained without a GPU: no cost by footnote 5. Wall time instead: {_wall_times(results)}.",
        UNKNOWN_GPU_MARK: "The GPU is not in hardware.yaml; add its sustained rate there.",
    }
    notes = [Note(mark, text) for mark, text in text_by_mark.items() if mark in used_marks]
    if results.train_by_key:
        notes.append(Note("", MODEL_FLOPS_NOTE))
    products = sorted({train.hardware.gpu for train in results.train_by_key.values() if train.hardware.num_gpus})
    has_other = any(one.training.precision != PAPER_PRECISION for one in results.system_by_name.values())
    for product in products:
        gpu = results.hardware.find_gpu(product)
        if gpu is not None:
            rate = gpu.sustained_flops_per_second
            text = f"{format_value(rate.value, 'training_flops')} FLOP/s a GPU ({rate.kind}: {rate.source})"
            single = "; as the paper counts it, in single precision whatever the training's" if has_other else ""
            notes.append(Note("", f"Cost of ours: GPU seconds of all attempts x {text}, {product}{single}."))
    return notes


def _wall_times(results: ScaleResults) -> str:
    """Return the mean wall seconds of each of Table 2's systems that was trained without a GPU."""
    texts = {}
    for join in read_cells():
        evaluation = results.evaluation_for(join) if (join.table, join.metric) == (2, "training_flops") else None
        trains = results.trainings_of(evaluation.corpus, evaluation.system).values() if evaluation else ()
        seconds = [train.wall_seconds for train in trains if not train.hardware.num_gpus]
        if evaluation and seconds:
            mean = format_value(sum(seconds) / len(seconds), "wall_seconds")
            texts[evaluation.corpus, evaluation.system] = f"{mean} s (n={len(seconds)})"
    return ", ".join(f"{corpus} {system} {text}" for (corpus, system), text in texts.items())
