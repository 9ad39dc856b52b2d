"""What a GPU computes otherwise than a CPU comes to the same, and has the host wait for nothing; proved without a GPU.

torch's attention of packed sentences runs on GPUs alone: a loop over sentences stands for it here.
"""

from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from aiayn.model import packing
from aiayn.model.fused_loss import label_smoothed_nll
from aiayn.model.norms import BatchNorm
from aiayn.model.packing import has_packed_form, packing_of
from aiayn.spec.system import read_system
from aiayn.train.optimiser import AiaynAdam, AiaynAdamConfig, clip_on_device
from aiayn.train.task import NUM_SOURCE_TOKENS, _Counted
from aiayn.train.training_record import PACKED_ATTENTION, PADDED_ATTENTION, describe_kernels
from tests.engine.models import PAD, WaitsForTheHost, make_batch, make_model, randomise

FORMS: list[dict[str, Any]] = [
    {},
    {"norm_order": "pre", "positions": "learned", "attention_biases": False},
    {"attention": "temperature", "share_embeddings": "none"},
    {"attention": "unscaled", "norm": "layer_std"},
    {"norm": "batch"},
]


def attend_by_sentence(
    q_NHD: Tensor, k_KHD: Tensor, v_KHD: Tensor, starts_q: Tensor, starts_k: Tensor, max_q: int, max_k: int,
    *, scale: float, window_size: tuple[int, int],
) -> Tensor:  # fmt: skip
    """Return what torch's `varlen_attn` gives, one sentence at a time."""
    read = []
    for index in range(len(starts_q) - 1):
        q, k, v = (
            x[starts[index] : starts[index + 1]].transpose(0, 1)
            for x, starts in ((q_NHD, starts_q), (k_KHD, starts_k), (v_KHD, starts_k))
        )
        assert q.shape[1] <= max_q
        assert k.shape[1] <= max_k
        is_causal = window_size == (-1, 0)
        read.append(functional.scaled_dot_product_attention(q, k, v, scale=scale, is_causal=is_causal).transpose(0, 1))
    return torch.cat(read)


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let batches whose tokens are counted be packed."""
    monkeypatch.setattr(packing, "varlen_attention", lambda: attend_by_sentence)
    monkeypatch.setattr("aiayn.model.transformer.can_pack", lambda *_: True)


def counts_of(batch: dict[str, Any]) -> tuple[int, int]:
    """Return the numbers of tokens beside padding."""
    return int(batch["src_tokens"].ne(PAD).sum()), int(batch["target"].ne(PAD).sum())


def step(model: Any, batch: dict[str, Any], num_tokens: tuple[int, int] | None) -> tuple[Tensor, Tensor]:
    """Return the smoothed loss and all gradients, in one."""
    model.zero_grad()
    loss, _ = model(
        batch["src_tokens"], None, batch["prev_output_tokens"], target_BT=batch["target"], eps_ls=0.1,
        num_tokens=num_tokens,
    )  # fmt: skip
    loss.backward()
    gradients = [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]
    return loss.detach(), torch.cat(gradients)


def padded_batch() -> dict[str, Any]:
    """Return sentences of very different lengths."""
    return make_batch(source_lengths=(3, 9, 5), target_lengths=(7, 2, 4))


@pytest.mark.usefixtures("packed")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_left", [False, True], ids=["padded right", "padded left"])
def test_without_padding_loss_and_gradients_are_the_same(form: dict[str, Any], is_left: bool) -> None:
    model, batch = randomise(make_model(**form)).double().train(), padded_batch()
    if is_left:  # fairseq pads sources so
        rows = [torch.cat([row[row.eq(PAD)], row[row.ne(PAD)]]) for row in batch["src_tokens"]]
        batch["src_tokens"] = torch.stack(rows)
    loss, gradients = step(model, batch, None)
    packed_loss, packed_gradients = step(model, batch, counts_of(batch))
    assert float(packed_loss) == pytest.approx(float(loss), rel=1e-6)
    assert float((packed_gradients - gradients).norm() / gradients.norm()) < 1e-5


@pytest.mark.usefixtures("packed")
def test_a_token_that_saw_another_sentence_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def blurred(*arguments: Any, scale: float, window_size: tuple[int, int]) -> Tensor:
        read = attend_by_sentence(*arguments, scale=scale, window_size=window_size)
        return read + 0.01 * read.mean(dim=0)

    monkeypatch.setattr(packing, "varlen_attention", lambda: blurred)
    model, batch = randomise(make_model()).double(), padded_batch()
    _, gradients = step(model, batch, None)
    _, packed_gradients = step(model, batch, counts_of(batch))
    assert float((packed_gradients - gradients).norm() / gradients.norm()) > 1e-4


def test_tokens_are_packed_in_their_order() -> None:
    hidden = torch.tensor([[False, False, True], [True, False, False], [False, True, True]])
    packed_batch = packing_of(hidden, 5)
    assert packed_batch.index_N.tolist() == [0, 1, 4, 5, 6]
    assert packed_batch.start_B1.tolist() == [0, 2, 4, 5]
    assert packed_batch.start_B1.dtype == torch.int32
    assert packed_batch.pack(torch.arange(9).view(3, 3)).tolist() == [[0, 1, 4, 5, 6]]


def test_flash_attention_is_taken_for_what_it_has() -> None:
    assert has_packed_form("scaled", 64, 64, 0.0)
    for other in (("additive", 64, 64, 0.0), ("scaled", 16, 64, 0.0), ("scaled", 64, 64, 0.1), ("scaled", 12, 12, 0.0),
                  ("scaled", 512, 512, 0.0)):  # fmt: skip
        assert not has_packed_form(*other)


def test_the_record_names_what_rounds_otherwise_on_a_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
    training = read_system("base", "paper").training
    assert describe_kernels(training, "cpu") == ""
    bf16, fp32 = (
        describe_kernels(msgspec.structs.replace(training, precision=precision), "cuda")
        for precision in ("bf16", "fp32")
    )
    assert (bf16, fp32) == (PACKED_ATTENTION, PADDED_ATTENTION)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (7, 0))
    assert describe_kernels(msgspec.structs.replace(training, precision="bf16"), "cuda") == PADDED_ATTENTION


def test_the_loss_is_the_same_to_the_bit_whether_tokens_are_counted_here_or_before() -> None:
    torch.manual_seed(1)
    features, weight = torch.randn(3, 5, 6, requires_grad=True), torch.randn(11, 6, requires_grad=True)
    target = torch.randint(2, 11, (3, 5))
    target[1, 3:] = PAD
    results = []
    for num_tokens in (None, 13):
        sums = label_smoothed_nll(features, weight, target, eps_ls=0.1, padding_index=PAD, num_tokens=num_tokens)
        gradients = torch.autograd.grad(sums[0], [features, weight])
        results.append([*sums, *gradients])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


@pytest.mark.parametrize("is_training", [True, False])
def test_batch_normalisation_under_a_mask_is_that_of_the_tokens(is_training: bool) -> None:
    torch.manual_seed(1)
    x, hidden = torch.randn(3, 5, 4, requires_grad=True), torch.zeros(3, 5, dtype=torch.bool)
    hidden[1, 3:] = True
    norms = [BatchNorm(4, 1e-6).train(is_training) for _ in range(2)]
    for norm in norms:
        norm.running_mean += 0.3
    by_picking, by_mask = norms[0](x, hidden), norms[1]._normalise_on_device(x, hidden)
    torch.testing.assert_close(by_mask, by_picking)
    torch.testing.assert_close(norms[1].running_mean, norms[0].running_mean)
    torch.testing.assert_close(norms[1].running_var, norms[0].running_var)
    of_picking, of_mask = (torch.autograd.grad(one.square().sum() + one.sum(), x)[0] for one in (by_picking, by_mask))
    torch.testing.assert_close(of_mask, of_picking, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("max_norm", [0.0, 0.5])
def test_gradients_are_clipped_as_fairseq_clips_them(max_norm: float) -> None:
    from fairseq.utils import clip_grad_norm_

    torch.manual_seed(1)
    sides = [[torch.nn.Parameter(torch.zeros(3, 2)), torch.nn.Parameter(torch.zeros(4))] for _ in range(2)]
    for ours, theirs in zip(*sides, strict=True):
        ours.grad = torch.randn_like(ours)
        theirs.grad = ours.grad.clone()
    assert float(clip_on_device(sides[0], max_norm)) == pytest.approx(float(clip_grad_norm_(sides[1], max_norm)))
    for ours, theirs in zip(*sides, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_batches_tell_how_many_source_tokens_they_have() -> None:
    batch = {"net_input": {"src_lengths": torch.tensor([3, 5])}, "ntokens": 7}
    assert _Counted(lambda _: dict(batch))([])[NUM_SOURCE_TOKENS] == 8
    assert _Counted(lambda _: {})([]) == {}


@pytest.mark.parametrize("form", FORMS)
def test_a_step_of_a_counted_batch_asks_nothing_of_the_gpu(
    form: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward, backward, norm of the gradient and Adam; padded, as a GPU without FlashAttention has it."""
    monkeypatch.setattr(BatchNorm, "forward", BatchNorm._normalise_on_device)
    model, batch = make_model(**form).train(), padded_batch()
    optimiser = AiaynAdam(AiaynAdamConfig(lr=[1e-4]), list(model.parameters())).optimizer
    counts = counts_of(batch)
    with WaitsForTheHost() as waits:
        step(model, batch, counts)
        clip_on_device(list(model.parameters()), 1.0)
        optimiser.step()
    assert waits.num_operators > 200
    assert waits.found == []


