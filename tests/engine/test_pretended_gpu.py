"""Runs the code for GPUs on a pretended GPU: it counts a training step, and computes the CPU's
numbers.

After a change that is meant to change the counts: python -m tests.engine.pretended_runs kernels
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.records import BinarizedCorpus
from tests.engine import pretended_gpu
from tests.engine.pretended_runs import BUGS, CSV_PATH, StepCounts, read_csv

reason = pretended_gpu.reason_unsupported()
pytestmark = pytest.mark.skipif(bool(reason), reason=reason)

NUM_COMPARED = 10  # losses
LOSS_ERROR = 1e-5  # relative; the two devices add in other orders


def run(*arguments: str) -> dict[str, Any]:
    """Run `pretended_runs` in a process of its own, and return what it found."""
    command = [sys.executable, "-m", "tests.engine.pretended_runs", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=CSV_PATH.parents[3]
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return msgspec.json.decode(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def steps() -> dict[str, Any]:
    """Return the counts of training steps."""
    return run("steps")


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus) -> dict[str, Any]:
    """Return what trainings left, and what a model translates, on both devices."""
    binarized_path = Path(data.folder).parent / "record.json"
    return run(
        "training",
        "--folder",
        str(tmp_path_factory.mktemp("runs")),
        "--binarized",
        str(binarized_path),
    )


def test_a_step_asks_of_a_gpu_what_the_table_says(steps: dict[str, Any]) -> None:
    counts = msgspec.convert(steps["counts"], list[StepCounts])
    assert counts == read_csv(CSV_PATH), (
        f"by python -m tests.engine.pretended_runs kernels; waits: {steps['waits']}"
    )


def test_on_one_gpu_an_update_waits_once(steps: dict[str, Any]) -> None:
    assert {step["waits_per_update"] for step in steps["counts"] if step["num_ranks"] == 1} == {1}


def test_base_in_bf16_needs_few_kernels_and_waits(steps: dict[str, Any]) -> None:
    """What is aimed at: 1,250 kernels for a small batch, 1,350 for a batch of 25,000 tokens a side."""
    base = [
        step for step in read_csv(CSV_PATH) if (step.system, step.precision) == ("base", "bf16")
    ]
    large = msgspec.convert(steps["large"], StepCounts)
    for step, limit in [*((step, 1250) for step in base), (large, 1350)]:
        assert step.kernels_per_batch + step.kernels_per_update <= limit
        assert step.waits_per_update <= (1 if step.num_ranks == 1 else 6)
    assert [step.num_ranks for step in base] == [1, 4, 8]


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_noticed(bug: str, steps: dict[str, Any]) -> None:
    sound = next(
        step for step in read_csv(CSV_PATH) if (step.system, step.precision) == ("base", "bf16")
    )
    found = steps["with_bug"][bug]
    if bug == "the mask is made on the CPU":
        assert found.startswith("Expected all tensors to be on the same device")
    elif bug == "the loss counts its tokens":
        assert found["waits_per_update"] == sound.waits_per_update + 1
    else:
        assert found["attention"] == "causal: cudnn, masked: cudnn"
        assert sound.attention == "causal: flash, masked: efficient"


def test_losses_without_dropout_are_the_cpus(training: dict[str, Any]) -> None:
    ours, cpus = (training[device]["losses"][:NUM_COMPARED] for device in ("gpu", "cpu"))
    assert ours == pytest.approx(cpus, rel=LOSS_ERROR)
    assert len(ours) == NUM_COMPARED


def test_a_resumed_training_ends_with_the_tensors_of_an_undisturbed_one(
    training: dict[str, Any],
) -> None:
    """In bf16, with dropout, where copies to the host arrive late."""
    assert training["resumed"]["tensors_sha256"] == training["whole"]["tensors_sha256"]
    assert training["gpu"]["tensors_sha256"] != training["whole"]["tensors_sha256"]


def test_a_checkpoint_that_is_written_before_its_copies_arrive_is_noticed(
    training: dict[str, Any],
) -> None:
    assert training["resumed, with a bug"] == "gradients are Nan/Inf"


def test_translations_and_perplexity_are_the_cpus(training: dict[str, Any]) -> None:
    ours, cpus = (training[f"evaluated, {device}"] for device in ("gpu", "cpu"))
    assert ours["translations"] == cpus["translations"]
    assert len(set(cpus["translations"])) > 2
    assert ours["perplexity"] == pytest.approx(cpus["perplexity"], rel=LOSS_ERROR)


def test_cudnn_is_off_at_every_attention(training: dict[str, Any]) -> None:
    """In training, decoding and perplexity."""
    evaluated = training["evaluated, gpu"]
    for attention, num_with_cudnn in (
        (training["training"], training["training with cuDNN"]),
        (evaluated["decoding"], evaluated["decoding with cuDNN"]),
        (evaluated["measuring"], evaluated["measuring with cuDNN"]),
    ):
        assert sum(attention.values()) > 0
        assert num_with_cudnn == 0


def test_the_record_names_the_kernels_of_attention_and_joined_batches(
    training: dict[str, Any],
) -> None:
    kernels = {name: training[name]["record"]["kernels"] for name in ("gpu", "whole", "cpu")}
    kernels["resumed"] = training["resumed"]["record"]["kernels"]
    assert kernels == {
        "gpu": "masked: efficient, causal: efficient; 4 batches joined to 1 (12 updates)",
        "whole": "masked: efficient, causal: flash; 4 batches joined to 1 (12 updates)",
        "resumed": "masked: efficient, causal: flash; 4 batches joined to 1 (12 updates)",
        "cpu": "",
    }
