"""What readers say of attention, measured on random vectors: dot products, gradients, entropy, order, reach.

Shapes are in the names: N draws, K keys, D = d_k, T tokens, M = d_model, H heads.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from aiayn.model.attention import MultiHeadAttention
from aiayn.model.positions import sinusoids
from aiayn.records import Measurement
from aiayn.train.random_draws import exact, fraction, generator_of, mean_of, ratio_of, seeded, variance_of

VARIANCE_WIDTHS = (4, 16, 64, 256, 512)
GRADIENT_WIDTHS = (16, 64, 256, 512)
NUM_DOT_PRODUCTS = 40_000
NUM_SOFTMAXES = 1_000
NUM_KEYS = 32
SATURATED_BELOW = 0.01  # norm of the softmax's gradient; that of 32 alike scores of variance 1 is about 0.25
TEMPERATURES = (0.25, 0.5, 1.0, 2.0, 4.0)
D_MODEL, NUM_HEADS = 512, 8  # the paper's base
NUM_TOKENS = 64
KERNEL_SIZE = 3


def measure_attention(seed: int) -> Iterator[Measurement]:
    """Yield every measurement of attention, each from draws of its own."""
    yield from _measure_variances(seed)
    yield from _measure_gradients(seed)
    yield from _measure_entropy(seed)
    yield from _measure_rows(seed)
    yield from _measure_order(seed)
    yield from _measure_reach()


def dot_products(num_draws: int, d_k: int, rng: torch.Generator) -> Tensor:
    """Return q.k of vectors whose components are independent, of mean 0 and variance 1 (section 3.2.1): (N,)."""
    q_ND, k_ND = (torch.randn(num_draws, d_k, generator=rng) for _ in range(2))
    return (q_ND * k_ND).sum(dim=1).double()


def _measure_variances(seed: int) -> Iterator[Measurement]:
    """Yield the variance of q.k over d_k, that of q.k / sqrt(d_k), and that of q.k / sqrt(d_model) for h = 1 and 8."""
    for d_k in VARIANCE_WIDTHS:
        name = f"dot_product_variance_over_d_k_{d_k}"
        products_N = dot_products(NUM_DOT_PRODUCTS, d_k, generator_of(seed, name))
        yield variance_of(name, products_N / math.sqrt(d_k), f"d_k:{d_k}", seed, unit="d_k")
        name = f"scaled_dot_product_variance_{d_k}"
        products_N = dot_products(NUM_DOT_PRODUCTS, d_k, generator_of(seed, name)) * d_k**-0.5
        yield variance_of(name, products_N, f"d_k:{d_k}", seed)
    for num_heads in (1, NUM_HEADS):
        name, d_k = f"variance_scaled_by_sqrt_d_model_h{num_heads}", D_MODEL // num_heads
        products_N = dot_products(NUM_DOT_PRODUCTS, d_k, generator_of(seed, name)) * D_MODEL**-0.5
        yield variance_of(name, products_N, f"d_model:{D_MODEL}|h:{num_heads}|d_k:{d_k}", seed)


def softmax_gradient_norms(weights_NK: Tensor) -> Tensor:
    """Return the Frobenius norm of the Jacobian diag(p) - p p^T of each row's softmax: (N,)."""
    squares_N = weights_NK.square().sum(dim=-1)
    norms_N: Tensor = (squares_N - 2 * weights_NK.pow(3).sum(dim=-1) + squares_N.square()).clamp(min=0).sqrt()
    return norms_N


def query_gradient_norms(weights_NK: Tensor, k_NKD: Tensor, scale: float) -> Tensor:
    """Return the Frobenius norm of the gradient of softmax(scale * K q) in q, scale * (diag(p) - p p^T) K: (N,)."""
    centred_NKD = k_NKD - (weights_NK[..., None] * k_NKD).sum(dim=1, keepdim=True)
    norms_N: Tensor = torch.linalg.vector_norm(weights_NK[..., None] * centred_NKD, dim=(1, 2))
    return scale * norms_N


