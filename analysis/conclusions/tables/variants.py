"""Lays out comparisons with base: table `variants` and table `architectures`.

Variants, the paper's model as other code has it, are shown as in Table 3. Architectures, recurrence
and convolution, are shown with BLEU and seconds, at equal size and equal tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from aiayn.paths import CellKey
from aiayn.printed import PERPLEXITY_METRIC, REFERENCE_SYSTEM
from aiayn.scoring.seeds import MIN_SEEDS_OF_INTERVAL, paired_differences
from paper_tables.frame import Frame, Run
from paper_tables.layout import (
    DASH,
    SACRE_METRIC,
    SEEDS_WORDS,
    Cell,
    Column,
    Field,
    Note,
    Table,
    blank_cell,
    columns_of,
    format_difference,
    format_seeds,
    format_value,
    our_field,
    over_seeds,
    rows_of,
    text_cell,
)
from paper_tables.tables.ours import complete, difference_provenance, our_cell
from paper_tables.tables.table3 import BLEU_METRIC

DIFFERENCE_WORDS = (
    "A difference is to base, seed by seed over the seeds that both have, with the 95 % t-interval"
    f" of these paired differences; of fewer than {MIN_SEEDS_OF_INTERVAL} seeds the differences"
    " themselves."
)


class Compared(NamedTuple):
    """Our results of one system, with the difference to base, the reference."""

    frame: Frame
    key: CellKey
    reference: CellKey

    def ours(self, text: str) -> Cell:
        """Return a cell of text with the scale's mark."""
        return text_cell(text, "ours", *self.frame.numbers[self.key, "steps"].marks)

    def metric(self, metric: str) -> Cell:
        """Return the cell of a metric over seeds."""
        return our_cell(self.frame.numbers[self.key, metric])

    def difference(self, metric: str) -> Cell:
        """Return the difference to base over common seeds: `+0.30 +- 0.12 (n=3)`.

        One or two differences are listed as they are. Without a common seed the cell is a dash;
        base's own is blank.
        """
        if self.key == self.reference:
            return blank_cell()
        number, reference = (self.frame.numbers[key, metric] for key in (self.key, self.reference))
        common = number.value_by_seed.keys() & reference.value_by_seed.keys()
        if not common:
            return text_cell(DASH, "state", *number.marks)
        differences = paired_differences(number.value_by_seed, reference.value_by_seed)
        text = over_seeds(differences, metric, lambda difference, _: format_difference(difference))
        provenance = difference_provenance(number, reference, common)
        return replace(self.ours(f"{text} (n={len(differences)})"), provenance=provenance)


NAME: Field[Compared] = Field(
    Column("system", "", side="label"),
    lambda compared: replace(compared.ours(compared.key.system), kind="label"),
)
PARAMETERS: Field[Compared] = our_field(
    "params", "params x10^6", lambda compared: compared.metric("num_parameters")
)
STEPS: Field[Compared] = our_field(
    "train_steps", "train steps", lambda compared: compared.metric("steps")
)
QUALITY: tuple[Field[Compared], ...] = (
    our_field("bleu_dev", "BLEU (dev)", lambda compared: compared.metric(BLEU_METRIC)),
    our_field(
        "bleu_dev_difference", "BLEU difference", lambda compared: compared.difference(BLEU_METRIC)
    ),
    our_field(
        "bleu_dev_sacre", "sacreBLEU 13a (dev)", lambda compared: compared.metric(SACRE_METRIC)
    ),
)
PERPLEXITY: Field[Compared] = our_field(
    "ppl_dev", "PPL (dev)", lambda compared: compared.metric(PERPLEXITY_METRIC)
)


def lay_out_variants(frame: Frame) -> Table:
    """Return table `variants`: base, then a row for each variant of the scale's config, in its
    order.
    """
    fields: tuple[Field[Compared], ...] = (
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
        rows=rows_of(fields, compared_with_base(frame, frame.variants), "ours"),
        notes=missing_note(frame, "variants", frame.variants),
    )
    return complete(frame, table)


def lay_out_architectures(frame: Frame) -> Table:
    """Return table `architectures`: base, then a row for each architecture that is configured."""
    all_compared = compared_with_base(frame, frame.architectures)
    runs_by_system = {compared.key.system: frame.trained(compared.key) for compared in all_compared}
    target_by_seed = common_targets(runs_by_system)

    def architecture(compared: Compared) -> Cell:
        spec = frame.system_by_name[compared.key.system].training
        return compared.ours(
            f"{spec.architecture}, N {spec.num_layers}, d_model {spec.d_model}, d_ff {spec.d_ff}"
        )

    def hardware(compared: Compared) -> Cell:
        names = {run.hardware for run in runs_by_system[compared.key.system]}
        return _words_or_dash(compared, "; ".join(sorted(names)))

    def reached(compared: Compared) -> Cell:
        return _words_or_dash(compared, _reached_words(frame, compared.key, target_by_seed))

    fields: tuple[Field[Compared], ...] = (
        NAME,
        our_field("architecture", "architecture", architecture),
        PARAMETERS,
        STEPS,
        our_field("target_tokens", "target tokens", lambda compared: compared.metric("tokens")),
        our_field("seconds", "training seconds", lambda compared: compared.metric("wall_seconds")),
        our_field("hardware", "on", hardware),
        PERPLEXITY,
        *QUALITY,
        our_field("seconds_to_reach", "seconds to reach", reached),
    )
    table = Table(
        name="architectures",
        title="Architectures",
        caption=(
            "Attention, recurrence and convolution of nearly one size (parameters), on the same"
            " batches for as many updates, EN-DE, on the dev set without averaging: quality"
            f" against time. Ours: {SEEDS_WORDS}. BLEU in {BLEU_METRIC} and in"
            f" {SACRE_METRIC}. {DIFFERENCE_WORDS} Seconds are wall time of all attempts, start and"
            " validations included. Seconds to reach: until the first validation with a perplexity"
            " that every system here reached, taken as that share of the training's seconds."
        ),
        columns=columns_of(fields),
        rows=rows_of(fields, all_compared, "ours"),
        notes=(
            *missing_note(frame, "architectures", frame.architectures),
            *_notes(runs_by_system, target_by_seed),
        ),
    )
    return complete(frame, table)


