"""Measurements: each form by a case that can be worked out by hand, errors that are honest, the same seed the same."""

import contextlib
import io
import math

import pytest
import torch
from torch import nn
from torch.autograd import functional

from aiayn.__main__ import main
from aiayn.claims.measure import (
    FORMS,
    Stack,
    companion_effect,
    dot_products,
    entropies,
    layer_gradients,
    layers_to_connect,
    measure_all,
    query_gradient_norms,
    softmax_gradient_norms,
    wavelength,
)
from aiayn.claims.random_draws import exact, generator_of, mean_of, ratio_of, seeded, variance_of
from aiayn.claims.records import Measurement, MeasureRecord
from aiayn.model.norms import BatchNorm, LayerNorm
from aiayn.records import read_record
from paper_tables.claims.layout import read_claims


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[MeasureRecord, str]:
    """Return the record of `aiayn measure` with seed 1, and what it printed."""
    path, printed = tmp_path_factory.mktemp("measure") / "record.json", io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["measure", "--seed", "1", "--record", str(path)]) == 0
    return read_record(path, MeasureRecord), printed.getvalue()


@pytest.fixture(scope="module")
def measured(made: tuple[MeasureRecord, str]) -> dict[str, Measurement]:
    return {one.name: one for one in made[0].measurements}


@pytest.mark.slow
def test_the_same_seed_measures_the_same_numbers(measured: dict[str, Measurement]) -> None:
    again = measure_all(1)
    assert {one.name: one for one in again} == measured
    assert len(again) == len(measured), "a name stands twice"


def test_every_number_has_a_signature_and_every_estimate_an_error(measured: dict[str, Measurement]) -> None:
    for one in measured.values():
        assert f"torch:{torch.__version__}" in one.signature
        assert math.isfinite(one.value)
        is_estimate = "draws:" in one.signature and "saturated_scaled" not in one.name and "smallest" not in one.name
        assert (one.standard_error > 0) == is_estimate, one


def test_the_variance_of_q_k_is_d_k(measured: dict[str, Measurement]) -> None:
    for d_k in (4, 16, 64, 256, 512):
        for name in (f"dot_product_variance_over_d_k_{d_k}", f"scaled_dot_product_variance_{d_k}"):
            assert measured[name].value == pytest.approx(1.0, abs=4 * measured[name].standard_error)
    assert measured["variance_scaled_by_sqrt_d_model_h8"].value == pytest.approx(1 / 8, abs=0.004)


def test_the_error_of_a_variance_is_that_of_repeated_draws() -> None:
    """Of 1,000 N(0, 1) the variance varies with sqrt(2 / 1,000) = 0.0447."""
    estimates = [variance_of("x", torch.randn(1000, generator=generator_of(seed, "x")), "", 1) for seed in range(200)]
    spread = torch.tensor([one.value for one in estimates]).std().item()
    assert spread == pytest.approx(math.sqrt(2 / 1000), rel=0.15)
    assert estimates[0].standard_error == pytest.approx(spread, rel=0.2)


def test_errors_of_means_fractions_and_ratios_by_hand() -> None:
    values = torch.tensor([1.0, 2.0, 3.0, 4.0])  # mean 2.5, sd sqrt(5 / 3)
    assert mean_of("x", values, "", 1).value == 2.5
    assert mean_of("x", values, "", 1).standard_error == pytest.approx(math.sqrt(5 / 3) / 2)
    assert mean_of("x", values > 3, "", 1).value == 0.25
    assert variance_of("x", values, "", 1).value == 1.25
    doubled = ratio_of("x", 2 * values, values, "", 1)
    assert (doubled.value, doubled.standard_error) == (2.0, 0.0)  # paired: nothing is left to chance
    assert exact("x", 3, "n:4").standard_error == 0.0


def test_a_name_or_seed_more_changes_the_draws_and_nothing_else() -> None:
    one, same, other, later = (
        torch.randn(3, generator=generator_of(seed, name)) for seed, name in ((1, "a"), (1, "a"), (1, "b"), (2, "a"))
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not torch.equal(one, later)
    before = torch.get_rng_state()
    with seeded(1):
        torch.randn(3)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_dot_product_of_one_component_is_a_product() -> None:
    """Var(q k) = 1 for independent q and k of variance 1."""
    products = dot_products(20_000, 1, generator_of(1, "x"))
    assert products.var().item() == pytest.approx(1.0, abs=0.1)


def test_the_gradient_of_an_even_softmax_over_two_keys_is_a_half() -> None:
    """diag(p) - p p^T is +-0.25 in its four places: its Frobenius norm is 0.5; that of a certain choice is 0."""
    assert softmax_gradient_norms(torch.tensor([[0.5, 0.5], [1.0, 0.0]])).tolist() == [0.5, 0.0]


def test_gradients_are_what_autograd_finds() -> None:
    rng = generator_of(1, "x")
    q, keys = (torch.randn(shape, generator=rng, dtype=torch.float64) for shape in ((3,), (5, 3)))
    jacobian = functional.jacobian(lambda scores: scores.softmax(-1), keys @ q)  # type: ignore[no-untyped-call]
    weights = (keys @ q).softmax(-1)[None]
    assert softmax_gradient_norms(weights).item() == pytest.approx(jacobian.norm().item())
    in_query = functional.jacobian(lambda one: (0.25 * keys @ one).softmax(-1), q)  # type: ignore[no-untyped-call]
    weights = (0.25 * keys @ q).softmax(-1)[None]
    assert query_gradient_norms(weights, keys[None], 0.25).item() == pytest.approx(in_query.norm().item())


def test_entropy_by_hand() -> None:
    scores = torch.tensor([[0.0, 0.0, 0.0, 0.0], [math.log(3.0), 0.0, -math.inf, -math.inf]], dtype=torch.float64)
    expected = [math.log(4), -0.75 * math.log(0.75) - 0.25 * math.log(0.25)]  # weights 3 : 1
    assert entropies(scores, 1.0).tolist() == pytest.approx(expected)
    assert entropies(scores, 1e-3).tolist() == pytest.approx([math.log(4), 0.0])


def test_layers_to_connect_by_hand(measured: dict[str, Measurement]) -> None:
    class NextToken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)

    assert layers_to_connect(5, NextToken()) == 4
    assert layers_to_connect(64, nn.Linear(64, 64).double().requires_grad_(False).apply(_across_tokens)) == 1
    assert measured["layers_to_connect_attention"].value == 1
    assert measured["layers_to_connect_convolution"].value == 63
    with pytest.raises(ValueError, match="do not connect 5 tokens"):
        layers_to_connect(5, nn.Identity())