def _measure_gradients(seed: int) -> Iterator[Measurement]:
    """Yield how large the gradient of the softmax is with and without 1 / sqrt(d_k), for the same queries and keys."""
    for d_k in GRADIENT_WIDTHS:
        rng = generator_of(seed, f"softmax_gradient_{d_k}")
        q_ND = torch.randn(NUM_SOFTMAXES, d_k, generator=rng)
        k_NKD = torch.randn(NUM_SOFTMAXES, NUM_KEYS, d_k, generator=rng)
        scores_NK = torch.einsum("nd,nkd->nk", q_ND, k_NKD)
        scaled_NK, unscaled_NK = (scores_NK * d_k**-0.5).softmax(dim=-1), scores_NK.softmax(dim=-1)
        scaled_N, unscaled_N = (softmax_gradient_norms(weights_NK) for weights_NK in (scaled_NK, unscaled_NK))
        conditions = f"d_k:{d_k}|keys:{NUM_KEYS}|norm:frobenius"
        yield mean_of(f"softmax_gradient_scaled_{d_k}", scaled_N, conditions, seed)
        yield mean_of(f"softmax_gradient_unscaled_{d_k}", unscaled_N, conditions, seed)
        yield ratio_of(f"softmax_gradient_unscaled_over_scaled_{d_k}", unscaled_N, scaled_N, conditions, seed)
        below = f"{conditions}|below:{SATURATED_BELOW}"
        yield fraction(f"softmax_saturated_scaled_{d_k}", scaled_N < SATURATED_BELOW, below, seed)
        yield fraction(f"softmax_saturated_unscaled_{d_k}", unscaled_N < SATURATED_BELOW, below, seed)
        unscaled_N = query_gradient_norms(unscaled_NK, k_NKD, 1.0)
        scaled_N = query_gradient_norms(scaled_NK, k_NKD, d_k**-0.5)
        yield ratio_of(f"query_gradient_unscaled_over_scaled_{d_k}", unscaled_N, scaled_N, conditions, seed)


def entropies(scores_NK: Tensor, temperature: float) -> Tensor:
    """Return the entropy in nats of softmax(scores / temperature), between 0 and log K: (N,)."""
    weights_NK = (scores_NK / temperature).softmax(dim=-1)
    entropies_N: Tensor = -torch.special.xlogy(weights_NK, weights_NK).sum(dim=-1)
    return entropies_N


def _measure_entropy(seed: int) -> Iterator[Measurement]:
    """Yield the mean entropy at each temperature, and the smallest rise in any draw when the temperature doubles."""
    name = "attention_entropy_at_temperature"
    scores_NK = torch.randn(NUM_SOFTMAXES, NUM_KEYS, generator=generator_of(seed, name), dtype=torch.float64)
    entropies_TN = torch.stack([entropies(scores_NK, temperature) for temperature in TEMPERATURES])
    for temperature, entropies_N in zip(TEMPERATURES, entropies_TN, strict=True):
        yield mean_of(f"{name}_{temperature:g}", entropies_N, f"keys:{NUM_KEYS}|scores:N(0,1)", seed, unit="nats")
    conditions = f"keys:{NUM_KEYS}|draws:{NUM_SOFTMAXES}|seed:{seed}"
    smallest = float(entropies_TN.diff(dim=0).min())
    yield exact("attention_entropy_smallest_rise", smallest, conditions, unit="nats")


def _attention(seed: int, d_model: int, num_heads: int) -> MultiHeadAttention:
    with seeded(seed):
        attention = MultiHeadAttention(
            d_model=d_model, num_heads=num_heads, d_k=d_model // num_heads, d_v=d_model // num_heads, score="scaled",
            has_biases=True, p_drop=0.0,
        )  # fmt: skip
    return attention.double().eval()


def _tokens(seed: int, name: str, num_tokens: int, d_model: int) -> Tensor:
    return torch.randn(1, num_tokens, d_model, generator=generator_of(seed, name), dtype=torch.float64)


