"""Runs the product on a pretended GPU, and prints what it found as one JSON object.

python -m tests.engine.pretended_runs steps             a training step of each system: waits, kernels, copies
python -m tests.engine.pretended_runs training ...      trains, stops, resumes and translates, on GPU and CPU
python -m tests.engine.pretended_runs kernels           writes workflow/aiayn/plan/kernels.csv anew
"""

import argparse
import contextlib
import csv
import itertools
import json
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import torch

from aiayn.train import plugin  # before anything else of fairseq
from tests.engine import pretended_gpu
from tests.engine.pretended_gpu import GPU, Pretending, pretended_ranks

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
    """Return a batch with padding on both sides, as fairseq's dataset makes it."""
    generator = torch.Generator().manual_seed(seed)
    num_sentences = num_tokens // LONGEST
    lengths = torch.randint(LONGEST // 3, LONGEST + 1, (2, num_sentences), generator=generator)
    lengths[:, 0] = LONGEST
    ids = torch.randint(4, VOCABULARY_SIZE, (2, num_sentences, LONGEST), generator=generator)
    source, target = ids.masked_fill(torch.arange(LONGEST) >= lengths[..., None], PAD)
    moved = torch.cat([torch.full_like(target[:, :1], END), target[:, :-1]], dim=1)
    return {
        "id": torch.arange(num_sentences),
        "nsentences": num_sentences,
        "ntokens": int(target.ne(PAD).sum()),
        "target": target,
        "net_input": {"src_tokens": source, "src_lengths": lengths[0], "prev_output_tokens": moved},
    }


def make_trainer(system: str, num_ranks: int, folder: Path) -> Any:
    """Return fairseq's trainer of a paper's system, on the pretended GPU; its weights have no
    numbers.
    """
    import fairseq_cli.train
    from fairseq import tasks
    from fairseq.logging import metrics

    from aiayn.spec.system import read_system
    from aiayn.train import compat
    from aiayn.train.device import prepare_device
    from aiayn.train.fairseq_args import TrainingData, train_flags
    from aiayn.train.ranks import Rank, rank_flags

    for language in ("en", "de"):
        symbols = "".join(f"w{index} 1\n" for index in range(VOCABULARY_SIZE - 4))
        (folder / f"dict.{language}.txt").write_text(symbols, encoding="utf-8")
    data = TrainingData(
        folder=str(folder), source_language="en", target_language="de", is_joint=True
    )
    training = read_system(system, "paper").training
    flags = train_flags(
        training, data, seed=1, save_folder=str(folder), device="cuda", num_ranks=num_ranks
    )
    flags += rank_flags(Rank(rank=0, world_size=num_ranks, job="1", local_rank=0), "cuda")
    cfg = compat.training_config(flags)
    metrics.reset()  # which is on the device of the process's last training
    task = tasks.setup_task(cfg.task)
    with torch.device("meta"):
        model = task.build_model(cfg.model)
    prepare_device("cuda")
    return fairseq_cli.train.Trainer(cfg, task, model, task.build_criterion(cfg.criterion))


def count_steps(
    system: str,
    num_ranks: int,
    precisions: tuple[str, ...] = PRECISIONS,
    num_tokens: int = TOKENS_PER_RANK,
) -> Iterator[StepCounts]:
    """Yield the counts of one update of a batch a rank, in each precision, with the vote that
    follows it.
    """
    from aiayn.train.ranks import Rank, any_rank_stopped
    from aiayn.train.request import StopFlag

    rank = Rank(rank=0, world_size=num_ranks, job="1", local_rank=0)
    with tempfile.TemporaryDirectory() as folder, pretended_ranks(num_ranks), Pretending():
        trainer = make_trainer(system, num_ranks, Path(folder))
        step = trainer.task.train_step

        def train_step(*args: Any, **named: Any) -> Any:
            GPU.phase = "batch"
            try:
                return step(*args, **named)
            finally:
                GPU.phase = ""

        trainer.task.train_step = train_step
        trainer.train_step([make_sample(0)])  # makes Adam's moments
        for precision in precisions:
            trainer.task.cfg.precision = precision
            GPU.forget()
            trainer.train_step([make_sample(1, num_tokens)])
            any_rank_stopped(StopFlag(), rank)
            yield StepCounts(
                system=system,
                precision=precision,
                num_ranks=num_ranks,
                kernels_per_batch=GPU.kernels["batch"],
                kernels_per_update=GPU.kernels[""],
                waits_per_update=GPU.waits.total(),
                copies_per_update=GPU.num_copies,
                attention=", ".join(sorted(GPU.attention)),
            )


def plant(bug: str) -> contextlib.AbstractContextManager[Any]:
    """Return a context that plants a bug in the product, invisible to tests on a CPU."""
    from aiayn.model import attention, transformer

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
    if bug == "cuDNN computes attention":
        return mock.patch("aiayn.train.device.refuse_cudnn")
    raise ValueError(bug)


BUGS = ("the loss counts its tokens", "the mask is made on the CPU", "cuDNN computes attention")


def count_all_steps() -> list[StepCounts]:
    """Return the rows of kernels.csv."""
    counts: list[StepCounts] = []
    for system, num_ranks in itertools.product(SYSTEMS, NUM_RANKS):
        counts += count_steps(system, num_ranks)
    return counts


def run_steps() -> dict[str, Any]:
    """Return the counts of all steps, the waits of the last step, and the counts of base in
    bf16 with each planted bug.
    """
    counts = count_all_steps()
    waits = dict(GPU.waits)
    with_bug: dict[str, Any] = {}
    for bug in BUGS:
        torch.backends.cuda.enable_cudnn_sdp(True)  # torch's default
        with plant(bug):
            try:
                (with_bug[bug],) = count_steps("base", 1, ("bf16",))
            except RuntimeError as error:
                with_bug[bug] = str(error)
    (large,) = count_steps("base", 1, ("bf16",), TOKENS_OF_ALL)
    return {"counts": counts, "waits": waits, "with_bug": with_bug, "large": large}


UPDATES, STOPPED_AT, NUM_LINES = 12, 7, 24
BATCHES_PER_UPDATE = 4  # joined to one on the GPU, because the model is small
UPDATES_OF_TRANSLATOR, WARMUP_STEPS = 160, 100  # after fewer, all translations are one sentence


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """What a training left."""

    losses: list[float]  # smoothed, of a target token in nats
    tensors_sha256: str
    record: dict[str, Any]


def train(request: Any, *, stopped_at: int = 0) -> Trained:
    """Train in this process, to the end or until TERM comes after an update."""
    from aiayn.train.checkpoints import load_checkpoint, tensors_sha256
    from aiayn.train.task import AiaynTranslationTask
    from tests.engine.tiny_training import train_here

    losses = []
    reduce_metrics = AiaynTranslationTask.reduce_metrics

    def note_loss(task: Any, outputs: list[dict[str, Any]], criterion: Any) -> None:
        if criterion.training:
            losses.append(
                sum(float(output["loss"]) for output in outputs)
                / sum(output["ntokens"] for output in outputs)
            )
        reduce_metrics(task, outputs, criterion)

    is_quick = mock.patch("aiayn.train.fairseq_args.NUM_VALIDATIONS", 1)
    with is_quick, mock.patch.object(AiaynTranslationTask, "reduce_metrics", note_loss):
        full_path = train_here(request, stopped_at=stopped_at)
    done_path = request.folder.done_path
    record = json.loads(done_path.read_text(encoding="utf-8")) if done_path.exists() else {}
    digest = tensors_sha256(load_checkpoint(full_path)["model"])
    return Trained(losses=losses, tensors_sha256=digest, record=record)


def evaluate(model_path: Path, data: Any, decoding: Any, device: str) -> dict[str, Any]:
    """Translate the demo's test set and measure its development set, and count attentions that
    cuDNN could compute.
    """
    from aiayn.decode.decode import Translator, load_source_lines
    from aiayn.decode.perplexity import perplexity

    forget_attention()
    translator = Translator(model_path, data.folder, decoding, device=device)
    hypotheses = translator.translate(load_source_lines(translator.task, "test")[:NUM_LINES])
    results = {"translations": [" ".join(hypothesis.pieces) for hypothesis in hypotheses]}
    results |= {
        "decoding": dict(GPU.attention),
        "decoding with cuDNN": GPU.num_attentions_with_cudnn,
    }
    forget_attention()
    results["perplexity"] = perplexity(
        model_path, data.folder, "valid", device=device
    ).ppl_per_subword
    return results | {
        "measuring": dict(GPU.attention),
        "measuring with cuDNN": GPU.num_attentions_with_cudnn,
    }


def write_csv(path: Path, counts: list[StepCounts]) -> None:
    """Write the counts as a table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(StepCounts.__struct_fields__)
        writer.writerows(msgspec.structs.astuple(step) for step in counts)


def read_csv(path: Path) -> list[StepCounts]:
    """Return the counts of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        return msgspec.convert(list(csv.DictReader(file)), list[StepCounts], strict=False)


def forget_attention() -> None:
    """Begin to count anew, with cuDNN on, which is torch's default."""
    torch.backends.cuda.enable_cudnn_sdp(True)
    GPU.forget()


def run_training(folder: Path, binarized_path: Path) -> dict[str, Any]:
    """Train the demo's base on the CPU and on the pretended GPU, and return what a test compares."""
    from aiayn.records import BinarizedCorpus, read_record
    from aiayn.runs.checkpoint_names import list_checkpoints
    from aiayn.spec.system import read_system
    from tests.engine.tiny_training import make_request

    data, system = read_record(binarized_path, BinarizedCorpus), read_system("base", "demo")

    def request(name: str, **changes: Any) -> Any:
        changes = {
            "updates": UPDATES,
            "save_interval_updates": 100,
            "warmup_steps": WARMUP_STEPS,
            "batches_per_update": BATCHES_PER_UPDATE,
            "max_tokens_per_batch": system.training.max_tokens_per_batch // BATCHES_PER_UPDATE,
        } | changes
        training = msgspec.structs.replace(system.training, **changes)
        (folder / name).mkdir(parents=True)
        return make_request(folder / name, data, **msgspec.structs.asdict(training))

    on_cpu = request("cpu", device="cpu", p_drop=0.0, updates=UPDATES_OF_TRANSLATOR)
    results: dict[str, Any] = {"cpu": train(on_cpu)}
    model_path = list_checkpoints(on_cpu.folder.checkpoints_path, "model")[-1]
    results["evaluated, cpu"] = evaluate(model_path, data, system.decoding, "cpu")
    pretended_gpu.pretend_torch_cuda()
    GPU.has_numbers = True
    with Pretending():
        forget_attention()
        results["gpu"] = train(request("gpu", device="cuda", p_drop=0.0))
        results["whole"] = train(request("whole", device="cuda", precision="bf16"))
        stopped = request("stopped", device="cuda", precision="bf16")
        train(stopped, stopped_at=STOPPED_AT)
        results["resumed"] = train(stopped)
        results |= {
            "training": dict(GPU.attention),
            "training with cuDNN": GPU.num_attentions_with_cudnn,
        }
        hasty = request("hasty", device="cuda")
        with mock.patch.object(
            torch.cuda, "synchronize"
        ):  # the bug: checkpoints are written before copies arrive
            train(hasty, stopped_at=1)
        try:
            results["resumed, with a bug"] = train(hasty)
        except FloatingPointError as error:
            results["resumed, with a bug"] = str(error)
        results["evaluated, gpu"] = evaluate(model_path, data, system.decoding, "cuda")
    return results


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("steps", "training", "kernels"))
    parser.add_argument("--folder", type=Path, help="training: where the runs are made")
    parser.add_argument("--binarized", type=Path, help="training: record of the demo's data-bin")
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    if reason := pretended_gpu.reason_unsupported():
        parser.exit(1, f"{reason}\n")
    pretended_gpu.allow_cuda()  # before autograd's first use, which starts its threads
    if arguments.what == "training":
        results = run_training(arguments.folder, arguments.binarized)
    else:
        pretended_gpu.pretend_torch_cuda()
        if arguments.what == "kernels":
            write_csv(CSV_PATH, count_all_steps())
            return
        results = run_steps()
    print(msgspec.json.encode(results).decode())


if __name__ == "__main__":
    main()
