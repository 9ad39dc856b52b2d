"""Makes the record of a training after its last update."""

import platform
from pathlib import Path, PurePath

import msgspec
import torch

from aiayn.data.text.index import pair_lengths
from aiayn.errors import CheckpointError, LaunchError
from aiayn.machine import cpu_name
from aiayn.model.attention import chosen_kernels
from aiayn.provenance import file_sha256, gather_provenance
from aiayn.records import Hardware, SavedModel, TrainRecord
from aiayn.runs.attempts import Started, attempt_seconds, sum_seconds
from aiayn.runs.checkpoint_names import list_checkpoints, update_of
from aiayn.spec.training import MAX_POSITIONS, TrainingSpec
from aiayn.train.checkpoints import (
    count_parameters,
    load_checkpoint,
    newest_whole_full,
    tensors_sha256,
)
from aiayn.train.request import TrainingRequest
from aiayn.train.task import AiaynTranslationTask


def hash_inputs(request: TrainingRequest) -> dict[PurePath, str]:
    """Return the SHA-256 of each input file of a training, by path. `train_rank` computes the
    hashes before the first update, because the files could change during the training.

    Raises:
        LaunchError: if an input file does not exist.
    """
    path = Path(request.binarized_path)
    if not path.is_file():
        raise LaunchError(
            f"{platform.node()}: {path}: no such file on this host, an input of this training; make"
            " it again, or mount its folder in the job's container"
        )
    return {path: file_sha256(path)}


def make_record(
    request: TrainingRequest,
    started: Started,
    *,
    num_ranks: int,
    until: str,
    sha256_by_path: dict[PurePath, str],
) -> TrainRecord:
    """Make the record of a training. `started` is the start of the training's last attempt. `until`
    is the time at which the last attempt ended (UTC).

    Raises:
        CheckpointError: if the last checkpoints of the training do not exist.
    """
    folder = request.folder.checkpoints_path
    full_path, _ = newest_whole_full(folder)
    models = list_checkpoints(folder, "model")
    if full_path is None or not models:
        raise CheckpointError(
            f"{folder}: trained, but its last checkpoints are gone; start again with `--fresh`"
        )
    # The number of target tokens over all attempts is only in the state that the task saves.
    state = load_checkpoint(full_path)["extra_state"][AiaynTranslationTask.__name__]
    # The digest is computed from the file, and not from the tensors in memory, so that it also
    # covers the write.
    tensors = load_checkpoint(models[-1], is_checked=True)["model"]
    events = request.folder.events()
    seconds_of_attempts = [seconds for _, seconds in attempt_seconds(events, until=until)]
    wall_seconds, gpu_seconds = sum_seconds(events, until=until)
    # The record has the driver's command. The command line of this process is submitit's.
    provenance = gather_provenance(command=request.command)
    # Only on a GPU does the choice of the attention kernel depend on the hardware.
    kernels = ""
    if started.device == "cuda":
        kernels = _describe_kernels(request.training, state.get("num_updates_by_groups", {}))
    return TrainRecord(
        provenance=msgspec.structs.replace(provenance, input_sha256_by_path=sha256_by_path),
        run=request.run,
        corpus=request.corpus,
        system=request.system,
        seed=request.seed,
        updates=update_of(full_path),
        wall_seconds=wall_seconds,
        gpu_seconds=gpu_seconds,
        hardware=Hardware(
            device=started.device,
            cpu=cpu_name(),
            gpu=torch.cuda.get_device_name(0) if started.device == "cuda" else "",
            num_gpus=started.num_gpus,
            num_ranks=num_ranks,
            threads_per_rank=request.threads_per_rank,
        ),
        tokens=int(state["num_target_tokens"]),
        num_attempts=len(seconds_of_attempts),
        num_parameters=count_parameters(tensors),
        run_folder=request.folder.path,
        log_path=request.folder.log_path,
        models=[SavedModel(update=update_of(path), path=path) for path in models],
        tensors_sha256=tensors_sha256(tensors),
        # In a fixed order of keys, so that equal settings give equal text.
        training_json=msgspec.json.encode(request.training, order="deterministic").decode(),
        kernels=kernels,
        beginning=request.beginning,
        num_left_out=_num_left_out(request),
        # The time of an attempt is negative if a clock was set back.
        num_backward_attempts=sum(seconds < 0 for seconds in seconds_of_attempts),
    )


def _num_left_out(request: TrainingRequest) -> int:
    """Return how many training pairs are left out because they are too long for the model or a
    batch.
    """
    # fairseq leaves such pairs out of training without an error, so the record counts them.
    limit = min(MAX_POSITIONS, request.training.max_tokens_per_batch)
    languages = (request.source_language, request.target_language)
    return int((pair_lengths(Path(request.data_folder), "train", languages) > limit).sum())


def _describe_kernels(training: TrainingSpec, num_updates_by_groups: dict[int, int]) -> str:
    """Return a text with the names of torch's attention kernels on the GPU, and with the numbers of
    larger batches into which the batches of an update were joined.
    """
    counts = ", ".join(
        f"{num_groups} ({num_updates} updates)"
        for num_groups, num_updates in sorted(num_updates_by_groups.items())
    )
    joined = f"{training.batches_per_update} batches joined to {counts}" if counts else ""
    return "; ".join(filter(None, [_attention_kernels(training), joined]))


def _attention_kernels(training: TrainingSpec) -> str:
    """Return the names of torch's attention kernels on the GPU. Return '' if the model is a model
    of fairseq, or if it computes attention without these kernels.
    """
    if training.architecture != "transformer" or training.attention == "additive":
        return ""
    return chosen_kernels(
        num_heads=training.num_heads,
        d_k=training.d_k,
        d_v=training.d_v,
        p_drop=training.p_drop_attention,
        dtype=torch.bfloat16 if training.precision == "bf16" else torch.float32,
        device=torch.device("cuda"),
    )
