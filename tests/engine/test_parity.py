"""The same weights give the same numbers in torch.nn.Transformer's layers, in fairseq's own
transformer, and in ours.

Each test prints the largest difference that it found (`pytest -rP`).
"""

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.models.transformer import TransformerModel, base_architecture
from torch import Tensor, nn

from aiayn.decode.decode import Translator
from aiayn.model.transformer import Transformer, TransformerConfig
from aiayn.records import BinarizedCorpus, TrainRecord
from aiayn.train.checkpoints import load_checkpoint
from aiayn.train.fairseq_model import AiaynTransformer, AiaynTransformerConfig
from tests.engine.models import (
    NUM_SYMBOLS,
    PAD,
    SMALL,
    logits_of,
    make_batch,
    make_dictionary,
    make_model,
    make_task,
    randomise,
)
from tests.engine.tiny_spec import DECODING

TOLERANCE = 1e-5
SEEDS = [1, 2, 3]


class TorchTransformer(nn.Module):
    """torch.nn's own layers with embeddings around them (sections 3.4, 3.5), filled by fairseq's
    names.
    """

    def __init__(
        self, tensors: dict[str, Tensor], positions: Tensor, *, is_pre_norm: bool, eps: float = 1e-6
    ) -> None:
        super().__init__()
        num_layers = 1 + max(
            int(name.split(".")[2]) for name in tensors if name.startswith("encoder.layers.")
        )
        width, inner = tensors["encoder.layers.0.fc1.weight"].T.shape
        options: dict[str, Any] = {
            "d_model": width,
            "nhead": 2,
            "dim_feedforward": inner,
            "dropout": 0.0,
            "batch_first": True,
            "norm_first": is_pre_norm,
            "layer_norm_eps": eps,
        }
        last = [nn.LayerNorm(width, eps=eps) if is_pre_norm else None for _ in range(2)]
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**options), num_layers, last[0], False
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(**options), num_layers, last[1]
        )
        self.embedding, self.positions, self.scale = (
            tensors["encoder.embed_tokens.weight"],
            positions,
            width**0.5,
        )
        for stack, name in ((self.encoder, "encoder"), (self.decoder, "decoder")):
            stack.load_state_dict(dict(self._renamed(tensors, name)))
        self.eval()

    @staticmethod
    def _renamed(tensors: dict[str, Tensor], stack: str) -> Any:
        names = {
            "self_attn_layer_norm": "norm1",
            "encoder_attn_layer_norm": "norm2",
            "encoder_attn": "multihead_attn",
            "final_layer_norm": "norm2" if stack == "encoder" else "norm3",
            "self_attn": "self_attn",
            "fc1": "linear1",
            "fc2": "linear2",
        }
        for key, tensor in tensors.items():
            parts = key.split(".")
            if parts[:2] == [stack, "layer_norm"]:
                yield f"norm.{parts[2]}", tensor
            if parts[:2] != [stack, "layers"]:
                continue
            place, kind = f"layers.{parts[2]}.{names[parts[3]]}", parts[-1]
            if parts[4] == "q_proj":
                fused = [
                    tensors[key.replace("q_proj", one)] for one in ("q_proj", "k_proj", "v_proj")
                ]
                yield f"{place}.in_proj_{kind}", torch.cat(fused)
            elif parts[4] not in ("k_proj", "v_proj"):
                yield f"{place}.{'out_proj.' if parts[4] == 'out_proj' else ''}{kind}", tensor

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> tuple[Tensor]:
        """Return the logits, (B, T, V)."""
        x, y = (
            nn.functional.embedding(tokens, self.embedding) * self.scale
            + self.positions[: tokens.shape[1]]
            for tokens in (source, target)
        )
        hidden = source.eq(PAD)
        memory = self.encoder(x, src_key_padding_mask=hidden)
        future = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        read = self.decoder(y, memory, tgt_mask=future, memory_key_padding_mask=hidden)
        return (read @ self.embedding.T,)


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    return dict(model.named_parameters(remove_duplicate=False))


def largest(difference: Tensor) -> float:
    value = float(difference.detach().abs().max())
    print(f"largest difference {value:.1e}")
    return value