def test_a_batch_that_is_not_counted_is_seen_to_ask() -> None:
    model, batch = make_model(), padded_batch()
    with WaitsForTheHost() as waits:
        step(model, batch, None)
    assert "index" in waits.found


@pytest.mark.usefixtures("packed")
def test_a_packed_step_asks_nothing_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """On tensors without values nothing can be asked; the attention's stand-in is one that needs none."""

    def shape_alone(q_NHD: Tensor, k_KHD: Tensor, v_KHD: Tensor, *_: Any, scale: float, window_size: Any) -> Tensor:
        return q_NHD * scale + (k_KHD.sum() + v_KHD.sum())

    monkeypatch.setattr(packing, "varlen_attention", lambda: shape_alone)
    batch = padded_batch()
    counts = counts_of(batch)
    model = make_model().to("meta")
    on_meta = {name: one.to("meta") if isinstance(one, Tensor) else one for name, one in batch.items()}
    step(model, on_meta, counts)
    with pytest.raises(Exception, match=r"(?i)nonzero|meta"):
        step(model, {**on_meta, "target": on_meta["target"]}, None)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here: tests/gpu asks the same of one")
@pytest.mark.parametrize("is_bf16", [False, True])
def test_a_step_on_a_gpu_waits_for_nothing(is_bf16: bool) -> None:
    model, batch = make_model(d_model=64, d_k=32, d_v=32, d_ff=128).cuda().train(), padded_batch()
    on_gpu = {name: one.cuda() if isinstance(one, Tensor) else one for name, one in batch.items()}
    optimiser = AiaynAdam(AiaynAdamConfig(lr=[1e-4]), list(model.parameters())).optimizer
    for mode in ("default", "error"):
        torch.cuda.set_sync_debug_mode(mode)
        try:
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=is_bf16):
                step(model, on_gpu, counts_of(batch))
            clip_on_device(list(model.parameters()), 1.0)
            optimiser.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
