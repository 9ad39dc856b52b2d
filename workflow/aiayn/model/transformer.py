"""The paper's model (section 3) in plain PyTorch: token ids in, logits or a loss out.

    config = TransformerConfig()
    model = Transformer.build(config, num_source_symbols=37_000, num_target_symbols=37_000)
    logits_BTV = model(source_BS, target_input_BT)

Suffixes of tensor names are shapes: B sentences, S source tokens, T target tokens, M = d_model, V
symbols. The parameters have the names of fairseq's own transformer, so that checkpoints of
fairseq's transformer can be loaded. Dropout is where section 5.4 puts it: on the output of each
sub-layer and on the sums of embeddings and positions.

The model differs from tensor2tensor (v1.0.4) in two ways. The first input of the decoder is the
embedding of </s>, while tensor2tensor starts from a vector of zeros. tensor2tensor also adds an
embedding of the target space to the encoder's input (32 x d_model parameters), which this model
does not have because it would be useless here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from torch import Tensor, nn

from aiayn.model.attention import additive_mask
from aiayn.model.fused_loss import label_smoothed_nll
from aiayn.model.initialisation import initialise, initialise_embedding
from aiayn.model.layers import DecoderLayer, EncoderLayer
from aiayn.model.norms import make_norm
from aiayn.model.positions import Positions, count_positions

EncoderOutput = dict[str, Any]
PADDING_INDEX = 1  # of fairseq's dictionaries


def _option(default: Any, text: str) -> Any:
    # fairseq makes a flag from each field, and shows the text in its help.
    return field(default=default, metadata={"help": text})


@dataclass
class TransformerConfig:
    """The settings of the architecture, with the names of `TrainingSpec`. The defaults are the
    paper's base model.
    """

    num_layers: int = _option(6, "N, in the encoder and again in the decoder")
    d_model: int = _option(512, "width of the model")
    d_ff: int = _option(2048, "width of the feed-forward network's inner layer")
    num_heads: int = _option(8, "h")
    d_k: int = _option(64, "width of a head's queries and keys")
    d_v: int = _option(64, "width of a head's values")
    norm_order: str = _option("post", "where layers normalise: post or pre")
    norm: str = _option("layer", "layer, layer_std or batch")
    norm_epsilon: float = _option(1e-6, "epsilon of the normalisation")
    attention: str = _option("scaled", "scaled, unscaled, sqrt_d_model, temperature or additive")
    attention_biases: bool = _option(False, "biases in the attention's projections")
    positions: str = _option("sinusoidal", "sinusoidal, sinusoidal_halves or learned")
    position_offset: int = _option(
        0, "row of the first token's position; fairseq's own checkpoints have 2"
    )
    max_positions: int = _option(1024, "longest sentence, in tokens")
    share_embeddings: str = _option("all", "all, decoder (input and output) or none")
    embeddings: str = _option("d_model", "d_model or standard_normal")
    initialisation: str = _option("tensor2tensor", "tensor2tensor, torch_nn or xavier")
    p_drop: float = _option(0.1, "dropout on sub-layers' outputs and on embeddings")
    p_drop_attention: float = _option(0.0, "dropout on the attention's weights")
    p_drop_ffn: float = _option(0.0, "dropout on the inner layer of the feed-forward network")


class _Stack(nn.Module):
    """The common parts of encoder and decoder: embeddings, positions, dropout, layers and, with
    pre-norm, a normalisation after the last layer.
    """

    def __init__(
        self,
        cfg: TransformerConfig,
        embed_tokens: nn.Embedding,
        layer: type[nn.Module],
        padding_index: int,
    ) -> None:
        # By name, because `super()` would be fairseq's base in a subclass that has both bases.
        nn.Module.__init__(self)
        self.padding_index = padding_index
        self.embed_tokens = embed_tokens
        self.embed_scale = math.sqrt(cfg.d_model)  # section 3.4
        self.embed_positions = Positions(
            cfg.positions,
            max_positions=cfg.max_positions,
            d_model=cfg.d_model,
            offset=cfg.position_offset,
        )
        self.dropout = nn.Dropout(cfg.p_drop)
        self.layers = nn.ModuleList(layer(cfg) for _ in range(cfg.num_layers))
        # With pre-norm the sum of the last layer has not been normalised yet.
        self.layer_norm = (
            make_norm(cfg.norm, cfg.d_model, cfg.norm_epsilon) if cfg.norm_order == "pre" else None
        )
        # fairseq calls `max_positions` as a method, so the number has a different name.
        self.num_positions = cfg.max_positions

    def _embed(self, token_BT: Tensor, padding_mask_BT: Tensor) -> Tensor:
        # Scaled as in section 3.4, and with dropout on the sum as in section 5.4.
        position_BT = count_positions(padding_mask_BT)
        x_BTM: Tensor = self.embed_tokens(token_BT) * self.embed_scale + self.embed_positions(
            position_BT
        )
        dropped_BTM: Tensor = self.dropout(x_BTM)
        return dropped_BTM

    def _last_norm(self, x_BTM: Tensor, padding_mask_BT: Tensor) -> Tensor:
        return x_BTM if self.layer_norm is None else self.layer_norm(x_BTM, padding_mask_BT)

    def max_positions(self) -> int:
        """Return the maximal length of a sentence, in tokens."""
        return self.num_positions


class Encoder(_Stack):
    """The encoder (section 3.1, left of Figure 1)."""

    def __init__(
        self, cfg: TransformerConfig, embed_tokens: nn.Embedding, padding_index: int
    ) -> None:
        super().__init__(cfg, embed_tokens, EncoderLayer, padding_index)

    def forward(self, source_BS: Tensor, *, needs_weights: bool = False) -> EncoderOutput:
        """Return a dictionary with the encoder's output `memory_BSM`, two forms of the padding mask
        and, with `needs_weights`, each layer's attention weights `weights`, shape (B, H, S, S).

        `padding_mask_BS` is True at padding. `additive_mask_B11S` is the same mask as numbers that
        are added to attention scores.
        """
        padding_mask_BS = source_BS.eq(self.padding_index)
        x_BSM = self._embed(source_BS, padding_mask_BS)
        # Made once, because the attention of every layer, also in the decoder, uses it.
        additive_mask_B11S = additive_mask(padding_mask_BS, x_BSM.dtype)
        weights = []
        for layer in self.layers:
            x_BSM, weights_BHSS = layer(
                x_BSM, padding_mask_BS, additive_mask_B11S, needs_weights=needs_weights
            )
            weights.append(weights_BHSS)
        return {
            "memory_BSM": self._last_norm(x_BSM, padding_mask_BS),
            "padding_mask_BS": padding_mask_BS,
            "additive_mask_B11S": additive_mask_B11S,
            "weights": weights,
        }


class Decoder(_Stack):
    """The decoder (section 3.1, right of Figure 1). The input of the decoder is the target
    sentence, shifted right by one token.
    """

    def __init__(
        self,
        cfg: TransformerConfig,
        embed_tokens: nn.Embedding,
        padding_index: int,
        output: nn.Linear,
    ) -> None:
        super().__init__(cfg, embed_tokens, DecoderLayer, padding_index)
        self.output_projection = output

    def forward(
        self,
        target_input_BT: Tensor,
        encoder_out: EncoderOutput,
        *,
        features_only: bool = False,
        needs_weights: bool = False,
    ) -> tuple[Tensor, list[Any]]:
        """Return the logits (B, T, V) or, with `features_only`, the decoder's output before the
        output layer (B, T, M). With `needs_weights`, also return each layer's attention weights.

        The attention weights of a decoder layer are a pair: over the target (B, H, T, T) and over
        the source (B, H, T, S).
        """
        padding_mask_BT = target_input_BT.eq(self.padding_index)
        x_BTM = self._embed(target_input_BT, padding_mask_BT)
        memory_BSM, additive_mask_B11S = (
            encoder_out["memory_BSM"],
            encoder_out["additive_mask_B11S"],
        )
        weights = []
        for layer in self.layers:
            x_BTM, layer_weights = layer(
                x_BTM, padding_mask_BT, memory_BSM, additive_mask_B11S, needs_weights=needs_weights
            )
            weights.append(layer_weights)
        x_BTM = self._last_norm(x_BTM, padding_mask_BT)
        # `fused_loss` computes the logits itself, from the features of a few tokens at a time.
        return x_BTM if features_only else self.output_layer(x_BTM), weights

    def output_layer(self, x_BTM: Tensor) -> Tensor:
        """Apply the output layer to the decoder's features. Return the logits, shape (B, T, V)."""
        logits: Tensor = self.output_projection(x_BTM)
        return logits


