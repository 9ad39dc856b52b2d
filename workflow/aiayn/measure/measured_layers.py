"""What readers say of layers and of initial weights, measured: norms, residuals, embeddings, sinusoids.

Shapes are in the names: B sentences, T tokens, M = d_model, N draws, V symbols.
"""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from aiayn.model.attention import MultiHeadAttention
from aiayn.model.norms import BatchNorm, LayerNorm, StdLayerNorm
from aiayn.model.positions import sinusoids
from aiayn.records import Measurement
from aiayn.train.random_draws import exact, generator_of, mean_of, seeded

D_MODEL = 512  # the paper's base
NORM_EPSILON = 1e-6  # tensor2tensor's; the paper is silent
NUM_SYMBOLS = 1_000
NUM_PAPER_SYMBOLS = 37_000  # section 5.1
NUM_HIDDEN_STATES = 1_000
NUM_PAIRS, CORRELATION = 20_000, 0.8
FIGURE_WIDTH = 64  # the curves of the figure have j from 0 to 64
FIGURE_CURVES = (0, 1, 5, 10, 15)  # positions, and pairs of channels
DEEP = 24  # sub-layers in a row, as in an encoder of 12 layers
NARROW, NUM_TOKENS, NUM_STACKS = 64, 16, 20
FORMS = ("bare", "plain", "post", "pre")  # of a stack of sub-layers


def measure_layers(seed: int) -> Iterator[Measurement]:
    """Yield every measurement of norms, residuals, embeddings and sinusoids, each from draws of its own."""
    yield from _measure_norms(seed)
    yield from _measure_correlation(seed)
    yield from _measure_embeddings(seed)
    yield from _measure_residuals(seed)
    yield from _measure_sinusoids()


@torch.no_grad()
def companion_effect(norm: nn.Module, rng: torch.Generator) -> float:
    """Return the largest change of a sentence's output, in training, when the rest of its batch is replaced."""
    first_1TM = torch.randn(1, NUM_TOKENS, D_MODEL, generator=rng)
    others = [torch.randn(3, NUM_TOKENS, D_MODEL, generator=rng) * scale for scale in (1.0, 2.0)]
    one, another = (norm.train()(torch.cat([first_1TM, rest_BTM]))[0] for rest_BTM in others)
    return float((one - another).abs().max())


@torch.no_grad()
def _measure_norms(seed: int) -> Iterator[Measurement]:
    conditions = f"d_model:{D_MODEL}|sentences:4|rest:replaced,twice as large|seed:{seed}"
    for name, norm in (("layer", LayerNorm(D_MODEL, eps=NORM_EPSILON)), ("batch", BatchNorm(D_MODEL, NORM_EPSILON))):
        effect = companion_effect(norm, generator_of(seed, "companions"))
        yield exact(f"companion_effect_{name}_norm", effect, conditions)
    x_TM = torch.randn(NUM_TOKENS, D_MODEL, generator=generator_of(seed, "norms"), dtype=torch.float64)
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
    x_BTM = torch.randn(4, NUM_TOKENS, NARROW, generator=rng, dtype=torch.float64)
    output_VM = torch.randn(100, NARROW, generator=rng, dtype=torch.float64) * NARROW**-0.5
    target_N = torch.randint(100, (4 * NUM_TOKENS,), generator=rng)
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
