"""Computes the logits of the next symbol for all unfinished hypotheses of a batch, step by step.

`steps_of` returns an object that computes the steps of a model. For our transformer (section 3) and
for fairseq's own transformer, the object is a `TransformerSteps`, a decoder over plain tensors. For
every other architecture, the object is a `FairseqSteps`, which calls fairseq's incremental
decoding.

The object that `steps_of` returns decodes one batch after the other. A row of a batch is a
hypothesis. `start` encodes a batch of source sentences, padded on the left. `logits` takes the
newest token of each row and returns the logits of the next token. `keep` selects the rows that the
search continues. The keys and values of earlier steps are cached for each row.

Suffixes of tensor names are shapes: B sentences, K beams, N = B * K rows, S source tokens, T steps
so far, M = d_model, F = d_ff, H heads, D = d_k, E = d_v, P = H * D, R = H * E, L layers, V symbols.
"""

from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from aiayn.model.attention import MultiHeadAttention
from aiayn.model.layers import DecoderLayer, join_sublayer
from aiayn.model.positions import Positions
from aiayn.model.transformer import Transformer, TransformerConfig

# The number of steps for which a cache has room at first. It is doubled when more are needed.
FIRST_CAPACITY = 32
# The length of a row of logits is a multiple of this. A matrix product into rows of odd lengths is
# half as fast.
COLUMN_MULTIPLE = 64
# Elements of a matrix. Smaller matrices gain little from packing.
LEAST_PACKED = 1 << 20
# A fairseq transformer counts as equal to ours if its logits for so many tokens are equal.
NUM_PROBE_TOKENS = 8
PROBE_TOLERANCE = 1e-3


class FairseqSteps:
    """Decodes with a fairseq architecture step by step, with fairseq's incremental state and a copy
    of the encoder's output for each hypothesis.

    `max_tokens` is the maximal number of target tokens, including the end of sentence.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.num_symbols = len(model.decoder.dictionary)
        self.max_tokens = int(model.max_decoder_positions())
        self.padding = model.encoder.dictionary.pad()

    def start(self, source_BS: Tensor) -> None:
        """Encode a batch of source sentences."""
        source_length_B = source_BS.ne(self.padding).sum(dim=1)
        self.encoder_out = self.model.encoder(source_BS, src_lengths=source_length_B)
        self.state: dict[str, Any] = {}
        self.token_NT = source_BS.new_empty(len(source_BS), 0)

    def logits(self, token_N: Tensor) -> Tensor:
        """Append a token to each hypothesis. Return the next token's log-probabilities, shape (N,
        V).
        """
        self.token_NT = torch.cat([self.token_NT, token_N[:, None]], dim=1)
        output = self.model.decoder(
            self.token_NT, encoder_out=self.encoder_out, incremental_state=self.state
        )
        log_probability_N1V: Tensor = self.model.get_normalized_probs(
            (output[0][:, -1:], output[1]), log_probs=True, sample=None
        )
        return log_probability_N1V[:, -1].float()

    def keep(self, row_N: Tensor, sentence_B: Tensor | None) -> None:
        """Keep only these rows (hypotheses). The argument `sentence_B` is not used."""
        self.token_NT = self.token_NT.index_select(0, row_N)
        self.model.decoder.reorder_incremental_state_scripting(self.state, row_N)
        self.encoder_out = self.model.encoder.reorder_encoder_out(self.encoder_out, row_N)


class _Linear:
    """A linear layer: a product with a weight matrix, plus a bias.

    On a CPU, large weight matrices are packed into oneDNN's layout once. On an AMD processor,
    products by oneDNN take less than half the time of products by MKL, which torch uses otherwise
    (tests/benchmarks/RESULTS.md). torch's operators for oneDNN are not public. If torch lacks these
    operators, or if their product differs, torch's usual product is used.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = weight
        self.bias = bias
        self.packed_weight = None
        is_float = weight.dtype == torch.float32 and weight.device.type == "cpu"
        if not is_float or weight.numel() < LEAST_PACKED:
            return
        # The packed product is private to torch, so it is used only if one product agrees. Any
        # input of this width will do.
        row = weight[:1].contiguous()
        try:
            self.packed_weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
            product = self(row)
        except (AttributeError, NotImplementedError, RuntimeError, TypeError):
            self.packed_weight = None
            return
        if not torch.allclose(product, functional.linear(row, weight, bias), rtol=1e-3, atol=1e-3):
            self.packed_weight = None

    def __call__(self, x: Tensor) -> Tensor:
        if self.packed_weight is None:
            return functional.linear(x, self.weight, self.bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self.packed_weight, self.bias, "none", [], ""
        )
        return product


