"""Lays out recurrence and convolution against attention: BLEU beside seconds, at equal size and equal tokens."""

from aiayn.paths import Evaluation
from aiayn.records import TrainRecord
from analysis.validations import common_target, read_validations, updates_to_reach
from paper_tables.evaluations import ARCHITECTURES, REFERENCE_SYSTEM
from paper_tables.findings import Findings
from paper_tables.layout import (
    DASH,
    SACRE_METRIC,
    SEEDS_WORDS,
    Cell,
    Column,
    Note,
    Row,
    Table,
    format_seeds,
    format_value,
    text_cell,
)
from paper_tables.layout_ours import (
    hardware_words,
    mark_note,
    mark_of,
    metric_cell,
    precision_note,
    seeds_cell,
    signatures_of,
    state_notes,
)
from paper_tables.layout_table2 import trainings_of
from paper_tables.layout_table3 import BLEU_METRIC, PERPLEXITY_METRIC
from paper_tables.layout_variants import (
    DIFFERENCE_WORDS,
    METRICS,
    compared_evaluation,
    missing_note,
    paired_difference_cell,
)


def lay_out_architectures(findings: Findings) -> Table:
    """Return the table: base, then a row for each architecture that the scale names."""
    evaluations: list[Evaluation] = []
    if findings.scale.architectures:
        names = dict.fromkeys([REFERENCE_SYSTEM, *findings.scale.architectures])
        evaluations = [e for name in names if (e := compared_evaluation(findings, name)) is not None]
    trains_by_system = {evaluation.system: trainings_of(findings, evaluation) for evaluation in evaluations}
    target_by_seed = common_targets(trains_by_system)
    return Table(
        name="architectures",
        title="Architectures",
        caption="Attention, recurrence and convolution of nearly one size (parameters), on the same batches for as "
        "many updates, EN-DE, on the dev set without averaging: quality against time. Ours: "
        f"{SEEDS_WORDS}. BLEU in {BLEU_METRIC}, and beside it in {SACRE_METRIC}. {DIFFERENCE_WORDS} Seconds are wall "
        "time of all attempts, start and validations included. Seconds to reach: until the first validation with a "
        "perplexity that every system here reached, taken as that share of the training's seconds.",
        columns=_columns(),
        rows=tuple(_row(findings, e, evaluations[0], trains_by_system[e.system], target_by_seed) for e in evaluations),
        notes=(
            *mark_note(findings, evaluations),
            *precision_note(findings, evaluations),
            *missing_note(findings, "architectures", ARCHITECTURES, findings.scale.architectures),
            *_notes(trains_by_system, target_by_seed),
            *state_notes(findings, evaluations),
        ),
        signatures=signatures_of(findings, [(e, metric) for e in evaluations for metric in METRICS]),
    )


def _columns() -> tuple[Column, ...]:
    name_and_heading = {
        "architecture": "architecture",
        "params": "params x10^6",
        "train_steps": "train steps",
        "target_tokens": "target tokens",
        "seconds": "training seconds",
        "hardware": "on",
        "ppl_dev": "PPL (dev)",
        "bleu_dev": "BLEU (dev)",
        "bleu_dev_difference": "BLEU difference",
        "bleu_dev_sacre": "sacreBLEU 13a (dev)",
        "seconds_to_reach": "seconds to reach",
    }
    ours = [Column(name, heading, side="ours") for name, heading in name_and_heading.items()]
    return (Column("system", "", side="label"), *ours)


def common_targets(trains_by_system: dict[str, dict[int, TrainRecord]]) -> dict[int, float]:
    """Return by seed the lowest dev perplexity that every system reached while training, by their own logs.

    Seeds that a system has no finished training or no log of are left out.
    """
    seeds = sorted({seed for trains in trains_by_system.values() for seed in trains})
    target_by_seed = {}
    for seed in seeds:
        if all(seed in trains for trains in trains_by_system.values()):
            target = common_target({
                system: read_validations(trains[seed].log_path) for system, trains in trains_by_system.items()
            })  # fmt: skip
            if target is not None:
                target_by_seed[seed] = target
    return target_by_seed


def seconds_to_reach(train: TrainRecord, target: float) -> float | None:
    """Return the seconds until a training's first validation of at most `target` perplexity; None if it has none."""
    update = updates_to_reach(read_validations(train.log_path), target)
    return None if update is None else train.wall_seconds * update / train.updates


def _row(
    findings: Findings,
    evaluation: Evaluation,
    reference: Evaluation,
    trains: dict[int, TrainRecord],
    target_by_seed: dict[int, float],
) -> Row:
    marks = mark_of(findings, evaluation)

    def count_cell(values: dict[int, float], metric: str) -> Cell:
        return seeds_cell(findings, evaluation, values, metric)

    hardware = "; ".join(sorted({hardware_words(train.hardware) for train in trains.values()}))
    reached = {
        seed: seconds
        for seed, target in target_by_seed.items()
        if (seconds := seconds_to_reach(trains[seed], target)) is not None
    }
    cells = (
        text_cell(evaluation.system, "label", *marks),
        text_cell(_architecture_words(findings, evaluation.system), "ours", *marks),
        count_cell({seed: float(train.num_parameters) for seed, train in trains.items()}, "num_parameters"),
        count_cell({seed: float(train.updates) for seed, train in trains.items()}, "steps"),
        count_cell({seed: float(train.tokens) for seed, train in trains.items()}, "steps"),
        count_cell({seed: train.wall_seconds for seed, train in trains.items()}, "wall_seconds"),
        text_cell(hardware or DASH, "ours" if hardware else "state", *marks),
        metric_cell(findings, evaluation, PERPLEXITY_METRIC),
        metric_cell(findings, evaluation, BLEU_METRIC),
        paired_difference_cell(findings, evaluation, reference, BLEU_METRIC),
        metric_cell(findings, evaluation, SACRE_METRIC),
        _reached_cell(reached, len(findings.seeds_of(evaluation.corpus, evaluation.system)), marks),
    )
    return Row(cells, "ours")


def _reached_cell(seconds_by_seed: dict[int, float], num_asked: int, marks: tuple[str, ...]) -> Cell:
    if not seconds_by_seed:
        return text_cell(DASH, "state", *marks)
    return text_cell(
        format_seeds(list(seconds_by_seed.values()), "wall_seconds", num_asked),
        "ours",
        *marks,
    )


def _architecture_words(findings: Findings, system: str) -> str:
    training = findings.system_by_name[system].training
    return f"{training.architecture}, N {training.num_layers}, d_model {training.d_model}, d_ff {training.d_ff}"


def _notes(trains_by_system: dict[str, dict[int, TrainRecord]], target_by_seed: dict[int, float]) -> list[Note]:
    """Return which perplexity was reached by all, and that seconds of unlike machines do not compare."""
    notes = []
    if target_by_seed:
        targets = "; ".join(
            f"seed {seed}: {format_value(target, PERPLEXITY_METRIC)}" for seed, target in target_by_seed.items()
        )
        notes.append(Note("", f"Perplexity that every system reached in training, by fairseq's own log: {targets}."))
    elif any(trains_by_system.values()):
        notes.append(Note("", "Seconds to reach need finished trainings of every system with a common seed, and logs."))
    machines = {hardware_words(train.hardware) for trains in trains_by_system.values() for train in trains.values()}
    if len(machines) > 1:
        notes.append(Note("", "Not all of these trainings ran on one kind of machine: their seconds do not compare."))
    return notes