def make_torch(seed: int, norm_order: str) -> tuple[AiaynTransformer, TorchTransformer]:
    """Return ours with random parameters, and torch's layers with the same."""
    ours = randomise(make_model(seed, norm_order=norm_order), seed)
    tensors = {name: one.detach().clone() for name, one in parameters_of(ours).items()}
    return ours, TorchTransformer(
        tensors, ours.encoder.embed_positions.weight, is_pre_norm=norm_order == "pre"
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("norm_order", ["post", "pre"])
def test_logits_and_loss_are_those_of_torchs_layers(norm_order: str, seed: int) -> None:
    ours, theirs = make_torch(seed, norm_order)
    batch = make_batch(seed)
    their_logits, our_logits = logits_of(theirs, batch), logits_of(ours, batch)
    assert largest(their_logits - our_logits) < TOLERANCE
    target = batch["target"][batch["target"].ne(PAD)]
    their_loss = nn.functional.cross_entropy(their_logits, target, reduction="sum")
    our_loss, _ = ours(
        batch["src_tokens"], None, batch["prev_output_tokens"], target_BT=batch["target"]
    )
    assert largest((their_loss - our_loss) / their_loss) < TOLERANCE


def stock_flags(**changes: Any) -> Namespace:
    flags = Namespace(
        encoder_layers=2,
        encoder_embed_dim=8,
        encoder_ffn_embed_dim=16,
        encoder_attention_heads=2,
        decoder_layers=2,
        decoder_attention_heads=2,
        dropout=0.0,
        share_all_embeddings=True,
        max_source_positions=40,
        max_target_positions=40,
        **changes,
    )
    base_architecture(flags)
    return flags


def config_of(stock: Namespace) -> AiaynTransformerConfig:
    """Return ours for a stock transformer's flags."""
    width, num_heads = stock.encoder_embed_dim, stock.encoder_attention_heads
    return AiaynTransformerConfig(
        num_layers=stock.encoder_layers,
        d_model=width,
        d_ff=stock.encoder_ffn_embed_dim,
        num_heads=num_heads,
        d_k=width // num_heads,
        d_v=width // num_heads,
        norm_order="pre" if stock.encoder_normalize_before else "post",
        norm_epsilon=1e-5,  # torch's default, which fairseq leaves
        attention_biases=True,
        positions="learned" if stock.encoder_learned_pos else "sinusoidal_halves",
        position_offset=2,  # fairseq counts positions from its padding index 1, plus 1
        max_positions=stock.max_source_positions,
        share_embeddings="all",
        p_drop=stock.dropout,
        p_drop_attention=stock.attention_dropout,
        p_drop_ffn=stock.activation_dropout,
    )


def make_stock(seed: int, **changes: Any) -> tuple[Any, AiaynTransformer]:
    """Return a stock model, and ours with its config and parameters."""
    torch.manual_seed(seed)
    flags = stock_flags(**changes)
    stock = randomise(TransformerModel.build_model(flags, make_task()).eval(), seed)
    ours = AiaynTransformer.build_model(config_of(flags), make_task()).eval()
    tensors = stock.state_dict()
    ours.load_state_dict({name: tensors[name] for name in ours.state_dict()})
    return stock, ours


STOCK = [
    {},
    {"encoder_normalize_before": True, "decoder_normalize_before": True},
    {"encoder_learned_pos": True, "decoder_learned_pos": True},
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("changes", STOCK, ids=["post", "pre", "learned"])
def test_logits_and_loss_are_those_of_fairseqs_transformer(
    changes: dict[str, Any], seed: int
) -> None:
    from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

    stock, ours = make_stock(seed, **changes)
    batch = make_batch(seed, left_pad_source=True)
    assert largest(logits_of(stock, batch) - logits_of(ours, batch)) < TOLERANCE
    logits = stock(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])[
        0
    ].flatten(0, 1)
    their_loss, their_nll = label_smoothed_nll_loss(
        logits.log_softmax(-1), batch["target"].flatten(), 0.1, PAD
    )
    our_loss, our_nll = ours(
        batch["src_tokens"],
        None,
        batch["prev_output_tokens"],
        target_BT=batch["target"],
        eps_ls=0.1,
    )
    assert largest((their_loss - our_loss) / their_loss) < TOLERANCE
    assert largest((their_nll - our_nll) / their_nll) < TOLERANCE


def test_our_checkpoint_loads_in_plain_pytorch(
    finished: TrainRecord, data: BinarizedCorpus
) -> None:
    """torch.load and torch.nn's layers are enough: what they compute is what `aiayn decode`
    translates with.
    """
    path = Path(finished.models[-1].path)
    tensors = torch.load(path, weights_only=True)["model"]
    translator = Translator(path, Path(data.folder), DECODING, device="cpu")
    theirs = TorchTransformer(
        tensors, translator.model.encoder.embed_positions.weight, is_pre_norm=False
    )
    batch = make_batch()
    assert largest(logits_of(theirs, batch) - logits_of(translator.model, batch)) < TOLERANCE
    assert load_checkpoint(path)["model"].keys() == tensors.keys()


def test_two_dictionaries_tie_the_targets_matrices_only() -> None:
    # With two vocabularies the source cannot share the paper's one matrix.
    task = SimpleNamespace(
        source_dictionary=make_dictionary(30), target_dictionary=make_dictionary()
    )
    model = make_model(task=task, share_embeddings="decoder")
    assert model.decoder.output_projection.weight is model.decoder.embed_tokens.weight
    assert model.encoder.embed_tokens.weight.shape == (30, 8)
    assert model.decoder.embed_tokens.weight.shape == (NUM_SYMBOLS, 8)
    untied = make_model(share_embeddings="none")
    matrices = {
        id(one)
        for one in (
            untied.encoder.embed_tokens.weight,
            untied.decoder.embed_tokens.weight,
            untied.decoder.output_projection.weight,
        )
    }
    assert len(matrices) == 3


def test_the_plain_model_is_fairseqs_with_the_same_names_and_values() -> None:
    registered, batch = make_model(), make_batch()
    torch.manual_seed(1)
    plain = Transformer.build(
        TransformerConfig(**SMALL), num_source_symbols=NUM_SYMBOLS, num_target_symbols=NUM_SYMBOLS
    ).eval()
    parameters = registered.state_dict()
    assert list(plain.state_dict()) == list(parameters)
    assert all(torch.equal(value, parameters[name]) for name, value in plain.state_dict().items())
    expected, _ = registered(**batch)
    assert torch.equal(plain(batch["src_tokens"], batch["prev_output_tokens"]), expected)
