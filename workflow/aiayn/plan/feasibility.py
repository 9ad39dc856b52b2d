"""Makes the request of a training: a record with everything that the job must know. Checks before
the start that the training fits on the disk and the devices, and ends within the time limit.
"""

import contextlib
import logging
import os
from pathlib import Path

import msgspec

from aiayn.cost import num_parameters
from aiayn.data.text.index import pair_lengths
from aiayn.errors import ConfigError, LaunchError
from aiayn.plan.machine import Machine, machine_here, machine_of_cluster
from aiayn.plan.prediction import CPU_SHARE, predict_speed, run_disk_bytes
from aiayn.provenance import commit_label, require_free_space
from aiayn.records import BinarizedCorpus
from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.hardware import read_hardware
from aiayn.spec.system import Overrides, overridden, read_corpus, read_system, run_name
from aiayn.spec.training import MAX_POSITIONS, check_search
from aiayn.stages import STAGE_VERSIONS
from aiayn.train.fairseq_args import refuse_untrainable
from aiayn.train.request import TrainingRequest

logger = logging.getLogger(__name__)
# A longer training on this machine starts only with `allow_long_runs`.
LONGEST_UNASKED_HOURS = 24.0


def make_request(
    scale: str,
    corpus: str,
    system: str,
    seed: int,
    data: BinarizedCorpus | None,
    *,
    binarized_path: Path,
    runs_folder: Path,
    overrides: Overrides,
    num_models: int,
    num_ranks: int,
    threads_per_rank: int,
    command: str,
) -> TrainingRequest:
    """Make the request of a training. If the binarized text does not exist yet, the run's name ends
    in the word DIGEST.

    Raises:
        ConfigError: if the corpus or system does not exist, or fairseq cannot train the system with
            `num_ranks` ranks (processes).
    """
    spec = overridden(read_system(system, scale), overrides)
    training = spec.training
    refuse_untrainable(system, training, num_ranks=num_ranks)
    run = run_name(
        corpus=corpus,
        system=system,
        seed=seed,
        training=training,
        data_digest=data.digest if data else "",
        stage_version=STAGE_VERSIONS["train"],
    )
    # A dry run shows a request before any data exists. The digest of the data is then unknown.
    if data is None:
        run = f"{run.rpartition('-')[0]}-DIGEST"
    languages = read_corpus(corpus) if data is None else data
    # Absolute paths, because a job may have a different working directory.
    return TrainingRequest(
        run=run,
        run_folder=str((runs_folder / run).absolute()),
        corpus=corpus,
        system=system,
        seed=seed,
        training=training,
        data_folder="" if data is None else str(data.folder.absolute()),
        source_language=languages.source_language,
        target_language=languages.target_language,
        is_joint=data is not None and data.is_joint,
        binarized_path=str(binarized_path.absolute()),
        num_models=num_models,
        num_ranks=num_ranks,
        threads_per_rank=threads_per_rank,
        commit=commit_label(),
        command=command,
        begins_from=spec.begins_from,
    )


def check_evaluations(request: TrainingRequest, data: BinarizedCorpus, scale: str) -> None:
    """Check, before the first update, that validation, decoding and perplexity will not fail later.

    Training leaves out sentence pairs with more than 1,024 tokens or more tokens than a batch may
    have. The number of pairs that are left out is logged. Validation leaves out only pairs with
    more than 1,024 tokens. A shorter pair of the dev set that does not fit into a batch would end
    the training.

    Raises:
        ConfigError: if the beam is too large for the vocabulary, a line of the dev set does not fit
            into a batch, or no line of the training text or the dev set can be used.
    """
    size = data.vocabulary_size_by_language[data.target_language]
    check_search(read_system(request.system, scale).decoding, size)
    languages = (data.source_language, data.target_language)
    max_tokens = request.training.max_tokens_per_batch
    for split, limit in (("train", min(MAX_POSITIONS, max_tokens)), ("valid", MAX_POSITIONS)):
        # fairseq would find a line that is too long only at the first validation, hours later.
        lengths = pair_lengths(data.folder, split, languages)
        used = lengths[lengths <= limit]
        num_left_out = lengths.size - used.size
        if num_left_out:
            logger.warning(
                f"{request.run}: {num_left_out} of {lengths.size} pairs of {split} left out,"
                f" above {limit} tokens"
            )
        longest = int(used.max(initial=0))
        if not used.size or longest > max_tokens:
            raise ConfigError(
                f"{request.system} on {request.corpus}: the longest usable line of {split} has"
                f" {longest} tokens; expected 1 to {max_tokens} (max_tokens_per_batch): split or"
                " remove longer lines, or raise max_tokens_per_batch"
            )


