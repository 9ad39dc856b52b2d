"""Predicts what a scale takes: jobs, hours, GPU-hours, money, energy, disk, memory and the longest
chain.

It also has the measured values of trainings that exist. Nothing is downloaded, built or trained.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from aiayn.cost import (
    PASSES_PER_UPDATE,
    checkpoint_bytes,
    flops_per_token,
    full_batch_flops,
    num_parameters,
    target_tokens_per_full_update,
)
from aiayn.experiment import Experiment
from aiayn.plan.machine import Machine, machine_of_gpus
from aiayn.plan.prediction import Speed, batches_per_rank, join_batches, run_disk_bytes
from aiayn.spec.hardware import HardwareSpec
from aiayn.spec.system import Overrides, overridden
from aiayn.spec.training import PRECISIONS, Precision
from aiayn.wings import asked_stages
from analysis.price.data import TOKENS_PER_SIDE, PlannedCorpus, num_pairs, plan_corpus
from analysis.price.history import (
    History,
    Measured,
    device_memory_bytes,
    find_records,
    host_memory_bytes,
    measure_trainings,
    node_memory_bytes,
)
from analysis.price.limits import exceeded_limit, why_unsupported

DECODING_FLOPS_PER_SECOND = 3.0e10  # assumption: what one CPU core reaches in beam search
NUM_NODE_GPUS = 8  # a plan compares 8 GPUs and 1 GPU a training on this node
UNKNOWN_TEST_PAIRS = 3000  # assumption, about newstest's, where a corpus's file does not say


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What trainings take: hours one after the other, hours of a GPU or core, money, energy; None
    where not known.
    """

    hours: float
    device_hours: float
    dollars: float | None
    kilowatt_hours: float | None


def cost_of(hours: float, machine: Machine) -> Cost:
    """Return the cost of hours on a machine: only its devices, at their full draw."""
    device_hours, price, watts = (
        hours * machine.num_devices,
        machine.dollars_per_hour,
        machine.watts,
    )
    dollars = device_hours * price.value if price else None
    kilowatt_hours = device_hours * watts.value / 1000 if watts else None
    return Cost(
        hours=hours,
        device_hours=device_hours,
        dollars=dollars,
        kilowatt_hours=kilowatt_hours,
    )


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What the trainings of a system on a corpus take on a machine, one training a seed.

    `speed`, bytes and `counted_flops` (all operations of its updates) count for one training,
    `cost` for all seeds. `evaluation_hours` is the longest decoding of a training on one core, as
    decodings run in parallel. `node_memory_bytes` excludes the memory of the GPUs. `refusal` says
    why `aiayn train` would refuse it on this machine, '' if it would not.
    """

    corpus: str
    system: str
    seeds: list[int]
    updates: int
    num_parameters: int
    target_tokens_per_update: int
    flops_per_token: float
    counted_flops: float
    speed: Speed
    cost: Cost
    device_memory_bytes: int
    node_memory_bytes: int
    run_bytes: int
    averages_bytes: int
    evaluation_hours: float
    actual: Measured | None
    refusal: str

    @property
    def hours(self) -> float:
        """The hours of one training."""
        return self.speed.hours

    @property
    def disk_bytes(self) -> int:
        """What all seeds write at most: checkpoints and averages."""
        return len(self.seeds) * (self.run_bytes + self.averages_bytes)


class PlannedPrecision(msgspec.Struct, frozen=True, kw_only=True):
    """All trainings in one precision: each entry of `speeds` counts for one training, in the plan's
    order; `cost` is the sum over all seeds.

    `hours_by_gpus` answers how many GPUs a training should have. It has the hours until all
    trainings are done on the GPUs of one node, by the number of GPUs a training, and is empty on
    CPUs, or if 8 GPUs cannot share an update. `refusal` says why this machine cannot train in the
    precision, '' if it can.
    """

    precision: Precision
    refusal: str
    speeds: list[Speed]
    cost: Cost
    hours_by_gpus: dict[int, float]


class ChainLink(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the longest chain."""

    what: str
    hours: float
    basis: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The whole plan; bytes of text and data-bins omit `unsized_corpora`, whose size is not
    published.

    `overrun` says which trainings take more Slurm jobs than their cluster's file allows, '' if none
    does.
    """

    scale: str
    machine: Machine
    num_jobs_by_rule: dict[str, int]
    trainings: list[Row]
    precisions: list[PlannedPrecision]
    corpora: list[PlannedCorpus]
    longest_chain: list[ChainLink]
    runs_bytes: int
    averages_bytes: int
    archives_bytes: int
    text_bytes: int
    data_bin_bytes: int
    unsized_corpora: list[str]
    overrun: str
    unreadable_records: list[str]

    @property
    def results_bytes(self) -> int:
        """The bytes in the results folder, without the archives."""
        return self.averages_bytes + self.text_bytes + self.data_bin_bytes


def precisions_of(experiment: Experiment) -> set[Precision]:
    """Return the precisions that an experiment's systems are trained in."""
    return {system.training.precision for system in experiment.system_by_name.values()}


