"""The job's first check: it passes on a sound node, names a bad one within seconds, and draws no
random number.
"""

import os
import platform
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from aiayn.errors import LaunchError
from aiayn.runs.run_folder import RunFolder
from aiayn.train import node_check
from aiayn.train.node_check import all_reduced, check_node, layer_step
from aiayn.train.ranks import Rank, RankGroup, joined_ranks
from aiayn.train.rendezvous import is_peer_loss
from tests.forks import fork

HOST = platform.node()
ALONE = RankGroup(Rank(rank=0, world_size=1, job="7", local_rank=0), [HOST], None)


def say_from_ranks(
    folder: Path, work: Callable[[RankGroup], None], killed: int | None = None
) -> list[str]:
    """Return the LaunchError, '' for none, of both ranks' work, done by forks of this process that
    joined by gloo.

    Whether a RuntimeError is another rank's loss; nothing of a rank that is to be killed.
    """

    def report(index: int) -> None:
        message = "did not come back"
        try:
            torch.set_num_threads(
                1
            )  # a pool of threads that this process has had does not outlive a fork
            with joined_ranks(
                RunFolder(folder),
                Rank(rank=index, world_size=2, job="7", local_rank=index),
                "cpu",
            ) as group:
                work(group)
            message = ""
        except LaunchError as error:
            message = str(error)
        except RuntimeError as error:  # also if the killed rank had joined before this rank
            message = f"lost: {is_peer_loss(error)}"
        finally:
            (folder / f"said{index}").write_text(message, encoding="utf-8")

    for child in [fork(partial(report, index)) for index in range(2)]:
        os.waitpid(child, 0)
    alive = [index for index in range(2) if index != killed]
    return [(folder / f"said{index}").read_text(encoding="utf-8") for index in alive]


@contextmanager
def planted(is_planted: bool, name: str, value: object) -> Iterator[Any]:
    """Replace a function of the check on the rank that is to be bad, and yield what it is then."""
    with (
        mock.patch.object(node_check, name, value)
        if is_planted
        else mock.patch.object(os, "name", os.name)
    ) as new:
        yield new


def test_nothing_that_draws_random_numbers_is_moved() -> None:
    # The check precedes a training whose tensors must not depend on it.
    torch_state, python_state, numpy_state = (
        torch.get_rng_state(),
        random.getstate(),
        np.random.get_state(),
    )
    check_node(ALONE, "cpu")
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert random.getstate() == python_state
    for before, now in zip(numpy_state, np.random.get_state(), strict=True):
        assert np.array_equal(before, now)


def test_a_step_in_single_precision_is_that_in_double() -> None:
    """To a ten-thousandth: the check's tolerance, 0.02, is for coarser hardware formats."""
    assert layer_step("cpu") == pytest.approx(layer_step("cpu", torch.float64), rel=1e-4)
    assert all(value > 0.01 for value in layer_step("cpu"))


@pytest.mark.parametrize("wrong", [(float("nan"), 1.0), (1e9, 1.0)])
def test_a_device_that_computes_wrongly_is_named(wrong: tuple[float, float]) -> None:
    def step(device: str, dtype: torch.dtype = torch.float32) -> tuple[float, float]:
        return wrong if dtype == torch.float32 else layer_step(device, dtype)

    with planted(True, "layer_step", step), pytest.raises(LaunchError) as raised:
        check_node(ALONE, "cpu")
    assert (
        f"rank 0 of 1 on {HOST} (cpu): a forward and backward step of a small layer: loss "
        in str(raised.value)
    )
    assert "expected 0." in str(raised.value) or "expected 1." in str(raised.value)
    assert "sbatch_lines: {exclude: NODE}" in str(raised.value)


def test_a_device_that_fails_is_named_with_its_own_error() -> None:
    failing = mock.Mock(
        side_effect=[(1.0, 1.0), RuntimeError("CUDA error: uncorrectable ECC error encountered")]
    )
    with (
        planted(True, "layer_step", failing),
        pytest.raises(LaunchError, match=r"\(cpu\): .*uncorrectable ECC error"),
    ):
        check_node(ALONE, "cpu")


