"""Each update of a training draws fairseq's own random numbers, and leaves nothing for a GPU."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.trainer import Trainer

from aiayn.train.trainer import AiaynTrainer


@pytest.mark.parametrize("num_updates", [0, 1, 699])
def test_an_update_on_a_cpu_draws_fairseqs_numbers_and_queues_no_seed(num_updates: int) -> None:
    trainer: Any = SimpleNamespace(
        cuda=False,
        cfg=SimpleNamespace(common=SimpleNamespace(seed=3)),
        get_num_updates=lambda: num_updates,
    )
    Trainer._set_seed(trainer)
    expected = torch.rand(8)
    num_queued = len(torch.cuda._queued_calls)
    AiaynTrainer._set_seed(trainer)
    assert torch.equal(torch.rand(8), expected)
    assert len(torch.cuda._queued_calls) == num_queued
