"""Computes attention from queries, keys and values (section 3.2.2), with the score of equation (1)
or an alternative score.

Suffixes of tensor names are shapes: B sentences, Q queries, K keys, H heads, D = d_k, E = d_v, M =
d_model.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

Score = Literal["scaled", "unscaled", "sqrt_d_model", "temperature", "additive"]


# Names of torch's kernels (`torch.nn.attention.SDPBackend`), by their numbers.
_KERNEL_NAMES = {0: "math", 1: "flash", 2: "efficient", 3: "cudnn"}
# torch's efficient attention on a GPU needs masks with rows that begin at multiples of this number
# of elements. It copies any other mask, in every layer.
_MASK_ROW_MULTIPLE = 16


def additive_mask(padding_mask_BK: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask to add to the attention scores, shape (B, 1, 1, K): minus infinity for keys
    that are padding, else 0.

    The mask has autocast's type if autocast is enabled, otherwise the type `dtype`. With a
    different type, every attention layer would have to convert the mask again.
    """
    num_sentences, num_keys = padding_mask_BK.shape
    # Made with too many columns and then cut, so that the rows still begin at multiples in memory.
    num_columns = math.ceil(num_keys / _MASK_ROW_MULTIPLE) * _MASK_ROW_MULTIPLE
    mask_B11K = torch.zeros(
        num_sentences,
        1,
        1,
        num_columns,
        dtype=compute_dtype(padding_mask_BK.device.type, dtype),
        device=padding_mask_BK.device,
    )[..., :num_keys]
    return mask_B11K.masked_fill_(padding_mask_BK[:, None, None], -torch.inf)


def causal_mask(num_queries: int, *, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a mask to add to the scores, shape (Q, Q): it hides keys after a query (section
    3.2.3).
    """
    return torch.full((num_queries, num_queries), -torch.inf, dtype=dtype, device=device).triu(1)


def refuse_cudnn() -> None:
    """Switch off the attention kernels of cuDNN in this process.

    torch 2.11 and later prefer cuDNN for half precision on H100, H200 and B200. For each new batch
    shape, cuDNN makes an execution plan, which takes 40 to 400 ms. Nearly every batch of a training
    has a new shape.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)


def chosen_kernels(
    *, num_heads: int, d_k: int, d_v: int, p_drop: float, dtype: torch.dtype, device: torch.device
) -> str:
    """Return the names of torch's kernels that masked and causal attention use in training, such as
    `masked: efficient, causal: flash`.
    """
    # torch chooses by shapes and types, not by values, so zeros will do.
    q_BHQD, k_BHKD = torch.zeros(
        2, 1, num_heads, 8, d_k, dtype=dtype, device=device, requires_grad=True
    )
    v_BHKE = torch.zeros(1, num_heads, 8, d_v, dtype=dtype, device=device, requires_grad=True)
    mask_B11K = additive_mask(torch.zeros(1, 8, dtype=torch.bool, device=device), dtype)
    # A private function, because torch has no public function that tells which kernel it takes.
    choices = {
        kind: torch._fused_sdp_choice(
            q_BHQD, k_BHKD, v_BHKE, attn_mask=mask, dropout_p=p_drop, is_causal=is_causal
        )
        for kind, mask, is_causal in (("masked", mask_B11K, False), ("causal", None, True))
    }
    return ", ".join(
        f"{kind}: {_KERNEL_NAMES.get(choice, choice)}" for kind, choice in choices.items()
    )


def compute_dtype(device_type: str, dtype: torch.dtype) -> torch.dtype:
    """Return the data type of matrix products: autocast's if autocast is enabled, else `dtype`."""
    # torch raises an error if a device type without autocast is asked whether it is enabled.
    if torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type):
        return torch.get_autocast_dtype(device_type)
    return dtype


def joint_projections(x_BKM: Tensor, projections: list[nn.Linear]) -> tuple[Tensor, ...]:
    """Return the outputs of several projections of one input, computed as one product."""
    # The parameters are joined only here, so that a checkpoint has each of them separately.
    weight_PM = torch.cat([projection.weight for projection in projections])
    has_biases = projections[0].bias is not None
    bias_P = torch.cat([projection.bias for projection in projections]) if has_biases else None
    outputs_BKP = functional.linear(x_BKM, weight_PM, bias_P)
    return torch.split(outputs_BKP, [projection.out_features for projection in projections], dim=-1)