@torch.no_grad()
def _measure_rows(seed: int) -> Iterator[Measurement]:
    """Yield how far the rows of the weights are from distributions, under causal and padding masks; and symmetry."""
    attention, x_1TM = _attention(seed, D_MODEL, NUM_HEADS), _tokens(seed, "attention_rows", NUM_TOKENS, D_MODEL)
    padding_mask_1T = torch.arange(NUM_TOKENS)[None] >= NUM_TOKENS - 4
    _, weights_1HTT = attention(x_1TM, x_1TM, padding_mask_BK=padding_mask_1T, is_causal=True, needs_weights=True)
    conditions = f"n:{NUM_TOKENS}|h:{NUM_HEADS}|mask:causal+padding|seed:{seed}"
    yield exact("attention_row_sum_error", float((weights_1HTT.sum(-1) - 1).abs().max()), conditions)
    yield exact("attention_smallest_weight", float(weights_1HTT.min()), conditions)
    hidden = float((weights_1HTT.triu(1) + weights_1HTT * padding_mask_1T[:, None, None]).max())
    yield exact("attention_largest_hidden_weight", hidden, conditions)
    _, unmasked_1HTT = attention(x_1TM, x_1TM, needs_weights=True)
    asymmetry = float((unmasked_1HTT - unmasked_1HTT.mT).abs().max())
    yield exact("attention_asymmetry", asymmetry, conditions.replace("causal+padding", "none"))


@torch.no_grad()
def _measure_order(seed: int) -> Iterator[Measurement]:
    """Yield how much self-attention notices that its tokens were shuffled, without and with positions (section 3.5).

    The largest change of a token's own output, over the largest output: a token finds itself anew after the shuffle.
    """
    attention, x_1TM = _attention(seed, D_MODEL, NUM_HEADS), _tokens(seed, "order", NUM_TOKENS, D_MODEL)
    order_T = torch.randperm(NUM_TOKENS, generator=generator_of(seed, "permutation"))
    for name, positions_TM in (("without", torch.zeros(1)), ("with", sinusoids(NUM_TOKENS, D_MODEL).double())):
        in_order, _ = attention(x_1TM + positions_TM, x_1TM + positions_TM)
        shuffled_1TM = x_1TM[:, order_T] + positions_TM
        shuffled, _ = attention(shuffled_1TM, shuffled_1TM)
        change = float((shuffled - in_order[:, order_T]).abs().max() / in_order.abs().max())
        yield exact(f"order_effect_{name}_positions", change, f"n:{NUM_TOKENS}|d_model:{D_MODEL}|seed:{seed}")


def layers_to_connect(num_tokens: int, layer: nn.Module) -> int:
    """Return how many times a layer over (1, T, 1) must be applied for the last token to depend on the first."""
    x_1T1 = torch.ones(1, num_tokens, 1, dtype=torch.float64, requires_grad=True)
    y_1T1: Tensor = x_1T1
    for num_layers in range(1, num_tokens + 1):
        y_1T1 = layer(y_1T1)
        (gradient_1T1,) = torch.autograd.grad(y_1T1[0, -1, 0], x_1T1, retain_graph=True)
        if gradient_1T1[0, 0, 0] != 0:
            return num_layers
    raise ValueError(f"{num_tokens} layers do not connect {num_tokens} tokens; expected a layer that mixes neighbours")


class _SelfAttention(nn.Module):
    """Attention of one head of width 1 that adds up all it sees: softmax(0) is uniform."""

    def forward(self, x_1T1: Tensor) -> Tensor:
        weights_TT = torch.zeros(x_1T1.shape[1], x_1T1.shape[1], dtype=x_1T1.dtype).softmax(dim=-1)
        return weights_TT @ x_1T1


class _Convolution(nn.Module):
    """The mean over a token and its neighbours: a convolution of a contiguous kernel, padded with zeros."""

    def forward(self, x_1T1: Tensor) -> Tensor:
        kernel = torch.full((1, 1, KERNEL_SIZE), 1 / KERNEL_SIZE, dtype=x_1T1.dtype)
        return nn.functional.conv1d(x_1T1.mT, kernel, padding=KERNEL_SIZE // 2).mT


def _measure_reach() -> Iterator[Measurement]:
    """Yield how many layers connect the two ends of a sentence (Table 1's maximum path length)."""
    for name, layer in (("attention", _SelfAttention()), ("convolution", _Convolution())):
        num_layers = layers_to_connect(NUM_TOKENS, layer)
        kernel = f"|kernel:{KERNEL_SIZE}" if name == "convolution" else ""
        yield exact(f"layers_to_connect_{name}", num_layers, f"n:{NUM_TOKENS}{kernel}", unit="layers")