class _Attention(NamedTuple):
    """The projections of an attention layer. Projections of the same input are joined into one
    matrix.

    The query weights already contain the factor that scales attention scores, such as 1 /
    sqrt(d_k).
    """

    # Projects to (P,). In self-attention it also computes keys and values, and projects to
    # (P + P + R,).
    query: _Linear
    memory: _Linear  # to (P + R,)
    out: _Linear  # (R,) to (M,)
    additive_HD: Tensor | None  # the vector v of v.tanh(q + k), if the score is additive


def _weights_of(attention: MultiHeadAttention, *, is_self: bool) -> _Attention:
    # The scale goes into the query's weights once, so that no step multiplies scores by it.
    scale = attention.scale
    if attention.score == "temperature":
        scale /= float(attention.temperature)
    q, k, v, out = attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj
    query_weights = [q.weight * scale]
    query_bias = None
    memory_bias = None
    if is_self:
        query_weights += [k.weight, v.weight]
    if q.bias is not None:
        query_biases = [q.bias * scale]
        if is_self:
            query_biases += [k.bias, v.bias]
        query_bias, memory_bias = torch.cat(query_biases), torch.cat([k.bias, v.bias])
    return _Attention(
        query=_Linear(torch.cat(query_weights), query_bias),
        memory=_Linear(torch.cat([k.weight, v.weight]), memory_bias),
        out=_Linear(out.weight, out.bias),
        additive_HD=attention.additive if attention.score == "additive" else None,
    )


class _Layer(NamedTuple):
    """The weights of a decoder layer."""

    self_attention: _Attention
    source_attention: _Attention
    fc1: _Linear
    fc2: _Linear
    # For self-attention, attention over the source and feed-forward.
    norms: tuple[nn.Module, nn.Module, nn.Module]


