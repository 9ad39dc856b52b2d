"""Trains on pretended GPUs, each rank in a fork of this process, which has done the imports, and
prints what it found as one JSON object.

python -m tests.engine.pretended_runs quick ...         one training of 2 ranks in bf16
python -m tests.engine.pretended_runs node ...          trainings of 1 to 16 ranks, stopped, resumed
python -m tests.engine.pretended_runs evaluation ...    translations and perplexity, on GPU and CPU
"""

import argparse
import contextlib
import functools
import json
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import fairseq_cli.train
import msgspec
import torch
import torch._dynamo  # TorchDispatchMode imports it: each rank would

from aiayn.decode.decode import Translator, load_split
from aiayn.decode.perplexity import perplexity
from aiayn.records import BinarizedCorpus, read_record
from aiayn.runs.checkpoint_names import list_checkpoints
from aiayn.train import plugin
from aiayn.train.checkpoints import CheckpointKeeper, tensors_sha256
from aiayn.train.network import node_address
from aiayn.train.optimiser import AiaynAdam
from aiayn.train.ranks import Rank, any_rank_stopped
from aiayn.train.request import StopFlag
from aiayn.train.task import AiaynTranslationTask
from aiayn.train.train import train_rank
from aiayn.train.trainer import AiaynTrainer
from tests.engine import pretended_node
from tests.engine.hooked_job import Signal
from tests.engine.pretended_node import (
    GPU,
    GPUS_PER_NODE,
    NODE,
    GpuTensor,
    Pretending,
)
from tests.engine.test_two_nodes import ADDRESSES, linked_namespaces
from tests.engine.tiny_spec import DECODING
from tests.engine.tiny_training import LEARNT, make_request, state_sha256, train_here
from tests.forks import fork

__all__ = ["plugin"]

# A training whose updates are of every kind. An epoch has 6 updates of 8 batches.
UPDATES, STOPPED_AT, LOG_INTERVAL, NUM_VALIDATIONS = 8, 3, 3, 2
TRAINED = {
    "updates": UPDATES,
    "save_interval_updates": 6,
    "batches_per_update": 8,
    "max_tokens_per_batch": 650,
}
NUM_GRADIENTS = 3  # updates whose gradients are kept
RUN_SECONDS = 200.0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A training of some ranks."""

    folder: str
    binarized_path: str
    num_ranks: int
    device: str = "cuda"
    precision: str = "fp32"
    p_drop: float = 0.0
    stopped_at: int = 0
    namespaces: tuple[str, ...] = ()


class Observer:
    """Notes what one rank trains on, computes and asks of its device."""

    def __init__(self) -> None:
        self.sentences: list[tuple[int, list[int]]] = []  # by update
        self.losses: list[float] = []  # smoothed, of a target token in nats
        self.validated = [0.0, 0.0]  # loss and tokens of all validations
        self.gradients: list[torch.Tensor] = []
        self.model: dict[str, torch.Tensor] = {}

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Observe the trainings of the block."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(
                mock.patch("aiayn.train.fairseq_args.NUM_VALIDATIONS", NUM_VALIDATIONS)
            )
            stack.enter_context(mock.patch("aiayn.train.fairseq_args.LOADERS_PER_GPU", 1))
            stack.enter_context(
                mock.patch("aiayn.train.fairseq_args.log_interval", return_value=LOG_INTERVAL)
            )
            for owner, name, phase in (
                (AiaynTrainer, "train_step", "update"),
                (AiaynTranslationTask, "train_step", "batch"),
                (AiaynTrainer, "share_log", "log"),
                (fairseq_cli.train, "validate", "validation"),
                (CheckpointKeeper, "save", "checkpoint"),
                (fairseq_cli.train, "train", "epoch"),
            ):
                stack.enter_context(pretended_node.counted(owner, name, phase))
            vote = pretended_node.in_phase(any_rank_stopped, "vote")
            stack.enter_context(mock.patch("aiayn.train.train.any_rank_stopped", vote))
            for owner, name, note in (
                (AiaynTranslationTask, "train_step", self._note_batch),
                (AiaynTranslationTask, "reduce_metrics", self._note_loss),
                (AiaynAdam, "clip_grad_norm", self._note_gradients),
                (AiaynTrainer, "set_num_updates", self._note_model),
            ):
                stack.enter_context(_noted(owner, name, note))
            yield

    def _note_batch(
        self, task: Any, sample: Any, *others: Any, update_num: int, ignore_grad: bool, **_: Any
    ) -> None:
        if not ignore_grad:
            self.sentences.append((update_num, _inner(sample["id"]).tolist()))

    def _note_loss(self, task: Any, outputs: list[dict[str, Any]], criterion: Any) -> None:
        total = sum(_number(output["loss"]) for output in outputs)
        num_tokens = sum(_number(output["ntokens"]) for output in outputs)
        if criterion.training:
            self.losses.append(total / num_tokens)
        else:
            self.validated = [self.validated[0] + total, self.validated[1] + num_tokens]

    def _note_gradients(self, optimiser: AiaynAdam, *_: Any, **__: Any) -> None:
        if len(self.gradients) < NUM_GRADIENTS:
            parts = [_inner(parameter.grad).flatten() for parameter in optimiser.params]
            self.gradients.append(torch.cat(parts))

    def _note_model(self, trainer: Any, num_updates: int) -> None:
        self.model = trainer.model.state_dict()

    def report(self) -> dict[str, Any]:
        """Return what was noted, as JSON can hold it."""
        phases = []
        for counts in GPU.finished:
            waits = counts.waits.total()
            phases.append(
                {
                    "phase": counts.phase,
                    "kernels": counts.num_kernels,
                    "waits": waits,
                    "copies": counts.num_copies,
                    "emptied": counts.num_emptied,
                    "products": dict(counts.products),
                }
            )
        model = {name: _inner(tensor) for name, tensor in self.model.items()}
        return {
            "sentences": self.sentences,
            "losses": self.losses,
            "validated": self.validated,
            "model_sha256": tensors_sha256(model),
            "phases": phases,
            "attention": dict(GPU.attention),
            "attentions_with_cudnn": GPU.num_attentions_with_cudnn,
            "device": NODE.device,
            "seconds_by_backend": NODE.seconds_by_backend,
        }


def _inner(tensor: torch.Tensor) -> torch.Tensor:
    inner = tensor.inner if isinstance(tensor, GpuTensor) else tensor
    return inner.detach().clone()


def _noted(owner: Any, name: str, note: Callable[..., None]) -> Any:
    """Return a context that calls `note` with a function's arguments before each call."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def noted(*args: Any, **kwargs: Any) -> Any:
        note(*args, **kwargs)
        return original(*args, **kwargs)

    return mock.patch.object(owner, name, noted)