def needed_disk_bytes(request: TrainingRequest, data: BinarizedCorpus) -> int:
    """Return the disk space in bytes that a run still needs for its checkpoints. The result
    includes one more checkpoint of each kind, because a new checkpoint is written before an old
    checkpoint is removed.

    The size of checkpoints that the run has already written is subtracted.
    """
    size = data.vocabulary_size_by_language[data.source_language]
    target_size = data.vocabulary_size_by_language[data.target_language]
    parameters = num_parameters(request.training, size, request.is_joint, target_size)
    # A run that resumes has most of its files already.
    held = held_bytes(request.folder.checkpoints_path)
    return max(0, run_disk_bytes(parameters, request.num_models) - held)


def held_bytes(folder: Path) -> int:
    """Return the number of bytes of all files in a folder and its subfolders. The folder need not
    exist.
    """
    num_bytes = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # a running training removes checkpoints
                num_bytes += Path(parent, name).stat().st_size
    return num_bytes


def check_precision(request: TrainingRequest, cluster: ClusterSpec | None = None) -> Machine | None:
    """Require that the devices of this machine or of the cluster support the precision of a
    training (fp32, tf32 or bf16). Return the devices.

    Return None if the cluster's YAML file does not contain a kind of GPU that hardware.yaml
    describes. For an unknown kind of GPU, the job itself checks before it trains whether its GPU
    supports the precision.

    Raises:
        ConfigError: if the devices do not support the precision.
    """
    hardware = read_hardware()
    if cluster is None:
        uses_gpus = request.training.device != "cpu"
        machine = machine_here(
            hardware, request.num_ranks, request.threads_per_rank, uses_gpus=uses_gpus
        )
    # An unknown card may support any precision, so only the job can check it.
    elif cluster.gpus_per_node and hardware.find_name(cluster.gpu_type or "") is None:
        return None
    else:
        machine = machine_of_cluster(cluster, hardware)
    if refusal := machine.precision_refusal(request.training.precision):
        raise ConfigError(f"{request.system}: {refusal}")
    return machine


def check_feasible(
    request: TrainingRequest,
    data: BinarizedCorpus,
    *,
    scale: str,
    allow_long_runs: bool,
    cluster: ClusterSpec | None,
) -> None:
    """Require that a run fits on the disk and the devices. Log the predicted hours of the run, if
    hardware.yaml describes its GPU.

    Only a run on this machine has a limit on its predicted hours. On a cluster, the time limit of
    the cluster's jobs decides.

    Raises:
        ConfigError: if this machine, or the cluster, does not support the run's precision.
        SpaceError: if the disk is too small.
        LaunchError: if the run would take more than a day on this machine, or has the paper's scale
            but no GPU, and `allow_long_runs` is False.
    """
    machine = check_precision(request, cluster)
    needed_bytes = needed_disk_bytes(request, data)
    logger.info(
        f"{request.run}: up to {needed_bytes / 1e6:.0f} MB of checkpoints in {request.run_folder}"
    )
    require_free_space(request.folder.path, needed_bytes, "a run's checkpoints")
    if machine is None:
        return
    # A training that continues a shorter training computes only the further updates.
    num_begun = request.beginning.update if request.beginning else 0
    updates = request.training.updates - num_begun
    training = msgspec.structs.replace(request.training, updates=updates)
    target_size = data.vocabulary_size_by_language[data.target_language]
    speed = predict_speed(training, target_size, machine, system=request.system)
    if speed.formula is None:
        logger.info(f"{request.run}: {speed.no_hours}")
        return
    hours = speed.expected or speed.formula
    unit, units_per_hour = ("hours", 1) if hours.most >= 2 else ("minutes", 60)
    # On CPUs both ends of the range are equal.
    ends = [f"{end * units_per_hour:,.1f}" for end in dict.fromkeys((hours.least, hours.most))]
    basis = "on" if speed.expected else "by a formula alone, on"
    if not machine.gpu:
        basis = f"at {CPU_SHARE:.0%} of"
    rate = machine.rate_by_precision[training.precision].value / 1e12
    predicted = (
        f"{request.run}: {' to '.join(ends)} {unit} predicted for {updates:,} updates {basis}"
        f" {machine.words}, {rate:.3g} TFLOP/s each in {training.precision}"
    )
    logger.info(predicted)
    # Nobody trains the paper's scale on CPUs on purpose, whatever the formula says.
    is_hopeless = scale == "paper" and not machine.gpu
    is_long = hours.middle > LONGEST_UNASKED_HOURS or is_hopeless
    if cluster is None and is_long and not allow_long_runs:
        raise LaunchError(
            f"{predicted}; train it on GPUs, take a smaller scale (`--configfile"
            " workflow/config/multi30k.yaml`), or, if you mean it: `--config allow_long_runs=true`"
        )
