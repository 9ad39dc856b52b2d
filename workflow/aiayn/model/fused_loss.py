"""Computes output projection and label-smoothed loss (sections 3.4, 5.4) a few tokens at a time.

The logits of 25,000 tokens over 37,000 symbols need 3.7 GB, and an ordinary loss makes several
copies of them. This loss computes the logits of a chunk of tokens, turns the logits into gradients
at once, and reuses their memory for the next chunk. torch's own `linear_cross_entropy` also works
in chunks, but not with label smoothing.

Shapes: B sentences, T target tokens, N tokens without padding, C tokens of a chunk, M = d_model, V
symbols.
"""

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from aiayn.model.attention import compute_dtype

# On a CPU the chunks are small, so that their logits stay in its cache.
TOKENS_PER_CHUNK_BY_DEVICE = {"cpu": 128, "cuda": 4096}


def label_smoothed_nll(
    features_BTM: Tensor,
    weight_VM: Tensor,
    target_BT: Tensor,
    *,
    eps_ls: float,
    padding_index: int,
    num_tokens: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return two sums over the target tokens without padding, in nats: the smoothed loss, and the
    negative log-probability.

    The smoothed target has 1 - eps_ls on the reference and eps_ls / (V - 1) on each other symbol
    (section 5.4, Szegedy et al. 2015 in tensor2tensor's form). Only the loss has a gradient.
    `num_tokens` is the number of target tokens without padding. If `num_tokens` is None, the tokens
    are counted, for which the host must wait for the GPU.
    """
    is_token_BT = target_BT.ne(padding_index)
    if num_tokens is None:
        num_tokens = int(is_token_BT.sum())
    # Padding is left out before the product with V columns, which is a third of base's arithmetic.
    # A stable sort puts the tokens first, in their order. `nonzero` would also find them, but would
    # make the host wait for a GPU.
    index_N = is_token_BT.flatten().byte().argsort(descending=True, stable=True)[:num_tokens]
    # Read here, because gradients are always off within the forward pass of a Function.
    needs_gradient = torch.is_grad_enabled()
    sums: tuple[Tensor, Tensor] = _FusedLoss.apply(  # type: ignore[no-untyped-call]
        features_BTM.flatten(0, 1).index_select(0, index_N),
        weight_VM,
        target_BT.flatten().index_select(0, index_N),
        eps_ls,
        needs_gradient,
    )
    return sums


class _FusedLoss(torch.autograd.Function):
    """The loss as a function of torch's autograd. The gradients of the loss are already computed in
    the forward pass. The backward pass only multiplies these gradients by the incoming gradient.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features_NM: Tensor,
        weight_VM: Tensor,
        target_N: Tensor,
        eps_ls: float,
        needs_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        device = features_NM.device.type
        dtype = compute_dtype(device, weight_VM.dtype)
        with (
            torch.autocast(device, enabled=False)
            if torch.amp.is_autocast_available(device)
            else nullcontext()
        ):
            # Autocast is switched off, because the types are chosen here: `dtype` for products, and
            # fp32 or float64 for sums.
            loss, nll, gradients = _chunked_loss(
                features_NM.to(dtype),
                weight_VM.to(dtype),
                target_N,
                eps_ls,
                needs_gradient=needs_gradient,
            )
        if needs_gradient:
            ctx.save_for_backward(
                gradients[0].to(features_NM.dtype), gradients[1].to(weight_VM.dtype)
            )
        # The negative log-probability is only logged.
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients_of_outputs: Any) -> tuple[Tensor | None, ...]:
        features_gradient_NM, weight_gradient_VM = ctx.saved_tensors
        gradient_of_loss = gradients_of_outputs[0]
        # The gradients have been computed in the forward pass. The incoming gradient is 1 unless
        # the loss is scaled. Target, eps_ls and the switch do not have a gradient.
        return (
            features_gradient_NM * gradient_of_loss,
            weight_gradient_VM * gradient_of_loss,
            None,
            None,
            None,
        )


def _chunked_loss(
    features_NM: Tensor, weight_VM: Tensor, target_N: Tensor, eps_ls: float, *, needs_gradient: bool
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    """Return the loss, the negative log-probability and the gradients of the loss.

    The sums and the softmax are computed in fp32, or in float64 if the weights are float64.
    """
    device = features_NM.device
    sum_dtype = torch.promote_types(weight_VM.dtype, torch.float32)
    # `other` is the target probability of each symbol except the reference. The loss of a token is
    # -(1 - eps_ls) logp[reference] - other * (the sum of all other logp). Below, the sum is over
    # all symbols, so the reference has `extra` in addition to `other`.
    other = eps_ls / (weight_VM.shape[0] - 1)
    extra = 1.0 - eps_ls - other
    loss, nll = (torch.zeros((), dtype=sum_dtype, device=device) for _ in range(2))
    features_gradient_NM = torch.empty_like(features_NM)
    # A sum over all chunks, in which bf16 would lose small terms.
    weight_gradient_VM = torch.zeros_like(weight_VM, dtype=sum_dtype)
    chunk = TOKENS_PER_CHUNK_BY_DEVICE.get(device.type, TOKENS_PER_CHUNK_BY_DEVICE["cuda"])
    for first in range(0, len(features_NM), chunk):
        features_CM = features_NM[first : first + chunk]
        target_C1 = target_N[first : first + chunk, None]
        logp_CV = (features_CM @ weight_VM.T).to(sum_dtype).log_softmax(dim=-1)
        chunk_nll = -logp_CV.gather(1, target_C1).sum()
        nll += chunk_nll
        loss += extra * chunk_nll - other * logp_CV.sum()
        if needs_gradient:
            # The gradient of the logits is the softmax minus the smoothed target. It overwrites
            # logp, which is not needed any more.
            gradient_CV = logp_CV.exp_().sub_(other)
            gradient_CV.scatter_add_(
                1, target_C1, torch.full_like(target_C1, -extra, dtype=sum_dtype)
            )
            gradient_CV = gradient_CV.to(weight_VM.dtype)
            features_gradient_NM[first : first + chunk] = gradient_CV @ weight_VM
            _add_product(weight_gradient_VM, gradient_CV.T, features_CM)
    return loss, nll, (features_gradient_NM, weight_gradient_VM)


def _add_product(sum_VM: Tensor, left_VC: Tensor, right_CM: Tensor) -> None:
    """Add a matrix product to `sum_VM`, which is fp32 or float64, without a copy if all types are
    equal.
    """
    # `addmm_` needs equal types. With bf16 factors the product is made first, then converted.
    if left_VC.dtype == sum_VM.dtype:
        sum_VM.addmm_(left_VC, right_CM)
    else:
        sum_VM += left_VC @ right_CM