def _number(value: Any) -> float:
    """Return a number without the wait that the training would not have."""
    return float(_inner(torch.as_tensor(value)))


# Number of ranks and precision. Two nodes are stopped and resumed in bf16 alone: with its dropout
# it needs more of what is saved than fp32.
STOPPED_RUNS = ((2, "fp32"), (2, "bf16"), (8, "fp32"), (8, "bf16"), (16, "bf16"))
NODE_RUNS = ((1, "fp32"), *STOPPED_RUNS, (16, "fp32"))


def train_ranks(run: Run) -> list[dict[str, Any]]:
    """Train each rank in a fork, and return what each noted; `error` in place of it if one failed."""
    folder = Path(run.folder)
    folder.mkdir(parents=True, exist_ok=True)
    children = [fork(functools.partial(train_one, run, index)) for index in range(run.num_ranks)]
    deadline = time.monotonic() + RUN_SECONDS
    while children and time.monotonic() < deadline:
        children = [child for child in children if os.waitpid(child, os.WNOHANG)[0] == 0]
        time.sleep(0.02)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    results = []
    for index in range(run.num_ranks):
        path = folder / f"rank{index}.json"
        results.append(json.loads(path.read_text()) if path.exists() else {"error": "no end"})
        path.unlink(missing_ok=True)
    return results


def train_one(run: Run, index: int) -> None:
    """Train one rank in this process, and write what it noted."""
    node, local_rank = divmod(index, GPUS_PER_NODE)
    address = None
    if run.num_ranks > GPUS_PER_NODE:
        address = f"127.0.0.{2 + node}"
        if run.namespaces:
            pretended_node.enter_namespace(run.namespaces[node])
            address = node_address(ADDRESSES[1 - node])
    rank = Rank(
        rank=index,
        world_size=run.num_ranks,
        job="7",
        local_rank=local_rank,
        node_address=address,
        num_restarts=0,
    )
    data = read_record(Path(run.binarized_path), BinarizedCorpus)
    request = make_request(
        Path(run.folder),
        data,
        num_ranks=run.num_ranks,
        device="cpu" if run.device == "cpu" else "auto",
        precision=run.precision,
        p_drop=run.p_drop,
        **TRAINED,
    )
    observer = Observer()
    path = Path(run.folder) / f"rank{index}.json"
    with contextlib.ExitStack() as stack:
        if run.device == "cuda":
            pretended_node.pretend(node)
            stack.enter_context(Pretending())
        stack.enter_context(observer.installed())
        stack.enter_context(mock.patch("platform.node", return_value=f"n{node}"))
        if index == 0:
            stack.enter_context(Signal(update=run.stopped_at).installed())
        stop = stack.enter_context(StopFlag().installed())
        try:
            train_rank(request, rank, stop)
            report = json.dumps(observer.report())
        except BaseException as error:
            path.write_text(json.dumps({"error": f"{type(error).__name__}: {error}"}))
            raise
    torch.save(observer.gradients, Path(run.folder) / f"gradients{index}.pt")
    path.write_text(report)


