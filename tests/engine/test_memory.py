"""A lack of GPU memory ends a training with what to change: fairseq would leave the batch out and
train on.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from aiayn.errors import RunError
from aiayn.records import BinarizedCorpus
from aiayn.train.criterion import AiaynLabelSmoothing
from tests.engine.tiny_spec import TWO_BATCHES
from tests.engine.tiny_training import log_text, make_request, outcomes, train

SHORT = {"updates": 4, "save_interval_updates": 4}
TORCHS_OWN = "CUDA out of memory. Tried to allocate 20.00 MiB."
ILLEGAL_ACCESS = "CUDA error: an illegal memory access was encountered"
LOWER = r".*; no batch may be omitted: lower max_tokens_per_batch"


@pytest.fixture
def fail_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the loss fail at its `calls`, counted from 1, of those in training or of those in
    validation.
    """

    def fail(calls: set[int], error: RuntimeError, *, in_training: bool) -> None:
        original, count = AiaynLabelSmoothing.forward, [0]

        def forward(criterion: Any, *arguments: Any, **named: Any) -> Any:
            count[0] += criterion.training == in_training
            if criterion.training == in_training and count[0] in calls:
                raise error
            return original(criterion, *arguments, **named)

        monkeypatch.setattr(AiaynLabelSmoothing, "forward", forward)

    return fail


@pytest.mark.parametrize(
    ("calls", "in_training", "error", "words"),
    [
        ({6}, True, torch.OutOfMemoryError(TORCHS_OWN), LOWER),
        ({6}, True, RuntimeError("CUDA error: out of memory"), LOWER),
        ({1, 2}, False, torch.OutOfMemoryError(TORCHS_OWN), rf"exhausted\. Tried {LOWER}"),
        # Only a lack of memory is helped by a smaller batch.
        ({2}, True, RuntimeError(ILLEGAL_ACCESS), f"RuntimeError: {ILLEGAL_ACCESS}\n"),
    ],
    ids=["second half of an update", "CUDA's own words", "validation, twice", "another error"],
)
def test_an_error_of_the_gpu_ends_the_training_with_what_to_change(
    calls: set[int],
    in_training: bool,
    error: RuntimeError,
    words: str,
    run_folder: Path,
    data: BinarizedCorpus,
    fail_at: Callable[..., None],
) -> None:
    """Else the update would be made of the first half's gradients, set back to nothing, over the
    tokens of both.
    """
    fail_at(calls, error, in_training=in_training)
    with pytest.raises(RunError, match=words):
        train(make_request(run_folder, data, **TWO_BATCHES, **SHORT))
    assert outcomes(run_folder) == ["failed"]
    assert "attempting to recover from OOM" not in log_text(run_folder)


def test_a_batch_that_validates_when_gradients_are_freed_costs_nothing(
    tmp_path: Path, data: BinarizedCorpus, fail_at: Callable[..., None]
) -> None:
    undisturbed = train(make_request(tmp_path / "undisturbed", data, **SHORT))
    fail_at({1}, torch.OutOfMemoryError(TORCHS_OWN), in_training=False)
    record = train(make_request(tmp_path / "short_of_memory", data, **SHORT))
    assert "ran out of memory in validation step, retrying batch" in log_text(
        tmp_path / "short_of_memory"
    )
    assert record.tensors_sha256 == undisturbed.tensors_sha256