def test_two_ranks_on_one_gpu_are_told_the_lines_of_the_clusters_file() -> None:
    """In NCCL's words. No node is blamed."""
    error = RuntimeError(
        "NCCL error: ncclInvalidUsage: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000"
    )
    problem = node_check._problem_of(mock.Mock(side_effect=error), "an all-reduce")
    assert problem.startswith(f"an all-reduce: {error}; two ranks have one GPU: ")
    assert "`ranks_per_node`" in problem
    assert "exclude" not in problem


def test_a_wrong_sum_is_named_by_every_rank(tmp_path: Path) -> None:
    def work(group: RankGroup) -> None:
        with planted(
            group.rank.rank == 1, "all_reduced", lambda summand_N: all_reduced(summand_N) + 0.5
        ):
            check_node(group, "cpu")

    messages = say_from_ranks(tmp_path, work)
    assert messages[0] == messages[1]
    expected = (
        f"job 7 cannot train: rank 1 of 2 on {HOST} (cpu): an all-reduce: 262,144 of 262,144 sums"
        " are wrong, "
    )
    assert messages[0].startswith(f"{expected}the first 3.5, expected 3:")
    assert "rank 0 of 2" not in messages[0]


def test_a_rank_that_hangs_is_named_after_the_time_out(tmp_path: Path) -> None:
    """Rank 1 reports a sound device and never enters the all-reduce. Rank 0 leaves it after the
    time-out.
    """

    def work(group: RankGroup) -> None:
        hang = mock.Mock(side_effect=lambda *_: time.sleep(1.5))
        with (
            mock.patch.object(node_check, "TIMEOUT_SECONDS", 0.6),
            planted(group.rank.rank == 1, "_check_sum", hang),
        ):
            check_node(group, "cpu")

    messages = say_from_ranks(tmp_path, work)
    assert f"rank 0 of 2 on {HOST} (cpu): an all-reduce: not done within 0.4 s" in messages[0]
    assert f"rank 1 of 2 on {HOST}: no report within " in messages[0]


@pytest.mark.parametrize(("device", "seconds"), [("cpu", 60.0), ("cuda", 120.0)])
def test_gpus_have_longer_for_they_make_their_communicator_in_the_check(
    device: str, seconds: float
) -> None:
    sound = (
        planted(True, "_check_layer", mock.Mock()),
        planted(True, "missing_kernels", mock.Mock(return_value="")),
    )
    with sound[0], sound[1], mock.patch.object(ALONE, "gather", return_value=[""]) as gather:
        check_node(ALONE, device)
    assert gather.call_args.kwargs == {"within_seconds": seconds}


def test_a_gpu_without_kernels_is_told_the_build_that_has_them_and_no_node_is_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (7, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Tesla V100-SXM2-32GB")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_75", "sm_80", "sm_90"])
    with pytest.raises(LaunchError) as raised:
        check_node(ALONE, "cuda")
    assert (
        str(raised.value)
        == f"job 7 cannot train: rank 0 of 1 on {HOST} (cuda:0): Tesla V100-SXM2-32GB (compute"
        " capability 7.0): the installed torch has no kernels for it; install the build for"
        " CUDA 12.6: `make install TORCH_INDEX_URL=https://download.pytorch.org/whl/cu126`"
    )


@pytest.mark.parametrize("step", ["_check_layer", "_check_sum"])
@pytest.mark.parametrize("killed", [0, 1])
def test_a_rank_that_is_killed_in_the_check_is_a_loss_and_no_bad_node(
    tmp_path: Path, killed: int, step: str
) -> None:
    """Before its report or after it. The next job may do better: no error is to be noted that would
    end the run.
    """

    def work(group: RankGroup) -> None:
        kill = mock.Mock(side_effect=lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        with planted(group.rank.rank == killed, step, kill):
            check_node(group, "cpu")

    began = time.monotonic()
    assert say_from_ranks(tmp_path, work, killed=killed) == ["lost: True"]
    assert time.monotonic() - began < node_check.TIMEOUT_SECONDS / 2
