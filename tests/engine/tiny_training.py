"""A training that ends in a second, and what the tests of this folder ask of its folder afterwards."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch

from aiayn.launch.driver import drive
from aiayn.paths import average_record, corpus_record, train_record
from aiayn.records import BinarizedCorpus, SegmentedText, TrainRecord, read_record, write_record
from aiayn.runs import attempts
from aiayn.runs.checkpoint_names import list_checkpoints, update_of
from aiayn.train.average import average_checkpoints
from aiayn.train.checkpoints import load_checkpoint, tensors_sha256
from aiayn.train.ranks import Rank
from aiayn.train.request import StopFlag, TrainingRequest
from aiayn.train.train import train_rank
from tests.engine.hooked_job import Hook, Signal
from tests.engine.tiny_spec import TRAINING
from tests.forks import fork

# Wide and long enough that translations end, and differ from line to line.
LEARNT = {"d_model": 32, "d_ff": 64, "d_k": 16, "d_v": 16, "warmup_steps": 50, "updates": 150}


def make_request(run_folder: Path, data: BinarizedCorpus, **changes: Any) -> TrainingRequest:
    """Return a request to train in a folder. `changes` go to fields of the request, or else of
    its training.
    """
    own = {
        name: changes.pop(name)
        for name in list(changes)
        if name in TrainingRequest.__struct_fields__
    }
    request = TrainingRequest(
        run=run_folder.name,
        run_folder=str(run_folder),
        corpus=data.corpus,
        system="tiny",
        seed=1,
        training=msgspec.structs.replace(TRAINING, **changes),
        data_folder=str(data.folder.absolute()),
        source_language=data.source_language,
        target_language=data.target_language,
        is_joint=data.is_joint,
        binarized_path=str(Path(data.folder).parent / "record.json"),
        num_models=3,
        num_ranks=1,
        threads_per_rank=1,
        commit="0123456789abcdef",
        command="aiayn train",
    )
    return msgspec.structs.replace(request, **own)


def train(request: TrainingRequest, *, launcher: str = "debug") -> TrainRecord:
    """Drive a training to its end, by default in this process, and return its record."""
    record_path = record_path_of(request)
    drive(request, launcher=launcher, record_path=record_path)
    return read_record(record_path, TrainRecord)


def write_results(
    folder: Path, finished: TrainRecord, data: BinarizedCorpus, segmented: SegmentedText
) -> None:
    """Write a results folder with a finished training as the demo's base, averaged over its
    last two models.
    """
    train_of_base = msgspec.structs.replace(finished, system="base")
    write_record(train_of_base, train_record(folder, "demo", finished.corpus, "base", 1))
    path = average_record(folder, "demo", finished.corpus, "base", 1, "last2")
    write_record(average_checkpoints(train_of_base, last=2, record_path=path), path)
    write_record(data, corpus_record(folder, "demo", "binarize", finished.corpus))
    write_record(segmented, corpus_record(folder, "demo", "segment", finished.corpus))


def record_path_of(request: TrainingRequest) -> Path:
    """Return where `train` has the record written: outside the run's folder, as results are."""
    return Path(f"{request.run_folder}-record.json")


def updates_kept(run_folder: Path, kind: str) -> list[int]:
    """Return the updates of the checkpoints of a kind, oldest first."""
    return [update_of(path) for path in list_checkpoints(run_folder / "checkpoints", kind)]


def state_sha256(run_folder: Path) -> str:
    """Return the digest of all that the newest full checkpoint would go on with: the model and
    Adam's moments.
    """
    state = load_checkpoint(list_checkpoints(run_folder / "checkpoints", "full")[-1])
    tensors: dict[str, torch.Tensor] = dict(state["model"])
    for index, moments in state["last_optimizer_state"]["state"].items():
        tensors |= {f"{index} {name}": torch.as_tensor(value) for name, value in moments.items()}
    return tensors_sha256(tensors)


def starts(run_folder: Path) -> list[int]:
    """Return the update at which each attempt began."""
    return [
        event.update
        for event in attempts.read_events(run_folder)
        if isinstance(event, attempts.Started)
    ]


def ends(run_folder: Path) -> list[attempts.Ended]:
    """Return the end of each attempt."""
    events = attempts.read_events(run_folder)
    return [event for event in events if isinstance(event, attempts.Ended)]


def outcomes(run_folder: Path) -> list[str]:
    """Return how each attempt ended."""
    return [end.outcome for end in ends(run_folder)]


def log_text(run_folder: Path) -> str:
    """Return fairseq's log and ours of a run."""
    return (run_folder / attempts.LOG_NAME).read_text(encoding="utf-8")


def train_here(request: TrainingRequest, *, stopped_at: int = 0) -> Path:
    """Train, or go on, in this process without a driver. TERM comes after update `stopped_at`.

    Return the newest full checkpoint.
    """
    rank = Rank(rank=0, world_size=1, job="7", local_rank=0)
    with Signal(update=stopped_at).installed(), StopFlag().installed() as stop:
        train_rank(request, rank, stop)
    return list_checkpoints(request.folder.checkpoints_path, "full")[-1]


def in_child(work: Callable[[], object]) -> int:
    """Do work in a fork of this process and return the child's wait status."""
    return os.waitpid(fork(work), 0)[1]


def train_ranks(
    request: TrainingRequest, hook_by_rank: Mapping[int, Hook] | None = None
) -> list[int]:
    """Train in forks of this process, one a rank, without a driver, and return their wait statuses."""
    Path(request.run_folder).mkdir(parents=True, exist_ok=True)

    def train_one(index: int) -> None:
        rank = Rank(rank=index, world_size=request.num_ranks, job="7", local_rank=index)
        with (
            (hook_by_rank or {}).get(index, Hook(update=0)).installed(),
            StopFlag().installed() as stop,
        ):
            train_rank(request, rank, stop)

    children = [fork(partial(train_one, index)) for index in range(request.num_ranks)]
    return [os.waitpid(child, 0)[1] for child in children]
