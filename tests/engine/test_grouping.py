"""An update's batches, joined for GPUs: the groups are the cheapest, and the gradient is the same."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import language_pair_dataset
from fairseq.trainer import Trainer
from torch import Tensor

from aiayn.train import joining
from aiayn.train.grouping import BatchShape, GroupLimits, choose_groups, count_places, group_limits
from aiayn.train.task import AiaynTranslationConfig, AiaynTranslationTask
from aiayn.train.trainer import AiaynTrainer
from tests.engine.models import EOS, PAD, make_batch, make_dictionary, make_model, randomise

BASE = {"num_parameters": 63_000_000, "num_layers": 6, "d_model": 512, "d_ff": 2048}
H100_BYTES = 85_520_809_984
NO_LIMIT = float("inf")


def test_short_batches_are_joined_and_long_ones_stay_apart() -> None:
    """Costs of a launch: 100 places. Joining the short ones costs no padding at all."""
    shapes = [BatchShape(10, 10, 10), BatchShape(2, 50, 50), BatchShape(10, 10, 10)]
    assert choose_groups(shapes, GroupLimits(100, NO_LIMIT)) == [[0, 2], [1]]
    assert choose_groups(shapes, GroupLimits(10_000, NO_LIMIT)) == [[0, 2, 1]]
    assert choose_groups(shapes, GroupLimits(100, max_places=399)) == [[0], [2], [1]]


@pytest.mark.parametrize("seed", range(20))
def test_no_other_groups_of_neighbours_cost_less(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shapes = [BatchShape(*rng.integers(1, 60, 3).tolist()) for _ in range(7)]
    limits = GroupLimits(launch_places=float(rng.integers(0, 4000)), max_places=9_000)

    def cost(groups: list[list[BatchShape]]) -> float:
        is_too_large = any(
            len(group) > 1 and count_places(group) > limits.max_places for group in groups
        )
        launches = limits.launch_places * len(groups)
        return NO_LIMIT if is_too_large else launches + sum(map(count_places, groups))

    ordered = sorted(shapes, key=lambda shape: shape.source_length + shape.target_length)
    costs = []
    for is_cut in itertools.product([False, True], repeat=len(ordered) - 1):
        ends = [index for index, cut in enumerate(is_cut, start=1) if cut]
        bounds = itertools.pairwise([0, *ends, len(ordered)])
        costs.append(cost([ordered[begin:end] for begin, end in bounds]))
    chosen = choose_groups(shapes, limits)
    chosen_shapes = []
    for group in chosen:
        chosen_shapes.append([shapes[index] for index in group])
    assert cost(chosen_shapes) == min(costs)
    assert sorted(itertools.chain.from_iterable(chosen)) == list(range(7))


def test_a_card_with_less_memory_has_smaller_groups() -> None:
    # Groups that fit an H100 would not fit a card of 16 GB.
    large = group_limits(precision="bf16", memory_bytes=H100_BYTES, **BASE)
    small = group_limits(precision="bf16", memory_bytes=16 << 30, **BASE)
    assert large.max_places > 100_000
    assert 10_000 < small.max_places < 20_000
    shapes = [BatchShape(100, 33, 33)] * 8
    assert len(choose_groups(shapes, large)) == 1
    assert len(choose_groups(shapes, small)) == 4


SIZES = [((5, 7, 3), (4, 2, 6)), ((9,), (11,)), ((3, 2), (2, 3))]


def make_samples(*, is_left_padded: bool) -> list[dict[str, Any]]:
    """Return batches as fairseq's dataset makes them."""
    samples = []
    for seed, (source_lengths, target_lengths) in enumerate(SIZES):
        batch = make_batch(
            seed,
            source_lengths=source_lengths,
            target_lengths=target_lengths,
            left_pad_source=is_left_padded,
        )
        target = batch.pop("target")
        sample = {"id": torch.arange(len(target)), "nsentences": len(target), "target": target}
        samples.append(sample | {"ntokens": int(target.ne(PAD).sum()), "net_input": batch})
    return samples


def loss_and_gradients(samples: list[dict[str, Any]]) -> tuple[Tensor, list[Tensor]]:
    """Return the summed loss of batches one after the other, and the accumulated gradients."""
    model = randomise(make_model()).double()
    losses = []
    for sample in samples:
        loss, _ = model(
            **sample["net_input"],
            target_BT=sample["target"],
            eps_ls=0.1,
            num_tokens=sample["ntokens"],
        )
        loss.backward()
        losses.append(loss.detach())
    return torch.stack(losses).sum(), [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("is_left_padded", [False, True])
def test_without_dropout_loss_and_gradient_are_those_of_the_separate_batches(
    is_left_padded: bool,
) -> None:
    samples = make_samples(is_left_padded=is_left_padded)
    joined = joining.join_batches(samples, padding_index=PAD, is_left_padded=is_left_padded)
    assert (joined["nsentences"], joined["ntokens"]) == (6, 28)
    loss, gradients = loss_and_gradients([joined])
    separate_loss, separate_gradients = loss_and_gradients(samples)
    torch.testing.assert_close(loss, separate_loss, rtol=1e-6, atol=0)
    torch.testing.assert_close(gradients, separate_gradients, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("is_left_padded", [False, True])
def test_a_joined_batch_is_padded_as_fairseq_pads(is_left_padded: bool) -> None:
    samples = make_samples(is_left_padded=is_left_padded)
    joined = joining.join_batches(samples, padding_index=PAD, is_left_padded=is_left_padded)
    source = joined["net_input"]["src_tokens"]
    is_padding = source.eq(PAD)
    edge = is_padding[:, 0] if is_left_padded else is_padding[:, -1]
    assert source.shape == (6, 9)
    lengths = itertools.chain.from_iterable(source_lengths for source_lengths, _ in SIZES)
    assert edge.tolist() == [length < 9 for length in lengths]


@pytest.mark.parametrize("num_dummies", [0, 1])
def test_an_update_with_a_dummy_batch_stays_as_it_is(
    num_dummies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of an epoch a rank may have no sentences left, which fairseq collates to {}."""
    samples = make_samples(is_left_padded=False)
    dummies = [language_pair_dataset.collate([], PAD, EOS)] * num_dummies
    trained: list[list[dict[str, Any]]] = []
    monkeypatch.setattr(
        Trainer, "train_step", lambda _, batches, raise_oom: trained.append(batches)
    )
    trainer = AiaynTrainer.__new__(AiaynTrainer)  # without its model, optimiser and ranks
    trainer._group_limits = GroupLimits(10_000, NO_LIMIT)
    trainer.task = AiaynTranslationTask(AiaynTranslationConfig(), *[make_dictionary()] * 2)
    trainer.train_step([*samples, *dummies])
    (batches,) = trained
    if num_dummies:
        assert batches == [*samples, {}]
    else:
        assert [batch["nsentences"] for batch in batches] == [6]
    assert trainer.task.num_updates_by_groups == ({} if num_dummies else {1: 1})
