"""An update's batches, joined for GPUs: the groups are the cheapest, and the gradient is the same.

`python -m tests.engine.test_grouping` measures the padded places by number of groups.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import language_pair_dataset
from fairseq.trainer import Trainer
from torch import Tensor

from aiayn.train import joining
from aiayn.train.compat import batch_by_size
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


def draw_updates(
    *, num_pairs: int = 400_000, max_tokens: int = 3_250, num_batches: int = 8, seed: int = 1
) -> Iterator[list[BatchShape]]:
    """Yield the batches of an epoch's updates, cut and shuffled as fairseq does it.

    Lengths are like WMT14's: targets log-normal with a median of 24 subwords and a mean of 29,
    sources 8 % shorter on average.
    """
    rng = np.random.default_rng(seed)
    target = np.clip(rng.lognormal(np.log(24), 0.6, num_pairs), 2, 250).astype(int)
    source = np.clip(target * rng.lognormal(-0.1, 0.2, num_pairs), 2, 250).astype(int)
    order = rng.permutation(num_pairs)
    order = order[np.argsort(target[order], kind="stable")]
    order = order[np.argsort(source[order], kind="stable")]
    lengths = np.maximum(source, target)
    batches = batch_by_size(
        order,
        lambda index: int(lengths[index]),
        num_tokens_vec=lengths[order],
        max_tokens=max_tokens,
        required_batch_size_multiple=8,
    )
    shapes = [BatchShape(len(b), int(source[b].max()), int(target[b].max())) for b in batches]
    rng.shuffle(shapes)
    for first in range(0, len(shapes) - num_batches + 1, num_batches):
        yield [BatchShape(*shape) for shape in shapes[first : first + num_batches]]


def measure_places(num_groups: int, **changes: Any) -> float:
    """Return the places of updates with batches joined to `num_groups` groups, relative to
    separate batches.
    """
    joined = separate = 0
    for shapes in draw_updates(**changes):
        ordered = sorted(shapes, key=lambda shape: shape.source_length + shape.target_length)
        places = []
        for ends in itertools.combinations(range(1, len(ordered)), num_groups - 1):
            bounds = itertools.pairwise([0, *ends, len(ordered)])
            places.append(sum(count_places(ordered[begin:end]) for begin, end in bounds))
        joined += min(places)
        separate += count_separate(shapes)
    return joined / separate


def count_separate(shapes: list[BatchShape]) -> int:
    """Return the places of batches that are not joined."""
    return sum(count_places([shape]) for shape in shapes)


def test_on_lengths_like_wmt14s_few_groups_need_little_more_padding() -> None:
    places = [measure_places(num_groups, num_pairs=40_000) for num_groups in (1, 2, 3, 4, 8)]
    assert places == sorted(places, reverse=True)
    assert places[0] > 2
    assert places[3] < 1.3
    assert places[4] == 1


def main() -> None:
    """Print padded places by number of groups, and what base's batches are joined to."""
    for num_groups in range(1, 9):
        print(f"{num_groups} groups: {measure_places(num_groups):.2f} times the padded places")
    for precision in ("fp32", "tf32", "bf16"):
        limits = group_limits(precision=precision, memory_bytes=H100_BYTES, **BASE)
        counts: dict[int, int] = {}
        joined = separate = 0
        for shapes in draw_updates():
            groups = choose_groups(shapes, limits)
            counts[len(groups)] = counts.get(len(groups), 0) + 1
            for group in groups:
                joined += count_places([shapes[index] for index in group])
            separate += count_separate(shapes)
        print(
            f"base, {precision}: updates by groups {dict(sorted(counts.items()))},"
            f" {joined / separate:.2f} times the padded places"
        )


if __name__ == "__main__":
    main()
