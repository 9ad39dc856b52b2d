"""Lays out comparisons with base: variants of the paper's model in other code, and recurrence and
convolution.

Variants are laid out as Table 3; architectures with BLEU beside seconds, at equal size and equal
tokens.
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
    """What is ours of a system, beside that of base, the reference."""

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
        """Return the difference to base over common seeds: `+0.30 +- 0.12 (n=3)`, or each of two,
        or of one.

        No common seed has a dash; base itself is left blank.
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
    Column("system", "", side="label"), lambda one: replace(one.ours(one.key.system), kind="label")
)
PARAMETERS: Field[Compared] = our_field(
    "params", "params x10^6", lambda one: one.metric("num_parameters")
)
STEPS: Field[Compared] = our_field("train_steps", "train steps", lambda one: one.metric("steps"))
QUALITY: tuple[Field[Compared], ...] = (
    our_field("bleu_dev", "BLEU (dev)", lambda one: one.metric(BLEU_METRIC)),
    our_field("bleu_dev_difference", "BLEU difference", lambda one: one.difference(BLEU_METRIC)),
    our_field("bleu_dev_sacre", "sacreBLEU 13a (dev)", lambda one: one.metric(SACRE_METRIC)),
)
PERPLEXITY: Field[Compared] = our_field(
    "ppl_dev", "PPL (dev)", lambda one: one.metric(PERPLEXITY_METRIC)
)


def lay_out_variants(frame: Frame) -> Table:
    """Return the table: base, then a row for each variant that the scale names, in its order."""
    fields: tuple[Field[Compared], ...] = (
        NAME,
        our_field(
            "unlike_base",
            "unlike base in",
            lambda one: one.ours(differing_keys(frame, one.key.system)),
        ),
        STEPS,
        PERPLEXITY,
        our_field(
            "ppl_dev_difference", "PPL difference", lambda one: one.difference(PERPLEXITY_METRIC)
        ),
        *QUALITY,
        PARAMETERS,
    )
    table = Table(
        name="variants",
        title="Variants",
        caption=(
            "The paper's model as others read it, EN-DE, on the dev set without averaging, as the"
            f" rows of Table 3. Ours: {SEEDS_WORDS}. BLEU in {BLEU_METRIC}, and beside it in"
            f" {SACRE_METRIC}; perplexity per subword. {DIFFERENCE_WORDS} Of twenty such intervals"
            " one is expected to miss zero by chance alone."
        ),
        columns=columns_of(fields),
        rows=rows_of(fields, compared_with_base(frame, frame.variants), "ours"),
        notes=missing_note(frame, "variants", frame.variants),
    )
    return complete(frame, table)


def lay_out_architectures(frame: Frame) -> Table:
    """Return the table: base, then a row for each architecture that the scale names."""
    compared = compared_with_base(frame, frame.architectures)
    runs_by_system = {one.key.system: frame.trained(one.key) for one in compared}
    target_by_seed = common_targets(runs_by_system)

    def architecture(one: Compared) -> Cell:
        spec = frame.system_by_name[one.key.system].training
        return one.ours(
            f"{spec.architecture}, N {spec.num_layers}, d_model {spec.d_model}, d_ff {spec.d_ff}"
        )

    def on(one: Compared) -> Cell:
        return _words_or_dash(
            one, "; ".join(sorted({run.hardware for run in runs_by_system[one.key.system]}))
        )

    def reached(one: Compared) -> Cell:
        return _words_or_dash(one, _reached_words(frame, one.key, target_by_seed))

    fields: tuple[Field[Compared], ...] = (
        NAME,
        our_field("architecture", "architecture", architecture),
        PARAMETERS,
        STEPS,
        our_field("target_tokens", "target tokens", lambda one: one.metric("tokens")),
        our_field("seconds", "training seconds", lambda one: one.metric("wall_seconds")),
        our_field("hardware", "on", on),
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
            f" against time. Ours: {SEEDS_WORDS}. BLEU in {BLEU_METRIC}, and beside it in"
            f" {SACRE_METRIC}. {DIFFERENCE_WORDS} Seconds are wall time of all attempts, start and"
            " validations included. Seconds to reach: until the first validation with a perplexity"
            " that every system here reached, taken as that share of the training's seconds."
        ),
        columns=columns_of(fields),
        rows=rows_of(fields, compared, "ours"),
        notes=(
            *missing_note(frame, "architectures", frame.architectures),
            *_notes(runs_by_system, target_by_seed),
        ),
    )
    return complete(frame, table)


