"""What several ranks sum: gradients in one flat buffer, and logs only where they are needed; and how
gradients are clipped.

Logs are kept on GPUs only; here two ranks on CPUs keep theirs, too.
"""

import os
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from fairseq.distributed.legacy_distributed_data_parallel import LegacyDistributedDataParallel
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.optim import FairseqOptimizer

from aiayn.records import BinarizedCorpus, TrainRecord, read_record
from aiayn.runs import attempts
from aiayn.train import trainer
from aiayn.train.fairseq_model import AiaynTransformer
from aiayn.train.gradients import FlatGradients
from aiayn.train.optimiser import AiaynAdam
from tests.engine.hooked_job import Signal
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
        (AiaynAdam, FairseqOptimizer, ["clip_grad_norm", "multiply_grads"]),
        (AiaynTransformer, FairseqEncoderDecoderModel, ["train", "set_num_updates"]),
    ):
        for name in names:
            monkeypatch.setattr(ours_class, name, getattr(fairseqs_class, name))
    theirs = make_request(tmp_path / "theirs", data, clip_norm=clip_norm, **SHORT)
    train(theirs)
    assert state_sha256(tmp_path / "ours") == state_sha256(tmp_path / "theirs")


@pytest.fixture
def local_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ranks on CPUs keep their logs, a line every five updates."""
    monkeypatch.setattr(trainer, "LOCAL_LOG_DEVICES", {"cpu"})
    monkeypatch.setattr("aiayn.train.fairseq_args.log_interval", lambda training: 5)


# Epochs of 13 updates, checkpoints at 1, 9 and 17, a log line every five updates.
LONG = {
    "max_tokens_per_batch": 1000,
    "batches_per_update": 2,
    "updates": 17,
    "save_interval_updates": 8,
}


def logged(run_folder: Path) -> list[str]:
    """Return the statistics that fairseq printed, without times."""
    lines = re.findall(r"\| (?:train|train_inner|valid) \| \{.*\}", log_text(run_folder))
    return [re.sub(r', "\w*(?:wps|ups|wall)": "[^"]*"', "", line) for line in lines]


def test_ranks_that_keep_their_logs_print_and_record_what_fairseq_does(
    tmp_path: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights, moments, statistics and counted tokens, with a stop between two log lines."""
    monkeypatch.setattr("aiayn.train.fairseq_args.log_interval", lambda training: 5)
    records = []
    for name in ("fairseqs", "local"):
        monkeypatch.setattr(trainer, "LOCAL_LOG_DEVICES", {"cpu"} if name == "local" else set())
        request = make_request(tmp_path / name, data, num_ranks=2, **LONG)
        stop = {rank: Signal(update=7) for rank in range(2)}
        assert train_ranks(request, stop) == [0, 0]
        assert updates_kept(tmp_path / name, "full")[-1] == 7
        assert train_ranks(request) == [0, 0]
        records.append(read_record(tmp_path / name / attempts.DONE_NAME, TrainRecord))
    assert state_sha256(tmp_path / "local") == state_sha256(tmp_path / "fairseqs")
    assert logged(tmp_path / "local") == logged(tmp_path / "fairseqs")
    assert len(logged(tmp_path / "local")) > 5
    assert len({record.tokens for record in records}) == 1


@pytest.mark.usefixtures("local_logs")
def test_ranks_whose_norms_differ_end_before_a_checkpoint_and_say_after_how_many_updates(
    tmp_path: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert "FloatingPointError: update 7: the ranks' norms of the summed gradients differ" in text
    assert "noticed after 9 updates, before a checkpoint was written" in text


@pytest.mark.usefixtures("local_logs")
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
