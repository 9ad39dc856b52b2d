"""The weights that `aiayn attention` shows are the model's own: distributions, by equation (1),
causal where masked.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from aiayn.__main__ import main
from aiayn.errors import CheckpointError, UsageError
from analysis.figures import ATTENTION_COLUMNS
from analysis.figures import heavy_attention as figure
from analysis.figures.heavy_attention_weights import STACK_AND_NAME, attention_weights
from tests.engine.models import make_model, make_task, randomise

pytestmark = pytest.mark.figures  # the verb draws
SENTENCE = "s1 s5 s2 s9 s3"


class PlainTranslator:
    """What `attention_weights` asks of a translator: a model, its dictionaries, and ids of a line."""

    def __init__(self, model: Any) -> None:
        self.model, self.task, self.device = model, make_task(), "cpu"

    def number(self, pieces: str) -> torch.Tensor:
        return self.task.source_dictionary.encode_line(pieces, add_if_not_exist=False).long()

    def translate(self, sources: list[torch.Tensor]) -> list[SimpleNamespace]:
        return [SimpleNamespace(pieces=["s4", "s8", "s6"])]


def weights_of(model: Any, kind: str = "encoder", layer: int | None = None) -> Any:
    return attention_weights(PlainTranslator(model), SENTENCE, kind=kind, layer=layer)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", STACK_AND_NAME)
@pytest.mark.parametrize("score", ["scaled", "additive", "temperature"])
def test_each_querys_weights_sum_to_one(kind: str, score: str) -> None:
    weights = weights_of(randomise(make_model(attention=score)), kind)
    num_queries, num_keys = {"encoder": (6, 6), "decoder": (4, 4), "cross": (4, 6)}[kind]
    assert weights.weights_HQK.shape == (2, num_queries, num_keys)
    assert weights.weights_HQK.sum(axis=-1) == pytest.approx(1.0, abs=1e-5)
    assert (len(weights.queries), len(weights.keys)) == (num_queries, num_keys)


def test_tokens_stand_at_their_positions() -> None:
    model = make_model()
    assert weights_of(model, "encoder").keys == ["s1", "s5", "s2", "s9", "s3", "</s>"]
    assert weights_of(model, "decoder").queries == [
        "</s>",
        "s4",
        "s8",
        "s6",
    ]  # what the decoder reads
    assert weights_of(model, "cross").queries == ["s4", "s8", "s6", "</s>"]  # what it predicts


def test_a_decoder_sees_nothing_later() -> None:
    weights_HQK = weights_of(randomise(make_model()), "decoder").weights_HQK
    assert np.triu(weights_HQK, k=1).max() == 0


def test_the_layer_before_the_last_is_the_default() -> None:
    assert weights_of(make_model(num_layers=6)).layer == 5
    assert weights_of(make_model(num_layers=1)).layer == 1
    with pytest.raises(UsageError, match="layers 1 to 2"):
        weights_of(make_model(), layer=3)


def test_the_weights_are_those_of_equation_1() -> None:
    """Worked out apart from the model's own code, in fp64, from what the first layer reads."""
    model = randomise(make_model())
    translator = PlainTranslator(model)
    attend, states_SM = model.encoder.layers[0].self_attn, []
    with (
        attend.register_forward_pre_hook(
            lambda module, args: states_SM.append(args[0][0].double())
        ),
        torch.no_grad(),
    ):
        model.encoder(translator.number(SENTENCE)[None], src_lengths=torch.tensor([6]))
    q_HQD, k_HKD = (
        (states_SM[0] @ linear.weight.double().T + linear.bias.double())
        .unflatten(-1, (2, -1))
        .transpose(0, 1)
        for linear in (attend.q_proj, attend.k_proj)
    )
    expected_HQK = (q_HQD @ k_HKD.mT / q_HQD.shape[-1] ** 0.5).softmax(dim=-1)
    assert weights_of(model, layer=1).weights_HQK == pytest.approx(
        expected_HQK.detach().numpy(), abs=1e-5
    )


def test_a_model_without_attention_heads_is_refused_in_a_sentence() -> None:
    class LSTMModel:
        encoder = decoder = SimpleNamespace(layers=[object()])

    with pytest.raises(CheckpointError, match="LSTMModel has no multi-head attention"):
        weights_of(LSTMModel())


def test_a_sentence_longer_than_the_positions_is_refused() -> None:
    with pytest.raises(UsageError, match="1026 tokens"):
        attention_weights(PlainTranslator(make_model()), "s1 " * 1025, kind="encoder")  # type: ignore[arg-type]


def test_the_verb_writes_weights_and_figures(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "--results",
        str(results),
        "--sentence",
        "The boy sees the girl.",
        "--word",
        "girl",
    ]
    for kind in ("encoder", "cross"):
        wanted = [] if kind == "encoder" else ["--word", ""]
        assert main(["attention", "uninter", "--kind", kind, *arguments, *wanted]) == 0
        paths = [Path(line) for line in capsys.readouterr().out.splitlines()]
        assert [path.suffix for path in paths] == [".tsv", ".svg", ".pdf", ".svg", ".pdf"]
        assert paths[0].parent == results / "demo" / "attention" / "uninterrupted"
        frame = figure.read_attention(paths[0])
        assert tuple(frame.columns) == ATTENTION_COLUMNS


@pytest.mark.parametrize(
    ("arguments", "exit_code", "expected"),
    [
        (["--sentence", "The boy.", "--layer", "9"], 2, "--layer 9"),
        (["--sentence", "The boy.", "--head", "99"], 1, "--head 99"),
        (["--sentence", "The boy.", "--word", "zebra"], 1, "--word zebra"),
        (["--sentence", "   "], 2, "--sentence"),
    ],
)
def test_a_wrong_flag_is_named(
    results: Path,
    arguments: list[str],
    exit_code: int,
    expected: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["attention", "uninter", "--results", str(results), *arguments]) == exit_code
    assert expected in capsys.readouterr().err


def test_a_long_sentence_is_drawn_as_matrices(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = "The boy sees the girl . " * 50
    assert main(["attention", "uninter", "--results", str(results), "--sentence", sentence]) == 0
    printed = capsys.readouterr().out
    assert "encoder_layer" in printed
    assert "_heads.svg" in printed
    assert "_lines.svg" not in printed
    assert "tokens" in printed