def compared_with_base(frame: Frame, systems: Sequence[str]) -> list[Compared]:
    """Return base, and then each system that the scale runs; none if it names none."""
    names = dict.fromkeys([REFERENCE_SYSTEM, *systems]) if systems else ()
    keys = [frame.compared(name) for name in names]
    is_run = [(key, "steps") in frame.numbers for key in keys]
    return [
        Compared(frame, key, keys[0])
        for key, is_one in zip(keys, is_run, strict=True)
        if is_one and is_run[0]
    ]


def missing_note(frame: Frame, key: str, named: Sequence[str]) -> tuple[Note, ...]:
    """Return a note that names the systems that exist, but that the scale does not train under
    `key`.
    """
    missing = [name for name in frame.known[key] if name not in named]
    text = (
        f"Not run at scale {frame.scale}, as `{key}` of its config does not name them:"
        f" {', '.join(missing)}."
    )
    return (Note("", text),) if missing else ()


def differing_keys(frame: Frame, system: str) -> str:
    """Return the keys of training and decoding in which a system differs from base, each with its
    own value.
    """
    spec, base = (frame.system_by_name[name] for name in (system, REFERENCE_SYSTEM))
    texts = []
    for part, base_part in ((spec.training, base.training), (spec.decoding, base.decoding)):
        value_by_key, base_value_by_key = (
            msgspec.structs.asdict(part),
            msgspec.structs.asdict(base_part),
        )
        texts += [
            f"{key} {'null' if value is None else msgspec.to_builtins(value)}"
            for key, value in value_by_key.items()
            if value != base_value_by_key[key]
        ]
    return ", ".join(texts)


def common_targets(runs_by_system: Mapping[str, Sequence[Run]]) -> dict[int, float]:
    """Return by seed the lowest dev bits a subword that every system reached while training, by
    their own logs.

    Seeds that a system has no finished training or no log of are left out.
    """
    lowest_by_seed: dict[int, list[float]] = {}
    for runs in runs_by_system.values():
        for run in runs:
            if run.seed is not None and run.bits_by_update:
                lowest_by_seed.setdefault(run.seed, []).append(min(run.bits_by_update.values()))
    num_systems = len(runs_by_system)
    return {
        seed: max(lowest)
        for seed, lowest in sorted(lowest_by_seed.items())
        if len(lowest) == num_systems
    }


def seconds_to_reach(run: Run, target: float) -> float | None:
    """Return the seconds until a training's first validation of at most `target` bits; None if it
    has none.
    """
    update = next((update for update, bits in run.bits_by_update.items() if bits <= target), None)
    return (
        None
        if update is None or run.train is None
        else run.train.wall_seconds * update / run.train.updates
    )


def _reached_words(frame: Frame, key: CellKey, target_by_seed: Mapping[int, float]) -> str:
    """Return over seeds the seconds until the common target; nothing where none reached it."""
    asked = frame.runs_by_system[key.corpus, key.system]
    reached = [
        seconds_to_reach(run, target)
        for run in asked
        for seed, target in target_by_seed.items()
        if run.seed == seed
    ]
    seconds = [value for value in reached if value is not None]
    return format_seeds(seconds, "wall_seconds", len(asked)) if seconds else ""


def _words_or_dash(one: Compared, words: str) -> Cell:
    return one.ours(words) if words else replace(one.ours(DASH), kind="state")


def _notes(
    runs_by_system: Mapping[str, Sequence[Run]], target_by_seed: Mapping[int, float]
) -> list[Note]:
    """Return the notes: the perplexity that all reached; seconds of different machines are not
    comparable.
    """
    notes = []
    if target_by_seed:
        targets = "; ".join(
            f"seed {seed}: {format_value(2**target, PERPLEXITY_METRIC)}"
            for seed, target in target_by_seed.items()
        )
        notes.append(
            Note(
                "",
                "Perplexity that every system reached in training, by fairseq's own log:"
                f" {targets}.",
            )
        )
    elif any(runs_by_system.values()):
        notes.append(
            Note(
                "",
                "Seconds to reach need finished trainings of every system with a common seed, and"
                " logs.",
            )
        )
    if len({run.hardware for runs in runs_by_system.values() for run in runs}) > 1:
        notes.append(
            Note(
                "",
                "Not all of these trainings ran on one kind of machine: their seconds do not"
                " compare.",
            )
        )
    return notes
