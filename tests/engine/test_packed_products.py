"""On a CPU the decoder's large matrices are laid out for oneDNN, and its logits stay the same."""

import pytest
import torch

from aiayn.decode import decoder_steps
from aiayn.decode.decoder_steps import TransformerSteps
from tests.engine.models import make_batch, make_model, randomise


@pytest.mark.parametrize("attention_biases", [True, False])
def test_packed_products_give_the_same_logits(
    monkeypatch: pytest.MonkeyPatch, attention_biases: bool
) -> None:
    model = randomise(make_model(attention_biases=attention_biases))
    source_BS = make_batch(left_pad_source=True)["src_tokens"]
    logits = []
    for least_packed in (1, 1 << 20):
        monkeypatch.setattr(decoder_steps, "LEAST_PACKED", least_packed)
        steps = TransformerSteps(model)
        assert steps.output.is_packed == (least_packed == 1)
        with torch.inference_mode():
            steps.start(source_BS)
            first_NV = steps.logits(torch.full((len(source_BS),), 2)).clone()
            steps.keep(torch.arange(len(source_BS)), None)
            second_NV = steps.logits(first_NV[:, : steps.num_symbols].argmax(dim=1)).clone()
        logits.append((first_NV, second_NV))
    for packed_NV, plain_NV in zip(*logits, strict=True):
        assert torch.allclose(packed_NV, plain_NV, atol=1e-5)
        assert float(plain_NV.std()) > 0.1
