"""Makes and times training steps of fairseq's own transformer, loss and Adam, and of ours.

Both use the same synthetic batch, with lengths like the corpus's, and take turns in one process. On
a CPU, seconds are CPU seconds of the process. The peak is a matrix product measured here (bfloat16
on a GPU), not a number of a data sheet.
"""

import time
from collections.abc import Callable, Iterator
from statistics import median
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.optim.adam import Adam
from torch import Tensor

from aiayn.cost import flops_per_token
from aiayn.spec.system import TrainingSpec, read_system
from aiayn.train.device import prepare_device
from aiayn.train.fairseq_model import AiaynTransformer, AiaynTransformerConfig
from aiayn.train.optimiser import AiaynAdam, AiaynAdamConfig
from tests.engine.models import make_dictionary, make_task

Batch = tuple[Tensor, Tensor, Tensor]  # source, shifted target, target
PAD, EPS_LS = 1, 0.1
VOCABULARY_SIZE = {"multi30k": 7_799, "paper": 37_000}
TOKENS = {"multi30k": 3_000, "paper": 25_000}
SYSTEMS = {"multi30k": ["base"], "paper": ["base", "big"]}


def make_batch(scale: str, device: str) -> Batch:
    """Return source, shifted target and target, each of at most TOKENS positions with padding.

    Lengths are 28 to 32 (11 to 15 at Multi30k's scale): training sorts sentences by length, too.
    """
    mean_tokens = 30 if scale == "paper" else 13
    generator = torch.Generator().manual_seed(1)
    rows = TOKENS[scale] // (mean_tokens + 2)
    lengths = torch.randint(mean_tokens - 2, mean_tokens + 3, (rows,), generator=generator)
    tokens = torch.randint(
        4, VOCABULARY_SIZE[scale], (2, rows, int(lengths.max())), generator=generator
    )
    tokens = tokens.masked_fill(torch.arange(tokens.shape[2]) >= lengths[:, None], PAD)
    source, target = tokens.to(device)
    return source, torch.cat([torch.full_like(target[:, :1], 2), target[:, :-1]], dim=1), target


def make_model(training: TrainingSpec, vocabulary_size: int) -> AiaynTransformer:
    """Return ours as a training would begin with it, one dictionary for both languages."""
    shared = set(AiaynTransformerConfig.__dataclass_fields__) & set(TrainingSpec.__struct_fields__)
    task = make_task(make_dictionary(vocabulary_size))
    return AiaynTransformer.build_model(
        AiaynTransformerConfig(**{name: getattr(training, name) for name in sorted(shared)}), task
    )


def make_step(
    compute: Callable[[], Tensor], optimiser: torch.optim.Optimizer, batch: Batch, precision: str
) -> Callable[[], Tensor]:
    """Return what makes one optimiser step of a summed loss and returns that. Nobody reads it in
    the step.
    """
    target = batch[2]
    num_tokens = int(target.ne(PAD).sum())

    def step() -> Tensor:
        optimiser.zero_grad()
        with torch.autocast(target.device.type, dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = compute()
        (loss / num_tokens).backward()
        optimiser.step()
        return loss.detach()

    return step


def make_our_step(
    training: TrainingSpec, scale: str, precision: str, device: str
) -> Callable[[], Tensor]:
    """Return what makes one optimiser step of ours."""
    model = make_model(training, VOCABULARY_SIZE[scale]).to(device)
    source, moved, target = batch = make_batch(scale, device)
    prepare_device(device)
    num_tokens = int(target.ne(PAD).sum())
    optimiser = AiaynAdam(AiaynAdamConfig(lr=[1e-4]), list(model.parameters())).optimizer

    def compute() -> Tensor:
        loss: Tensor = model(
            source, None, moved, target_BT=target, eps_ls=EPS_LS, num_tokens=num_tokens
        )[0]
        return loss

    return make_step(compute, optimiser, batch, precision)


def make_stock_step(
    training: TrainingSpec, scale: str, precision: str, device: str
) -> Callable[[], Tensor]:
    """Return what makes one optimiser step of fairseq's own transformer, loss and Adam."""
    task = make_task(make_dictionary(VOCABULARY_SIZE[scale]))
    source, moved, target = batch = make_batch(scale, device)
    flags: Any = SimpleNamespace(
        encoder_layers=training.num_layers,
        decoder_layers=training.num_layers,
        encoder_embed_dim=training.d_model,
        encoder_ffn_embed_dim=training.d_ff,
        encoder_attention_heads=training.num_heads,
        decoder_attention_heads=training.num_heads,
        dropout=training.p_drop,
        share_all_embeddings=True,
    )
    base_architecture(flags)
    model = TransformerModel.build_model(flags, task).to(device)
    optimiser = Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def compute() -> Tensor:
        log_probabilities = model.get_normalized_probs(model(source, None, moved), log_probs=True)
        loss: Tensor = label_smoothed_nll_loss(
            log_probabilities.flatten(0, 1), target.flatten(), EPS_LS, PAD
        )[0]
        return loss

    return make_step(compute, optimiser, batch, precision)


def measured_peak(device: str) -> float:
    """Return the FLOP/s of a large product of bfloat16 matrices (a GPU), or of fp32 ones (a CPU)."""
    size, dtype = (8192, torch.bfloat16) if device == "cuda" else (1024, torch.float32)
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    best_seconds = min(time_call(lambda: left @ right, device) for _ in range(10))
    return 2 * size**3 / best_seconds


def time_call(work: Callable[[], object], device: str) -> float:
    """Return the seconds of work: wall time for a GPU, and this process's CPU seconds for a CPU."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    begin = clock()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return clock() - begin


class Side(NamedTuple):
    """The seconds of each step of one side, and its share of the measured peak."""

    name: str
    seconds: list[float]
    fraction_of_peak: float

    @property
    def median_seconds(self) -> float:
        """The step in the middle."""
        return median(self.seconds)


def measure_sides(
    system: str,
    scale: str,
    precision: str,
    device: str,
    num_steps: int,
) -> Iterator[Side]:
    """Alternate the steps of both sides and yield what each took. A side that runs out of memory is
    left out.
    """
    training = read_system(system, scale).training
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    target_tokens = int(make_batch(scale, "cpu")[2].ne(PAD).sum())
    torch.manual_seed(1)
    steps = {
        "fairseq": make_stock_step(training, scale, precision, device),
        "ours": make_our_step(training, scale, precision, device),
    }
    peak = measured_peak(device)
    seconds_by_side: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(num_steps + 2):
        for name, step in list(steps.items()):
            try:
                seconds_by_side[name].append(time_call(step, device))
            except torch.OutOfMemoryError as error:
                print(f"{system} {precision} {name}: {str(error).split('. ')[0]}")
                del steps[name]
    sentence = 30.0 if scale == "paper" else 13.0
    flops = flops_per_token(training, VOCABULARY_SIZE[scale], sentence) * target_tokens
    for name in steps:
        seconds = seconds_by_side[name][2:]  # two steps warm up
        yield Side(name, seconds, flops / median(seconds) / peak)
