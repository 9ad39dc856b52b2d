"""Lays out table `testsets`: bits a subword, BLEU and brevity penalty of every system on each of
its test sets.
"""

from aiayn.paths import CellKey, split_alpha
from aiayn.printed import METRIC_BY_PAIR
from aiayn.scoring.scores import BITS_METRIC, brevity_metric
from analysis.conclusions.scale_contrasts import further_testsets
from paper_tables.frame import Frame
from paper_tables.layout import Cell, Column, Table, cell_frame, label, row_of
from paper_tables.rounding import SEEDS_WORDS
from paper_tables.tables.ours import complete, our_cell

NOT_SCORED = "Not scored yet"
HEADING_BY_NAME = {"bits": "bits a subword", "bleu": "BLEU", "brevity": "brevity penalty"}


def lay_out_testsets(frame: Frame) -> Table | None:
    """Return table `testsets` with a row for each corpus, system and average of checkpoints. Return
    None if no system is scored on a test set other than dev and test.
    """
    # A scale with dev and test only, such as the demo, has all its numbers in Tables 2 and 3.
    if not further_testsets(frame):
        return None
    by_row: dict[tuple[str, str, str], dict[str, CellKey]] = {}
    for key in frame.keys:
        # Base occurs twice: its last checkpoint is scored on dev, its average on test.
        by_row.setdefault((key.corpus, key.system, key.average), {}).setdefault(key.testset, key)
    columns = [Column(name, name, side="label") for name in ("corpus", "system", "average")]
    for testset in dict.fromkeys(key.testset for key in frame.keys):
        for name, heading in HEADING_BY_NAME.items():
            columns.append(Column(f"{name}_{testset}", heading, heading_of(testset), "ours"))
    rows = []
    for (corpus, system, average), key_by_testset in by_row.items():
        cells = {"corpus": label(corpus), "system": label(system), "average": label(average)}
        for testset, key in key_by_testset.items():
            for name, cell in _cells(frame, key).items():
                cells[f"{name}_{testset}"] = cell
        keys = key_by_testset.values()
        # A number that is not scored yet has no signature. A row without any score is listed below
        # the table.
        is_scored = any(
            number.signatures for (key, _), number in frame.numbers.items() if key in keys
        )
        name = f"{corpus} {system} {average}"
        rows.append(row_of(cells, name, "ours", None if is_scored else (name, NOT_SCORED)))
    return complete(
        frame,
        Table(
            name="testsets",
            title="Every test set",
            caption=(
                f"Each system on each of its test sets, bits a subword and BLEU: {SEEDS_WORDS}."
                " BLEU as in Tables 2 and 3; for other publications' text, on their tokens. The"
                " brevity penalty is the factor by which too short translations lose, 1 where they"
                " are not short; it is not known for scores of earlier versions."
            ),
            columns=tuple(columns),
            cells=cell_frame(rows),
        ),
    )


def heading_of(testset: str) -> str:
    """Return the column heading of a test set: `val`, or `val, alpha 1.4` if the beam search used a
    different length penalty.
    """
    name, alpha = split_alpha(testset)
    return name if alpha is None else f"{name}, alpha {alpha:g}"


def _cells(frame: Frame, key: CellKey) -> dict[str, Cell]:
    metric = METRIC_BY_PAIR.get(key.language_pair, "")
    number, as_given = frame.number(key, metric), frame.number(key, "bleu_as_given")
    # Text that others published in pieces has only the BLEU of its own tokens.
    if not (number and number.values) and as_given and as_given.values:
        metric, number = "bleu_as_given", as_given
    # The brevity penalty comes from the same definition as the BLEU that is shown.
    brevity = frame.number(key, brevity_metric(metric))
    cells = {"bleu": our_cell(number), "brevity": our_cell(brevity)}
    if key.has_perplexity:
        cells["bits"] = our_cell(frame.number(key, BITS_METRIC))
    return cells
