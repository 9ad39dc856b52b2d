"""Measures what readers of the paper claim and no training is needed for: seconds on one core, no corpus.

Of attention on random vectors: dot products, gradients, entropy, order, reach. Of layers and initial weights: norms,
residuals, embeddings, sinusoids. paper_tables/published/claims.csv names each number and what is expected of it.

Shapes are in the names: N draws, K keys, D = d_k, B sentences, T tokens, M = d_model, H heads, V symbols.
"""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from aiayn.claims.layer_timing import one_thread
from aiayn.claims.random_draws import exact, generator_of, mean_of, ratio_of, seeded, variance_of
from aiayn.claims.records import Measurement
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.norms import BatchNorm, LayerNorm, StdLayerNorm
from aiayn.model.positions import sinusoids

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
NORM_EPSILON = 1e-6  # tensor2tensor's; the paper is silent
NUM_SYMBOLS = 1_000
NUM_PAPER_SYMBOLS = 37_000  # section 5.1
NUM_HIDDEN_STATES = 1_000
NUM_PAIRS, CORRELATION = 20_000, 0.8
FIGURE_WIDTH = 64  # the curves of the figure have j from 0 to 64
FIGURE_CURVES = (0, 1, 5, 10, 15)  # positions, and pairs of channels
DEEP = 24  # sub-layers in a row, as in an encoder of 12 layers
NARROW, NUM_BATCH_TOKENS, NUM_STACKS = 64, 16, 20
FORMS = ("bare", "plain", "post", "pre")  # of a stack of sub-layers


