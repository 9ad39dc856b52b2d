"""The parts of the GPU kit, each a process that `run.py` starts: python -m tests.gpu.parts NAME
--device cuda ...

A part prints what it likes, and a row of the table for each thing that it has measured. Its exit
code is 1 if one is beyond its bound. On a CPU everything is smaller, and what needs a GPU says so.
"""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest import mock

import msgspec
import torch

from aiayn.records import BinarizedCorpus, read_record
from aiayn.runs.checkpoint_names import list_checkpoints
from aiayn.spec.system import read_corpus, read_system
from aiayn.train import (
    plugin,
)  # before fairseq's other modules: it lets fairseq import only what is needed
from aiayn.train.ranks import Rank
from aiayn.train.request import StopFlag, TrainingRequest
from aiayn.train.trainer import AiaynTrainer
from aiayn.train.trial import try_node
from aiayn.train.trial_result import RESULT_NAME, SAME_UPDATES, TrialResult
from analysis.layers.heavy_layer_timing import make_call
from analysis.layers.records import LayerSize, LayerType
from tests.engine import tiny_training
from tests.engine.pipeline_verbs import training_commands
from tests.engine.tiny_training import train_here
from tests.forks import fork
from tests.gpu import steps

__all__ = ["plugin"]

# Of two results of one computation in two orders: 24 bits of mantissa, sums over some thousand
# terms.
FP32_ERROR, TF32_ERROR, BF16_ERROR = 1e-4, 2e-2, 5e-2
LOSS_ERROR = 0.03  # of the smoothed loss after 200 updates: what other roundings may make of it
NOT_HERE = "no GPU"


class Row(NamedTuple):
    """A thing that was measured. `value` is None where it could not be, and `note` says why. `ok`
    is of the bound.
    """

    what: str
    value: float | str | None
    unit: str = ""
    bound: str = ""
    ratio: float | None = None
    ok: bool | None = None
    note: str = ""

    def in_table(self, part: str) -> str:
        """Return this row of the table."""
        value = (
            f"not measured: {self.note}"
            if self.value is None
            else f"{self.value} {self.unit}".rstrip()
        )
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        is_ok = {None: "", True: "yes", False: "**no**"}[self.ok]
        return f"| {part} | {self.what} | {value} | {self.bound} | {ratio} | {is_ok} |"


class Work(NamedTuple):
    """What a part is told."""

    device: str
    data: Path
    out: Path
    num_gpus: int = 1

    @property
    def is_cuda(self) -> bool:
        """Whether the GPU is measured."""
        return self.device == "cuda"

    def corpus(self) -> tuple[str, str, BinarizedCorpus]:
        """Return scale, name and data-bin of what is trained: on a GPU Multi30k, if the kit has it."""
        has_multi30k = self.is_cuda and (self.data / "multi30k_en_de").is_dir()
        scale, corpus = ("multi30k", "multi30k_en_de") if has_multi30k else ("demo", "demo_en_de")
        return (
            scale,
            corpus,
            read_record(self.data / corpus / "binarize" / "record.json", BinarizedCorpus),
        )


def within(what: str, value: float, bound: float, unit: str = "", note: str = "") -> Row:
    """Return the row of a value that is to stay within a bound."""
    return Row(
        what, float(f"{value:.3g}"), unit, f"<= {bound:g}", value / bound, value <= bound, note
    )


def measure_machine(work: Work) -> Iterator[Row]:
    """Yield what torch sees, and the peak that later shares are of."""
    yield Row("torch", torch.__version__)
    if work.is_cuda:
        properties = torch.cuda.get_device_properties(0)
        yield Row("GPU", f"{properties.name}, capability {properties.major}.{properties.minor}")
        yield Row("its memory", round(properties.total_memory / 2**30, 1), "GiB")
    kind = "bf16, 8192 x 8192" if work.is_cuda else "fp32, 1024 x 1024"
    yield Row(
        f"product of matrices, {kind}",
        round(steps.measured_peak(work.device) / 1e12, 3),
        "TFLOP/s",
    )