def compared_with_base(frame: Frame, systems: Sequence[str]) -> list[Compared]:
    """Return base and then each of the systems that the scale runs; nothing without systems, or if
    base is not run.
    """
    base = frame.compared(REFERENCE_SYSTEM)
    if not systems or (base, "steps") not in frame.numbers:
        return []
    keys = dict.fromkeys([base, *map(frame.compared, systems)])
    return [Compared(frame, key, base) for key in keys if (key, "steps") in frame.numbers]


def missing_note(frame: Frame, key: str, named: Sequence[str]) -> tuple[Note, ...]:
    """Return a note on the systems that exist, but that `key` of the config does not name."""
    missing = [name for name in frame.known[key] if name not in named]
    text = (
        f"Not run at scale {frame.scale}, as `{key}` of its config does not name them:"
        f" {', '.join(missing)}."
    )
    return (Note("", text),) if missing else ()


def differing_keys(frame: Frame, system: str) -> str:
    """Return the keys of training and decoding whose values differ from base's, with the system's
    values.
    """
    spec, base = (frame.system_by_name[name] for name in (system, REFERENCE_SYSTEM))
    texts = []
    for part, base_part in ((spec.training, base.training), (spec.decoding, base.decoding)):
        for key, value in msgspec.structs.asdict(part).items():
            if value != getattr(base_part, key):
                texts.append(f"{key} {'null' if value is None else msgspec.to_builtins(value)}")
    return ", ".join(texts)


def common_targets(runs_by_system: Mapping[str, Sequence[Run]]) -> dict[int, float]:
    """Return by seed the lowest dev bits a subword that every system reached, by its own log.

    A seed is left out if a system has no finished training of it, or no log.
    """
    lowest_by_seed: dict[int, list[float]] = {}
    for runs in runs_by_system.values():
        for run in runs:
            if run.seed is not None and run.bits_by_update:
                lowest_by_seed.setdefault(run.seed, []).append(min(run.bits_by_update.values()))
    targets = {}
    for seed, lowest in sorted(lowest_by_seed.items()):
        if len(lowest) == len(runs_by_system):
            targets[seed] = max(lowest)
    return targets


def seconds_to_reach(run: Run, target: float) -> float | None:
    """Return the seconds until a training's first validation of at most `target` bits; None if it
    was not reached.
    """
    update = next((update for update, bits in run.bits_by_update.items() if bits <= target), None)
    if update is None or run.train is None:
        return None
    return run.train.wall_seconds * update / run.train.updates


def _reached_words(frame: Frame, key: CellKey, target_by_seed: Mapping[int, float]) -> str:
    """Return the seconds until the common target over seeds; "" if no seed reached it."""
    runs = frame.runs_by_system[key.corpus, key.system]
    seconds = []
    for run in runs:
        target = None if run.seed is None else target_by_seed.get(run.seed)
        value = None if target is None else seconds_to_reach(run, target)
        if value is not None:
            seconds.append(value)
    return format_seeds(seconds, "wall_seconds", len(runs)) if seconds else ""


def _words_or_dash(compared: Compared, words: str) -> Cell:
    return compared.ours(words) if words else replace(compared.ours(DASH), kind="state")


def _notes(
    runs_by_system: Mapping[str, Sequence[Run]], target_by_seed: Mapping[int, float]
) -> list[Note]:
    """Return notes on the perplexity that all systems reached, and on comparing the seconds."""
    texts = []
    if target_by_seed:
        targets = "; ".join(
            f"seed {seed}: {format_value(2**target, PERPLEXITY_METRIC)}"
            for seed, target in target_by_seed.items()
        )
        texts.append(
            f"Perplexity that every system reached in training, by fairseq's own log: {targets}."
        )
    elif any(runs_by_system.values()):
        texts.append(
            "Seconds to reach need finished trainings of every system with a common seed, and logs."
        )
    if len({run.hardware for runs in runs_by_system.values() for run in runs}) > 1:
        texts.append(
            "Not all of these trainings ran on one kind of machine: their seconds do not compare."
        )
    return [Note("", text) for text in texts]