def _across_tokens(layer: nn.Module) -> None:
    """Make a linear layer act on the tokens of (1, T, 1) instead of their features."""
    layer.forward = lambda x, weight=layer.weight: weight @ x


def test_weights_are_distributions_that_see_nothing_hidden(measured: dict[str, Measurement]) -> None:
    assert measured["attention_row_sum_error"].value < 1e-6
    assert measured["attention_smallest_weight"].value >= 0
    assert measured["attention_largest_hidden_weight"].value == 0
    assert measured["order_effect_without_positions"].value < 1e-12
    assert measured["order_effect_with_positions"].value > 0.01


def test_layer_norm_knows_nothing_of_a_sentences_companions_and_batch_norm_does() -> None:
    assert companion_effect(LayerNorm(512, eps=1e-6), generator_of(1, "x")) == 0.0
    assert companion_effect(BatchNorm(512, 1e-6), generator_of(1, "x")) > 0.1


def test_norms_and_embeddings_have_the_sizes_that_can_be_worked_out(measured: dict[str, Measurement]) -> None:
    assert measured["std_layer_norm_over_layer_norm"].value == pytest.approx(math.sqrt(511 / 512), abs=1e-5)
    assert measured["initial_logit_sd_standard_normal"].value == pytest.approx(math.sqrt(512), rel=0.02)
    assert measured["initial_logit_sd_d_model"].value == pytest.approx(1.0, rel=0.02)
    xavier = math.sqrt(2 / (37_000 + 512))  # standard deviation of Xavier's uniform; N(0, 1 / 512) has sqrt(1 / 512)
    assert measured["xavier_embedding_sd_over_d_model"].value == pytest.approx(xavier * math.sqrt(512), rel=1e-3)


@pytest.mark.parametrize(("index", "expected"), [(0, 2 * math.pi), (1, 2 * math.pi * 10 ** (1 / 8)), (8, 20 * math.pi)])
def test_a_curves_wavelength_is_the_papers(index: int, expected: float) -> None:
    """Section 3.5: 2 pi 10000^(2i / d), that is 2 pi 10^(i / 8) for d = 64."""
    assert wavelength(index, 64) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_a_stack_wraps_its_sublayers_as_its_form_says(form: str) -> None:
    with seeded(1):
        stack = Stack(form, 2, 8)
    x = torch.randn(1, 3, 8, generator=generator_of(1, "x"))
    attention, ffn, (norm, last) = stack.sublayers[0], stack.sublayers[1], stack.norms
    expected = {
        "bare": lambda: ffn(attention(x, x)[0]),
        "plain": lambda: (y := x + attention(x, x)[0]) + ffn(y),
        "post": lambda: last((y := norm(x + attention(x, x)[0])) + ffn(y)),
        "pre": lambda: stack.last_norm((y := x + attention(norm(x), norm(x))[0]) + ffn(last(y))),
    }[form]()
    assert torch.equal(stack(x), expected)


def test_gradients_of_one_stack_are_those_of_the_same_seed() -> None:
    first, last = layer_gradients("post", 4, seed=1, name="x")
    assert (first, last) == layer_gradients("post", 4, seed=1, name="x")
    assert (first, last) != layer_gradients("post", 4, seed=2, name="x")
    assert layer_gradients("post", 2, seed=1, name="x")[0] == layer_gradients("post", 2, seed=1, name="x")[1]


def test_the_verb_writes_the_record_and_prints_each_number(made: tuple[MeasureRecord, str]) -> None:
    record, text = made
    assert record.seed == 1
    measured, _, table = text.partition("\n## Table 1\n")
    printed = [line.split(" = ")[0] for line in measured.splitlines()]
    assert printed == [one.name for one in record.measurements]
    assert "seed:1" in record.measurements[0].signature
    assert "| Self-Attention |" in table


def test_every_measurement_that_a_claim_names_is_made(measured: dict[str, Measurement]) -> None:
    named = {claim.evidence for claim in read_claims() if claim.decided_by == "measurement"}
    assert named <= measured.keys()
    assert len(named) > 20
