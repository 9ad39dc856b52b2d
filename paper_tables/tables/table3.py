"""Lays out Table 3: each printed row, and under it ours with the hyper-parameters really used at this scale."""

from typing import Literal

from aiayn.paths import Evaluation
from aiayn.printed import METRIC_BY_PAIR, PERPLEXITY_METRIC, read_cells, read_columns, read_table
from analysis.scoring.scores import BITS_METRIC, WORD_BITS_METRIC
from paper_tables.cell_verdicts import JudgedCell
from paper_tables.layout import (
    SACRE_METRIC,
    SEEDS_WORDS,
    Cell,
    Column,
    Note,
    OurLine,
    Table,
    label,
    rows_of_printed,
    text_cell,
)
from paper_tables.scale_results import ScaleResults
from paper_tables.tables.ours import complete, mark_of, metric_cell, training_cell
from paper_tables.tables.table2 import difference_cell

BLEU_METRIC = METRIC_BY_PAIR["en-de"]
SYMBOL_BY_COLUMN = {  # Table 3's columns of settings, and what they are in a spec
    "N": "num_layers", "d_model": "d_model", "d_ff": "d_ff", "h": "num_heads", "d_k": "d_k", "d_v": "d_v",
    "P_drop": "p_drop", "eps_ls": "eps_ls",
}  # fmt: skip


def lay_out_table3(results: ScaleResults, judged: list[JudgedCell]) -> Table:
    """Return Table 3; a row of the paper's that is not run at this scale has no second line."""
    printed, columns = read_table(3), table3_columns()
    evaluation_by_row = {name: dev_evaluation(results, name) for name in dict.fromkeys(cell.row for cell in printed)}
    lines = [
        OurLine(
            name, _our_cells(results, evaluation, [cell for cell in judged if (cell.table, cell.row) == ("3", name)])
        )
        for name, evaluation in evaluation_by_row.items()
        if evaluation is not None
    ]
    evaluations = [evaluation for evaluation in evaluation_by_row.values() if evaluation is not None]
    return complete(
        results,
        Table(
            name="table3",
            title="Table 3",
            caption="Variations on the architecture, EN-DE, on the dev set without averaging (the paper's: "
            "newstest2013). A printed row leaves blank what is as in base; ours, under it, shows every value really "
            f"used. Ours: {SEEDS_WORDS}. BLEU in {BLEU_METRIC} as printed, and beside it in {SACRE_METRIC}, "
            "which is another quantity and never subtracted. Perplexity is per subword of ours, and the bits its "
            "logarithm to base 2: they compare with other lines of ours, not with the printed one. Bits a word are per "
            "word of the detokenised reference, cut at blanks, ends of sentences included: so vocabularies compare.",
            columns=columns,
            rows=rows_of_printed(printed, columns, group_of, lines),
            notes=tuple(_notes(results, evaluations)),
        ),
    )


def group_of(row: str) -> str:
    """Return the printed name of a row's group: `base`, `(A)` to `(E)`, `big`."""
    return f"({row.split('_')[1].upper()})" if row.startswith("table3_") else row


def table3_columns() -> tuple[Column, ...]:
    """Return the columns; a definition is named where it is not the printed one's."""
    better: dict[str, Literal["higher", "lower"]] = {"ppl_dev": "lower", "bleu_dev": "higher"}
    columns = []
    for column in read_columns()[3]:
        side: Literal["label", "printed"] = "label" if column.kind == "label" else "printed"
        columns.append(Column(column.name, column.heading, side=side, better=better.get(column.name, "")))
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
    return tuple(columns)


def dev_evaluation(results: ScaleResults, row: str) -> Evaluation | None:
    """Return the evaluation beside a row's dev BLEU, of one seed; None if the scale does not run it."""
    join = next((join for join in read_cells() if (join.table, join.row, join.metric) == (3, row, BLEU_METRIC)), None)
    return None if join is None else results.evaluation_for(join)


def _our_cells(results: ScaleResults, evaluation: Evaluation, judged: list[JudgedCell]) -> dict[str, Cell]:
    training = results.system_by_name[evaluation.system].training
    marks = mark_of(results, evaluation)
    return {
        "label": label(f"ours: {evaluation.system}", *marks),
        **{
            column: text_cell(str(getattr(training, name)), "ours", *marks) for column, name in SYMBOL_BY_COLUMN.items()
        },
        "train_steps": training_cell(results, evaluation, lambda train: train.updates, "steps"),
        "ppl_dev": metric_cell(results, evaluation, PERPLEXITY_METRIC),
        "bits_dev": metric_cell(results, evaluation, BITS_METRIC),
        "bits_per_word_dev": metric_cell(results, evaluation, WORD_BITS_METRIC),
        "bleu_dev": metric_cell(results, evaluation, BLEU_METRIC),
        "difference": difference_cell(results, evaluation, judged),
        "bleu_dev_sacre": metric_cell(results, evaluation, SACRE_METRIC),
        "params": training_cell(results, evaluation, lambda train: train.num_parameters, "num_parameters"),
    }


def _notes(results: ScaleResults, evaluations: list[Evaluation]) -> list[Note]:
    """Return the notes on counts of parameters, and on positions that are no sinusoids."""
    notes = []
    for corpus in dict.fromkeys(evaluation.corpus for evaluation in evaluations):
        sizes = results.vocabulary_sizes_of(corpus)
        if sizes:
            words = " and ".join(f"{size:,} ({language})" for language, size in sorted(sizes.items()))
            notes.append(
                Note("", f"Parameters of ours count {corpus}'s vocabulary, {words} entries with special symbols.")
            )
    for evaluation in evaluations:
        if results.system_by_name[evaluation.system].training.positions == "learned":
            notes.append(Note("", f"{evaluation.system}: learned positional embedding instead of sinusoids."))
    return notes
