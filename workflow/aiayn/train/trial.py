"""Tries the GPUs of a node in minutes: trains on made-up data a few times and compares the trained
tensors.

Each training is a separate process with all steps of a real training, from the rendezvous to the
checkpoint. First, all ranks (processes) train. Second, all ranks train again, but the signal TERM
stops the training in the middle and the training resumes. The first and the second training must
give the same tensors, except for rounding. In the third training all ranks train without dropout,
and in the fourth a single rank. The third and the fourth training must also give the same tensors,
except for rounding. `aiayn preflight --train` submits this trial as a job, and the GPU tests run
this trial, too.
"""

import multiprocessing
import os
import signal
import statistics
import time
from typing import Any

import msgspec
import torch

from aiayn.errors import LaunchError
from aiayn.runs.run_folder import RunFolder
from aiayn.train import fairseq_args
from aiayn.train.checkpoints import load_checkpoint
from aiayn.train.device import available_device
from aiayn.train.ranks import Rank
from aiayn.train.request import StopFlag, TrainingRequest
from aiayn.train.train import train_rank
from aiayn.train.trial_result import RESULT_NAME, TrialResult

SECONDS_NAME = "update_seconds.json"
START_NAME = "start.pt"  # the parameters before the first update
# Dropout depends on the number of ranks, so one rank is compared with several without dropout.
UPDATES_OF_ONE_RANK = 10
WITHOUT_DROPOUT = {
    "p_drop": 0.0,
    "p_drop_attention": 0.0,
    "p_drop_ffn": 0.0,
    "updates": UPDATES_OF_ONE_RANK,
    "save_interval_updates": UPDATES_OF_ONE_RANK,
}


def try_node(request: TrainingRequest, rank: Rank, stop: StopFlag) -> None:
    """Run the part of this rank (process) in all trainings of the trial. Rank 0 writes the result
    of the trial into the run folder of `request`.

    Raises:
        LaunchError: if a training fails, or if the signal TERM does not stop the training.
    """
    # Each training is a fork of this process, so this process itself must not initialise CUDA.
    # With this variable, torch counts GPUs without CUDA.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    # Stopped in the middle, so that updates are left for the resumed training.
    updates = request.training.updates
    whole = _train(request, rank, "whole", {}, 0)
    stopped = _train(request, rank, "stopped", {}, updates // 2)
    stopped_at = stopped.newest_update()
    if stopped_at >= updates:
        raise LaunchError(f"{stopped}: TERM after update {updates // 2} did not stop the training")
    # The same folder again, so this training resumes.
    _train(request, rank, "stopped", {}, 0)
    all_ranks = _train(request, rank, "all_ranks", WITHOUT_DROPOUT, 0)
    # The rest is the work of rank 0.
    if rank.rank > 0 or stop.signal_number is not None:
        return
    alone = msgspec.structs.replace(rank, world_size=1)
    one_rank = _train(request, alone, "one_rank", WITHOUT_DROPOUT, 0)
    seconds = msgspec.json.decode((whole.path / SECONDS_NAME).read_bytes(), type=list[float])
    result = TrialResult(
        device=available_device(request.training.device),
        num_ranks=rank.world_size,
        # The second half, because the first updates are slower.
        seconds_per_update=statistics.median(seconds[len(seconds) // 2 :]),
        stopped_at=stopped_at,
        resumed_difference=_difference(whole, stopped),
        one_rank_difference=_difference(all_ranks, one_rank),
    )
    (request.folder.path / RESULT_NAME).write_bytes(msgspec.json.encode(result))


def _train(
    request: TrainingRequest, rank: Rank, name: str, changes: dict[str, Any], term_after: int
) -> RunFolder:
    """Train in a fork of this process, and return the folder of the training. The process that
    calls this function must not have used a GPU before, because CUDA cannot be used after a fork.

    Raises:
        LaunchError: if the training fails.
    """
    own_request = msgspec.structs.replace(
        request,
        run=name,
        run_folder=str(request.folder.path / name),
        training=msgspec.structs.replace(request.training, **changes),
        num_ranks=rank.world_size,
    )
    # Each training has a rendezvous of its own, also a training that resumes.
    own_rank = msgspec.structs.replace(rank, job=f"{rank.job}-{name}-{term_after}")
    own_request.folder.job_files_path.mkdir(parents=True, exist_ok=True)
    # Each training has a process of its own, because fairseq and CUDA keep state between trainings.
    # A fork does not repeat the imports, which would take most of a short training's time.
    process = multiprocessing.get_context("fork").Process(
        target=_train_here, args=(own_request, own_rank, term_after)
    )
    process.start()
    process.join()
    if process.exitcode:
        raise LaunchError(
            f"rank {rank.rank}: the training {name} of the trial ended with exit code"
            f" {process.exitcode}; look at {own_request.folder.log_path}"
        )
    return own_request.folder


def _train_here(request: TrainingRequest, rank: Rank, term_after: int) -> None:
    """Train, and write the seconds of each update to a file. After the update `term_after`, send
    the signal TERM to this process.

    This function patches fairseq and the flags, and does not restore them afterwards, because it is
    the last function that its process (a fork) runs.
    """
    from fairseq.trainer import Trainer

    # A training of a few updates need not be validated twenty times.
    fairseq_args.NUM_VALIDATIONS = 1
    original = Trainer.train_step
    seconds = list[float]()

    # fairseq does not log the time of single updates, and a signal must come at a known update.
    def train_step(trainer: Any, *arguments: Any, **named: Any) -> Any:
        if rank.rank == 0 and trainer.get_num_updates() == 0:
            torch.save(trainer.model.state_dict(), request.folder.path / START_NAME)
        begin = time.perf_counter()
        logged = original(trainer, *arguments, **named)
        seconds.append(time.perf_counter() - begin)
        if trainer.get_num_updates() == term_after:
            os.kill(os.getpid(), signal.SIGTERM)
        return logged

    Trainer.train_step = train_step
    with StopFlag().installed() as stop:
        train_rank(request, rank, stop)
    if rank.rank == 0:
        (request.folder.path / SECONDS_NAME).write_bytes(msgspec.json.encode(seconds))


def _parameters(state: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return all parameters of a model as one vector on the CPU."""
    return torch.cat([state[name].cpu().double().flatten() for name in sorted(state)])


def _difference(first: RunFolder, second: RunFolder) -> float:
    """Return the distance between the parameters of two trainings, divided by the distance that the
    first training has moved them.

    The result is 0 for equal trainings, and about 1.4 for trainings on unrelated sentences. The
    result does not depend on the learning rate, which is tiny at the beginning of a long warm-up.
    """
    start = _parameters(torch.load(first.path / START_NAME, weights_only=True))
    ends = []
    for folder in (first, second):
        checkpoint = load_checkpoint(folder.full_path(folder.newest_update()))
        ends.append(_parameters(checkpoint["model"]))
    return float((ends[0] - ends[1]).norm() / (ends[0] - start).norm())
