"""Lays out the tables `variants` and `architectures`, which compare systems with base.

Variants are the paper's model with the details of other implementations. Variants have the columns
of Table 3. Architectures are recurrent and convolutional models. Architectures are compared in BLEU
and seconds, at equal size and equal number of tokens.
"""

from dataclasses import replace
from typing import NamedTuple

import msgspec

from aiayn.paths import CellKey
from aiayn.printed import PERPLEXITY_METRIC, REFERENCE_SYSTEM
from aiayn.scoring.seeds import MIN_SEEDS_OF_INTERVAL, paired_differences
from aiayn.spec.sheet import read_sheet, systems_asked_by
from aiayn.spec.system import CONFIG_FOLDER
from paper_tables.frame import Frame
from paper_tables.layout import (
    DASH,
    SACRE_METRIC,
    Cell,
    Column,
    Field,
    Note,
    Table,
    columns_of,
    our_field,
    rows_of,
)
from paper_tables.rounding import BLEU, SEEDS_WORDS, over_seeds
from paper_tables.tables.ours import complete, of_seeds, our_cell
from paper_tables.tables.table3 import BLEU_METRIC

# This sheet lists every variant and architecture, in the order of their tables.
COMPARED_SHEET = CONFIG_FOLDER / "trainings" / "variants.tsv"
DIFFERENCE_WORDS = (
    "A difference is to base, seed by seed over the seeds that both have, with the 95 % t-interval"
    f" of these paired differences; of fewer than {MIN_SEEDS_OF_INTERVAL} seeds the differences"
    " themselves."
)


class _ComparedVariant(NamedTuple):
    """Our results of one system (`key`), with its difference to base (`reference`)."""

    frame: Frame
    key: CellKey
    reference: CellKey

    def ours(self, text: str) -> Cell:
        """Return a cell of the table with this text and the mark of the scale."""
        return Cell(text, "ours", self.frame.numbers[self.key, "steps"].marks)

    def metric(self, metric: str) -> Cell:
        """Return the cell with the system's value of a metric over seeds."""
        return our_cell(self.frame.numbers[self.key, metric])

    def difference(self, metric: str) -> Cell | None:
        """Return the difference between the system and base over their common seeds: `+0.30 +- 0.12
        (n=3)`.

        With one or two common seeds, the differences are listed as they are. If system and base
        have no common seed, the cell is a dash. The cell of base itself is blank.
        """
        if self.key == self.reference:
            return None
        number = self.frame.numbers[self.key, metric]
        # The differences are paired by seed: both systems saw the same order of training data, so
        # its effect cancels.
        reference = self.frame.numbers[self.reference, metric]
        common = number.value_by_seed.keys() & reference.value_by_seed.keys()
        if not common:
            return Cell(DASH, "state", number.marks)
        differences = paired_differences(number.value_by_seed, reference.value_by_seed)
        text = over_seeds(differences, BLEU, is_signed=True)
        # The page lists the runs behind a number, here only the runs of the common seeds.
        numbers = (of_seeds(number, common), of_seeds(reference, common))
        return replace(self.ours(f"{text} (n={len(differences)})"), numbers=numbers)


NAME: Field[_ComparedVariant] = Field(
    Column("system", "", side="label"),
    lambda compared: replace(compared.ours(compared.key.system), kind="label"),
)
PARAMETERS: Field[_ComparedVariant] = our_field(
    "params", "params x10^6", lambda compared: compared.metric("num_parameters")
)
STEPS: Field[_ComparedVariant] = our_field(
    "train_steps", "train steps", lambda compared: compared.metric("steps")
)
QUALITY: tuple[Field[_ComparedVariant], ...] = (
    our_field("bleu_dev", "BLEU (dev)", lambda compared: compared.metric(BLEU_METRIC)),
    our_field(
        "bleu_dev_difference", "BLEU difference", lambda compared: compared.difference(BLEU_METRIC)
    ),
    our_field(
        "bleu_dev_sacre", "sacreBLEU 13a (dev)", lambda compared: compared.metric(SACRE_METRIC)
    ),
)
PERPLEXITY: Field[_ComparedVariant] = our_field(
    "ppl_dev", "PPL (dev)", lambda compared: compared.metric(PERPLEXITY_METRIC)
)


