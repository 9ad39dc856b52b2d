"""Lays out table `horizon`: bigger models and base at 16,000 updates, next to decision 0012's
predictions.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from analysis.conclusions.horizon import (
    CONFIRMATORY_SEEDS,
    HORIZON_UPDATES,
    PREDICTED_BITS,
    SHOWN_UPDATES,
    HorizonContrast,
    LongRun,
    Quantity,
    bits_of,
    compare_at_horizon,
    long_runs,
)
from paper_tables.frame import Frame
from paper_tables.layout import (
    BITS_DECIMALS,
    BLEU_DECIMALS,
    PLUS_MINUS,
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
    text_cell,
)
from paper_tables.tables.ours import complete, difference_provenance

NOTES = (
    (
        "Each line is a row minus base in bits a subword on dev, after equal numbers of updates."
        " The confirmatory seeds, the quantity and the predictions were fixed in decision 0012"
        " before any of these runs was started. The sd is pooled over the confirmatory systems with"
        " two seeds or more."
    ),
    (
        "Other readings: the mean of the last three validations; each run at the validation where"
        " it is best, as a larger model may over-fit; BLEU by the last checkpoint. Only the best"
        " validation was asked for in advance. Each reading has an sd of its own over the same"
        " systems. Training bits: on training batches with dropout, mean over the last fifth of the"
        " updates."
    ),
    "Bigger is better outlives the horizon if the 95 % interval at 16,000 updates excludes 0.",
)


def lay_out_horizon(frame: Frame) -> Table | None:
    """Return a row for each contrast at 16,000 updates; None as long as base has no such run."""
    runs = long_runs(frame)
    contrasts = compare_at_horizon(runs)
    if not contrasts:
        return None
    fields: list[Field[HorizonContrast]] = [
        label_field("row", "row minus base", lambda contrast: contrast.system),
        label_field("kind", "kind", lambda contrast: contrast.kind),
        label_field("seeds", "seeds of row; of base", _seeds_words),
        printed_field(
            "predicted", "predicted", lambda contrast: f"{PREDICTED_BITS[contrast.system]:+.2f}"
        ),
        our_field("ours", f"at {HORIZON_UPDATES:,} updates", _estimate_cell),
        our_field("outlives", "excludes 0", _outlives_cell),
        _reading_field("last_three", "last three validations", lambda run: run.mean_of_last),
        _reading_field("best", "best validation", lambda run: run.best_bits),
    ]
    testsets = dict.fromkeys(
        testset
        for contrast in contrasts
        for run in contrast.runs
        for testset in run.bleu_by_testset
    )
    for testset in testsets:
        value_of = _bleu_on(testset)
        fields.append(
            _reading_field(f"bleu_{testset}", f"BLEU, {testset}", value_of, BLEU_DECIMALS)
        )
    fields.append(our_field("training_bits", "training bits of row; of base", _training_cell))
    for update in SHOWN_UPDATES:
        fields.append(_update_field(update))
    table = Table(
        name="horizon",
        title="Longer trainings",
        caption=(
            "Whether bigger models stay better than base when all train to"
            f" {HORIZON_UPDATES:,} updates."
        ),
        columns=columns_of(fields),
        rows=rows_of(fields, contrasts, "ours"),
        notes=tuple(map(Note, (*NOTES, *_missing_words(runs)))),
    )
    return complete(frame, table, has_states=False)


def _seeds_words(contrast: HorizonContrast) -> str:
    sides = []
    for runs in (contrast.runs, contrast.controls):
        sides.append(", ".join(str(run.seed) for run in runs))
    return "; ".join(sides)


def _bleu_on(testset: str) -> Quantity:
    return lambda run: run.bleu_by_testset.get(testset)


def _reading_field(
    name: str, heading: str, value_of: Quantity, decimals: int = BITS_DECIMALS
) -> Field[HorizonContrast]:
    """Return the column of another quantity: the difference, with half of its 95 % interval."""

    def cell(contrast: HorizonContrast) -> Cell:
        difference, estimate = contrast.minus(value_of), contrast.estimate(value_of)
        if difference is None:
            return blank_cell()
        reach = "" if estimate is None else f" {PLUS_MINUS} {estimate.reach:.{decimals}f}"
        return text_cell(f"{difference:+.{decimals}f}{reach}", "ours")

    return our_field(name, heading, cell)


def _training_cell(contrast: HorizonContrast) -> Cell:
    """Return the mean bits on training batches of both sides; blank if a run has no log."""
    means = []
    for runs in (contrast.runs, contrast.controls):
        bits = [run.training_bits for run in runs if run.training_bits is not None]
        if len(bits) < len(runs):
            return blank_cell()
        means.append(f"{statistics.mean(bits):.2f}")
    return text_cell("; ".join(means), "ours")


def _bits_cell(value: float) -> Cell:
    return text_cell(f"{value:+.{BITS_DECIMALS}f}", "ours")


def _estimate_cell(contrast: HorizonContrast) -> Cell:
    """Return the difference with its interval; it shows the numbers of the first run of a side."""
    row, control = contrast.runs[0].number, contrast.controls[0].number
    difference, estimate = contrast.minus(bits_of) or 0.0, contrast.estimate(bits_of)
    if estimate is None:
        return replace(_bits_cell(difference), shows=(row, control))
    low, high = difference - estimate.reach, difference + estimate.reach
    interval = f"{low:+.{BITS_DECIMALS}f} to {high:+.{BITS_DECIMALS}f}"
    text = f"{difference:+.{BITS_DECIMALS}f} ({interval})"
    return replace(
        text_cell(text, "ours", *row.marks),
        provenance=difference_provenance(row, control),
        shows=(row, control),
    )


def _outlives_cell(contrast: HorizonContrast) -> Cell:
    estimate = contrast.estimate(bits_of)
    if estimate is None:
        return text_cell("no interval: no system has two seeds", "state")
    return text_cell("no" if estimate.includes(0.0) else "yes", "ours")


def _update_field(update: int) -> Field[HorizonContrast]:
    def cell(contrast: HorizonContrast) -> Cell:
        value = contrast.minus(lambda run: run.bits_by_update.get(update))
        return blank_cell() if value is None else _bits_cell(value)

    return our_field(f"at_{update}", f"after {update:,}", cell)


def _missing_words(runs_by_system: Mapping[str, Sequence[LongRun]]) -> list[str]:
    """Return a sentence on the seeds of decision 0012 that do not reach the horizon, if any."""
    missing = []
    for system, seeds in CONFIRMATORY_SEEDS.items():
        finished = {run.seed for run in runs_by_system.get(system, [])}
        missing += [f"{system} seed {seed}" for seed in seeds if seed not in finished]
    return [f"No run to {HORIZON_UPDATES:,} updates yet: {', '.join(missing)}."] if missing else []