class TransformerSteps:
    """Decodes with the decoder of section 3.1, one new token per hypothesis at each step, without
    dropout.

    The object uses the weights that the model has when the object is made. Self-attention keys and
    values of earlier steps are in two buffers, of shapes (L, T, N, P) and (L, T, N, R). Each buffer
    exists twice, and `keep` copies from the first copy to the second and back. Cross-attention keys
    and values are computed once for each sentence and shared by its beams.
    """

    @torch.inference_mode()
    def __init__(self, model: Transformer) -> None:
        self.encoder, decoder = model.encoder, model.decoder
        layers = cast(list[DecoderLayer], decoder.layers)
        self.num_symbols = decoder.output_projection.out_features
        self.max_tokens = decoder.max_positions()
        self.embedding_VM = decoder.embed_tokens.weight
        self.embed_scale = decoder.embed_scale
        # fairseq's tables have extra rows at the beginning. Here row 0 is the position of the first
        # target token.
        self.position_TM = decoder.embed_positions.weight[decoder.embed_positions.offset :]
        self.layers = [
            _Layer(
                _weights_of(layer.self_attn, is_self=True),
                _weights_of(layer.encoder_attn, is_self=False),
                _Linear(layer.fc1.weight, layer.fc1.bias),
                _Linear(layer.fc2.weight, layer.fc2.bias),
                (layer.self_attn_layer_norm, layer.encoder_attn_layer_norm, layer.final_layer_norm),
            )
            for layer in layers
        ]
        self.norm_order = layers[0].norm_order
        self.last_norm = decoder.layer_norm
        attention = layers[0].self_attn
        self.num_heads, self.d_k, self.d_v = attention.num_heads, attention.d_k, attention.d_v
        # The matrix is filled up with zeros. The search never chooses a symbol from the filling.
        num_filling = -self.num_symbols % COLUMN_MULTIPLE
        self.output_VM = functional.pad(decoder.output_projection.weight, (0, 0, 0, num_filling))
        self.output = _Linear(self.output_VM, None)
        self.logits_NV = self.output_VM.new_empty(0, len(self.output_VM))

    def start(self, source_BS: Tensor) -> None:
        """Encode a batch of source sentences, and compute each layer's cross-attention keys and
        values.
        """
        memory = self.encoder(source_BS)
        memory_BSM, padding_mask_BS = memory["memory_BSM"], memory["padding_mask_BS"]
        self.num_sentences = len(source_BS)
        self.padding_mask_B11S = (
            # A batch without padding does not need a mask at any step. The host waits for the
            # device once to know this.
            padding_mask_BS[:, None, None] if bool(padding_mask_BS.any()) else None
        )
        self.source_keys, self.source_values = [], []
        for layer in self.layers:
            weights = layer.source_attention
            packed_BSP = weights.memory(memory_BSM)
            k_BSP, v_BSR = torch.split(
                packed_BSP, [self.num_heads * self.d_k, self.num_heads * self.d_v], dim=-1
            )
            # In the layout that the product of each step needs, so that no step transposes them.
            k_BHDS = self._heads(k_BSP).permute(0, 2, 3, 1).contiguous()
            v_BHSE = self._heads(v_BSR).transpose(1, 2).contiguous()
            self.source_keys.append(k_BHDS)
            self.source_values.append(v_BHSE)
        self.num_steps = 0
        self.num_rows = self.num_sentences
        self.caches = self._make_caches(FIRST_CAPACITY, self.num_rows)
        self.spare_caches: tuple[Tensor, Tensor] | None = None

    def _heads(self, packed: Tensor) -> Tensor:
        return packed.view(*packed.shape[:-1], self.num_heads, -1)

    def _make_caches(self, capacity: int, num_rows: int) -> tuple[Tensor, Tensor]:
        """Return empty buffers for the keys, shape (L, T, N, P), and the values, shape (L, T, N,
        R).
        """
        key_LTNP, value_LTNR = (
            self.output_VM.new_empty(len(self.layers), capacity, num_rows, self.num_heads * width)
            for width in (self.d_k, self.d_v)
        )
        return key_LTNP, value_LTNR

    def logits(self, token_N: Tensor) -> Tensor:
        """Append a token to each hypothesis. Return the next token's logits, shape (N, V or more).

        Columns from `num_symbols` on are padding without meaning. The caller may overwrite the
        returned tensor.
        """
        # All rows are at the same step, so they have the same position.
        x_NM = torch.add(
            self.position_TM[self.num_steps],
            functional.embedding(token_N, self.embedding_VM),
            alpha=self.embed_scale,
        )
        self.num_steps += 1
        for index, layer in enumerate(self.layers):
            for sublayer, norm in zip(
                (self._attend_to_target, self._attend_to_source, _feed_forward),
                layer.norms,
                strict=True,
            ):
                x_NM = join_sublayer(
                    self.norm_order, x_NM, norm, partial(sublayer, layer=layer, index=index)
                )
        if self.last_norm is not None:
            x_NM = self.last_norm(x_NM)
        # Only torch's own product can write into a tensor that exists, which saves the allocation
        # of a large tensor at each step.
        if self.output.packed_weight is not None:
            return self.output(x_NM)
        if len(self.logits_NV) < self.num_rows:
            self.logits_NV = x_NM.new_empty(self.num_rows, len(self.output_VM))
        return torch.mm(x_NM, self.output_VM.t(), out=self.logits_NV[: self.num_rows])

    def _attend_to_target(self, x_NM: Tensor, layer: _Layer, index: int) -> Tensor:
        """Attend from the newest token of each hypothesis to itself and the hypothesis's earlier
        tokens (section 3.2.3). Return a tensor of shape (N, M).
        """
        weights = layer.self_attention
        key_LTNP, value_LTNR = self.caches
        packed_NQ = weights.query(x_NM)
        d_p = key_LTNP.shape[-1]
        d_r = value_LTNR.shape[-1]
        q_NP, k_NP, v_NR = torch.split(packed_NQ, [d_p, d_p, d_r], dim=-1)
        key_LTNP[index, self.num_steps - 1] = k_NP
        value_LTNR[index, self.num_steps - 1] = v_NR
        k_TNHD = self._heads(key_LTNP[index, : self.num_steps])
        v_TNHE = self._heads(value_LTNR[index, : self.num_steps])
        # A row has only one query, so a matrix product for each row and head would be tiny. Sums of
        # products over all rows are faster.
        score_TNH = _scores(self._heads(q_NP), k_TNHD, weights.additive_HD)
        read_NHE = (score_TNH.softmax(dim=0)[..., None] * v_TNHE).sum(dim=0)
        return weights.out(read_NHE.flatten(1))

    def _attend_to_source(self, x_NM: Tensor, layer: _Layer, index: int) -> Tensor:
        """Attend from each hypothesis's newest token to its source sentence. Return a tensor of
        shape (N, M).
        """
        weights = layer.source_attention
        k_BHDS = self.source_keys[index]
        q_NP = weights.query(x_NM)
        q_BHKD = q_NP.view(self.num_sentences, -1, self.num_heads, self.d_k).transpose(1, 2)
        if weights.additive_HD is None:
            score_BHKS = q_BHKD @ k_BHDS
        else:
            score_BHKS = _scores(
                q_BHKD[:, :, :, None], k_BHDS.mT[:, :, None], weights.additive_HD[:, None, None]
            )
        if self.padding_mask_B11S is not None:
            score_BHKS = score_BHKS.masked_fill_(self.padding_mask_B11S, -torch.inf)
        read_BHKE = score_BHKS.softmax(dim=-1) @ self.source_values[index]
        return weights.out(read_BHKE.transpose(1, 2).reshape(self.num_rows, -1))

    def keep(self, row_N: Tensor, sentence_B: Tensor | None) -> None:
        """Keep only these rows (hypotheses) and these sentences. If `sentence_B` is None, all
        sentences are kept.
        """
        if sentence_B is not None:
            self.num_sentences = len(sentence_B)
            self.source_keys = [k_BHDS.index_select(0, sentence_B) for k_BHDS in self.source_keys]
            self.source_values = [
                v_BHSE.index_select(0, sentence_B) for v_BHSE in self.source_values
            ]
            if self.padding_mask_B11S is not None:
                self.padding_mask_B11S = self.padding_mask_B11S.index_select(0, sentence_B)
        # The encoder's output has a row for each sentence, the caches for each hypothesis.
        self.num_rows = len(row_N)
        # The next step needs room for one more token. After the first step, `row_N` has more rows
        # than the buffers, because each sentence grows to `beam_size` rows.
        capacity = self.caches[0].shape[1] * (2 if self.num_steps == self.caches[0].shape[1] else 1)
        spare = self.spare_caches
        if spare is None or spare[0].shape[1] < capacity or spare[0].shape[2] < self.num_rows:
            spare = self._make_caches(capacity, self.num_rows)
        # The rows are copied into the second buffer. In place, a row that is kept several times
        # could overwrite a row that is still needed.
        kept_caches = (spare[0][:, :, : self.num_rows], spare[1][:, :, : self.num_rows])
        for from_LTNX, into_LTNX in zip(self.caches, kept_caches, strict=True):
            torch.index_select(
                from_LTNX[:, : self.num_steps], 2, row_N, out=into_LTNX[:, : self.num_steps]
            )
        self.spare_caches = self.caches
        self.caches = kept_caches


