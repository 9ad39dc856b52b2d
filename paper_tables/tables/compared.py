"""Lays out comparisons with base: variants of the paper's model in other code, and recurrence and convolution.

Variants are laid out as Table 3; architectures with BLEU beside seconds, at equal size and equal tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from aiayn.experiment import COMPARED_AVERAGE, COMPARED_ROLE, REFERENCE_SYSTEM, all_compared
from aiayn.paths import Evaluation
from aiayn.printed import PERPLEXITY_METRIC
from aiayn.records import TrainRecord
from aiayn.runs.log import read_validations
from analysis.scoring.seeds import MIN_SEEDS_OF_INTERVAL, paired_differences
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
    label,
    our_field,
    over_seeds,
    rows_of,
    text_cell,
)
from paper_tables.scale_results import ScaleResults
from paper_tables.tables.ours import (
    complete,
    difference_provenance,
    hardware_words,
    mark_of,
    metric_cell,
    training_cell,
)
from paper_tables.tables.table3 import BLEU_METRIC

DIFFERENCE_WORDS = (
    "A difference is to base, seed by seed over the seeds that both have, with the 95 % t-interval of these paired "
    f"differences; of fewer than {MIN_SEEDS_OF_INTERVAL} seeds the differences themselves."
)


@dataclass(frozen=True)
class Compared:
    """A system's evaluation beside that of base, the reference."""

    results: ScaleResults
    evaluation: Evaluation
    reference: Evaluation

    @property
    def system(self) -> str:
        """The system's name."""
        return self.evaluation.system

    @property
    def trains(self) -> dict[int, TrainRecord]:
        """Its finished trainings by seed."""
        return self.results.trainings_of(self.evaluation.corpus, self.system)

    def ours(self, text: str) -> Cell:
        """Return a cell of text with the scale's mark."""
        return text_cell(text, "ours", *mark_of(self.results, self.evaluation))

    def metric(self, metric: str) -> Cell:
        """Return the cell of a metric over seeds."""
        return metric_cell(self.results, self.evaluation, metric)

    def trained(self, name: str, metric: str) -> Cell:
        """Return the cell of a field of the trainings' records, shown as `metric` is."""
        return training_cell(self.results, self.evaluation, lambda train: getattr(train, name), metric)

    def difference(self, metric: str) -> Cell:
        """Return the difference to base over common seeds: `+0.30 +- 0.12 (n=3)`, or each of two, or of one.

        No common seed has a dash; base itself is left blank.
        """
        if self.system == self.reference.system:
            return blank_cell()
        marks = mark_of(self.results, self.evaluation)
        both = (self.evaluation, self.reference)
        values, reference_values = (self.results.values_of(each, metric) for each in both)
        common = values.keys() & reference_values.keys()
        if not common:
            return text_cell(DASH, "state", *marks)
        differences = paired_differences(values, reference_values)
        text = over_seeds(differences, metric, lambda difference, _: format_difference(difference))
        provenance = difference_provenance(self.results, *both, metric, common)
        return replace(self.ours(f"{text} (n={len(differences)})"), provenance=provenance)


NAME: Field[Compared] = Field(
    Column("system", "", side="label"), lambda one: label(one.system, *mark_of(one.results, one.evaluation))
)
PARAMETERS: Field[Compared] = our_field(
    "params", "params x10^6", lambda one: one.trained("num_parameters", "num_parameters")
)
STEPS: Field[Compared] = our_field("train_steps", "train steps", lambda one: one.trained("updates", "steps"))
QUALITY: tuple[Field[Compared], ...] = (
    our_field("bleu_dev", "BLEU (dev)", lambda one: one.metric(BLEU_METRIC)),
    our_field("bleu_dev_difference", "BLEU difference", lambda one: one.difference(BLEU_METRIC)),
    our_field("bleu_dev_sacre", "sacreBLEU 13a (dev)", lambda one: one.metric(SACRE_METRIC)),
)
PERPLEXITY: Field[Compared] = our_field("ppl_dev", "PPL (dev)", lambda one: one.metric(PERPLEXITY_METRIC))


def lay_out_variants(results: ScaleResults) -> Table:
    """Return the table: base, then a row for each variant that the scale names, in its order."""
    fields: tuple[Field[Compared], ...] = (
        NAME,
        our_field("unlike_base", "unlike base in", lambda one: one.ours(differing_keys(results, one.system))),
        STEPS,
        PERPLEXITY,
        our_field("ppl_dev_difference", "PPL difference", lambda one: one.difference(PERPLEXITY_METRIC)),
        *QUALITY,
        PARAMETERS,
    )
    table = Table(
        name="variants",
        title="Variants",
        caption="The paper's model as others read it, EN-DE, on the dev set without averaging, as the rows of Table 3. "
        f"Ours: {SEEDS_WORDS}. BLEU in {BLEU_METRIC}, and beside it in {SACRE_METRIC}; perplexity per "
        f"subword. {DIFFERENCE_WORDS} Of twenty such intervals one is expected to miss zero by chance alone.",
        columns=columns_of(fields),
        rows=rows_of(fields, compared_with_base(results, results.scale.variants), "ours"),
        notes=missing_note(results, "variants", all_compared().variants, results.scale.variants),
    )
    return complete(results, table)


