"""An update is the same by one rank that accumulates, by ranks with a batch each, and by ranks that share a batch."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from aiayn.records import BinarizedCorpus
from aiayn.train.optimiser import AiaynAdam
from aiayn.train.task import AiaynTranslationTask
from tests.engine.hooked_job import Hook
from tests.engine.tiny_training import make_request, train_ranks

TOLERANCE = 1e-6  # relative: sums of fp32 in other orders
EIGHT_BATCHES = {"max_tokens_per_batch": 250, "batches_per_update": 8, "p_drop": 0.0, "updates": 1}
ONE_BATCH = {**EIGHT_BATCHES, "max_tokens_per_batch": 2000, "batches_per_update": 1}


class KeepUpdate(Hook, frozen=True, kw_only=True):
    """The summed loss of each update, and the gradient that Adam gets, are kept in a file; the last update's stay."""

    path: str

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Look at what the task is handed."""
        kept: dict[str, Any] = {}
        step, reduce = AiaynTranslationTask.optimizer_step, AiaynTranslationTask.reduce_metrics

        def optimizer_step(task: Any, optimizer: Any, model: Any, update_num: int) -> None:
            kept["gradient"] = torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).clone()
            step(task, optimizer, model=model, update_num=update_num)

        def reduce_metrics(task: Any, outputs: Any, criterion: Any) -> None:
            if criterion.training:
                kept["loss"] = sum(float(output["loss"]) for output in outputs)
                kept["tokens"] = sum(float(output["ntokens"]) for output in outputs)
                torch.save(kept, self.path)
            reduce(task, outputs, criterion)

        with (
            mock.patch.object(AiaynTranslationTask, "optimizer_step", optimizer_step),
            mock.patch.object(AiaynTranslationTask, "reduce_metrics", reduce_metrics),
        ):
            yield


def updates_of(folder: Path, data: BinarizedCorpus, num_ranks: int, changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Make one update on so many ranks, and return what each of them saw."""
    folder.mkdir()
    hooks = {index: KeepUpdate(update=0, path=str(folder / f"{index}.pt")) for index in range(num_ranks)}
    request = make_request(folder / "run", data, num_ranks=num_ranks, save_interval_updates=1, **changes)
    with mock.patch.dict(os.environ, {"OMP_NUM_THREADS": "1"}):
        assert set(train_ranks(request, hooks)) == {0}
    return [torch.load(folder / f"{index}.pt") for index in range(num_ranks)]


def gradient_error(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Return how far two gradients are apart, relative to the first."""
    return float((one["gradient"] - other["gradient"]).norm() / one["gradient"].norm())


@pytest.fixture(scope="module", params=[EIGHT_BATCHES, ONE_BATCH], ids=["eight batches", "one batch"])
def by_one_rank(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the changes to the tiny training, and one rank's update."""
    (update,) = updates_of(tmp_path_factory.mktemp("one") / "rank", data, 1, request.param)
    return request.param, update


@pytest.mark.parametrize("num_ranks", [2, 8])
def test_loss_and_summed_gradients_are_those_of_one_rank(
    num_ranks: int, by_one_rank: tuple[dict[str, Any], dict[str, Any]], tmp_path: Path, data: BinarizedCorpus
) -> None:
    changes, alone = by_one_rank
    ranks = updates_of(tmp_path / "ranks", data, num_ranks, changes)
    assert all(torch.equal(rank["gradient"], ranks[0]["gradient"]) for rank in ranks)
    assert ranks[0]["tokens"] == alone["tokens"] > 500
    assert ranks[0]["loss"] == pytest.approx(alone["loss"], rel=TOLERANCE)
    assert gradient_error(alone, ranks[0]) <= TOLERANCE


def test_gradients_that_are_not_reduced_would_be_noticed(
    tmp_path: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fairseq would notice, too; its own check of norms is off here."""
    monkeypatch.setattr(AiaynAdam, "all_reduce_grads", lambda *_: None)
    monkeypatch.setattr("fairseq.trainer.Trainer._check_grad_norms", lambda *_: None)
    ranks = updates_of(tmp_path / "ranks", data, 2, EIGHT_BATCHES)
    assert gradient_error(ranks[0], ranks[1]) > 1000 * TOLERANCE
