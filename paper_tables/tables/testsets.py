"""Lays out every system on every test set that it was evaluated on: bits, BLEU and its brevity penalty."""

from dataclasses import replace

from aiayn.paths import Evaluation, split_alpha
from aiayn.printed import METRIC_BY_PAIR
from analysis.scoring.scores import BITS_METRIC, brevity_metric
from paper_tables.layout import SEEDS_WORDS, Aside, Cell, Column, Row, Table, label, row_by_column
from paper_tables.scale_results import ScaleResults
from paper_tables.tables.ours import complete, metric_cell

NOT_SCORED = "Not scored yet"


def lay_out_testsets(results: ScaleResults) -> Table | None:
    """Return a row for each corpus, system and average; None unless the scale asks for further evaluations of rows."""
    by_row: dict[tuple[str, str, str], dict[str, Evaluation]] = {}
    for one in results.evaluations:
        by_row.setdefault((one.corpus, one.system, one.average), {}).setdefault(one.testset, one)
    if not any(one.role in ("further", "alpha") for one in results.evaluations):
        return None
    columns = [Column(name, name, side="label") for name in ("corpus", "system", "average")]
    for testset in dict.fromkeys(one.testset for one in results.evaluations):
        names = ("bleu", "brevity") if split_alpha(testset)[1] is not None else ("bits", "bleu", "brevity")
        headings = {"bits": "bits a subword", "bleu": "BLEU", "brevity": "brevity penalty"}
        columns += [Column(f"{name}_{testset}", headings[name], heading_of(testset), "ours") for name in names]
    rows = []
    for names, evaluations in by_row.items():
        cells: dict[str, Cell] = dict(zip(("corpus", "system", "average"), map(label, names), strict=True))
        for testset, evaluation in evaluations.items():
            cells |= {f"{name}_{testset}": cell for name, cell in _cells(results, evaluation).items()}
        is_scored = any(results.is_scored(one) for one in evaluations.values())
        rows.append(
            Row(row_by_column(columns, cells), "ours", None if is_scored else Aside(" ".join(names), NOT_SCORED))
        )
    return complete(
        results,
        Table(
            name="testsets",
            title="Every test set",
            caption=f"Each system on each of its test sets, bits a subword and BLEU: {SEEDS_WORDS}. BLEU as Tables 2 "
            "and 3 have it, of other publications' text as given there. The brevity penalty is the factor by which too "
            "short translations lose, 1 where they are not short; not known of scores of earlier versions.",
            columns=tuple(columns),
            rows=tuple(rows),
        ),
    )


def heading_of(testset: str) -> str:
    """Return how a test set is headed; one by another search says so."""
    name, alpha = split_alpha(testset)
    return name if alpha is None else f"{name}, alpha {alpha:g}"


def _cells(results: ScaleResults, evaluation: Evaluation) -> dict[str, Cell]:
    metrics = (METRIC_BY_PAIR.get(evaluation.language_pair, ""), "bleu_as_given")
    metric = next((one for one in metrics if results.values_of(evaluation, one)), metrics[0])
    cells = {"bits": metric_cell(results, evaluation, BITS_METRIC)} if evaluation.has_perplexity else {}
    cells["bleu"] = metric_cell(results, evaluation, metric)
    cells["brevity"] = replace(metric_cell(results, evaluation, brevity_metric(metric)), shows=())  # as the BLEU's
    return cells
