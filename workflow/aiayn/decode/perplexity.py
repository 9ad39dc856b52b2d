"""Measures a model on a test set: perplexity per subword (Table 3) and cross-attention.

The decoder reads the reference translation as its input (teacher forcing). A post-norm model that
has not started to learn from its source spreads its cross-attention evenly over the source tokens.
Two numbers show whether the cross-attention is even. The first number is the entropy of each head's
attention weights divided by log S, which is 1 for equal weights. The second number is by how many
bits per subword the model becomes worse if all attention weights are made equal.

Shapes: B sentences, S source and T target tokens, H heads, P = H d_v, M = d_model, V pieces.
"""

import contextlib
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from aiayn.decode.exported import cut_line, load_average
from aiayn.errors import CheckpointError
from aiayn.records import CheckpointRecord
from aiayn.train.compat import batch_by_size

SIGNATURE = "unit:subword|eos:yes|dropout:no|smoothing:no|base:e"
TOKENS_PER_BATCH = 4000
MAX_NATS = 700.0  # exp of slightly more is above the largest float


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of a `PerplexityRecord`. `target_pieces` are the target lines, split into
    pieces (subwords).
    """

    ppl_per_subword: float
    num_tokens: int
    cross_attention_entropy: list[list[float]] | None
    bits_lost_uniform: float | None
    target_pieces: list[str]


def perplexity(
    checkpoint: CheckpointRecord | Path, data_folder: Path, split: str, *, device: str
) -> Measured:
    """Measure a checkpoint on a split of a data-bin.

    Lines that are longer than the model's positions are cut, as in translation (`cut_line`). The
    perplexity of a cut line is measured on its first tokens and its end of sentence.

    Perplexity is exp of the mean negative log-likelihood per target token in nats. The end of
    sentence counts as a token. The perplexity equals 2^nll_loss of fairseq's validation, which uses
    logarithms to base 2. The model's outputs are computed with torch's fused attention kernels, as
    in training. The fused kernels do not return attention weights, so the attention weights are
    computed a second time.

    Raises:
        CheckpointError: if the model's outputs are NaN or its perplexity is too large for a number.
    """
    model, task = load_average(checkpoint, data_folder, device=device)
    task.load_dataset(split)
    dataset = task.dataset(split)
    layers = _attending_layers(model)
    entropy_sums: list[list[Tensor]] = [[] for _ in layers]
    nll_nats = 0.0
    uniform_nll_nats = 0.0
    num_tokens = 0
    num_attending = 0
    stack_by_side = {"source": model.encoder, "target": model.decoder}
    examples = []
    for index in range(len(dataset)):
        example = dataset[index]
        cut_sides = {side: cut_line(example[side], stack_by_side[side]) for side in stack_by_side}
        examples.append(example | cut_sides)

    def length(index: int) -> int:
        return max(len(examples[index]["source"]), len(examples[index]["target"]))

    # Sentences of similar length share a batch, which keeps padding low. The results are sums over
    # all sentences, so the order does not matter.
    order = sorted(range(len(examples)), key=length)
    for batch in batch_by_size(order, length, max_tokens=TOKENS_PER_BATCH):
        sample = dataset.collater([examples[index] for index in batch])
        target_BT = sample["target"].to(device)
        source_BS, source_lengths_B, input_BT = (
            sample["net_input"][name].to(device)
            for name in ("src_tokens", "src_lengths", "prev_output_tokens")
        )
        visible_BS = source_BS.ne(task.source_dictionary.pad())
        # The entropy of a source's weights is divided by the logarithm of its length, which is 0
        # for a single token. So the mean entropy leaves out the targets of such a source.
        counted_BT = target_BT.ne(task.target_dictionary.pad()) & (
            visible_BS.sum(dim=1, keepdim=True) > 1
        )
        num_attending += int(counted_BT.sum())
        with torch.no_grad():
            encoder_out = model.encoder(source_BS, src_lengths=source_lengths_B)
            with _hooked(
                layers,
                [partial(_add_entropy, counted_BT, visible_BS, sums) for sums in entropy_sums],
            ):
                logits_BTV, _ = model.decoder(input_BT, encoder_out=encoder_out)
            nll_nats += _nll_nats(logits_BTV, target_BT, task.target_dictionary.pad())
            # A second pass with even weights. The bits that it loses show whether the model uses
            # its cross-attention at all.
            if layers:
                with _hooked(layers, [partial(_read_evenly, visible_BS)] * len(layers)):
                    logits_BTV, _ = model.decoder(input_BT, encoder_out=encoder_out)
                uniform_nll_nats += _nll_nats(logits_BTV, target_BT, task.target_dictionary.pad())
        num_tokens += int(sample["ntokens"])
    mean_nats = nll_nats / num_tokens
    # NaN fails the comparison, too.
    if not mean_nats < MAX_NATS:
        path = checkpoint if isinstance(checkpoint, Path) else checkpoint.path
        raise CheckpointError(
            f"{path}: its perplexity on {split} is exp({mean_nats:.4g}); the training has diverged:"
            " measure an earlier checkpoint, or lower the learning rate and train again"
        )
    means_H = []
    if num_attending:
        means_H = [torch.stack(sums).sum(dim=0) / num_attending for sums in entropy_sums]
    bits_lost = (uniform_nll_nats - nll_nats) / num_tokens / math.log(2) if layers else None
    return Measured(
        ppl_per_subword=math.exp(mean_nats),
        num_tokens=num_tokens,
        cross_attention_entropy=[mean_H.tolist() for mean_H in means_H] or None,
        bits_lost_uniform=bits_lost,
        target_pieces=[task.target_dictionary.string(example["target"]) for example in examples],
    )


def _nll_nats(logits_BTV: Tensor, target_BT: Tensor, padding_index: int) -> float:
    """Return the negative log-likelihood of the target tokens, summed over all tokens."""
    # In fp32, because a sum of a hundred thousand terms in bf16 would lose its digits.
    flat_NV = logits_BTV.float().flatten(0, 1)
    flat_N = target_BT.flatten()
    return float(
        nn.functional.cross_entropy(flat_NV, flat_N, ignore_index=padding_index, reduction="sum")
    )


def _attending_layers(model: Any) -> list[nn.Module]:
    """Return the cross-attention of each decoder layer that has attention heads.

    The list is empty for fairseq's `lstm` and `fconv`, whose cross-attention does not have heads.
    """
    # The layers of fairseq's LSTM are cells without attention.
    layers = list(getattr(model.decoder, "layers", []))
    if not all(hasattr(layer, "encoder_attn") for layer in layers):
        return []
    return [layer.encoder_attn for layer in layers]


@contextlib.contextmanager
def _hooked(modules: list[nn.Module], hooks: list[Any]) -> Iterator[None]:
    """In the `with` block, call each hook after its module, with the module's
    arguments and output.
    """
    # A hook that returns a value replaces the module's output: `_read_evenly` relies on it.
    handles = [
        module.register_forward_hook(hook, with_kwargs=True)
        for module, hook in zip(modules, hooks, strict=True)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _add_entropy(
    counted_BT: Tensor,
    visible_BS: Tensor,
    sums: list[Tensor],
    module: Any,
    args: Any,
    kwargs: Any,
    output: Any,
) -> None:
    """Append the entropy of each head's attention, divided by log S and summed over
    target tokens.
    """
    # `forward` is called, because a call of the module itself would run this hook again. Our own
    # attention has an attribute `score`.
    if hasattr(module, "score"):
        weights_BHTS = module.forward(*args, **kwargs | {"needs_weights": True})[1]
    else:
        # In fairseq's attention, heads come before sentences.
        flags = {"need_weights": True, "need_head_weights": True}
        weights_BHTS = module.forward(*args, **kwargs | flags)[1].transpose(0, 1)
    # A weight of 0, as at padding, adds nothing to the entropy. `entr` is 0 there, not NaN.
    log_S_B = visible_BS.sum(dim=1).log()[:, None, None]
    entropy_BHT = torch.special.entr(weights_BHTS.double()).sum(dim=-1) / log_S_B
    sums.append(entropy_BHT.masked_fill(~counted_BT[:, None], 0.0).sum(dim=(0, 2)))


def _read_evenly(
    visible_BS: Tensor, module: Any, args: Any, kwargs: Any, output: Any
) -> tuple[Tensor, None]:
    """Return the output of a cross-attention layer as if all its weights were 1 / S."""
    # fairseq's attention has its arguments by name, with source tokens before sentences.
    is_ours = hasattr(module, "score")
    memory_BSM = args[1] if is_ours else kwargs["value"].transpose(0, 1)
    values_BSP = module.v_proj(memory_BSM) * visible_BS[:, :, None]
    read_BM = module.out_proj(values_BSP.sum(dim=1) / visible_BS.sum(dim=1, keepdim=True))
    # Every target token has the same mean. Hooks must return what `forward` does: a pair.
    if is_ours:
        return read_BM[:, None].expand_as(output[0]), None
    return read_BM.expand_as(output[0]), None