def _scores(q_NHD: Tensor, k_TNHD: Tensor, additive_HD: Tensor | None) -> Tensor:
    """Return attention scores: q.k, where q is already scaled, or the additive score
    v.tanh(q + k).
    """
    if additive_HD is None:
        return (q_NHD * k_TNHD).sum(dim=-1)
    return (torch.tanh(q_NHD + k_TNHD) * additive_HD).sum(dim=-1)


def _feed_forward(x_NM: Tensor, layer: _Layer, index: int) -> Tensor:
    """Return max(0, x W_1 + b_1) W_2 + b_2 (equation (2))."""
    return layer.fc2(layer.fc1(x_NM).relu_())


DecoderSteps = TransformerSteps | FairseqSteps


def steps_of(model: Any) -> DecoderSteps:
    """Return the object that decodes with this model step by step, on the model's device."""
    plain_model = model if isinstance(model, Transformer) else as_plain_transformer(model)
    return FairseqSteps(model) if plain_model is None else TransformerSteps(plain_model)


@torch.inference_mode()
def as_plain_transformer(model: Any) -> Transformer | None:
    """Convert fairseq's transformer into a model of this project with the same tensors. Return None
    if the converted model would differ from fairseq's transformer.

    The sizes are read from tensors and modules. fairseq's options are not interpreted. The
    conversion counts as right if fairseq's model and the converted model have the same parameters
    and the same output for a sentence.
    """
    tensors = {
        name: tensor
        for name, tensor in model.state_dict().items()
        if name.rpartition(".")[2] not in ("version", "_float_tensor")
    }
    first, last = "encoder.layers.0", "decoder.output_projection.weight"
    # A different architecture, such as fairseq's LSTM, or a transformer with adaptive softmax.
    if f"{first}.self_attn.q_proj.weight" not in tensors or last not in tensors:
        return None
    d_ff, d_model = tensors[f"{first}.fc1.weight"].shape
    num_heads = model.encoder.layers[0].self_attn.num_heads
    learned = tensors.get("decoder.embed_positions.weight")
    padding = model.encoder.dictionary.pad()
    norm_order = "post" if model.decoder.layer_norm is None else "pre"
    config = TransformerConfig(
        num_layers=len(model.encoder.layers),
        d_model=d_model,
        d_ff=d_ff,
        num_heads=num_heads,
        d_k=d_model // num_heads,
        d_v=d_model // num_heads,
        norm_order=norm_order,
        norm_epsilon=model.encoder.layers[0].final_layer_norm.eps,
        attention_biases=f"{first}.self_attn.q_proj.bias" in tensors,
        positions="sinusoidal_halves" if learned is None else "learned",
        # In fairseq the position of the first token is the id of padding plus 1.
        position_offset=padding + 1,
        max_positions=int(model.max_decoder_positions()),
        # Tied matrices are then the same tensor in `tensors`, and need no tie in the model.
        share_embeddings="none",
    )
    # On the device `meta`, parameters do not take memory. They are replaced below.
    with torch.device("meta"):
        plain_model = Transformer.build(
            config,
            num_source_symbols=len(model.encoder.dictionary),
            num_target_symbols=len(model.decoder.dictionary),
            padding_index=padding,
        )
    # Sinusoids are not in `tensors`, so their table has to be computed on the real device.
    device = tensors[last].device
    # In fairseq, encoder and decoder may have different numbers of positions.
    for stack, theirs in (
        (plain_model.encoder, model.encoder),
        (plain_model.decoder, model.decoder),
    ):
        stack.embed_positions = Positions(
            config.positions,
            max_positions=int(theirs.max_positions()),
            d_model=d_model,
            offset=config.position_offset,
        ).to(device)
    try:
        plain_model.load_state_dict(tensors, strict=True, assign=True)
    except RuntimeError:
        # The model has other parameters, for example a norm of the embeddings.
        return None
    plain_model.eval()
    # Any sentence without padding will do for the comparison.
    source_BS = torch.arange(padding + 1, len(model.encoder.dictionary))[None, :NUM_PROBE_TOKENS]
    target_BT = torch.arange(padding + 1, len(model.decoder.dictionary))[None, :NUM_PROBE_TOKENS]
    source_BS = source_BS.to(device)
    target_BT = target_BT.to(device)
    length_B = torch.tensor([source_BS.shape[1]], device=device)
    theirs_BTV = model(source_BS, length_B, target_BT)[0]
    is_equal = torch.allclose(plain_model(source_BS, target_BT), theirs_BTV, atol=PROBE_TOLERANCE)
    return plain_model if is_equal else None
