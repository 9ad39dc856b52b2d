"""What several ranks sum: gradients in one flat buffer; and how gradients are clipped."""

import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from fairseq.distributed.legacy_distributed_data_parallel import LegacyDistributedDataParallel
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.optim import FairseqOptimizer

from aiayn.records import BinarizedCorpus
from aiayn.train.fairseq_model import AiaynTransformer
from aiayn.train.gradients import FlatGradients
from aiayn.train.optimiser import AiaynAdam
from aiayn.train.trainer import AiaynTrainer
from tests.engine.tiny_training import (
    log_text,
    make_request,
    outcomes,
    state_sha256,
    train,
    train_ranks,
    updates_kept,
)

SHORT = {"max_tokens_per_batch": 1000, "batches_per_update": 4, "updates": 8}
FAIRSEQS = mock.patch(
    "fairseq.models.distributed_fairseq_model.LegacyDistributedDataParallel",
    LegacyDistributedDataParallel,
)


@pytest.mark.parametrize("num_ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ranks_end_with_the_tensors_of_fairseqs_own_sum(
    num_ranks: int, tmp_path: Path, data: BinarizedCorpus
) -> None:
    """The model and Adam's moments, after updates with one and two batches on each rank."""
    digests = []
    for name in ("flat", "fairseqs"):
        request = make_request(tmp_path / name, data, num_ranks=num_ranks, **SHORT)
        if name == "flat":
            assert set(train_ranks(request)) == {0}
        else:
            with FAIRSEQS:
                assert set(train_ranks(request)) == {0}
        digests.append(state_sha256(tmp_path / name))
    assert digests[0] == digests[1]


@pytest.mark.parametrize("clip_norm", [0.0, 0.5])
def test_fairseqs_own_norms_and_modes_give_the_same_tensors(
    clip_norm: float, tmp_path: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours are only faster: with fairseq's methods put back, a training ends with the same bits."""
    ours = make_request(tmp_path / "ours", data, clip_norm=clip_norm, **SHORT)
    train(ours)
    for ours_class, fairseqs_class, names in (
        (AiaynAdam, FairseqOptimizer, ["clip_grad_norm"]),
        (AiaynTransformer, FairseqEncoderDecoderModel, ["train", "set_num_updates"]),
    ):
        for name in names:
            monkeypatch.setattr(ours_class, name, getattr(fairseqs_class, name))
    theirs = make_request(tmp_path / "theirs", data, clip_norm=clip_norm, **SHORT)
    train(theirs)
    assert state_sha256(tmp_path / "ours") == state_sha256(tmp_path / "theirs")


# Epochs of 13 updates, checkpoints at 1, 9 and 17.
LONG = {
    "max_tokens_per_batch": 1000,
    "batches_per_update": 2,
    "updates": 17,
    "save_interval_updates": 8,
}


def test_ranks_whose_norms_differ_end_before_a_checkpoint(
    tmp_path: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU that computes wrongly is noticed at the update, and nothing of it is kept. fairseq
    compares the norms on GPUs only; here it has the buffer for them on CPUs, too.
    """
    prepare = AiaynTrainer.__init__

    def prepare_buffer(trainer: AiaynTrainer, *arguments: Any, **named: Any) -> None:
        prepare(trainer, *arguments, **named)
        trainer._grad_norm_buf = torch.zeros(2, dtype=torch.float64)

    monkeypatch.setattr(AiaynTrainer, "__init__", prepare_buffer)
    # Ranks with other gradients would train models that drift apart.
    clip = AiaynAdam.clip_grad_norm
    num_clipped = 0

    def clip_wrongly(optimizer: AiaynAdam, *arguments: Any, **named: Any) -> torch.Tensor:
        nonlocal num_clipped
        num_clipped += 1
        is_wrong = num_clipped == 7 and torch.distributed.get_rank() == 1
        return clip(optimizer, *arguments, **named) * (1.001 if is_wrong else 1.0)

    monkeypatch.setattr(AiaynAdam, "clip_grad_norm", clip_wrongly)
    request = make_request(tmp_path / "differing", data, num_ranks=2, **LONG)
    assert [os.waitstatus_to_exitcode(status) for status in train_ranks(request)] == [1, 1]
    assert outcomes(tmp_path / "differing") == ["failed"]
    assert updates_kept(tmp_path / "differing", "full") == [1]
    text = log_text(tmp_path / "differing")
    assert "FloatingPointError: Fatal error: gradients are inconsistent between workers" in text


def test_no_update_is_made_with_a_norm_that_is_not_finite(
    tmp_path: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One NaN among the gradients would make every weight NaN.
    reduce_gradients, step = FlatGradients.all_reduce_grads, AiaynAdam.step
    steps_path = tmp_path / "steps"
    steps_path.mkdir()

    def reduce_to_nan(model: FlatGradients) -> None:
        reduce_gradients(model)
        if len(list(steps_path.glob(f"{torch.distributed.get_rank()}_*"))) == 3:
            model.buffer[0] = torch.nan

    def note_step(optimizer: AiaynAdam, *arguments: Any, **named: Any) -> None:
        rank = torch.distributed.get_rank()
        (steps_path / f"{rank}_{len(list(steps_path.glob(f'{rank}_*')))}").touch()
        step(optimizer, *arguments, **named)

    monkeypatch.setattr(FlatGradients, "all_reduce_grads", reduce_to_nan)
    monkeypatch.setattr(AiaynAdam, "step", note_step)
    request = make_request(tmp_path / "nan", data, num_ranks=2, **LONG)
    assert [os.waitstatus_to_exitcode(status) for status in train_ranks(request)] == [1, 1]
    assert "FloatingPointError: gradients are Nan/Inf" in log_text(tmp_path / "nan")
    assert len(list(steps_path.iterdir())) == 2 * 3
    assert updates_kept(tmp_path / "nan", "full") == [1]