class Transformer(nn.Module):
    """The Transformer: an encoder, a decoder, and a loss that never holds all logits in memory."""

    encoder: Encoder
    decoder: Decoder

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    @classmethod
    def build(
        cls,
        cfg: TransformerConfig,
        *,
        num_source_symbols: int,
        num_target_symbols: int,
        padding_index: int = PADDING_INDEX,
        make_encoder: Callable[..., Encoder] = Encoder,
        make_decoder: Callable[..., Decoder] = Decoder,
    ) -> Self:
        """Return a model with weights drawn from torch's random generator. `make_encoder` and
        `make_decoder` make the two stacks of layers, so a caller can pass subclasses of `Encoder`
        and `Decoder`.
        """
        # The order of the random draws below is part of the result of a seed, so it must not
        # change.
        target_embedding = _make_embedding(cfg, num_target_symbols, padding_index)
        # With a joint vocabulary, one matrix serves in three places (section 3.4).
        is_shared = cfg.share_embeddings == "all"
        source_embedding = (
            target_embedding
            if is_shared
            else _make_embedding(cfg, num_source_symbols, padding_index)
        )
        output = nn.Linear(cfg.d_model, num_target_symbols, bias=False)
        # Section 3.4 ties this matrix to the embedding. An untied matrix has weights of its own.
        if cfg.share_embeddings == "none":
            is_xavier = cfg.initialisation == "xavier"
            initialise_embedding(
                output.weight, "d_model", padding_index=padding_index, is_xavier=is_xavier
            )
        else:
            output.weight = target_embedding.weight
        # If the embeddings are shared, both stacks contain the same module.
        model = cls(
            make_encoder(cfg, source_embedding, padding_index),
            make_decoder(cfg, target_embedding, padding_index, output),
        )
        # The embeddings were initialised above, before they were tied. This does not change them.
        initialise(model, cfg.initialisation)
        # A learned table (Table 3, row (E)) starts from the same distribution as base's embeddings.
        if cfg.positions == "learned":
            for stack in (model.encoder, model.decoder):
                nn.init.normal_(stack.embed_positions.weight, std=cfg.d_model**-0.5)
        return model

    def forward(self, source_BS: Tensor, target_input_BT: Tensor) -> Tensor:
        """Return the logits, shape (B, T, V). `target_input_BT` begins with </s> and does not
        contain the last token of the target.
        """
        logits_BTV: Tensor = self.decoder(target_input_BT, self.encoder(source_BS))[0]
        return logits_BTV

    def smoothed_loss(
        self,
        source_BS: Tensor,
        target_input_BT: Tensor,
        target_BT: Tensor,
        *,
        eps_ls: float,
        num_tokens: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return two sums over the target tokens, in nats: the smoothed loss (section 5.4), and the
        negative log-probability.

        `num_tokens` is the number of target tokens without padding. If `num_tokens` is None, the
        tokens are counted, for which the host must wait for the GPU.
        """
        features_BTM, _ = self.decoder(target_input_BT, self.encoder(source_BS), features_only=True)
        return label_smoothed_nll(
            features_BTM,
            self.decoder.output_projection.weight,
            target_BT,
            eps_ls=eps_ls,
            padding_index=self.decoder.padding_index,
            num_tokens=num_tokens,
        )


def _make_embedding(cfg: TransformerConfig, num_symbols: int, padding_index: int) -> nn.Embedding:
    embedding = nn.Embedding(num_symbols, cfg.d_model, padding_idx=padding_index)
    initialise_embedding(
        embedding.weight,
        cfg.embeddings,
        padding_index=padding_index,
        is_xavier=cfg.initialisation == "xavier",
    )
    return embedding