def measure_all(seed: int) -> list[Measurement]:
    """Return every measurement, each name once; the same seed, torch and processor give the same numbers."""
    with one_thread():  # sums of another number of threads differ in their last digits
        return [
            *_measure_variances(seed),
            *_measure_gradients(seed),
            *_measure_entropy(seed),
            *_measure_rows(seed),
            *_measure_order(seed),
            *_measure_reach(),
            *_measure_norms(seed),
            *_measure_correlation(seed),
            *_measure_embeddings(seed),
            *_measure_residuals(seed),
            *_measure_sinusoids(),
        ]


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
        for name, norms_N in (("scaled", scaled_N), ("unscaled", unscaled_N)):
            yield mean_of(f"softmax_saturated_{name}_{d_k}", norms_N < SATURATED_BELOW, below, seed, unit="fraction")
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
        return functional.conv1d(x_1T1.mT, kernel, padding=KERNEL_SIZE // 2).mT


def _measure_reach() -> Iterator[Measurement]:
    """Yield how many layers connect the two ends of a sentence (Table 1's maximum path length)."""
    for name, layer in (("attention", _SelfAttention()), ("convolution", _Convolution())):
        num_layers = layers_to_connect(NUM_TOKENS, layer)
        kernel = f"|kernel:{KERNEL_SIZE}" if name == "convolution" else ""
        yield exact(f"layers_to_connect_{name}", num_layers, f"n:{NUM_TOKENS}{kernel}", unit="layers")


@torch.no_grad()
def companion_effect(norm: nn.Module, rng: torch.Generator) -> float:
    """Return the largest change of a sentence's output, in training, when the rest of its batch is replaced."""
    first_1TM = torch.randn(1, NUM_BATCH_TOKENS, D_MODEL, generator=rng)
    others = [torch.randn(3, NUM_BATCH_TOKENS, D_MODEL, generator=rng) * scale for scale in (1.0, 2.0)]
    one, another = (norm.train()(torch.cat([first_1TM, rest_BTM]))[0] for rest_BTM in others)
    return float((one - another).abs().max())


@torch.no_grad()
def _measure_norms(seed: int) -> Iterator[Measurement]:
    conditions = f"d_model:{D_MODEL}|sentences:4|rest:replaced,twice as large|seed:{seed}"
    for name, norm in (("layer", LayerNorm(D_MODEL, eps=NORM_EPSILON)), ("batch", BatchNorm(D_MODEL, NORM_EPSILON))):
        effect = companion_effect(norm, generator_of(seed, "companions"))
        yield exact(f"companion_effect_{name}_norm", effect, conditions)
    x_TM = torch.randn(NUM_BATCH_TOKENS, D_MODEL, generator=generator_of(seed, "norms"), dtype=torch.float64)
    ours, printed = LayerNorm(D_MODEL, eps=NORM_EPSILON).double(), StdLayerNorm(D_MODEL, NORM_EPSILON).double()
    ratio = float((printed(x_TM) / ours(x_TM)).mean())
    yield exact("std_layer_norm_over_layer_norm", ratio, f"d_model:{D_MODEL}|eps:{NORM_EPSILON}|seed:{seed}")


@torch.no_grad()
def _measure_correlation(seed: int) -> Iterator[Measurement]:
    """Yield how correlated two of M neurons, correlated by 0.8, are after layer normalisation."""
    name = "neuron_correlation_after_layer_norm"
    x_NM = torch.randn(NUM_PAIRS, D_MODEL, generator=generator_of(seed, name))
    x_NM[:, 1] = CORRELATION * x_NM[:, 0] + math.sqrt(1 - CORRELATION**2) * x_NM[:, 1]
    normalised_NM = LayerNorm(D_MODEL, eps=NORM_EPSILON)(x_NM).double()
    standard_N2 = (normalised_NM[:, :2] - normalised_NM[:, :2].mean(0)) / normalised_NM[:, :2].std(0)
    yield mean_of(name, standard_N2.prod(dim=1), f"d_model:{D_MODEL}|before:{CORRELATION}", seed)


@torch.no_grad()
def _measure_embeddings(seed: int) -> Iterator[Measurement]:
    """Yield how large logits and loss are at the start when the output matrix is the embeddings (section 3.4)."""
    rng = generator_of(seed, "embeddings")
    hidden_NM = LayerNorm(D_MODEL, eps=NORM_EPSILON)(torch.randn(NUM_HIDDEN_STATES, D_MODEL, generator=rng))
    unit_VM = torch.randn(NUM_SYMBOLS, D_MODEL, generator=rng)
    target_N = torch.randint(NUM_SYMBOLS, (NUM_HIDDEN_STATES,), generator=rng)
    conditions = f"d_model:{D_MODEL}|V:{NUM_SYMBOLS}"
    for name, weight_VM in (("standard_normal", unit_VM), ("d_model", unit_VM * D_MODEL**-0.5)):
        logits_NV = hidden_NM @ weight_VM.T
        yield mean_of(f"initial_logit_sd_{name}", logits_NV.std(dim=1), conditions, seed)
        loss_N = functional.cross_entropy(logits_NV, target_N, reduction="none")
        yield mean_of(f"initial_loss_{name}", loss_N, conditions, seed, unit="nats")
    with seeded(seed, "xavier"):
        xavier_VM = nn.init.xavier_uniform_(torch.empty(NUM_PAPER_SYMBOLS, D_MODEL))
    ratio = float(xavier_VM.std()) * math.sqrt(D_MODEL)
    yield exact("xavier_embedding_sd_over_d_model", ratio, f"d_model:{D_MODEL}|V:{NUM_PAPER_SYMBOLS}|seed:{seed}")


class Stack(nn.Module):
    """Sub-layers in a row, attention and feed-forward in turn, each wrapped as section 3.1 says, or otherwise.

    `form` is `post`, LayerNorm(x + f(x)); `pre`, x + f(LayerNorm(x)) and one norm at the end; `bare`, f(x); or `plain`,
    x + f(x). Weights are Glorot's, biases 0.
    """

    def __init__(self, form: str, num_sublayers: int, d_model: int) -> None:
        super().__init__()
        self.form = form
        self.sublayers = nn.ModuleList(_sublayer(index, d_model) for index in range(num_sublayers))
        self.norms = nn.ModuleList(LayerNorm(d_model, eps=NORM_EPSILON) for _ in range(num_sublayers))
        self.last_norm = LayerNorm(d_model, eps=NORM_EPSILON)
        for parameter in self.sublayers.parameters():
            nn.init.zeros_(parameter) if parameter.ndim == 1 else nn.init.xavier_uniform_(parameter)

    def forward(self, x_BTM: Tensor) -> Tensor:
        """Return (B, T, M)."""
        forms: dict[str, Callable[[Tensor, nn.Module, nn.Module], Tensor]] = {
            "post": lambda x, f, norm: norm(x + _apply(f, x)),
            "pre": lambda x, f, norm: x + _apply(f, norm(x)),
            "bare": lambda x, f, norm: _apply(f, x),
            "plain": lambda x, f, norm: x + _apply(f, x),
        }
        for f, norm in zip(self.sublayers, self.norms, strict=True):
            x_BTM = forms[self.form](x_BTM, f, norm)
        return self.last_norm(x_BTM) if self.form == "pre" else x_BTM


def _sublayer(index: int, d_model: int) -> nn.Module:
    if index % 2 == 0:
        return MultiHeadAttention(d_model=d_model, num_heads=4, d_k=d_model // 4, d_v=d_model // 4, score="scaled",
                                  has_biases=True, p_drop=0.0)  # fmt: skip
    return nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))