class MultiHeadAttention(nn.Module):
    """Multi-head attention (section 3.2.2): Concat(head_1, ..., head_h) W^O, where head_i =
    Attention(Q W_i^Q, K W_i^K, V W_i^V). `d_k` and `d_v` do not depend on `d_model`.

    The parameters have fairseq's names: q_proj and k_proj (H * D, M), v_proj (H * E, M), out_proj
    (M, H * E). With `score` = `temperature`, q.k is divided by a learned number, which is sqrt(d_k)
    before the first update. With `score` = `additive`, the score is v.tanh(q + k), where q and k
    are the projected query and key, and v is a learned vector of size D for each head (Bahdanau et
    al. 2015, without their bias).
    """

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        d_k: int,
        d_v: int,
        score: Score,
        has_biases: bool,
        p_drop: float,
    ) -> None:
        super().__init__()
        self.num_heads, self.d_k, self.d_v, self.score, self.p_drop = (
            num_heads,
            d_k,
            d_v,
            score,
            p_drop,
        )
        # Equation (1) divides by sqrt(d_k). The scores without an entry have no constant factor.
        self.scale = {"scaled": d_k**-0.5, "sqrt_d_model": d_model**-0.5}.get(score, 1.0)
        # All heads of a projection are one matrix, in which head 1 has the first rows.
        self.q_proj = nn.Linear(d_model, num_heads * d_k, bias=has_biases)
        self.k_proj = nn.Linear(d_model, num_heads * d_k, bias=has_biases)
        self.v_proj = nn.Linear(d_model, num_heads * d_v, bias=has_biases)
        self.out_proj = nn.Linear(num_heads * d_v, d_model, bias=has_biases)
        # The learned number begins at the paper's scale, so this variant starts like base.
        if score == "temperature":
            self.temperature = nn.Parameter(torch.tensor(math.sqrt(d_k)))
        if score == "additive":
            self.additive = nn.Parameter(torch.empty(num_heads, d_k))

    def forward(
        self,
        query_BQM: Tensor,
        memory_BKM: Tensor,
        *,
        padding_mask_BK: Tensor | None = None,
        additive_mask_B11K: Tensor | None = None,
        is_causal: bool = False,
        needs_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output for each query, shape (B, Q, M). With `needs_weights`, also return the
        attention weights, shape (B, H, Q, K).

        Keys and values are computed from `memory_BKM`. `padding_mask_BK` is True at padding tokens
        of the memory, which get no attention. A caller that needs the mask several times calls
        `additive_mask` once and passes the result as `additive_mask_B11K`. With `is_causal`, query
        i sees the keys up to i (section 3.2.3).
        """
        if padding_mask_BK is not None:
            additive_mask_B11K = additive_mask(padding_mask_BK, query_BQM.dtype)
        queries, keys, values = self._project(query_BQM, memory_BKM)
        q_BHQD, k_BHKD = self._split(queries, self.d_k), self._split(keys, self.d_k)
        v_BHKE = self._split(values, self.d_v)
        # torch's fused kernels do not return weights, and compute only scores that are products.
        is_open = needs_weights or self.score == "additive"
        # Without padding, a flag of the fused kernels replaces the causal mask. torch has a faster
        # kernel for it.
        is_flag_enough = is_causal and additive_mask_B11K is None and not is_open
        mask = additive_mask_B11K
        if is_causal and not is_flag_enough:
            # Adding masks combines them: minus infinity hides a key for either reason.
            future_QK = causal_mask(q_BHQD.shape[2], dtype=q_BHQD.dtype, device=q_BHQD.device)
            mask = future_QK if mask is None else mask + future_QK
        weights_BHQK = None
        if is_open:
            read_BHQE, weights_BHQK = self._attend_openly(q_BHQD, k_BHKD, v_BHKE, mask)
        else:
            # The kernel takes only a constant as its scale, so the learned number divides the
            # queries.
            if self.score == "temperature":
                q_BHQD = q_BHQD / self.temperature
            read_BHQE = functional.scaled_dot_product_attention(
                q_BHQD,
                k_BHKD,
                v_BHKE,
                attn_mask=mask,
                is_causal=is_flag_enough,
                dropout_p=self.p_drop if self.training else 0.0,
                scale=self.scale,
            )
        return self.out_proj(read_BHQE.transpose(1, 2).flatten(2)), weights_BHQK

    def _project(self, query_BQM: Tensor, memory_BKM: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values. The last dimension of queries, keys and values has all
        heads, one after the other.

        On a GPU, projections of the same input are one product, because the time for small batches
        depends on the number of kernels. On a CPU each projection is a separate product, because
        joining would only copy the weights.
        """
        if not query_BQM.is_cuda:
            # Not to be reordered: the order of these calls decides in which order autograd adds the
            # gradients of a shared input, and so how they are rounded.
            queries = self.q_proj(query_BQM)
            return queries, self.k_proj(memory_BKM), self.v_proj(memory_BKM)
        keys_and_values = [self.k_proj, self.v_proj]
        if query_BQM is memory_BKM:
            queries, keys, values = joint_projections(query_BQM, [self.q_proj, *keys_and_values])
        else:
            queries = self.q_proj(query_BQM)
            keys, values = joint_projections(memory_BKM, keys_and_values)
        return queries, keys, values

    def _split(self, heads_BKP: Tensor, width: int) -> Tensor:
        """Split a tensor of shape (B, K, H * width) into heads, shape (B, H, K, width)."""
        return heads_BKP.view(*heads_BKP.shape[:2], self.num_heads, width).transpose(1, 2)

    def _attend_openly(
        self, q_BHQD: Tensor, k_BHKD: Tensor, v_BHKE: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Compute attention without a fused kernel, as equation (1) is written. Return the output
        of the attention and its weights.
        """
        if self.score == "additive":
            # This needs memory for D numbers for each pair of tokens. The product of equation (1)
            # needs a single number.
            sums_BHQKD = torch.tanh(q_BHQD[:, :, :, None] + k_BHKD[:, :, None])
            scores_BHQK = torch.einsum("bhqkd,hd->bhqk", sums_BHQKD, self.additive)
        else:
            scores_BHQK = q_BHQD @ k_BHKD.transpose(-2, -1) * self.scale
            if self.score == "temperature":
                scores_BHQK = scores_BHQK / self.temperature
        if mask is not None:
            scores_BHQK = scores_BHQK + mask
        # The softmax is computed in fp32, as in fairseq's attention, then rounded to the values'
        # type. The weights are returned as they are before dropout.
        weights_BHQK = scores_BHQK.float().softmax(dim=-1).to(v_BHKE.dtype)
        dropped_BHQK = functional.dropout(weights_BHQK, self.p_drop, self.training)
        return dropped_BHQK @ v_BHKE, weights_BHQK
