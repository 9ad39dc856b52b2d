"""Gradients of several ranks, summed in one flat buffer: equal to fairseq's own sums to the bit."""

from pathlib import Path
from unittest import mock

import pytest
from fairseq.distributed.legacy_distributed_data_parallel import LegacyDistributedDataParallel

from aiayn.records import BinarizedCorpus
from aiayn.train.gradients import FlatGradients
from tests.engine.tiny_training import make_request, state_sha256, train_ranks

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


def test_a_sum_that_is_divided_afterwards_has_other_tensors(
    tmp_path: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison above can fail; with three ranks, because a division by two is exact."""
    changes = SHORT | {"batches_per_update": 3}
    sound = make_request(tmp_path / "sound", data, num_ranks=3, **changes)
    assert set(train_ranks(sound)) == {0}
    sum_gradients = FlatGradients.all_reduce_grads

    def divide_afterwards(model: FlatGradients) -> None:
        world_size, model.world_size = model.world_size, 1
        sum_gradients(model)
        model.world_size = world_size
        model.buffer.div_(world_size)

    monkeypatch.setattr(FlatGradients, "all_reduce_grads", divide_afterwards)
    planted = make_request(tmp_path / "planted", data, num_ranks=3, **changes)
    assert set(train_ranks(planted)) == {0}
    assert state_sha256(tmp_path / "planted") != state_sha256(tmp_path / "sound")