def compute_gradients(
    model: Any, batch: tuple[torch.Tensor, ...], precision: str
) -> tuple[float, torch.Tensor]:
    """Return the smoothed loss and all gradients of one batch, on the CPU in fp32."""
    device = batch[0].device.type
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    model.zero_grad()
    source, moved, target = batch
    with torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16"):
        loss, _ = model(
            source,
            None,
            moved,
            target_BT=target,
            eps_ls=steps.EPS_LS,
            num_tokens=int(target.ne(steps.PAD).sum()),
        )
    loss.backward()
    gradients = [
        one.grad.flatten().float().cpu() for one in model.parameters() if one.grad is not None
    ]
    return float(loss.detach()), torch.cat(gradients)


def measure_parity(work: Work) -> Iterator[Row]:
    """Yield how far loss and gradients are from the CPU's in fp64, with the same weights and batch,
    without dropout.

    In fp32 some inputs of a ReLU round to the other side of zero, so the CPU's own gradient
    in fp32 differs from fp64's by 0.0004 to 0.0012. The GPU's may differ four times as much.
    """
    scale = "paper" if work.is_cuda else "multi30k"
    for system in ("base", "table3_e_learned", "pre_norm", "batch_norm")[
        : None if work.is_cuda else 2
    ]:
        training = msgspec.structs.replace(read_system(system, scale).training, p_drop=0.0)
        model = steps.make_model(training, steps.VOCABULARY_SIZE[scale]).train()
        batch = tuple(tensor[:16] for tensor in steps.make_batch(scale, "cpu"))
        _, gradients_of_cpu = compute_gradients(model, batch, "fp32")
        loss, gradients = compute_gradients(model.double(), batch, "fp32")
        error_of_cpu = float((gradients_of_cpu - gradients).norm() / gradients.norm())
        yield Row(f"gradient of {system}, the CPU's fp32 for fp64, relative", error_of_cpu)
        model.float().to(work.device)
        bounds = {"fp32": FP32_ERROR, "tf32": TF32_ERROR, "bf16": BF16_ERROR}
        for precision in bounds if work.is_cuda else ("fp32", "bf16"):
            on_device = tuple(tensor.to(work.device) for tensor in batch)
            its_loss, its_gradients = compute_gradients(model, on_device, precision)
            label = f"{system}, {precision} for the CPU's fp64"
            bound = bounds[precision]
            yield within(f"loss of {label}, relative", abs(its_loss - loss) / abs(loss), bound)
            error = float((its_gradients - gradients).norm() / gradients.norm())
            most = 4 * error_of_cpu if precision == "fp32" else 10 * bound
            yield within(f"gradient of {label}, relative", error, most)


def measure_synchronisations(work: Work) -> Iterator[Row]:
    """Yield how often a step of ours waits for the GPU: loss, gradients and Adam of a batch that is
    there.
    """
    if not work.is_cuda:
        yield Row("synchronisations in a step", None, note=NOT_HERE)
        return
    for precision in ("fp32", "bf16"):
        step = steps.make_our_step(
            read_system("base", "paper").training, "paper", precision, work.device
        )
        step()
        torch.cuda.synchronize()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            step()
            torch.cuda.set_sync_debug_mode("default")
        for one in caught:
            print(f"{one.filename}:{one.lineno}: {one.message}")
        # torch also warns once that this mode is a prototype.
        num_waits = sum("called a synchronizing" in str(one.message) for one in caught)
        yield Row(
            f"synchronisations in a step, {precision}", num_waits, "", "0", None, num_waits == 0
        )


def make_request(
    work: Work, name: str, *, system: str = "gpu_kit", **changes: Any
) -> TrainingRequest:
    """Return a request to train a system, by default the kit's, in a folder of this name."""
    scale, _, data = work.corpus()
    training = msgspec.structs.replace(
        read_system(system, scale).training, device=work.device, **changes
    )
    run_folder = work.out / "runs" / name
    shutil.rmtree(run_folder, ignore_errors=True)
    run_folder.mkdir(parents=True)
    return tiny_training.make_request(
        run_folder,
        data,
        system=system,
        training=training,
        num_models=1,
        threads_per_rank=torch.get_num_threads(),
    )


