"""Checks each rank's device (a rank is a process of the training), and an all-reduce over all
ranks, before a training begins.

The check finds and reports a bad node within seconds. Without the check, a bad node shows after
hours, as a loss that is NaN. The check does not draw random numbers, so a training gives bitwise
the same result with and without the check.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import torch
import torch.distributed
from torch import Tensor

from aiayn.errors import LaunchError
from aiayn.train.device import missing_kernels
from aiayn.train.ranks import MissingRankError, Rank, RankGroup
from aiayn.train.rendezvous import is_peer_loss

# The limit for each half of the check (the layer, then the sum), with the wait for the reports of
# the other ranks, which have finished their imports. A failing check takes about this long at most,
# because the first half takes no time on sound devices.
TIMEOUT_SECONDS = 60.0
CUDA_TIMEOUT_SECONDS = 120.0  # longer, because the first all-reduce makes NCCL's communicator
# The share of the second half's time for the all-reduce. The rest is for the reports on it.
SUM_FRACTION = 2 / 3
# How much longer a rank waits for `RankGroup.gather` than the time-out of `gather` itself: rank 0's
# error must come first, because only it lists the missing ranks.
_LEAD_SECONDS = 5.0
NUM_REDUCED = 1 << 18  # 1 MiB of fp32
# Relative, for the layer's loss and gradient: wide enough for the ten bits of TF32's mantissa.
TOLERANCE = 2e-2
NODE_ADVICE = (
    "leave that node out (`sbatch_lines: {exclude: NODE}` in the cluster's file) and start the"
    " training again"
)
# NCCL's words if two ranks use the same GPU, and what helps then. The node is sound.
DOUBLE_GPU = "Duplicate GPU detected"
DOUBLE_GPU_ADVICE = (
    "two ranks have one GPU: in the cluster's file set `ranks_per_node` and `gpus_per_node` to the"
    " GPUs of a node, and let all tasks see all (`srun_options: {gpu-bind: none}`)"
)
_Value = TypeVar("_Value")


def check_node(group: RankGroup, device: str) -> None:
    """Check this rank's device (`cpu` or `cuda`), then check a sum over all ranks (processes).

    After each of the two checks, every rank reports its result to all other ranks, so that the
    error message of each rank lists all bad ranks. The message of rank 0 also lists the ranks that
    do not report.

    Raises:
        LaunchError: if a rank is bad or does not report. The message has the host, rank and device,
            the result of the check, the expected result, and the next step.
        RuntimeError: if the process of a different rank has ended. `is_peer_loss` is True for this
            RuntimeError. The node of that rank may still be good.
    """
    timeout_seconds = CUDA_TIMEOUT_SECONDS if device == "cuda" else TIMEOUT_SECONDS
    # Nodes of a cluster have the same wheel: a missing kernel is not the fault of a node.
    problem = missing_kernels(group.rank.local_rank) if device == "cuda" else ""
    problem = problem or _problem_of(
        lambda: _check_layer(device), "a forward and backward step of a small layer"
    )
    _require_sound(group, device, problem, within_seconds=timeout_seconds)
    if group.rank.world_size > 1:
        began = time.monotonic()
        # The sum and its reports share one time-out, so that a node that hangs is reported in time.
        sum_seconds = timeout_seconds * SUM_FRACTION
        problem = _problem_of(lambda: _check_sum(group.rank, device, sum_seconds), "an all-reduce")
        _require_sound(
            group, device, problem, within_seconds=began + timeout_seconds - time.monotonic()
        )


def _require_sound(group: RankGroup, device: str, problem: str, *, within_seconds: float) -> None:
    """Gather the problems of all ranks (processes). If any rank has a problem, raise an error on
    every rank.
    """
    rank = group.rank
    where = device if device == "cpu" else f"{device}:{rank.local_rank}"
    own_problem = f"{group.name(rank.rank)} ({where}): {problem}" if problem else ""
    try:
        problems = _within(
            within_seconds + _LEAD_SECONDS,
            lambda: group.gather(own_problem, within_seconds=within_seconds),
        )
    except RuntimeError as error:
        if is_peer_loss(error):
            raise
        # Only rank 0 learns which ranks are missing. The other ranks only know that rank 0 has not
        # answered.
        missing = error.missing if isinstance(error, MissingRankError) else [group.name(0)]
        problems = [
            own_problem,
            *(
                f"{name}: no report within {within_seconds:.2g} s; {NODE_ADVICE}"
                for name in missing
            ),
        ]
    if any(problems):
        raise LaunchError(f"job {rank.job} cannot train: " + "\n  ".join(filter(None, problems)))


def _problem_of(check: Callable[[], None], what: str) -> str:
    """Run a check. Return the problem that the check finds, or ''. An error that means that the
    process of a different rank has ended is raised again.
    """
    try:
        check()
    except (RuntimeError, ValueError) as error:
        # torch raises RuntimeErrors, the checks below raise ValueErrors.
        if is_peer_loss(error):
            raise
        advice = DOUBLE_GPU_ADVICE if DOUBLE_GPU in str(error) else NODE_ADVICE
        return f"{what}: {error}; {advice}"
    return ""


def _wave(phase: float, *shape: int, device: str, dtype: torch.dtype) -> Tensor:
    """Return a tensor with fixed numbers between -1 and 1. The numbers are equal on every device,
    except for rounding.
    """
    # Computed in float64 on the CPU, so that all devices start from the same numbers.
    angles = torch.arange(math.prod(shape), dtype=torch.float64) * 0.7 + phase
    return torch.sin(angles).reshape(*shape).to(device=device, dtype=dtype)


def layer_step(device: str, dtype: torch.dtype = torch.float32) -> tuple[float, float]:
    """Compute one forward and backward pass of a small layer with attention, layer normalisation
    and ReLU. Return the loss and the norm of the gradient.
    """
    # Shapes are in the names: T tokens, D is the width.
    tokens, width = 16, 32
    x_TD = _wave(0.0, tokens, width, device=device, dtype=dtype)
    weight_DD = _wave(1.0, width, width, device=device, dtype=dtype) / width**0.5
    weight_DD.requires_grad_()
    attention_TT = ((x_TD @ weight_DD) @ x_TD.T / width**0.5).softmax(dim=-1)
    h_TD = torch.nn.functional.layer_norm(x_TD + attention_TT @ x_TD, (width,))
    y_TD = torch.relu(h_TD @ weight_DD) @ weight_DD.T
    loss = (y_TD - x_TD).square().mean()
    (gradient_DD,) = torch.autograd.grad(loss, [weight_DD])
    return float(loss.detach()), float(gradient_DD.norm())


def _check_layer(device: str) -> None:
    """Compare a forward and backward pass on the device with the same pass in
    float64 on the CPU.
    """
    # The step has a backward pass, whatever mode the caller is in.
    with torch.enable_grad():
        expected = layer_step("cpu", torch.float64)
        computed = layer_step(device)
    for name, value, right in zip(("loss", "gradient"), computed, expected, strict=True):
        # `not <=`, and not `>`, so that a NaN counts as wrong.
        if not abs(value - right) <= TOLERANCE * right:
            raise ValueError(
                f"{name} {value:.6g}, expected {right:.6g}: the device computes wrongly"
            )


def _check_sum(rank: Rank, device: str, timeout_seconds: float) -> None:
    """Sum a known tensor over all ranks (processes), and require the known result. The tensor has
    whole numbers with sums below 2^24, so that fp32 holds every sum without rounding.
    """
    # Rank r contributes the pattern times r + 1. So the sums also show a rank that is left out or
    # counted twice.
    pattern_N = torch.arange(NUM_REDUCED, dtype=torch.float32) % 16 + 1
    sum_N = (pattern_N * (rank.rank + 1)).to(device)
    expected_N = pattern_N * (rank.world_size * (rank.world_size + 1) // 2)
    found_N = _within(timeout_seconds, lambda: all_reduced(sum_N))
    num_wrong = int((found_N != expected_N).sum())
    if num_wrong:
        first = int((found_N != expected_N).nonzero()[0])
        raise ValueError(
            f"{num_wrong:,} of {NUM_REDUCED:,} sums are wrong, the first {float(found_N[first]):g},"
            f" expected {float(expected_N[first]):g}: a device or the network between the nodes"
            " computes wrongly"
        )


def all_reduced(summand_N: Tensor) -> Tensor:
    """Return the sum of a tensor over all ranks (processes), on the CPU. The copy to the CPU waits
    until NCCL has finished the all-reduce.
    """
    if summand_N.is_cuda:
        # The current device is a setting of the thread. In a new thread it is the node's first GPU.
        torch.cuda.set_device(summand_N.device)
    torch.distributed.all_reduce(summand_N)
    return summand_N.cpu()


def _within(seconds: float, work: Callable[[], _Value]) -> _Value:
    """Call `work` and return its result. Raise RuntimeError if `work` takes too long.

    `work` runs in a separate thread, because a collective operation that hangs may never return,
    even if its process group has a time-out.
    """
    # A thread cannot return a value or raise an error in its caller, so it leaves them in lists.
    results: list[_Value] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:
            errors.append(error)

    # A daemon, because a thread that hangs must not keep the process from ending.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise RuntimeError(
            f"not done within {seconds:g} s: a rank or the network between the nodes hangs"
        )
    return results[0]
