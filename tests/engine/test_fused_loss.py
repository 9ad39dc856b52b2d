"""The fused loss is the label smoothing of section 5.4, and its gradients equal torch's."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from aiayn.model import fused_loss
from aiayn.model.fused_loss import label_smoothed_nll
from aiayn.train.criterion import AiaynLabelSmoothing
from tests.engine.models import make_batch, make_model, make_task

PAD = 1


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fused_loss.TOKENS_PER_CHUNK_BY_DEVICE, "cpu", 4)


def make_case() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(3)
    features = torch.randn(3, 5, 6, requires_grad=True)
    weight = torch.randn(11, 6, requires_grad=True)
    target = torch.randint(2, 11, (3, 5))
    target[1, 3:] = PAD
    return features, weight, target


@pytest.mark.parametrize("is_bf16", [False, True])
def test_two_symbols_by_hand(is_bf16: bool) -> None:
    """Logits (1, 0) twice over, eps 0.2 of two symbols: 0.8 on the reference and 0.2 / 1 on the
    other symbol.

    bfloat16 has these logits exactly, but not their logarithms of probabilities, which have fp32
    in both precisions.
    """
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_bf16):
        loss, nll = label_smoothed_nll(
            torch.tensor([[[1.0]]]),
            torch.tensor([[1.0], [0.0]]),
            torch.tensor([[0]]),
            eps_ls=0.2,
            padding_index=PAD,
        )
    of_reference, of_other = math.log(1 + math.exp(-1)), math.log(1 + math.exp(-1)) + 1
    assert float(nll) == pytest.approx(of_reference)
    assert float(loss) == pytest.approx(0.8 * of_reference + 0.2 * of_other)


@pytest.mark.parametrize("eps_ls", [0.0, 0.1, 0.2])
def test_loss_and_gradients_are_those_of_torch(eps_ls: float) -> None:
    """torch spreads eps over all V symbols, the reference among them: eps V / (V - 1) there is eps
    here.
    """
    features, weight, target = make_case()
    num_symbols = len(weight)
    ours, nll = label_smoothed_nll(features, weight, target, eps_ls=eps_ls, padding_index=PAD)
    (2.5 * ours).backward()
    our_gradients = [features.grad, weight.grad]
    features.grad = weight.grad = None
    theirs = functional.cross_entropy(
        (features @ weight.T).flatten(0, 1),
        target.flatten(),
        ignore_index=PAD,
        reduction="sum",
        label_smoothing=eps_ls * num_symbols / (num_symbols - 1),
    )
    (2.5 * theirs).backward()
    assert float(ours) == pytest.approx(float(theirs), rel=1e-6)
    for mine, other in zip(our_gradients, [features.grad, weight.grad], strict=True):
        assert mine is not None
        assert torch.allclose(mine, other, atol=1e-5)
    plain = functional.cross_entropy(
        (features @ weight.T).flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum"
    )
    assert float(nll) == pytest.approx(float(plain), rel=1e-6)


def test_a_batch_of_padding_alone_has_loss_0() -> None:
    features, weight, target = make_case()
    loss, nll = label_smoothed_nll(
        features, weight, torch.full_like(target, PAD), eps_ls=0.1, padding_index=PAD
    )
    assert (float(loss), float(nll)) == (0.0, 0.0)


def test_bfloat16_is_near_and_leaves_weights_and_sums_in_fp32() -> None:
    features, weight, target = make_case()
    exact, _ = label_smoothed_nll(features, weight, target, eps_ls=0.1, padding_index=PAD)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough, _ = label_smoothed_nll(features, weight, target, eps_ls=0.1, padding_index=PAD)
    rough.backward()
    assert weight.grad is not None
    assert (rough.dtype, weight.grad.dtype) == (torch.float32, torch.float32)
    assert float(rough) == pytest.approx(float(exact), rel=0.02)
    assert float(rough) != float(exact)


@pytest.mark.parametrize(("sentence_avg", "divisor"), [(False, 7), (True, 3)])
def test_the_gradient_is_divided_by_tokens_or_if_asked_by_sentences(
    sentence_avg: bool, divisor: int
) -> None:
    """Three sentences of seven tokens. fairseq divides the summed gradient by what the criterion
    returns.
    """
    batch = make_batch(target_lengths=(1, 2, 4))
    criterion = AiaynLabelSmoothing(make_task(), sentence_avg, label_smoothing=0.1)
    sample = {
        "net_input": {
            name: batch[name] for name in ("src_tokens", "src_lengths", "prev_output_tokens")
        },
        "target": batch["target"],
        "ntokens": 7,
    }
    loss, sample_size, logged = criterion(make_model(), sample)
    assert (sample_size, logged["sample_size"]) == (divisor, divisor)
    assert (logged["ntokens"], logged["nsentences"]) == (7, 3)
    assert float(logged["loss"]) == pytest.approx(float(loss.detach()))