def _apply(f: nn.Module, x_BTM: Tensor) -> Tensor:
    read_BTM: Tensor = f(x_BTM, x_BTM)[0] if isinstance(f, MultiHeadAttention) else f(x_BTM)
    return read_BTM


def layer_gradients(form: str, num_sublayers: int, *, seed: int, name: str) -> tuple[float, float]:
    """Return log10 of the gradient's norm in the first feed-forward sub-layer and in the last, before any update.

    The loss is the cross-entropy of random targets under a random output matrix, N(0, 1 / d_model).
    """
    rng = generator_of(seed, name)
    with seeded(seed, name):
        stack = Stack(form, num_sublayers, NARROW).double()
    x_BTM = torch.randn(4, NUM_BATCH_TOKENS, NARROW, generator=rng, dtype=torch.float64)
    output_VM = torch.randn(100, NARROW, generator=rng, dtype=torch.float64) * NARROW**-0.5
    target_N = torch.randint(100, (4 * NUM_BATCH_TOKENS,), generator=rng)
    loss = functional.cross_entropy((stack(x_BTM) @ output_VM.T).flatten(0, 1), target_N)
    torch.autograd.backward(loss)
    return _log_gradient_norm(stack.sublayers[1]), _log_gradient_norm(stack.sublayers[num_sublayers - 1])


def _log_gradient_norm(module: nn.Module) -> float:
    squares = sum(float(one.grad.square().sum()) for one in module.parameters() if one.grad is not None)
    return math.log10(squares) / 2


def _measure_residuals(seed: int) -> Iterator[Measurement]:
    """Yield how much of the last layer's gradient reaches the first, by form of the stack; the same weights in each."""
    conditions = f"sublayers:{DEEP}|d_model:{NARROW}"
    first_by_form, last_by_form = {}, {}
    for form in FORMS:
        pairs = [layer_gradients(form, DEEP, seed=seed, name=f"stack{index}") for index in range(NUM_STACKS)]
        first_by_form[form], last_by_form[form] = torch.tensor(pairs).T
        share_N = first_by_form[form] - last_by_form[form]
        yield mean_of(f"gradient_first_over_last_{form}", share_N, conditions, seed, unit="log10")
    rise_N = first_by_form["plain"] - first_by_form["bare"]
    yield mean_of("first_gradient_plain_over_bare", rise_N, conditions, seed, unit="log10")
    post_N, pre_N = (first_by_form[form] - last_by_form[form] for form in ("post", "pre"))
    yield mean_of("gradient_share_pre_over_post", pre_N - post_N, conditions, seed, unit="log10")
    yield mean_of("gradient_unevenness_pre_minus_post", pre_N.abs() - post_N.abs(), conditions, seed, unit="log10")
    fall_N = last_by_form["post"] - last_by_form["pre"]
    yield mean_of("last_gradient_post_over_pre", fall_N, conditions, seed, unit="log10")


def wavelength(pair_index: int, d_model: int) -> float:
    """Return in tokens how long the curve of a pair of channels takes to repeat, from the turn of one step."""
    sine, cosine = sinusoids(2, d_model)[1, 2 * pair_index : 2 * pair_index + 2].double()
    return 2 * math.pi / math.atan2(float(sine), float(cosine))


def figure_error(d_model: int) -> float:
    """Return how far the encodings are, at the figure's positions, from sin and cos of i 10^(-4j / d), j = 0, 2, ..."""
    table_PM = sinusoids(max(FIGURE_CURVES) + 1, d_model).double()[list(FIGURE_CURVES)]
    position_P1 = torch.tensor(FIGURE_CURVES, dtype=torch.float64)[:, None]
    angle_PI = position_P1 * 10.0 ** (-4 * torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    errors_PI = torch.cat([table_PM[:, 0::2] - angle_PI.sin(), table_PM[:, 1::2] - angle_PI.cos()])
    return float(errors_PI.abs().max())


def _measure_sinusoids() -> Iterator[Measurement]:
    curves = ",".join(map(str, FIGURE_CURVES))
    yield exact("sinusoid_figure_error", figure_error(FIGURE_WIDTH), f"d:{FIGURE_WIDTH}|positions:{curves}")
    for index in FIGURE_CURVES:
        yield exact(f"sinusoid_wavelength_{index}", wavelength(index, FIGURE_WIDTH), f"d:{FIGURE_WIDTH}", unit="tokens")