def lay_out_architectures(results: ScaleResults) -> Table:
    """Return the table: base, then a row for each architecture that the scale names."""
    compared = compared_with_base(results, results.scale.architectures)
    trains_by_system = {one.system: one.trains for one in compared}
    target_by_seed = common_targets(trains_by_system)
    fields: tuple[Field[Compared], ...] = (
        NAME,
        our_field("architecture", "architecture", lambda one: one.ours(_architecture_words(results, one.system))),
        PARAMETERS,
        STEPS,
        our_field("target_tokens", "target tokens", lambda one: one.trained("tokens", "steps")),
        our_field("seconds", "training seconds", lambda one: one.trained("wall_seconds", "wall_seconds")),
        our_field("hardware", "on", lambda one: _words_or_dash(one, "; ".join(sorted(_machines(one.trains))))),
        PERPLEXITY,
        *QUALITY,
        our_field(
            "seconds_to_reach", "seconds to reach", lambda one: _words_or_dash(one, _reached_words(one, target_by_seed))
        ),
    )
    table = Table(
        name="architectures",
        title="Architectures",
        caption="Attention, recurrence and convolution of nearly one size (parameters), on the same batches for as "
        "many updates, EN-DE, on the dev set without averaging: quality against time. Ours: "
        f"{SEEDS_WORDS}. BLEU in {BLEU_METRIC}, and beside it in {SACRE_METRIC}. {DIFFERENCE_WORDS} Seconds are wall "
        "time of all attempts, start and validations included. Seconds to reach: until the first validation with a "
        "perplexity that every system here reached, taken as that share of the training's seconds.",
        columns=columns_of(fields),
        rows=rows_of(fields, compared, "ours"),
        notes=(
            *missing_note(results, "architectures", all_compared().architectures, results.scale.architectures),
            *_notes(trains_by_system, target_by_seed),
        ),
    )
    return complete(results, table)


def compared_with_base(results: ScaleResults, systems: Sequence[str]) -> list[Compared]:
    """Return base, and then each system that the scale runs; none if it names none."""
    names = dict.fromkeys([REFERENCE_SYSTEM, *systems]) if systems else ()
    place = (COMPARED_AVERAGE, COMPARED_ROLE)
    found = [results.evaluation_of(results.scale.en_de_corpus, name, *place) for name in names]
    return [Compared(results, one, found[0]) for one in found if one is not None and found[0] is not None]


def missing_note(results: ScaleResults, key: str, known: Sequence[str], named: Sequence[str]) -> tuple[Note, ...]:
    """Return a note that names the systems that exist, but that the scale does not train under `key`."""
    missing = [name for name in known if name not in named]
    text = f"Not run at scale {results.scale.scale}, as `{key}` of its config does not name them: {', '.join(missing)}."
    return (Note("", text),) if missing else ()


def differing_keys(results: ScaleResults, system: str) -> str:
    """Return the keys of training and decoding in which a system differs from base, each with its own value."""
    spec, base = (results.system_by_name[name] for name in (system, REFERENCE_SYSTEM))
    texts = []
    for part, base_part in ((spec.training, base.training), (spec.decoding, base.decoding)):
        value_by_key, base_value_by_key = msgspec.structs.asdict(part), msgspec.structs.asdict(base_part)
        texts += [
            f"{key} {'null' if value is None else msgspec.to_builtins(value)}"
            for key, value in value_by_key.items()
            if value != base_value_by_key[key]
        ]
    return ", ".join(texts)


def common_targets(trains_by_system: Mapping[str, Mapping[int, TrainRecord]]) -> dict[int, float]:
    """Return by seed the lowest dev bits a subword that every system reached while training, by their own logs.

    Seeds that a system has no finished training or no log of are left out.
    """
    target_by_seed = {}
    for seed in sorted({seed for trains in trains_by_system.values() for seed in trains}):
        if all(seed in trains for trains in trains_by_system.values()):
            validations = [read_validations(trains[seed].log_path) for trains in trains_by_system.values()]
            if all(validations):
                target_by_seed[seed] = max(min(bits_by_update.values()) for bits_by_update in validations)
    return target_by_seed


def seconds_to_reach(train: TrainRecord, target: float) -> float | None:
    """Return the seconds until a training's first validation of at most `target` bits; None if it has none."""
    update = next((update for update, bits in read_validations(train.log_path).items() if bits <= target), None)
    return None if update is None else train.wall_seconds * update / train.updates


def _reached_words(one: Compared, target_by_seed: Mapping[int, float]) -> str:
    """Return over seeds the seconds until the common target; nothing where none reached it."""
    trains = one.trains
    reached = [seconds_to_reach(trains[seed], target) for seed, target in target_by_seed.items()]
    seconds = [value for value in reached if value is not None]
    num_asked = len(one.results.seeds_of(one.evaluation.corpus, one.system))
    return format_seeds(seconds, "wall_seconds", num_asked) if seconds else ""


def _machines(trains: Mapping[int, TrainRecord]) -> set[str]:
    return {hardware_words(train.hardware) for train in trains.values()}


def _words_or_dash(one: Compared, words: str) -> Cell:
    return one.ours(words) if words else replace(one.ours(DASH), kind="state")


def _architecture_words(results: ScaleResults, system: str) -> str:
    training = results.system_by_name[system].training
    return f"{training.architecture}, N {training.num_layers}, d_model {training.d_model}, d_ff {training.d_ff}"


def _notes(
    trains_by_system: Mapping[str, Mapping[int, TrainRecord]], target_by_seed: Mapping[int, float]
) -> list[Note]:
    """Return the notes: the perplexity that all reached; seconds of different machines are not comparable."""
    notes = []
    if target_by_seed:
        targets = "; ".join(
            f"seed {seed}: {format_value(2**target, PERPLEXITY_METRIC)}" for seed, target in target_by_seed.items()
        )
        notes.append(Note("", f"Perplexity that every system reached in training, by fairseq's own log: {targets}."))
    elif any(trains_by_system.values()):
        notes.append(Note("", "Seconds to reach need finished trainings of every system with a common seed, and logs."))
    if len(set().union(*map(_machines, trains_by_system.values()))) > 1:
        notes.append(Note("", "Not all of these trainings ran on one kind of machine: their seconds do not compare."))
    return notes
