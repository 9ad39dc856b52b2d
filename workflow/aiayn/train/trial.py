"""Tries the GPUs of a node in minutes: trains made-up data a few times and compares the tensors.

Each training is a process of its own and goes the way of a real one, from the rendezvous to the
checkpoint. All ranks train; then they are stopped by TERM and resumed; then one rank alone makes
the same updates as all. `aiayn preflight --train` submits it, and the GPU kit runs it.
"""

import contextlib
import functools
import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import torch

from aiayn.errors import LaunchError
from aiayn.runs.checkpoint_names import list_checkpoints
from aiayn.runs.run_folder import RunFolder
from aiayn.train import fairseq_args
from aiayn.train.checkpoints import load_checkpoint
from aiayn.train.device import available_device
from aiayn.train.ranks import Rank
from aiayn.train.request import StopFlag, TrainingRequest
from aiayn.train.train import train_rank
from aiayn.train.trial_result import RESULT_NAME, TrialResult

SECONDS_NAME = "update_seconds.json"
UPDATES_OF_ONE_RANK = 10  # without dropout, which falls on other tokens on another number of ranks


def try_node(request: TrainingRequest, rank: Rank, stop: StopFlag) -> None:
    """Make this rank's part of all trainings; rank 0 writes the result into the request's folder.

    Raises:
        LaunchError: if a training fails; its log says why.
    """
    updates = request.training.updates
    few = {"updates": UPDATES_OF_ONE_RANK, "save_interval_updates": UPDATES_OF_ONE_RANK}
    without_dropout = {"p_drop": 0.0, "p_drop_attention": 0.0, "p_drop_ffn": 0.0, **few}
    trainings: list[tuple[str, dict[str, Any], int]] = [
        ("whole", {}, 0),
        ("stopped", {}, updates // 2),
        ("stopped", {}, 0),  # resumes
        ("all_ranks", without_dropout, 0),
        ("one_rank", without_dropout, 0),
    ]
    for number, (name, changes, term_after) in enumerate(trainings):
        is_alone = name == "one_rank"
        if stop.signal_number is not None or (is_alone and rank.rank > 0):
            return
        own = _request_in(request, name, **changes)
        # A number of its own, because each training has its own rendezvous.
        own_rank = msgspec.structs.replace(
            rank, job=f"{rank.job}-{number}", world_size=1 if is_alone else rank.world_size
        )
        _train_in_fork(
            msgspec.structs.replace(own, num_ranks=own_rank.world_size), own_rank, term_after
        )
        if name == "stopped" and term_after and rank.rank == 0:
            stopped_at = _last_update(own.folder)
    if rank.rank == 0:
        result = TrialResult(
            device=available_device(request.training.device),
            num_ranks=rank.world_size,
            seconds_per_update=_seconds_per_update(_request_in(request, "whole").folder),
            stopped_at=stopped_at,
            resumed_difference=_difference(request, "whole", "stopped"),
            one_rank_difference=_difference(request, "all_ranks", "one_rank"),
        )
        (request.folder.path / RESULT_NAME).write_bytes(msgspec.json.encode(result))


def _request_in(request: TrainingRequest, name: str, **changes: Any) -> TrainingRequest:
    """Return the request of one of the trainings, in a folder of its own."""
    return msgspec.structs.replace(
        request,
        run=name,
        run_folder=str(request.folder.path / name),
        training=msgspec.structs.replace(request.training, **changes),
    )


def _train_in_fork(request: TrainingRequest, rank: Rank, term_after: int) -> None:
    """Train in a fork of this process, which has imported torch but has not touched a GPU.

    Raises:
        LaunchError: if the training fails.
    """
    request.folder.job_files_path.mkdir(parents=True, exist_ok=True)
    process = multiprocessing.get_context("fork").Process(
        target=_train, args=(request, rank, term_after)
    )
    process.start()
    process.join()
    if process.exitcode:
        raise LaunchError(
            f"rank {rank.rank}: the training {request.run} of the trial ended with exit code"
            f" {process.exitcode}; look at {request.folder.log_path}"
        )


def _train(request: TrainingRequest, rank: Rank, term_after: int) -> None:
    fairseq_args.NUM_VALIDATIONS = 1  # in this fork only: a few updates need not be validated
    with _watched_updates(term_after) as seconds, StopFlag().installed() as stop:
        train_rank(request, rank, stop)
    if rank.rank == 0:
        (request.folder.path / SECONDS_NAME).write_bytes(msgspec.json.encode(seconds))


@contextlib.contextmanager
def _watched_updates(term_after: int) -> Iterator[list[float]]:
    """Yield the seconds of each update, and send TERM to this process after one of them."""
    from fairseq.trainer import Trainer

    original, seconds = Trainer.train_step, list[float]()

    @functools.wraps(original)
    def train_step(trainer: Any, *arguments: Any, **named: Any) -> Any:
        begin = time.perf_counter()
        logged = original(trainer, *arguments, **named)
        seconds.append(time.perf_counter() - begin)
        if trainer.get_num_updates() == term_after:
            os.kill(os.getpid(), signal.SIGTERM)
        return logged

    Trainer.train_step = train_step
    try:
        yield seconds
    finally:
        Trainer.train_step = original


def _seconds_per_update(folder: RunFolder) -> float:
    """Return the median of the second half of a training's updates; the first has the warm-up."""
    seconds = msgspec.json.decode((folder.path / SECONDS_NAME).read_bytes(), type=list[float])
    return statistics.median(seconds[len(seconds) // 2 :])


def _last_update(folder: RunFolder) -> int:
    """Return the update of the newest full checkpoint."""
    checkpoints = list_checkpoints(folder.checkpoints_path, "full")
    return int(load_checkpoint(checkpoints[-1])["optimizer_history"][-1]["num_updates"])


def _parameters(folder: RunFolder) -> torch.Tensor:
    """Return all parameters of the newest full checkpoint, one after the other."""
    path: Path = list_checkpoints(folder.checkpoints_path, "full")[-1]
    state = load_checkpoint(path)["model"]
    return torch.cat([state[name].double().flatten() for name in sorted(state)])


def _difference(request: TrainingRequest, first: str, second: str) -> float:
    """Return the relative difference of two trainings' parameters."""
    one, other = (_parameters(_request_in(request, name).folder) for name in (first, second))
    return float((one - other).norm() / one.norm())
