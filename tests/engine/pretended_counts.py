"""Counts what an update of the paper's systems asks of a pretended GPU, at real sizes and without
numbers, and prints that as one JSON object.

python -m tests.engine.pretended_counts steps       kernels, waits, bytes of an update; with planted bugs
python -m tests.engine.pretended_counts capture     what of an update a CUDA graph could hold
python -m tests.engine.pretended_counts kernels     writes workflow/aiayn/plan/kernels.csv anew
"""

import argparse
import contextlib
import csv
import functools
import itertools
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import torch

from aiayn.model import attention, transformer
from aiayn.spec.system import read_system
from aiayn.train import compat, plugin
from aiayn.train.device import prepare_device
from aiayn.train.fairseq_args import DataBin, train_flags
from aiayn.train.gradients import FlatGradients
from aiayn.train.optimiser import AiaynAdam
from aiayn.train.ranks import Rank, any_rank_stopped, rank_flags
from aiayn.train.request import StopFlag
from aiayn.train.task import AiaynTranslationTask
from aiayn.train.trainer import AiaynTrainer
from tests.engine import pretended_node
from tests.engine.pretended_node import GPU, CaptureError, Pretending

__all__ = ["plugin"]

CSV_PATH = Path(__file__).resolve().parents[2] / "workflow/aiayn/plan/kernels.csv"
SYSTEMS = ("base", "big", "table3_a_h1", "table3_b_dk16")
PRECISIONS = ("fp32", "tf32", "bf16")
NUM_RANKS = (1, 4, 8)
VOCABULARY_SIZE = 37_000
TOKENS_PER_RANK = 3_250  # 25,000 of a batch over 8 GPUs, with padding
TOKENS_OF_ALL = 25_000  # a whole update in one batch
LONGEST = 45
PAD, END = 1, 2


class StepCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What one update of a training is on a GPU.

    Kernels of forward and backward pass count for each batch of an update, all others once an
    update.
    """

    system: str
    precision: str
    num_ranks: int
    kernels_per_batch: int
    kernels_per_update: int
    waits_per_update: int
    copies_per_update: int
    attention: str


def make_sample(seed: int, num_tokens: int = TOKENS_PER_RANK) -> dict[str, Any]:
    """Return a batch with padding on both sides, in pinned memory, as fairseq's loaders make it."""
    generator = torch.Generator().manual_seed(seed)
    num_sentences = num_tokens // LONGEST
    lengths = torch.randint(LONGEST // 3, LONGEST + 1, (2, num_sentences), generator=generator)
    lengths[:, 0] = LONGEST
    ids = torch.randint(4, VOCABULARY_SIZE, (2, num_sentences, LONGEST), generator=generator)
    source, target = ids.masked_fill(torch.arange(LONGEST) >= lengths[..., None], PAD)
    moved = torch.cat([torch.full_like(target[:, :1], END), target[:, :-1]], dim=1)
    pin = pretended_node.pin
    return {
        "id": pin(torch.arange(num_sentences)),
        "nsentences": num_sentences,
        "ntokens": int(target.ne(PAD).sum()),
        "target": pin(target),
        "net_input": {
            "src_tokens": pin(source),
            "src_lengths": pin(lengths[0]),
            "prev_output_tokens": pin(moved),
        },
    }


@contextlib.contextmanager
def made_trainer(system: str, num_ranks: int) -> Iterator[Any]:
    """Yield fairseq's trainer of a paper's system, on rank 0 of ranks that do not exist; its weights
    have no numbers.
    """
    from fairseq import tasks
    from fairseq.distributed import utils
    from fairseq.logging import metrics

    rank = Rank(rank=0, world_size=num_ranks, job="1", local_rank=0)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for language in ("en", "de"):
            symbols = "".join(f"w{index} 1\n" for index in range(VOCABULARY_SIZE - 4))
            (folder / f"dict.{language}.txt").write_text(symbols, encoding="utf-8")
        data = DataBin(
            folder=str(folder), source_language="en", target_language="de", is_joint=True
        )
        training = read_system(system, "paper").training
        flags = train_flags(
            training, data, seed=1, save_folder=str(folder), device="cuda", num_ranks=num_ranks
        )
        cfg = compat.training_config(flags + rank_flags(rank, "cuda"))
        metrics.reset()  # which is on the device of the process's last training
        if num_ranks > 1:
            torch.distributed.init_process_group("nccl", rank=0, world_size=num_ranks)
            stack.callback(torch.distributed.destroy_process_group)
            same = mock.patch.object(
                utils, "all_gather_list", lambda data, *_, **__: [data] * num_ranks
            )
            stack.enter_context(same)
            stack.callback(vars(utils.get_global_group).clear)
        task = tasks.setup_task(cfg.task)
        with torch.device("meta"):
            model = task.build_model(cfg.model)
        prepare_device("cuda")
        yield AiaynTrainer(cfg, task, model, task.build_criterion(cfg.criterion))


def count_steps(
    system: str,
    num_ranks: int,
    precisions: tuple[str, ...] = PRECISIONS,
    num_tokens: int = TOKENS_PER_RANK,
) -> Iterator[tuple[StepCounts, dict[str, Any]]]:
    """Yield the counts of one update of a batch a rank, in each precision, with the vote that
    follows it; and its products by type, waits by place, and peak of bytes.
    """
    rank = Rank(rank=0, world_size=num_ranks, job="1", local_rank=0)
    with (
        Pretending(),
        pretended_node.counted(AiaynTranslationTask, "train_step", "batch"),
        made_trainer(system, num_ranks) as trainer,
    ):
        trainer.train_step([make_sample(0)])  # makes Adam's moments
        for precision in precisions:
            trainer.task.cfg.precision = precision
            GPU.forget()
            trainer.train_step([make_sample(1, num_tokens)])
            any_rank_stopped(StopFlag(), rank)
            update, batch = GPU.finished
            counts = StepCounts(
                system=system,
                precision=precision,
                num_ranks=num_ranks,
                kernels_per_batch=batch.num_kernels,
                kernels_per_update=update.num_kernels,
                waits_per_update=batch.waits.total() + update.waits.total(),
                copies_per_update=batch.num_copies + update.num_copies,
                attention=", ".join(sorted(GPU.attention)),
            )
            yield (
                counts,
                {
                    "products": dict(batch.products),
                    "waits": dict(batch.waits + update.waits),
                    "peak_bytes": max(batch.peak_bytes, update.peak_bytes),
                    "allocations": batch.num_allocations + update.num_allocations,
                },
            )


def count_all_steps() -> list[StepCounts]:
    """Return the rows of kernels.csv."""
    counts: list[StepCounts] = []
    for system, num_ranks in itertools.product(SYSTEMS, NUM_RANKS):
        counts += [step for step, _ in count_steps(system, num_ranks)]
    return counts


BUGS = ("the loss counts its tokens", "the mask is made on the CPU", "cuDNN computes attention")


def plant(bug: str) -> contextlib.AbstractContextManager[Any]:
    """Return a context that plants a bug in the product, invisible to tests on a CPU."""
    if bug == "the loss counts its tokens":
        loss = transformer.label_smoothed_nll

        def uncounted(*args: Any, num_tokens: int, **named: Any) -> Any:
            return loss(*args, **named)

        return mock.patch.object(transformer, "label_smoothed_nll", uncounted)
    if bug == "the mask is made on the CPU":
        mask = attention.additive_mask
        return mock.patch.object(
            transformer, "additive_mask", lambda padding, dtype: mask(padding.cpu(), dtype)
        )
    return mock.patch("aiayn.train.device.refuse_cudnn")


def run_steps() -> dict[str, Any]:
    """Return the counts of all steps, more about base in bf16, and its counts with each bug."""
    results: dict[str, Any] = {"counts": count_all_steps(), "with_bug": {}}
    ((_, results["one rank"]),) = count_steps("base", 1, ("bf16",))
    ((_, results["8 ranks"]),) = count_steps("base", 8, ("bf16",))
    ((results["large"], results["25,000 tokens"]),) = count_steps(
        "base", 1, ("bf16",), TOKENS_OF_ALL
    )
    for bug in BUGS:
        torch.backends.cuda.enable_cudnn_sdp(True)  # torch's default
        with plant(bug):
            try:
                ((results["with_bug"][bug], _),) = count_steps("base", 1, ("bf16",))
            except RuntimeError as error:
                results["with_bug"][bug] = str(error)
    return results


# The parts of an update, in their order.
PARTS: tuple[tuple[str, Any, str], ...] = (
    ("a batch is copied", AiaynTrainer, "_prepare_sample"),
    ("forward and backward", AiaynTranslationTask, "train_step"),
    ("sum of gradients", FlatGradients, "all_reduce_grads"),
    ("norm of gradients", AiaynAdam, "clip_grad_norm"),
    ("Adam", AiaynTranslationTask, "optimizer_step"),
)


def capture_update(num_ranks: int, num_tokens: tuple[int, int]) -> dict[str, str]:
    """Return, by part of base's update in bf16, why a CUDA graph that was captured on a batch cannot
    hold the next update; '' if it can. The two batches have these numbers of tokens.
    """
    captures: dict[str, Any] = {}
    errors: dict[str, str] = {}

    def captured(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                with GPU.captured(captures.get(part)) as capture:
                    result = function(*args, **kwargs)
            except CaptureError as error:
                errors[part] = str(error)
            captures.setdefault(part, capture)
            return result

        return run

    with Pretending(), made_trainer("base", num_ranks) as trainer, contextlib.ExitStack() as stack:
        trainer.task.cfg.precision = "bf16"
        trainer.train_step([make_sample(0)])  # makes Adam's moments
        for part, owner, name in PARTS:
            function = captured(part, getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, function))
        for seed, size in enumerate(num_tokens):
            trainer.train_step([make_sample(seed, size)])
    return {part: errors.get(part, "") for part in captures}


def run_capture() -> dict[str, Any]:
    """Return what prevents a CUDA graph of each part of an update, with equal and other shapes."""
    equal, other = (TOKENS_PER_RANK,) * 2, (TOKENS_PER_RANK, 3_000)
    return {
        "1 rank, equal shapes": capture_update(1, equal),
        "8 ranks, equal shapes": capture_update(8, equal),
        "1 rank, other shapes": capture_update(1, other),
    }


def write_csv(path: Path, counts: list[StepCounts]) -> None:
    """Write the counts as a table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(StepCounts.__struct_fields__)
        writer.writerows(msgspec.structs.astuple(step) for step in counts)


def read_csv(path: Path) -> list[StepCounts]:
    """Read the table of counts that `write_csv` wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        return msgspec.convert(list(csv.DictReader(file)), list[StepCounts], strict=False)


COUNTS = {"steps": run_steps, "capture": run_capture}


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=(*COUNTS, "kernels"))
    what = parser.parse_args().what
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    if reason := pretended_node.reason_unsupported():
        parser.exit(1, f"{reason}\n")
    pretended_node.pretend(has_numbers=False)
    if what == "kernels":
        write_csv(CSV_PATH, count_all_steps())
    else:
        print(msgspec.json.encode(COUNTS[what]()).decode())


if __name__ == "__main__":
    main()