def make_plan(
    experiment: Experiment,
    machine: Machine,
    hardware: HardwareSpec,
    *,
    results_folder: Path,
    benchmarks_folder: Path,
    utilisation_fraction: float | None = None,
) -> Plan:
    """Return the plan of a scale on a machine, whose rate trainings reach as said, else as they
    did, else as assumed.

    Raises:
        RecordError: if a record of a data-bin or training of this scale is unreadable.
        ConfigError: naming the system, if the machine does not have the precision that it is to be
        trained in.
    """
    scale = experiment.scale.scale
    runs_folder = Path(experiment.scale.runs_folder)
    corpora = {
        name: plan_corpus(
            corpus, scale, results_folder=results_folder, benchmarks_folder=benchmarks_folder
        )
        for name, corpus in experiment.corpora.items()
    }
    records, unreadable = find_records(results_folder, runs_folder)
    sizes = {name: corpus.vocabulary_size for name, corpus in corpora.items()}
    history = History(records, machine, hardware, sizes, asked_fraction=utilisation_fraction)
    seeds_of: dict[tuple[str, str], list[int]] = {}
    for training in experiment.trainings:
        seeds_of.setdefault((training.corpus, training.system), []).append(training.seed)
    trainings = [
        _plan_row(
            system,
            seeds,
            experiment,
            machine,
            corpora[corpus],
            history,
            (results_folder, runs_folder),
        )
        for (corpus, system), seeds in seeds_of.items()
    ]
    archives = {
        name: size for corpus in corpora.values() for name, size in corpus.bytes_by_archive.items()
    }
    return Plan(
        scale=scale,
        machine=machine,
        num_jobs_by_rule=count_jobs(experiment),
        trainings=trainings,
        precisions=[
            _plan_precision(precision, experiment, seeds_of, machine, history, hardware)
            for precision in PRECISIONS
        ],
        corpora=list(corpora.values()),
        longest_chain=_longest_chain(trainings, corpora),
        runs_bytes=sum(len(row.seeds) * row.run_bytes for row in trainings),
        averages_bytes=sum(len(row.seeds) * row.averages_bytes for row in trainings),
        archives_bytes=sum(archives.values()),
        text_bytes=sum(corpus.text_bytes or 0 for corpus in corpora.values()),
        data_bin_bytes=sum(corpus.data_bin_bytes or 0 for corpus in corpora.values()),
        unsized_corpora=[name for name, corpus in corpora.items() if corpus.num_pairs is None],
        overrun=(
            ""
            if machine.job_limits is None
            else exceeded_limit(machine.job_limits, _hours_left(trainings))
        ),
        unreadable_records=unreadable,
    )


def count_jobs(experiment: Experiment) -> dict[str, int]:
    """Return how many jobs of each rule the tables need from nothing, in the order of the data
    flow.
    """
    segmented = [corpus.is_segmented for corpus in experiment.corpora.values()]
    evaluations = experiment.evaluations
    num_jobs = {
        "fetch": len(segmented),
        "clean": segmented.count(False),
        "segment": segmented.count(False),
        "binarize": len(segmented),
        "train": len(experiment.trainings),
        "average": len(
            {
                (evaluation.corpus, evaluation.system, evaluation.seed, evaluation.average)
                for evaluation in evaluations
            }
        ),
        "decode": len(evaluations),
        "perplexity": sum(evaluation.has_perplexity for evaluation in evaluations),
        "score": len(evaluations),
        "baselines": len(experiment.baselines),
        **{stage.verb: 1 for stage in asked_stages(experiment.scale)},
        "tables": 1,
    }
    return {rule: number for rule, number in num_jobs.items() if number}