def lay_out_variants(frame: Frame) -> Table:
    """Return table `variants`: base, then a row for each variant in the sheet (the list of
    trainings), in its order.
    """
    fields: tuple[Field[_ComparedVariant], ...] = (
        NAME,
        our_field(
            "unlike_base",
            "unlike base in",
            lambda compared: compared.ours(differing_keys(frame, compared.key.system)),
        ),
        STEPS,
        PERPLEXITY,
        our_field(
            "ppl_dev_difference",
            "PPL difference",
            lambda compared: compared.difference(PERPLEXITY_METRIC),
        ),
        *QUALITY,
        PARAMETERS,
    )
    table = Table(
        name="variants",
        title="Variants",
        caption=(
            "The paper's model as others read it, EN-DE, on the dev set without averaging, like"
            f" the rows of Table 3. Ours: {SEEDS_WORDS}. BLEU in {BLEU_METRIC} and in"
            f" {SACRE_METRIC}; perplexity per subword. {DIFFERENCE_WORDS} By chance, about one"
            " interval in twenty misses zero."
        ),
        columns=columns_of(fields),
        cells=rows_of(fields, _compared_with_base(frame, "variants"), "ours"),
        notes=tuple(missing_notes(frame, "variants")),
    )
    return complete(frame, table)


def lay_out_architectures(frame: Frame) -> Table:
    """Return table `architectures`: base, then a row for each architecture in the scale's
    config.
    """

    def architecture(compared: _ComparedVariant) -> Cell:
        # "Equal size" means parameters, so the layers and widths differ, and are shown.
        spec = frame.system_by_name[compared.key.system].training
        return compared.ours(
            f"{spec.architecture}, N {spec.num_layers}, d_model {spec.d_model}, d_ff {spec.d_ff}"
        )

    def hardware(compared: _ComparedVariant) -> Cell:
        # Wall times compare only on the same hardware, so the table says on which each system ran.
        names = sorted({run.hardware for run in frame.trained(compared.key)})
        if not names:
            return replace(compared.ours(DASH), kind="state")
        return compared.ours("; ".join(names))

    fields: tuple[Field[_ComparedVariant], ...] = (
        NAME,
        our_field("architecture", "architecture", architecture),
        PARAMETERS,
        STEPS,
        our_field("target_tokens", "target tokens", lambda compared: compared.metric("tokens")),
        our_field("seconds", "training seconds", lambda compared: compared.metric("wall_seconds")),
        our_field("hardware", "on", hardware),
        PERPLEXITY,
        *QUALITY,
    )
    table = Table(
        name="architectures",
        title="Architectures",
        caption=(
            "Attention, recurrence and convolution of nearly one size (parameters), on the same"
            " batches for as many updates, EN-DE, on the dev set without averaging: quality"
            f" against time. Ours: {SEEDS_WORDS}. BLEU in {BLEU_METRIC} and in"
            f" {SACRE_METRIC}. {DIFFERENCE_WORDS} Seconds are wall time of all attempts, start and"
            " validations included, and compare on the same hardware only."
        ),
        columns=columns_of(fields),
        cells=rows_of(fields, _compared_with_base(frame, "architectures"), "ours"),
        notes=tuple(missing_notes(frame, "architectures")),
    )
    return complete(frame, table)


def _compared_with_base(frame: Frame, table: str) -> list[_ComparedVariant]:
    """Return base, and then each system that the sheet (the list of trainings) lists for a table.

    The list is empty if the sheet lists no system for the table, or if base is not run.
    """
    base, systems = frame.compared(REFERENCE_SYSTEM), systems_asked_by(table, frame.rows)
    if not systems or (base, "steps") not in frame.numbers:
        return []
    # Base comes first, also where the sheet lists it later. The dict drops the second base.
    keys = dict.fromkeys([base, *map(frame.compared, systems)])
    return [_ComparedVariant(frame, key, base) for key in keys if (key, "steps") in frame.numbers]


def missing_notes(frame: Frame, table: str) -> list[Note]:
    """Return a note that lists the systems that could be compared with base, but are not in this
    scale's list of trainings.
    """
    listed = systems_asked_by(table, frame.rows)
    existing = systems_asked_by(table, read_sheet(COMPARED_SHEET))
    missing = [name for name in existing if name not in (REFERENCE_SYSTEM, *listed)]
    if not missing:
        return []
    text = f"Not run at scale {frame.scale}, as its sheet of trainings does not list them"
    return [Note(f"{text}: {', '.join(missing)}.")]


def differing_keys(frame: Frame, system: str) -> str:
    """Return the keys of the training and decoding config in which a system differs from base, with
    the system's values.
    """
    spec, base = frame.system_by_name[system], frame.system_by_name[REFERENCE_SYSTEM]
    texts = []
    for part, base_part in ((spec.training, base.training), (spec.decoding, base.decoding)):
        for key, value in msgspec.structs.asdict(part).items():
            if value != getattr(base_part, key):
                texts.append(f"{key} {'null' if value is None else msgspec.to_builtins(value)}")
    return ", ".join(texts)
