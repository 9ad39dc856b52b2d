"""Encoder and decoder layers (section 3.1): sub-layers with dropout, residual connection and
normalisation.

Shapes: B sentences, S source tokens, T target tokens, M = d_model, F = d_ff, H heads.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from aiayn.model.attention import MultiHeadAttention
from aiayn.model.norms import make_norm


class _Layer(nn.Module):
    """The common parts of encoder and decoder layers: self-attention, the feed-forward sub-layer,
    and how the output of a sub-layer is added to its input. `cfg` is a TransformerConfig.
    """

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        # The modules have fairseq's names, so that its checkpoints load here.
        self.norm_order = cfg.norm_order
        self.self_attn = make_attention(cfg)
        self.self_attn_layer_norm = make_norm(cfg.norm, cfg.d_model, cfg.norm_epsilon)
        self.fc1 = nn.Linear(cfg.d_model, cfg.d_ff)
        self.fc2 = nn.Linear(cfg.d_ff, cfg.d_model)
        self.final_layer_norm = make_norm(cfg.norm, cfg.d_model, cfg.norm_epsilon)
        self.dropout = nn.Dropout(cfg.p_drop)
        self.p_drop_ffn = cfg.p_drop_ffn

    def _join(
        self,
        x_BTM: Tensor,
        padding_mask_BT: Tensor,
        norm: nn.Module,
        sublayer: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """Apply `join_sublayer` to a sub-layer with dropout on its output (section 5.4)."""
        return join_sublayer(
            self.norm_order,
            x_BTM,
            lambda y_BTM: norm(y_BTM, padding_mask_BT),
            lambda y: self.dropout(sublayer(y)),
        )

    def _feed_forward(self, x_BTM: Tensor) -> Tensor:
        """Return max(0, x W_1 + b_1) W_2 + b_2 (equation (2)), with dropout after the ReLU."""
        # Section 5.4 has no dropout inside this sub-layer: the paper's systems have 0 here.
        inner_BTF = functional.dropout(
            functional.relu(self.fc1(x_BTM)), self.p_drop_ffn, self.training
        )
        outer_BTM: Tensor = self.fc2(inner_BTF)
        return outer_BTM


def join_sublayer(
    norm_order: str,
    x: Tensor,
    norm: Callable[[Tensor], Tensor],
    sublayer: Callable[[Tensor], Tensor],
) -> Tensor:
    """Return LayerNorm(x + Sublayer(x)) (section 3.1), or with pre-norm x +
    Sublayer(LayerNorm(x)).
    """
    return x + sublayer(norm(x)) if norm_order == "pre" else norm(x + sublayer(x))


def make_attention(cfg: Any) -> MultiHeadAttention:
    """Return a multi-head attention module with the sizes of `cfg`, which is a
    TransformerConfig.
    """
    return MultiHeadAttention(
        d_model=cfg.d_model,
        num_heads=cfg.num_heads,
        d_k=cfg.d_k,
        d_v=cfg.d_v,
        score=cfg.attention,
        has_biases=cfg.attention_biases,
        p_drop=cfg.p_drop_attention,
    )


class EncoderLayer(_Layer):
    """A layer of the encoder: self-attention over the source, then a feed-forward network."""

    def forward(
        self,
        x_BSM: Tensor,
        padding_mask_BS: Tensor,
        additive_mask_B11S: Tensor,
        *,
        needs_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output (B, S, M) and, with `needs_weights`, the attention weights (B, H, S,
        S).
        """
        # `_join` passes on only the output of a sub-layer, so its weights are put into a list.
        weights: list[Tensor | None] = []

        def attend(y_BSM: Tensor) -> Tensor:
            read_BSM: Tensor
            read_BSM, weights_BHSS = self.self_attn(
                y_BSM, y_BSM, additive_mask_B11K=additive_mask_B11S, needs_weights=needs_weights
            )
            weights.append(weights_BHSS)
            return read_BSM

        # Of the two masks, attention uses the additive mask, and batch normalisation the other.
        x_BSM = self._join(x_BSM, padding_mask_BS, self.self_attn_layer_norm, attend)
        return self._join(
            x_BSM, padding_mask_BS, self.final_layer_norm, self._feed_forward
        ), weights[0]


class DecoderLayer(_Layer):
    """A layer of the decoder: masked self-attention over the target, attention over the encoder's
    output, then a feed-forward network.
    """

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        self.encoder_attn = make_attention(cfg)
        self.encoder_attn_layer_norm = make_norm(cfg.norm, cfg.d_model, cfg.norm_epsilon)

    def forward(
        self,
        x_BTM: Tensor,
        padding_mask_BT: Tensor,
        memory_BSM: Tensor,
        additive_mask_B11S: Tensor,
        *,
        needs_weights: bool,
    ) -> tuple[Tensor, list[Tensor | None]]:
        """Return the layer's output (B, T, M) and, with `needs_weights`, its attention weights: (B,
        H, T, T) over the target and (B, H, T, S) over the source.

        The target does not need a padding mask: padding is at the end of a target sentence, where
        the causal mask hides it from the tokens of the sentence.
        """
        weights: list[Tensor | None] = []

        # The causal mask is enough here, and torch has a faster kernel if it is the only mask.
        def attend_to_target(y_BTM: Tensor) -> Tensor:
            read_BTM: Tensor
            read_BTM, weights_BHTT = self.self_attn(
                y_BTM, y_BTM, is_causal=True, needs_weights=needs_weights
            )
            weights.append(weights_BHTT)
            return read_BTM

        # Queries come from the decoder, keys and values from the encoder's output (section 3.2.3).
        def attend_to_source(y_BTM: Tensor) -> Tensor:
            read_BTM: Tensor
            read_BTM, weights_BHTS = self.encoder_attn(
                y_BTM,
                memory_BSM,
                additive_mask_B11K=additive_mask_B11S,
                needs_weights=needs_weights,
            )
            weights.append(weights_BHTS)
            return read_BTM

        x_BTM = self._join(x_BTM, padding_mask_BT, self.self_attn_layer_norm, attend_to_target)
        x_BTM = self._join(x_BTM, padding_mask_BT, self.encoder_attn_layer_norm, attend_to_source)
        return self._join(
            x_BTM, padding_mask_BT, self.final_layer_norm, self._feed_forward
        ), weights