def run_quick(folder: Path, binarized_path: Path) -> dict[str, Any]:
    """Return what 2 ranks note of a training in bf16, with dropout, and its record."""
    run = Run(
        folder=str(folder / "quick"),
        binarized_path=str(binarized_path),
        num_ranks=2,
        precision="bf16",
        p_drop=0.1,
    )
    return {"ranks": train_ranks(run), "record": read_done(run)}


def read_done(run: Run) -> dict[str, Any]:
    """Return the record of a finished training; empty if it has none."""
    path = Path(run.folder) / "done.json"
    return json.loads(path.read_text()) if path.exists() else {}


def gradient_error(ours: Path, theirs: Path) -> float:
    """Return the largest relative error of the gradients of the first updates of two runs."""
    errors = [0.0]
    for our, their in zip(torch.load(ours), torch.load(theirs), strict=True):
        errors.append(float((our - their).norm() / their.norm()))
    return max(errors)


def run_node(folder: Path, binarized_path: Path) -> dict[str, Any]:
    """Return what trainings of 1 to 16 ranks note, on the CPU, undisturbed, stopped and resumed."""
    results: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        try:
            namespaces = stack.enter_context(linked_namespaces())
        except OSError:
            namespaces = ()
        base = Run(
            folder=str(folder),
            binarized_path=str(binarized_path),
            num_ranks=1,
            namespaces=namespaces,
        )

        def variant(name: str, **changes: Any) -> Run:
            return msgspec.structs.replace(base, folder=str(folder / name), **changes)

        for num_ranks, precision in NODE_RUNS:
            name = f"{num_ranks}{precision}"
            p_drop = 0.1 if precision == "bf16" else 0.0
            whole = variant(f"{name}whole", num_ranks=num_ranks, precision=precision, p_drop=p_drop)
            result: dict[str, Any] = {"whole": train_ranks(whole)}
            if precision == "fp32":
                on_cpu = msgspec.structs.replace(
                    whole, folder=str(folder / f"{name}cpu"), device="cpu"
                )
                result["cpu"] = train_ranks(on_cpu)
                paths = [Path(run.folder) / "gradients0.pt" for run in (whole, on_cpu)]
                result["gradient_error"] = gradient_error(*paths)
            if (num_ranks, precision) in STOPPED_RUNS:
                stopped = msgspec.structs.replace(
                    whole, folder=str(folder / f"{name}stopped"), stopped_at=STOPPED_AT
                )
                result["stopped"] = train_ranks(stopped)
                resumed = msgspec.structs.replace(stopped, stopped_at=0)
                result["resumed"] = train_ranks(resumed)
                result["states"] = [state_sha256(Path(run.folder)) for run in (whole, resumed)]
            results[name] = result
    return results


NUM_LINES = 21


def run_evaluation(folder: Path, binarized_path: Path) -> dict[str, Any]:
    """Return translations and perplexity of a model that was trained on the CPU, on both devices."""
    data = read_record(binarized_path, BinarizedCorpus)
    request = make_request(folder / "learnt", data, **LEARNT)
    request.folder.path.mkdir(parents=True, exist_ok=True)
    train_here(request)
    (*_, model_path) = list_checkpoints(request.folder.checkpoints_path, "model")
    results = {"cpu": evaluate(model_path, data.folder, "cpu")}
    result_path = folder / "evaluated.json"

    def on_gpu() -> None:
        pretended_node.pretend()
        with Pretending():
            result_path.write_text(json.dumps(evaluate(model_path, data.folder, "cuda")))

    # A process that has run a backward pass has no threads for further devices, but decoding needs none.
    assert os.waitpid(fork(on_gpu), 0)[1] == 0
    return results | {"gpu": json.loads(result_path.read_text())}


def evaluate(model_path: Path, data_folder: Path, device: str) -> dict[str, Any]:
    """Translate the test set and measure the development set. Count the attentions of both, and
    those that cuDNN could compute.
    """
    torch.backends.cuda.enable_cudnn_sdp(True)  # torch's default
    translator = Translator(model_path, data_folder, DECODING, device=device)
    hypotheses = translator.translate(load_split(translator.task, "test")[0][:NUM_LINES])
    num_decoding = GPU.attention.total()
    torch.backends.cuda.enable_cudnn_sdp(True)
    measured = perplexity(model_path, data_folder, "valid", device=device)
    return {
        "translations": [" ".join(hypothesis.pieces) for hypothesis in hypotheses],
        "perplexity": measured.ppl_per_subword,
        "decoding": num_decoding,
        "measuring": GPU.attention.total() - num_decoding,
        "with_cudnn": GPU.num_attentions_with_cudnn,
    }


TRAININGS = {"quick": run_quick, "node": run_node, "evaluation": run_evaluation}


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=TRAININGS)
    parser.add_argument("--folder", type=Path, required=True, help="where the runs are made")
    parser.add_argument("--binarized", type=Path, required=True, help="record of their data-bin")
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    if reason := pretended_node.reason_unsupported():
        parser.exit(1, f"{reason}\n")
    results = TRAININGS[arguments.what](arguments.folder, arguments.binarized)
    print(msgspec.json.encode(results).decode())


if __name__ == "__main__":
    main()
