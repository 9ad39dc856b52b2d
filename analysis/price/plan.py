"""Predicts the hours, GPU-hours, money, disk and memory of the trainings of a scale.

The hours come from a formula (`aiayn.plan.prediction`). If trainings have finished on the same kind
of device, the predicted hours are scaled by the measured times of these trainings. To make a plan,
nothing is downloaded, built or trained.
"""

from pathlib import Path

import msgspec

from aiayn.cost import (
    checkpoint_bytes,
    flops_per_token,
    full_batch_flops,
    num_parameters,
    target_tokens_per_full_update,
)
from aiayn.experiment import Experiment
from aiayn.plan.machine import Machine
from aiayn.plan.memory import device_memory_bytes
from aiayn.plan.prediction import Hours, Speed, run_disk_bytes
from aiayn.printed import PAPER_SCALE
from aiayn.spec.hardware import HardwareSpec
from aiayn.spec.system import read_system
from aiayn.spec.training import Precision
from analysis.price.data import PlannedCorpus, plan_corpus
from analysis.price.history import Ratios, predict_scaled, read_ratios
from analysis.price.limits import SlurmJobs, count_jobs, why_unsupported
from analysis.price.published import Anchor, hours_on_papers_gpus, nearest_anchors


class TrainingCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one or more trainings. `hours` are the wall-clock hours if one training runs
    after the other, `device_hours` are GPU-hours or core-hours. `dollars` is None if the price of a
    GPU-hour is not known.
    """

    hours: float
    device_hours: float
    dollars: float | None


def cost_of(hours: float, machine: Machine) -> TrainingCost:
    """Return the cost of using a machine for some hours. Only the machine's GPUs or CPU cores are
    counted.
    """
    device_hours = hours * machine.num_devices
    price = machine.dollars_per_hour
    dollars = device_hours * price.value if price else None
    return TrainingCost(hours=hours, device_hours=device_hours, dollars=dollars)


class PlanRow(msgspec.Struct, frozen=True, kw_only=True):
    """The prediction for the trainings of a system on a corpus, one training for each seed.

    `cost` is for all seeds, and None if no hours are predicted. `speed`, the fields in bytes and
    `counted_flops` (the operations of all updates) are for one training. If a training continues a
    shorter training, `updates` are only the further updates. `refusal` says why `aiayn train` would
    refuse to train the system on this machine. `refusal` is '' if the system can be trained.
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
    cost: TrainingCost | None
    device_memory_bytes: int
    run_bytes: int
    averages_bytes: int
    refusal: str

    @property
    def hours(self) -> float | None:
        """The predicted hours of one training, or None if no hours are predicted."""
        return self.speed.hours

    @property
    def disk_bytes(self) -> int:
        """The largest number of bytes that the trainings of all seeds write: checkpoints and
        averages of checkpoints.
        """
        return len(self.seeds) * (self.run_bytes + self.averages_bytes)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The whole plan (predicted costs) of a scale. The bytes of text and data-bins leave out
    `unsized_corpora`, because the sizes of these corpora are not published.

    `cost` is the sum over all trainings, None if the hours of any training are unknown. `jobs` are
    the Slurm jobs of the longest training, None if there is no cluster or no predicted hours.
    `on_papers_gpus` are the hours predicted on the paper's GPUs, for the trainings whose time the
    paper states. `anchors` are published trainings, to compare with systems whose hours cannot be
    predicted. A plan of one system contains the command line of fairseq-train for each corpus, or
    says in `command_refusal` why fairseq cannot train it.
    """

    scale: str
    machine: Machine
    trainings: list[PlanRow]
    cost: TrainingCost | None
    jobs: SlurmJobs | None
    on_papers_gpus: dict[str, Hours | None]
    anchors: list[Anchor]
    corpora: list[PlannedCorpus]
    runs_bytes: int
    averages_bytes: int
    archives_bytes: int
    text_bytes: int
    data_bin_bytes: int
    unsized_corpora: list[str]
    command_by_corpus: dict[str, list[str]] = {}
    command_refusal: str = ""


def precisions_of(experiment: Experiment) -> set[Precision]:
    """Return the numeric precisions (fp32, bf16, ...) in which an experiment's systems are
    trained.
    """
    return {system.training.precision for system in experiment.system_by_name.values()}


def make_plan(
    experiment: Experiment, machine: Machine, hardware: HardwareSpec, results_folder: Path
) -> Plan:
    """Return the plan (predicted costs) of a scale on a machine. If trainings have finished, the
    predictions are scaled by the measured times of these trainings.

    Raises:
        RecordError: if the record of a training is unreadable.
        ConfigError: if the machine does not support a system's precision.
    """
    scale = experiment.scale
    corpora: dict[str, PlannedCorpus] = {}
    archives: dict[str, int] = {}
    # Corpora share archives, such as WMT14's, so a file is counted once by its name.
    for name, corpus in experiment.corpora.items():
        corpora[name] = plan_corpus(corpus)
        archives |= corpora[name].bytes_by_archive
    size_by_corpus = {name: corpus.vocabulary_size for name, corpus in corpora.items()}
    # Measured times of finished trainings are more reliable than the formula.
    ratios = read_ratios(results_folder, machine, hardware, size_by_corpus)
    seeds_of: dict[tuple[str, str], list[int]] = {}
    for training in experiment.trainings:
        seeds_of.setdefault((training.corpus, training.system), []).append(training.seed)

    trainings = []
    for (name, system), seeds in seeds_of.items():
        trainings.append(_plan_row(system, seeds, experiment, machine, corpora[name], ratios))
    # A sum without one of its trainings would look like the price of all of them.
    has_hours = all(row.hours is not None for row in trainings)
    jobs = None
    anchors = []
    # The longest training decides whether `max_num_jobs` jobs are enough.
    if machine.cluster is not None and trainings and has_hours:
        longest = max(trainings, key=lambda row: row.hours or 0.0)
        jobs = count_jobs(machine.cluster, longest.system, longest.hours or 0.0)
    total_hours = sum(len(row.seeds) * (row.hours or 0.0) for row in trainings)
    without_hours = {
        row.system: experiment.system_by_name[row.system].training
        for row in trainings
        if row.speed.formula is not None and row.hours is None
    }
    # In bf16 and tf32 the formula's errors are too large for hours to be printed. Published speeds
    # are shown instead.
    for system, spec in without_hours.items():
        anchors += nearest_anchors(system, spec, machine, hardware)
    # The paper's own times mean something only next to a plan of the paper's systems on GPUs.
    is_papers = scale.scale == PAPER_SCALE and machine.gpu != ""
    return Plan(
        scale=scale.scale,
        machine=machine,
        trainings=trainings,
        cost=cost_of(total_hours, machine) if has_hours else None,
        jobs=jobs,
        on_papers_gpus=hours_on_papers_gpus(hardware) if is_papers else {},
        anchors=anchors,
        corpora=list(corpora.values()),
        runs_bytes=sum(len(row.seeds) * row.run_bytes for row in trainings),
        averages_bytes=sum(len(row.seeds) * row.averages_bytes for row in trainings),
        archives_bytes=sum(archives.values()),
        text_bytes=sum(corpus.text_bytes for corpus in corpora.values()),
        data_bin_bytes=sum(corpus.data_bin_bytes for corpus in corpora.values()),
        unsized_corpora=[name for name, corpus in corpora.items() if corpus.num_pairs is None],
    )


def _plan_row(
    name: str,
    seeds: list[int],
    experiment: Experiment,
    machine: Machine,
    corpus: PlannedCorpus,
    ratios: Ratios,
) -> PlanRow:
    system = experiment.system_by_name[name]
    training = system.training
    # A training that continues a shorter training computes only the further updates.
    if system.begins_from is not None:
        shorter = read_system(system.begins_from, experiment.scale.scale).training
        training = msgspec.structs.replace(training, updates=training.updates - shorter.updates)
    # Two vocabularies of this size, or one joint vocabulary, differ in parameters, and hardly in
    # speed.
    speed = predict_scaled(training, corpus.vocabulary_size, machine, name, ratios)
    parameters = num_parameters(training, corpus.vocabulary_size, corpus.is_joint)
    # An average is written once, however many test sets are decoded with it.
    evaluations = experiment.evaluations_of_training(corpus.corpus, name, seeds[0])
    averages = {evaluation.average for evaluation in evaluations}
    return PlanRow(
        corpus=corpus.corpus,
        system=name,
        seeds=seeds,
        updates=training.updates,
        num_parameters=parameters,
        target_tokens_per_update=target_tokens_per_full_update(training),
        flops_per_token=flops_per_token(training, corpus.vocabulary_size),
        counted_flops=full_batch_flops(training, corpus.vocabulary_size),
        speed=speed,
        cost=None if speed.hours is None else cost_of(len(seeds) * speed.hours, machine),
        device_memory_bytes=device_memory_bytes(training, parameters, corpus.vocabulary_size),
        run_bytes=run_disk_bytes(parameters, experiment.num_models(corpus.corpus, name)),
        averages_bytes=len(averages) * checkpoint_bytes(parameters, has_optimizer=False),
        refusal=why_unsupported(system, machine),
    )
