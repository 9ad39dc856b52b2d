"""Lays out every system on every test set that it was evaluated on: bits, BLEU and its brevity
penalty.
"""

from dataclasses import replace

from aiayn.paths import CellKey, split_alpha
from aiayn.printed import METRIC_BY_PAIR
from aiayn.scoring.scores import BITS_METRIC, brevity_metric
from analysis.conclusions.scale_contrasts import further_testsets
from paper_tables.frame import Frame
from paper_tables.layout import SEEDS_WORDS, Aside, Cell, Column, Row, Table, label, row_by_column
from paper_tables.tables.ours import complete, our_cell

NOT_SCORED = "Not scored yet"


def lay_out_testsets(frame: Frame) -> Table | None:
    """Return a row for each corpus, system and average; None unless the scale asks for further
    evaluations of rows.
    """
    if not further_testsets(frame):
        return None
    by_row: dict[tuple[str, str, str], dict[str, CellKey]] = {}
    for key in frame.keys:
        by_row.setdefault((key.corpus, key.system, key.average), {}).setdefault(key.testset, key)
    columns = [Column(name, name, side="label") for name in ("corpus", "system", "average")]
    for testset in dict.fromkeys(key.testset for key in frame.keys):
        names = (
            ("bleu", "brevity")
            if split_alpha(testset)[1] is not None
            else ("bits", "bleu", "brevity")
        )
        headings = {"bits": "bits a subword", "bleu": "BLEU", "brevity": "brevity penalty"}
        columns += [
            Column(f"{name}_{testset}", headings[name], heading_of(testset), "ours")
            for name in names
        ]
    rows = []
    for names, keys in by_row.items():
        cells: dict[str, Cell] = dict(
            zip(("corpus", "system", "average"), map(label, names), strict=True)
        )
        for testset, key in keys.items():
            cells |= {f"{name}_{testset}": cell for name, cell in _cells(frame, key).items()}
        is_scored = any(
            number.signatures for (key, _), number in frame.numbers.items() if key in keys.values()
        )
        rows.append(
            Row(
                row_by_column(columns, cells),
                "ours",
                None if is_scored else Aside(" ".join(names), NOT_SCORED),
            )
        )
    return complete(
        frame,
        Table(
            name="testsets",
            title="Every test set",
            caption=(
                f"Each system on each of its test sets, bits a subword and BLEU: {SEEDS_WORDS}."
                " BLEU as Tables 2 and 3 have it, of other publications' text as given there. The"
                " brevity penalty is the factor by which too short translations lose, 1 where they"
                " are not short; not known of scores of earlier versions."
            ),
            columns=tuple(columns),
            rows=tuple(rows),
        ),
    )


def heading_of(testset: str) -> str:
    """Return how a test set is headed; one by another search says so."""
    name, alpha = split_alpha(testset)
    return name if alpha is None else f"{name}, alpha {alpha:g}"


def _cells(frame: Frame, key: CellKey) -> dict[str, Cell]:
    metrics = (METRIC_BY_PAIR.get(key.language_pair, ""), "bleu_as_given")
    metric = next(
        (one for one in metrics if (number := frame.number(key, one)) and number.values), metrics[0]
    )
    cells = {"bits": our_cell(frame.number(key, BITS_METRIC))} if key.has_perplexity else {}
    cells["bleu"] = our_cell(frame.number(key, metric))
    cells["brevity"] = replace(
        our_cell(frame.number(key, brevity_metric(metric))), shows=()
    )  # as the BLEU's
    return cells
