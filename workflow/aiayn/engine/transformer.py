"""The paper's model (section 3), registered with fairseq as `aiayn_transformer`.

Shapes are in the names: B sentences, S source tokens, T target tokens, M = d_model, V symbols. Parameters are named as
in fairseq's own transformer, so that its checkpoints load here. Dropout stands where section 5.4 puts it: on the output
of each sub-layer and on the sums of embeddings and positions.

Two differences from tensor2tensor (v1.0.4) stay: the decoder starts from the embedding of </s>, where tensor2tensor
feeds a vector of zeros, and the encoder's input has no target-space embedding (32 x d_model unused parameters).
"""

import math
from dataclasses import dataclass, field
from typing import Any

from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel, FairseqIncrementalDecoder, register_model
from torch import Tensor, nn

from aiayn.engine.fused_loss import label_smoothed_nll, smoothed_sums
from aiayn.engine.initialisation import initialise, initialise_embedding
from aiayn.engine.layers import DecoderLayer, EncoderLayer, LayerShape
from aiayn.engine.norms import make_norm
from aiayn.engine.packing import Packing, can_pack, packing_of
from aiayn.engine.positions import Positions, count_positions

IncrementalState = dict[str, dict[str, Tensor]]


def _option(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass
class AiaynTransformerConfig(FairseqDataclass):  # type: ignore[misc]
    """TrainingSpec's architecture as fairseq's flags; `engine/fairseq_args.py` gives them."""

    num_layers: int = _option(6, "N, in the encoder and again in the decoder")
    d_model: int = _option(512, "width of the model")
    d_ff: int = _option(2048, "width of the feed-forward network's inner layer")
    num_heads: int = _option(8, "h")
    d_k: int = _option(64, "width of a head's queries and keys")
    d_v: int = _option(64, "width of a head's values")
    norm_order: str = _option("post", "post or pre")
    norm: str = _option("layer", "layer, layer_std or batch")
    norm_epsilon: float = _option(1e-6, "epsilon of the normalisation")
    attention: str = _option("scaled", "scaled, unscaled, sqrt_d_model, temperature or additive")
    attention_biases: bool = _option(False, "biases in the attention's projections")
    positions: str = _option("sinusoidal", "sinusoidal, sinusoidal_halves or learned")
    position_offset: int = _option(0, "row of the first token's position; fairseq's own checkpoints have 2")
    max_positions: int = _option(1024, "longest sentence, in tokens")
    share_embeddings: str = _option("all", "all, decoder (input and output) or none")
    embeddings: str = _option("d_model", "d_model, standard_normal or vectors")
    embedding_vectors: str = _option("", "not read; runs trained with version 0.3 have it in their checkpoints")
    initialisation: str = _option("tensor2tensor", "tensor2tensor, torch_nn or xavier")
    p_drop: float = _option(0.1, "dropout on sub-layers' outputs and on embeddings")
    p_drop_attention: float = _option(0.0, "dropout on the attention's weights")
    p_drop_ffn: float = _option(0.0, "dropout on the inner layer of the feed-forward network")


class _Stack(nn.Module):
    """What encoder and decoder have alike: embeddings, positions, dropout, layers and, for pre-norm, a last norm."""

    dictionary: Dictionary

    def _build(self, cfg: AiaynTransformerConfig, embed_tokens: nn.Embedding, layer: type[nn.Module]) -> None:
        self.embed_tokens = embed_tokens
        self.embed_scale = math.sqrt(cfg.d_model)  # section 3.4
        self.embed_positions = Positions(
            cfg.positions, max_positions=cfg.max_positions, d_model=cfg.d_model, offset=cfg.position_offset
        )
        self.dropout = nn.Dropout(cfg.p_drop)
        shape = LayerShape.of(cfg)
        self.layers = nn.ModuleList(layer(shape) for _ in range(cfg.num_layers))
        self.layer_norm = make_norm(cfg.norm, cfg.d_model, cfg.norm_epsilon) if cfg.norm_order == "pre" else None
        self.num_positions = cfg.max_positions

    def _embed(self, token_BT: Tensor, position_BT: Tensor) -> Tensor:
        x_BTM: Tensor = self.embed_tokens(token_BT) * self.embed_scale + self.embed_positions(position_BT)
        dropped_BTM: Tensor = self.dropout(x_BTM)
        return dropped_BTM

    def _finish(self, x_BTM: Tensor, hidden_BT: Tensor | None) -> Tensor:
        return x_BTM if self.layer_norm is None else self.layer_norm(x_BTM, hidden_BT)

    def max_positions(self) -> int:
        """Return the length of the longest sentence, in tokens."""
        return self.num_positions

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> dict[str, Tensor]:
        """Drop what fairseq's own transformer saves beside its parameters."""
        for key in ("version", "embed_positions._float_tensor"):
            state_dict.pop(f"{name}.{key}", None)
        return state_dict


class Encoder(_Stack, FairseqEncoder):  # type: ignore[misc]
    """The encoder (section 3.1, left of Figure 1)."""

    def __init__(self, cfg: AiaynTransformerConfig, dictionary: Dictionary, embed_tokens: nn.Embedding) -> None:
        FairseqEncoder.__init__(self, dictionary)
        self._build(cfg, embed_tokens, EncoderLayer)

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor | None = None, *, needs_weights: bool = False
    ) -> dict[str, Any]:
        """Return `memory_BSM` and its padding `hidden_BS`; on request the weights of each layer, (B, H, S, S)."""
        hidden_BS = src_tokens.eq(self.dictionary.pad())
        x_BSM = self._embed(src_tokens, count_positions(hidden_BS))
        visible_B11S = ~hidden_BS[:, None, None, :]
        weights = []
        for layer in self.layers:
            x_BSM, weights_BHSS = layer(x_BSM, hidden_BS, visible_B11S, needs_weights=needs_weights)
            weights.append(weights_BHSS)
        return {"memory_BSM": self._finish(x_BSM, hidden_BS), "hidden_BS": hidden_BS, "weights": weights}

    def forward_packed(self, src_tokens: Tensor, packing: Packing) -> Tensor:
        """Return the output of all sentences one after the other, without padding, (1, S, M)."""
        position_BS = count_positions(src_tokens.eq(self.dictionary.pad()))
        x_1SM = self._embed(packing.pack(src_tokens), packing.pack(position_BS))
        for layer in self.layers:
            x_1SM, _ = layer(x_1SM, None, None, needs_weights=False, packing=packing)
        return self._finish(x_1SM, None)

    def reorder_encoder_out(self, encoder_out: dict[str, Any], new_order: Tensor) -> dict[str, Any]:
        """Return the output with its sentences in another order; beam search asks for it."""
        return {
            key: value.index_select(0, new_order) if isinstance(value, Tensor) else []
            for key, value in encoder_out.items()
        }


