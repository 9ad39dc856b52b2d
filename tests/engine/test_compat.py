"""Each patch of fairseq does what it says, and is needed."""

import argparse
import io
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import fairseq.checkpoint_utils
import fairseq_cli.train
import numpy as np
import pytest
import torch
from fairseq.data import data_utils

from aiayn.engine import compat


class Stop(BaseException):
    """What a training would be ended with."""


@pytest.fixture(autouse=True)
def own_fairseq() -> Iterator[None]:
    """Give back fairseq's functions as they were."""
    saved = (fairseq.checkpoint_utils.save_checkpoint, fairseq_cli.train.validate_and_save)
    yield
    fairseq.checkpoint_utils.save_checkpoint, fairseq_cli.train.validate_and_save = saved


def test_what_fairseq_puts_into_checkpoints_is_loaded_with_weights_only() -> None:
    state = {
        "args": argparse.Namespace(arch="transformer"),
        "loss": np.float64(1.5),
        "best": np.float32(2.5),
        "indices": np.arange(3),
        "model": torch.ones(2),
    }
    content = io.BytesIO()
    torch.save(state, content)
    content.seek(0)
    with torch.serialization.safe_globals([]):
        compat.install()
        compat.install()
        loaded = torch.load(content, weights_only=True)
    assert (loaded["args"].arch, loaded["loss"], loaded["best"], loaded["indices"].tolist()) == (
        "transformer", 1.5, 2.5, [0, 1, 2],
    )  # fmt: skip


def test_without_the_patch_they_are_refused() -> None:
    """And with it, whatever is not declared harmless still is."""
    content = io.BytesIO()
    torch.save({"args": argparse.Namespace(arch="transformer")}, content)
    known = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        content.seek(0)
        with pytest.raises(Exception, match="Weights only load failed"):
            torch.load(content, weights_only=True)
    finally:
        torch.serialization.add_safe_globals(known)
    foreign = io.BytesIO()
    torch.save({"surprise": SimpleNamespace()}, foreign)
    foreign.seek(0)
    with pytest.raises(Exception, match="Weights only load failed"):
        torch.load(foreign, weights_only=True)


def batches_of(num_sentences: int, **limits: int) -> list[list[int]]:
    """Return fairseq's batches of sentences of 10 tokens each, in its default multiples of 8."""
    return [
        [int(index) for index in batch]
        for batch in data_utils.batch_by_size(
            np.arange(num_sentences),
            lambda index: 10,
            num_tokens_vec=np.full(num_sentences, 10),
            required_batch_size_multiple=8,
            **limits,
        )
    ]


@pytest.mark.parametrize("num_sentences", [3, 16, 27])
@pytest.mark.parametrize("limits", [{"max_tokens": 160}, {"max_sentences": 8}, {"max_tokens": 30}])
def test_batches_hold_every_sentence_once(num_sentences: int, limits: dict[str, int]) -> None:
    compat.install_batching()
    compat.install_batching()
    batches = batches_of(num_sentences, **limits)
    assert [index for batch in batches for index in batch] == list(range(num_sentences))
    assert all(10 * len(batch) <= limits.get("max_tokens", 80) for batch in batches)


def test_without_the_patch_the_last_batch_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """27 sentences, 16 at most in a batch: the last 3 go."""
    monkeypatch.setattr(data_utils, "batch_by_size", data_utils.batch_by_size.__wrapped__)
    assert batches_of(27, max_tokens=160) == [list(range(16)), list(range(16, 24))]


def validate_and_save_at(
    update: int, *, should_stop: bool = False, is_stopping: bool = False, num_installations: int = 1
) -> list[tuple[int, float | None]]:
    """Return what is saved when fairseq's loop has made an update; models are due at 10 and 20."""
    saved: list[tuple[int, float | None]] = []
    trainer = SimpleNamespace(get_num_updates=lambda: update)

    def fairseqs_own(*arguments: Any) -> tuple[list[float | None], bool]:
        if should_stop:  # fairseq saves by itself at the last update
            fairseq.checkpoint_utils.save_checkpoint(None, trainer, None, 4.0)
        return [4.0], should_stop

    with mock.patch.object(fairseq_cli.train, "validate_and_save", fairseqs_own):
        for _ in range(num_installations):
            compat.install_saving(
                lambda trainer, epoch_itr, valid_loss: saved.append((trainer.get_num_updates(), valid_loss)),
                is_due=lambda num_updates: num_updates in (10, 20),
                stop_is_requested=lambda: is_stopping,
                stop=Stop,
            )
        try:
            returned = fairseq_cli.train.validate_and_save(None, trainer, None, None, [], False)
        except Stop:
            assert is_stopping
        else:
            assert returned == ([4.0], should_stop)
            assert not is_stopping or should_stop
    return saved


def test_models_are_saved_when_they_are_due() -> None:
    assert validate_and_save_at(9) == []
    assert validate_and_save_at(10) == [(10, 4.0)]


def test_the_last_update_is_saved_once() -> None:
    assert validate_and_save_at(20, should_stop=True) == [(20, 4.0)]
    assert validate_and_save_at(20, should_stop=True, is_stopping=True) == [(20, 4.0)]


def test_a_stop_is_saved_once_at_any_update() -> None:
    assert validate_and_save_at(9, is_stopping=True) == [(9, 4.0)]
    assert validate_and_save_at(10, is_stopping=True) == [(10, 4.0)]


def test_a_second_training_in_the_same_process_does_not_save_for_the_first() -> None:
    assert validate_and_save_at(10, num_installations=3) == [(10, 4.0)]