def _plan_row(
    name: str,
    seeds: list[int],
    experiment: Experiment,
    machine: Machine,
    corpus: PlannedCorpus,
    history: History,
    folders: tuple[Path, Path],
) -> Row:
    system, key = experiment.system_by_name[name], (corpus.corpus, name, seeds[0])
    speed = history.speed_of(system.training, corpus.corpus, name, machine)
    training = system.training
    parameters = num_parameters(
        training, corpus.source_vocabulary_size, corpus.is_joint, corpus.vocabulary_size
    )
    largest_batch = 1.0
    if machine.gpu:
        num_batches = batches_per_rank(training, machine.num_ranks)
        largest_batch = join_batches(training, num_batches, parameters).largest
    device_bytes = device_memory_bytes(
        training, parameters, corpus.vocabulary_size, largest_batch=largest_batch
    )
    num_ranks = machine.num_ranks_of_node
    host_bytes = host_memory_bytes(parameters, corpus.num_pairs or 0, num_ranks)
    token_flops = flops_per_token(training, corpus.vocabulary_size)
    evaluations = [
        evaluation
        for evaluation in experiment.evaluations
        if (evaluation.corpus, evaluation.system, evaluation.seed) == key
    ]
    num_averages = len({evaluation.average for evaluation in evaluations})
    sizes = [
        num_pairs(experiment.corpora[corpus.corpus], evaluation.testset)
        for evaluation in evaluations
    ]
    most_pairs = max((UNKNOWN_TEST_PAIRS if size is None else size for size in sizes), default=0)
    forward_flops = token_flops / PASSES_PER_UPDATE
    decoding_flops = most_pairs * TOKENS_PER_SIDE * system.decoding.beam_size * forward_flops
    return Row(
        corpus=corpus.corpus,
        system=name,
        seeds=seeds,
        updates=training.updates,
        num_parameters=parameters,
        target_tokens_per_update=target_tokens_per_full_update(training),
        flops_per_token=token_flops,
        counted_flops=full_batch_flops(training, corpus.vocabulary_size),
        speed=speed,
        cost=cost_of(len(seeds) * speed.hours, machine),
        device_memory_bytes=device_bytes,
        node_memory_bytes=node_memory_bytes(
            device_bytes, host_bytes, num_ranks, has_gpus=bool(machine.gpu)
        ),
        run_bytes=run_disk_bytes(parameters, experiment.num_models(corpus.corpus, name)),
        averages_bytes=num_averages * checkpoint_bytes(parameters, has_optimizer=False),
        evaluation_hours=decoding_flops / DECODING_FLOPS_PER_SECOND / 3600,
        actual=measure_trainings(
            experiment.scale.scale, corpus.corpus, name, seeds, training, folders
        ),
        refusal=why_unsupported(system, machine),
    )


def _plan_precision(
    precision: Precision,
    experiment: Experiment,
    seeds_of: Mapping[tuple[str, str], list[int]],
    machine: Machine,
    history: History,
    hardware: HardwareSpec,
) -> PlannedPrecision:
    """Return what all trainings would take if each were in this precision."""
    reason = machine.precision_refusal(precision)
    changed = Overrides(precision=precision)
    planned = PlannedPrecision(
        precision=precision, refusal=reason, speeds=[], cost=cost_of(0.0, machine), hours_by_gpus={}
    )
    if reason:
        return planned
    trainings = {
        key: overridden(experiment.system_by_name[key[1]], changed).training for key in seeds_of
    }

    def speeds_on(chosen: Machine) -> list[Speed]:
        return [
            history.speed_of(training, corpus, system, chosen)
            for (corpus, system), training in trainings.items()
        ]

    def hours_of_seeds(speeds: list[Speed]) -> list[float]:
        hours = []
        for seeds, speed in zip(seeds_of.values(), speeds, strict=True):
            hours += [speed.hours] * len(seeds)
        return hours

    can_share = all(
        training.batches_per_update % NUM_NODE_GPUS == 0 for training in trainings.values()
    )
    hours_by_gpus = {}
    for num_gpus in (NUM_NODE_GPUS, 1) if machine.gpu and can_share else ():
        resized = machine_of_gpus(machine.gpu, num_gpus, 1, hardware, machine.chosen_by)
        hours = hours_of_seeds(speeds_on(resized))
        hours_by_gpus[num_gpus] = hours_on_node(hours, NUM_NODE_GPUS // num_gpus)
    speeds = speeds_on(machine)
    return msgspec.structs.replace(
        planned,
        speeds=speeds,
        cost=cost_of(sum(hours_of_seeds(speeds)), machine),
        hours_by_gpus=hours_by_gpus,
    )


def hours_on_node(hours_of_trainings: Sequence[float], num_places: int) -> float:
    """Return when the last training ends if `num_places` trainings run at a time, the longest
    first.
    """
    ends = [0.0] * num_places
    for hours in sorted(hours_of_trainings, reverse=True):
        ends[ends.index(min(ends))] += hours
    return max(ends)


def _hours_left(trainings: Sequence[Row]) -> dict[str, float]:
    """Return the hours of the longest training of each system that has trainings left."""
    hours_by_system: dict[str, float] = {}
    for row in trainings:
        if row.actual is None or row.actual.num_finished < len(row.seeds):
            hours_by_system[row.system] = max(row.hours, hours_by_system.get(row.system, 0.0))
    return hours_by_system


def _longest_chain(
    trainings: Sequence[Row], corpora: Mapping[str, PlannedCorpus]
) -> list[ChainLink]:
    """Return the steps that follow each other from nothing to the slowest training's tables."""
    if not trainings:
        return []
    last = max(
        trainings, key=lambda row: corpora[row.corpus].hours + row.hours + row.evaluation_hours
    )
    corpus = corpora[last.corpus]
    links = [
        ChainLink(
            what=f"{verb} {last.corpus}",
            hours=hours,
            basis="measured" if verb in corpus.measured_verbs else "assumed",
        )
        for verb, hours in corpus.hours_by_verb.items()
    ]
    return [
        *links,
        ChainLink(what=f"train {last.system}", hours=last.hours, basis=last.speed.basis),
        ChainLink(what="average, decode, score", hours=last.evaluation_hours, basis="assumed"),
    ]