class Decoder(_Stack, FairseqIncrementalDecoder):  # type: ignore[misc]
    """The decoder (section 3.1, right of Figure 1), its input the target moved on by one."""

    def __init__(
        self, cfg: AiaynTransformerConfig, dictionary: Dictionary, embed_tokens: nn.Embedding, output: nn.Linear
    ) -> None:
        FairseqIncrementalDecoder.__init__(self, dictionary)
        self._build(cfg, embed_tokens, DecoderLayer)
        self.output_projection = output

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Any],
        incremental_state: IncrementalState | None = None,
        *,
        features_only: bool = False,
        needs_weights: bool = False,
        **unused: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return the logits (B, T, V), or the features (B, T, M), and under `attn` what fairseq takes for alignments.

        With an `incremental_state` only the last token is computed, and the shapes have T = 1. `weights` holds, on
        request, each layer's weights over the target (B, H, T, T) and over the source (B, H, T, S).
        """
        hidden_BT = prev_output_tokens.eq(self.dictionary.pad())
        position_BT = count_positions(hidden_BT)
        if incremental_state is not None:
            prev_output_tokens, hidden_BT, position_BT = (
                whole_BT[:, -1:] for whole_BT in (prev_output_tokens, hidden_BT, position_BT)
            )
        x_BTM = self._embed(prev_output_tokens, position_BT)
        visible_B11S = ~encoder_out["hidden_BS"][:, None, None, :]
        weights = []
        for index, layer in enumerate(self.layers):
            caches = None
            if incremental_state is not None:
                caches = (incremental_state.setdefault(f"{index}.self", {}),
                          incremental_state.setdefault(f"{index}.encoder", {}))  # fmt: skip
            x_BTM, layer_weights = layer(
                x_BTM, hidden_BT, encoder_out["memory_BSM"], visible_B11S, caches=caches, needs_weights=needs_weights,
            )  # fmt: skip
            weights.append(layer_weights)
        x_BTM = self._finish(x_BTM, hidden_BT)
        return x_BTM if features_only else self.output_layer(x_BTM), {"attn": [None], "weights": weights}

    def forward_packed(
        self, prev_output_tokens: Tensor, memory_1SM: Tensor, packings: tuple[Packing, Packing]
    ) -> Tensor:
        """Return the features of all targets one after the other, without padding, (1, T, M)."""
        position_BT = count_positions(prev_output_tokens.eq(self.dictionary.pad()))
        x_1TM = self._embed(packings[0].pack(prev_output_tokens), packings[0].pack(position_BT))
        for layer in self.layers:
            x_1TM, _ = layer(x_1TM, None, memory_1SM, None, caches=None, needs_weights=False, packings=packings)
        return self._finish(x_1TM, None)

    def output_layer(self, x_BTM: Tensor) -> Tensor:
        """Return the logits of features, (B, T, V)."""
        logits: Tensor = self.output_projection(x_BTM)
        return logits

    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor) -> None:
        """Bring keys and values of earlier steps in the order of the surviving beams."""
        for cache in incremental_state.values():
            for key, value in cache.items():
                cache[key] = value.index_select(0, new_order)


@register_model("aiayn_transformer", dataclass=AiaynTransformerConfig)
class AiaynTransformer(FairseqEncoderDecoderModel):  # type: ignore[misc]
    """Encoder and decoder, and a loss that never holds all logits at once."""

    @classmethod
    def build_model(cls, cfg: AiaynTransformerConfig, task: Any) -> "AiaynTransformer":
        """Make the model for a task's dictionaries, initialised from torch's generator."""
        source, target = task.source_dictionary, task.target_dictionary
        target_embedding = _make_embedding(cfg, target)
        is_shared = cfg.share_embeddings == "all"
        source_embedding = target_embedding if is_shared else _make_embedding(cfg, source)
        output = nn.Linear(cfg.d_model, len(target), bias=False)
        if cfg.share_embeddings == "none":
            initialise_embedding(
                output.weight, "d_model", padding_index=target.pad(), is_xavier=cfg.initialisation == "xavier"
            )
        else:
            output.weight = target_embedding.weight
        model = cls(Encoder(cfg, source, source_embedding), Decoder(cfg, target, target_embedding, output))
        initialise(model, cfg.initialisation)
        if cfg.positions == "learned":
            for stack in (model.encoder, model.decoder):
                nn.init.normal_(stack.embed_positions.weight, std=cfg.d_model**-0.5)
        return model

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        *,
        target_BT: Tensor | None = None,
        eps_ls: float = 0.0,
        num_tokens: tuple[int, int] | None = None,
        **options: Any,
    ) -> tuple[Tensor, Any]:
        """Return the decoder's output; with `target_BT` the sums, in nats, of smoothed loss and of -log-probability.

        `num_tokens`, of source and target without padding, spares a GPU's host the wait for them, and a GPU that can
        (`can_pack`) all work on padding.
        """
        padding = self.decoder.dictionary.pad()
        if target_BT is not None and num_tokens is not None and can_pack(self, src_tokens):
            return self._loss_packed(src_tokens, prev_output_tokens, target_BT, num_tokens, eps_ls)
        encoder_out = self.encoder(src_tokens, src_lengths)
        if target_BT is None:
            output: tuple[Tensor, Any] = self.decoder(prev_output_tokens, encoder_out, **options)
            return output
        features_BTM, _ = self.decoder(prev_output_tokens, encoder_out, features_only=True)
        return label_smoothed_nll(
            features_BTM, self.decoder.output_projection.weight, target_BT, eps_ls=eps_ls, padding_index=padding,
            num_tokens=None if num_tokens is None else num_tokens[1],
        )  # fmt: skip

    def _loss_packed(
        self,
        src_tokens: Tensor,
        prev_output_tokens: Tensor,
        target_BT: Tensor,
        num_tokens: tuple[int, int],
        eps_ls: float,
    ) -> tuple[Tensor, Tensor]:
        """Return both sums; padding is neither embedded nor multiplied."""
        source = packing_of(src_tokens.eq(self.encoder.dictionary.pad()), num_tokens[0])
        target = packing_of(target_BT.eq(self.decoder.dictionary.pad()), num_tokens[1])
        memory_1SM = self.encoder.forward_packed(src_tokens, source)
        features_1TM = self.decoder.forward_packed(prev_output_tokens, memory_1SM, (target, source))
        weight_VM = self.decoder.output_projection.weight
        return smoothed_sums(features_1TM[0], weight_VM, target.pack(target_BT)[0], eps_ls=eps_ls)


def _make_embedding(cfg: AiaynTransformerConfig, dictionary: Dictionary) -> nn.Embedding:
    embedding = nn.Embedding(len(dictionary), cfg.d_model, padding_idx=dictionary.pad())
    initialise_embedding(
        embedding.weight, cfg.embeddings, padding_index=dictionary.pad(), is_xavier=cfg.initialisation == "xavier"
    )
    return embedding
