"""Counts what an update of the paper's systems asks of a pretended GPU, at real sizes and without
numbers, and prints that as one JSON object.

python -m tests.engine.pretended_counts steps       kernels, waits and bytes of an update
python -m tests.engine.pretended_counts kernels     writes workflow/aiayn/plan/kernels.csv anew
"""

import argparse
import contextlib
import csv
import itertools
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import torch

from aiayn.spec.system import read_system
from aiayn.train import compat, plugin
from aiayn.train.device import prepare_device
from aiayn.train.ranks import Rank, any_rank_stopped, rank_flags
from aiayn.train.request import StopFlag
from aiayn.train.task import AiaynTranslationTask
from aiayn.train.trainer import AiaynTrainer
from tests.engine import pretended_node
from tests.engine.pretended_node import GPU, Pretending
from tests.engine.tiny_spec import flags_of

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
    """Yield fairseq's trainer of a paper's system, on rank 0 of ranks that do not exist. Its weights
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
        training = read_system(system, "paper").training
        flags = flags_of(training, folder, device="cuda", num_ranks=num_ranks)
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
    follows it, and its products by type, waits by place, and peak of bytes.
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


def run_steps() -> dict[str, Any]:
    """Return the counts of all steps, and more about base in bf16."""
    results: dict[str, Any] = {"counts": count_all_steps()}
    ((_, results["one rank"]),) = count_steps("base", 1, ("bf16",))
    ((_, results["8 ranks"]),) = count_steps("base", 8, ("bf16",))
    ((results["large"], results["25,000 tokens"]),) = count_steps(
        "base", 1, ("bf16",), TOKENS_OF_ALL
    )
    return results


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


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("steps", "kernels"))
    what = parser.parse_args().what
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    if reason := pretended_node.reason_unsupported():
        parser.exit(1, f"{reason}\n")
    pretended_node.pretend(has_numbers=False)
    if what == "kernels":
        write_csv(CSV_PATH, count_all_steps())
    else:
        print(msgspec.json.encode(run_steps()).decode())


if __name__ == "__main__":
    main()