def train_to_state(request: TrainingRequest) -> str:
    """Train to the end, and return the digest of the model and Adam's moments."""
    train_here(request)
    return tiny_training.state_sha256(Path(request.run_folder))


def measure_resume(work: Work) -> Iterator[Row]:
    """Yield, for each precision, whether a stopped and resumed training has the tensors of an
    undisturbed training.

    FlashAttention's backward pass adds in no fixed order unless torch is told to be deterministic:
    bf16 has both.
    """
    cases = (
        [("fp32", False), ("bf16", False), ("bf16", True)] if work.is_cuda else [("fp32", False)]
    )
    for precision, is_deterministic in cases:
        torch.use_deterministic_algorithms(is_deterministic, warn_only=True)
        changes = {
            "precision": precision,
            "updates": 40,
            "save_interval_updates": 40,
            "warmup_steps": 40,
        }
        label = f"{precision}, deterministic algorithms" if is_deterministic else precision
        begin = time.perf_counter()
        whole = train_to_state(make_request(work, "whole", **changes))
        yield Row(f"its time, start included, {label}", round(time.perf_counter() - begin, 1), "s")
        same = whole == train_to_state(make_request(work, "again", **changes))
        yield Row(f"a second training has the same tensors, {label}", str(same), ok=same)
        request = make_request(work, "resumed", **changes)
        train_here(request, stopped_at=23)
        same = whole == train_to_state(request)
        yield Row(f"stopped at 23 of 40 and resumed, the same tensors, {label}", str(same), ok=same)


def logged_losses(request: TrainingRequest) -> list[float]:
    """Return the smoothed loss of each logged line of a training, bits a target token."""
    text = (Path(request.run_folder) / "train.log").read_text(encoding="utf-8")
    return [
        float(json.loads(line)["loss"]) for line in re.findall(r"train_inner \| (\{.*\})", text)
    ]


def measure_precision(work: Work) -> Iterator[Row]:
    """Yield the losses of 200 updates in each precision. The last of tf32 and bf16 are near fp32's."""
    updates = 200 if work.is_cuda else 40
    exact = math.nan
    for precision in ("fp32", "tf32", "bf16") if work.is_cuda else ("fp32", "bf16"):
        changes = {
            "precision": precision,
            "updates": updates,
            "save_interval_updates": updates,
            "warmup_steps": updates,
        }
        request = make_request(work, f"precision-{precision}", **changes)
        begin = time.perf_counter()
        train_here(request)
        seconds, losses = time.perf_counter() - begin, logged_losses(request)
        quarters = [losses[len(losses) * quarter // 4 - 1] for quarter in (1, 2, 3, 4)]
        yield Row(
            f"losses of {updates} updates, {precision}",
            " ".join(f"{one:.3f}" for one in quarters),
            "bits",
        )
        yield Row(f"their time, start included, {precision}", round(seconds, 1), "s")
        mean = sum(losses[-len(losses) // 4 :]) / len(losses[-len(losses) // 4 :])
        if precision == "fp32":
            exact = mean
        else:
            yield within(
                f"last quarter's mean loss, {precision} for fp32, relative",
                abs(mean / exact - 1),
                LOSS_ERROR,
            )


def measure_step(work: Work) -> Iterator[Row]:
    """Yield steps of base and big, by our code and by stock fairseq: 25k + 25k tokens on a GPU."""
    scale = "paper" if work.is_cuda else "multi30k"
    goal = {"base": 0.30, "big": 0.35}
    cases = [
        (system, precision)
        for system in steps.SYSTEMS[scale]
        for precision in ("bf16", "fp32", "tf32")
    ]
    for system, precision in cases if work.is_cuda else [("base", "fp32")]:
        num_steps = 7 if work.is_cuda else 3
        measured = steps.measure_sides(system, scale, precision, work.device, num_steps)
        sides = {one.name: one for one in measured}
        stock = sides.get("fairseq")
        for name, side in sides.items():
            label = f"{system}, {precision}, {name}"
            spread = f"{min(side.seconds) * 1e3:.1f} to {max(side.seconds) * 1e3:.1f} ms"
            ratio = (
                stock.median_seconds / side.median_seconds if stock and name != "fairseq" else None
            )
            bound = f"fairseq: {stock.median_seconds * 1e3:.1f} ms" if ratio and stock else ""
            yield Row(
                f"step of {label}",
                round(side.median_seconds * 1e3, 1),
                f"ms ({spread})",
                bound,
                ratio,
            )
            share, is_goal = (
                side.fraction_of_peak,
                work.is_cuda and (precision, name) == ("bf16", "ours"),
            )
            yield Row(
                f"share of the measured peak, {label}",
                round(share, 3),
                "",
                f">= {goal[system]}" if is_goal else "",
                None,
                share >= goal[system] if is_goal else None,
            )
        if work.is_cuda:
            torch.cuda.empty_cache()


def measure_decode(work: Work) -> Iterator[Row]:
    """Yield sentences a second of beam search on the demo's test set, and how many translations are
    the CPU's.
    """
    from aiayn.decode.decode import Translator, load_split
    from tests.engine.reference_search import Reference, search_by_reference, unequal

    scale, _, data = work.corpus()
    updates = 200 if work.is_cuda else 40
    request = make_request(
        work, "decode", updates=updates, save_interval_updates=updates, warmup_steps=updates
    )
    train_here(request)
    (model_path,) = list_checkpoints(Path(request.run_folder) / "checkpoints", "model")
    decoding = read_system("gpu_kit", scale).decoding
    hypotheses_by_label: dict[str, list[Any]] = {}
    for label, device, precision in (
        ("the CPU, fp32", "cpu", "fp32"),
        (f"{work.device}, fp32", work.device, "fp32"),
        (f"{work.device}, bf16", work.device, "bf16"),
    ):
        translator = Translator(model_path, data.folder, decoding, device=device)
        sources = load_split(translator.task, "test")[0][: 500 if work.is_cuda else 20]
        with torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16"):
            for _ in range(1 if device == "cpu" else 2):  # the first warms up a GPU
                begin = time.perf_counter()
                hypotheses_by_label[label] = translator.translate(sources)
                seconds = time.perf_counter() - begin
        yield Row(f"sentences a second, {label}", round(len(sources) / seconds, 1), "1/s")
        same = sum(
            one.pieces == other.pieces
            for one, other in zip(
                hypotheses_by_label[label], hypotheses_by_label["the CPU, fp32"], strict=True
            )
        )
        is_enough = (
            same >= 0.95 * len(sources) if precision == "fp32" else None
        )  # a weak model's bf16 may find others
        bound = "" if is_enough is None else ">= 0.95"
        yield Row(
            f"translations equal to the CPU's, {label}",
            round(same / len(sources), 4),
            "",
            bound,
            None,
            is_enough,
        )
        if label == "the CPU, fp32":
            few, dictionary = sources[:20], translator.task.target_dictionary
            oracle = search_by_reference(translator.model, dictionary, decoding, few)
            ours = [
                Reference(list(map(dictionary.index, one.pieces)), one.score)
                for one in hypotheses_by_label[label][: len(few)]
            ]
            lines = unequal(ours, oracle)
            for line in lines:
                print(line)
            yield Row(
                f"translations other than the oracle's, of {len(few)}",
                len(lines),
                "",
                "0",
                ok=not lines,
            )


def measure_memory(work: Work) -> Iterator[Row]:
    """Yield the peak memory of a step of ours next to what `aiayn plan` estimates."""
    from aiayn.cost import num_parameters
    from aiayn.plan.memory import device_memory_bytes

    if not work.is_cuda:
        yield Row("peak memory of a step", None, note=NOT_HERE)
        return
    size = steps.VOCABULARY_SIZE["paper"]
    for system in ("base", "big"):
        training = read_system(system, "paper").training
        for precision in ("fp32", "bf16"):
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            step = steps.make_our_step(training, "paper", precision, work.device)
            for _ in range(2):
                step()
            torch.cuda.synchronize()
            used = torch.cuda.max_memory_allocated()
            whole = msgspec.structs.replace(
                training,
                max_tokens_per_batch=steps.TOKENS["paper"],
                precision=precision,
            )
            estimate = device_memory_bytes(whole, num_parameters(whole, size, joint=True), size)
            del step
            yield Row(
                f"peak memory, {system}, {precision}",
                round(used / 2**30, 2),
                "GiB",
                f"plan: {estimate / 2**30:.2f} GiB",
                used / estimate,
                used <= estimate,
            )


def measure_pipeline(
    work: Work, updates: int | None = None, num_averaged: int = 2
) -> Iterator[Row]:
    """Yield what a whole pipeline comes to, by the commands that a user types: from training to
    BLEU. By default the training is a short one.
    """
    scale, corpus, _ = work.corpus()
    folder = work.out / "pipeline"
    shutil.rmtree(folder, ignore_errors=True)
    testset = read_corpus(corpus).test_testset

    def record(verb: str) -> Path:
        if verb in ("fetch", "binarize"):
            return work.data / corpus / verb / "record.json"
        return folder / f"{verb}.json"

    if updates is None:
        updates = {"demo": 500, "multi30k": 600}[scale] if work.is_cuda else 40
    commands = training_commands(
        corpus,
        record,
        scale=scale,
        system="gpu_kit",
        testset=testset,
        updates=updates,
        num_averaged=num_averaged,
        device=work.device,
    )
    for verb, *flags in commands:
        command = [sys.executable, "-m", "aiayn", verb, *flags]
        if verb == "train":
            command += ["--runs-folder", str(folder / "runs")]
        begin = time.perf_counter()
        done = subprocess.run(command, check=False)
        seconds, is_well = round(time.perf_counter() - begin, 1), done.returncode == 0
        yield Row(f"aiayn {verb}", seconds, "s", "exit code 0", ok=is_well)
        if not is_well:
            return
    for score in json.loads(record("score").read_bytes())["scores"]:
        yield Row(
            f"{score['metric']}, {testset}, after {updates} updates", round(score["value"], 2)
        )
    perplexity = json.loads(record("perplexity").read_bytes())["value"]
    yield Row(f"perplexity a subword, {testset}", round(perplexity, 3))
    device = json.loads(record("train").read_bytes())["hardware"]["device"]
    yield Row("device in the training's record", device, ok=device == work.device)


def measure_node(work: Work) -> Iterator[Row]:
    """Yield what a trial of all GPUs finds, with a rank for each, as `aiayn preflight --train` submits
    it. A rank is a fork of this process, which has not touched a GPU.
    """
    updates = 40 if work.is_cuda else 8
    changes = {
        "updates": updates,
        "save_interval_updates": updates,
        "batches_per_update": work.num_gpus,
    }
    request = make_request(work, "node", **changes)
    threads = torch.get_num_threads() if work.is_cuda else 1
    request = msgspec.structs.replace(request, num_ranks=work.num_gpus, threads_per_rank=threads)

    def try_rank(index: int) -> None:
        rank = Rank(
            rank=index, world_size=work.num_gpus, job=f"kit{os.getppid()}", local_rank=index
        )
        with StopFlag().installed() as stop:
            try_node(request, rank, stop)

    children = [fork(partial(try_rank, index)) for index in range(work.num_gpus)]
    failed = [index for index, child in enumerate(children) if os.waitpid(child, 0)[1]]
    if failed:
        raise SystemExit(f"ranks {failed} failed; see {request.run_folder}")
    result_path = Path(request.run_folder) / RESULT_NAME
    result = msgspec.json.decode(result_path.read_bytes(), type=TrialResult)
    ranks = "1 rank" if result.num_ranks == 1 else f"{result.num_ranks} ranks"
    yield Row(f"an update of {ranks}", round(1000 * result.seconds_per_update, 1), "ms")
    same = result.resumed_difference == 0.0
    yield Row(
        f"TERM after update {result.stopped_at}, resumed: the same tensors", str(same), ok=same
    )
    what = f"parameters of 1 rank for {ranks}, no dropout, relative to their way"
    yield within(what, result.one_rank_difference, SAME_UPDATES)


def measure_updates(work: Work) -> Iterator[Row]:
    """Yield the seconds of an update of base, lstm and fconv in a training, as a user starts it."""
    num_first, updates = (20, 80) if work.is_cuda else (2, 6)  # the first updates warm up
    systems = ("base", "lstm", "fconv")
    for precision in ("fp32", "bf16") if work.is_cuda else ("fp32",):
        for system in systems:
            begins: list[float] = []
            train_step = AiaynTrainer.train_step

            def timed(*arguments: Any, train_step: Any = train_step, begins: Any = begins) -> Any:
                begins.append(time.perf_counter())
                return train_step(*arguments)

            request = make_request(
                work,
                f"updates-{system}-{precision}",
                system=system,
                precision=precision,
                updates=updates,
                save_interval_updates=updates,
            )
            with (
                mock.patch("aiayn.train.fairseq_args.NUM_VALIDATIONS", 1),
                mock.patch.object(AiaynTrainer, "train_step", timed),
            ):
                train_here(request)
            mean_seconds = (begins[-1] - begins[num_first]) / (len(begins) - 1 - num_first)
            label = f"an update of {system}, {precision}, loaders included"
            yield Row(label, round(mean_seconds, 4), "s")


def measure_whole(work: Work) -> Iterator[Row]:
    """Yield what base's whole training comes to, with the updates and the averaging of its scale."""
    if work.is_cuda:
        scale, _, _ = work.corpus()
        yield from measure_pipeline(work, read_system("gpu_kit", scale).training.updates, 5)
    else:
        yield Row("the whole training of base", None, note=NOT_HERE)


def measure_layers(work: Work) -> Iterator[Row]:
    """Yield the seconds of a forward pass of Table 1's layers by the number of tokens n, one sequence.

    On a GPU the seconds show the column "sequential operations": the recurrence needs n steps.
    """
    calls: dict[tuple[LayerType, int], Callable[[], object]] = {}
    with torch.device(work.device):
        for num_tokens in (64, 256, 1024) if work.is_cuda else (64,):
            for layer in ("self_attention", "recurrent", "convolutional"):
                size = LayerSize(layer=layer, n=num_tokens, d=512, k_or_r=5)
                calls[layer, num_tokens] = make_call(size)
    with torch.no_grad():
        for (layer, num_tokens), call in calls.items():
            seconds = [steps.time_call(call, work.device) for _ in range(22)][2:]
            milliseconds = sorted(1000 * one for one in seconds)
            spread = f"ms ({milliseconds[0]:.3f} to {milliseconds[-1]:.3f})"
            label = f"{layer}, n {num_tokens}, d 512, fp32"
            yield Row(label, round(median(milliseconds), 3), spread)


PARTS = {
    "machine": measure_machine, "parity": measure_parity, "synchronisations": measure_synchronisations,
    "resume": measure_resume, "precision": measure_precision, "step": measure_step, "decode": measure_decode,
    "memory": measure_memory, "pipeline": measure_pipeline,
    "node": measure_node, "updates": measure_updates, "layers": measure_layers, "whole": measure_whole,
}  # fmt: skip


def main() -> int:
    """Run one part, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True)
    for name in ("data", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--gpus", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print(
            "torch sees no GPU here; see nvidia-smi and whether torch is a build for CUDA, or take"
            " --device cpu"
        )
        return 1
    is_well = True
    work = Work(arguments.device, arguments.data, arguments.out, arguments.gpus)
    for row in PARTS[arguments.part](work):
        print(row.in_table(arguments.part), flush=True)
        is_well = is_well and row.ok is not False
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
