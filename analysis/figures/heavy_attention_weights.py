"""Gets the attention weights of equation (1) from a trained model while the model translates.

The suffix of a tensor's name is its shape: H heads, Q queries, K keys, S source tokens, T target
tokens, B sentences (always 1).
"""

from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import torch
from torch import Tensor

from aiayn.decode.decode import Translator
from aiayn.errors import CheckpointError, UsageError
from aiayn.provenance import replace_on_success
from aiayn.spec.training import MAX_POSITIONS
from analysis.figures import ATTENTION_COLUMNS

Kind = Literal["encoder", "decoder", "cross"]
STACK_AND_NAME = {
    "encoder": ("encoder", "self_attn"),
    "decoder": ("decoder", "self_attn"),
    "cross": ("decoder", "encoder_attn"),
}


class AttentionWeights(msgspec.Struct, frozen=True, kw_only=True):
    """The attention weights of a layer, shape (H, Q, K), with the tokens of queries and keys.
    `layer` counts from 1.

    The queries of the decoder's self-attention are the decoder's input: </s> and then the target
    tokens. The queries of cross-attention (`cross`) are labelled with the token that each position
    predicts.
    """

    kind: Kind
    layer: int
    num_layers: int
    queries: list[str]
    keys: list[str]
    weights_HQK: np.ndarray


def attention_weights(
    translator: Translator, source: str, *, kind: Kind, layer: int | None = None
) -> AttentionWeights:
    """Return the attention weights of a layer for one sentence. `source` is the source sentence as
    a line of subwords.

    The decoder gets the model's own translation as its input. `layer` counts from 1. By default it
    is the last layer but one, because the paper shows layer 5 of 6.

    Raises:
        CheckpointError: if the model has no multi-head attention.
        UsageError: if the layer does not exist, or if the sentence is longer than the model's
        maximum number of positions.
    """
    stack, name = STACK_AND_NAME[kind]
    model = translator.model
    # An LSTM does not have attention modules with these names.
    layers = getattr(getattr(model, stack), "layers", None)
    if layers is None or not all(hasattr(module, name) for module in layers):
        raise CheckpointError(
            f"{type(model).__name__} has no multi-head attention in its {stack}: no weights to show"
        )
    num_layers = len(layers)
    layer = max(1, num_layers - 1) if layer is None else layer
    if not 1 <= layer <= num_layers:
        raise UsageError(f"--layer {layer}: the {stack} has layers 1 to {num_layers}")
    source_S = translator.number(source)
    dictionary = translator.task.target_dictionary
    target_T = None
    if kind != "encoder":
        # Without a reference, the decoder reads the model's own translation.
        (hypothesis,) = translator.translate([source_S])
        numbers = [dictionary.symbols.index(piece) for piece in hypothesis.pieces]
        target_T = torch.tensor([*numbers, dictionary.eos()])
    # Translation cuts a line that is too long. A picture of a cut sentence would mislead.
    for ids in (source_S, target_T):
        if ids is not None and len(ids) > MAX_POSITIONS:
            raise UsageError(
                f"the sentence has {len(ids)} tokens, the model {MAX_POSITIONS} positions;"
                " shorten it"
            )
    weights_HQK = _observe(translator, layers[layer - 1], name, source_S, target_T)
    sources = [translator.task.source_dictionary.symbols[int(number)] for number in source_S]
    targets = [] if target_T is None else [dictionary.symbols[int(number)] for number in target_T]
    # The decoder reads </s> first and then the target, as in training. Position t predicts target
    # token t.
    shifted = [targets[-1], *targets[:-1]] if targets else []
    queries = {"encoder": sources, "decoder": shifted, "cross": targets}[kind]
    return AttentionWeights(
        kind=kind,
        layer=layer,
        num_layers=num_layers,
        queries=queries,
        keys=shifted if kind == "decoder" else sources,
        weights_HQK=weights_HQK,
    )


def write_weights(weights: AttentionWeights, run: str, path: Path) -> None:
    """Write the attention weights as tab-separated text, with a line for each weight.

    In the file, layers and heads are counted from 1, tokens from 0.
    """
    with (
        replace_on_success(path) as partial_path,
        partial_path.open("w", encoding="utf-8", newline="\n") as lines,
    ):
        lines.write("\t".join(ATTENTION_COLUMNS) + "\n")
        first_columns = f"{run}\t{weights.kind}\t{weights.layer}\t{weights.num_layers}"
        # Six digits are enough for every picture, and keep the file small.
        for (head, query, key), weight in np.ndenumerate(weights.weights_HQK):
            tokens = f"{query}\t{weights.queries[query]}\t{key}\t{weights.keys[key]}"
            lines.write(f"{first_columns}\t{head + 1}\t{tokens}\t{weight:.6g}\n")


def _observe(
    translator: Translator, layer: Any, name: str, source_S: Tensor, target_T: Tensor | None
) -> np.ndarray:
    """Run the model on a sentence and return the weights of the attention module `name` of this
    layer, shape (H, Q, K).
    """
    # The hooks append to a list, because a value returned by a forward hook would replace the
    # output of the module.
    seen: list[Tensor] = []
    # Only our attention module has a `score`. fairseq's module has other flags for the same
    # request.
    attention = getattr(layer, name)
    is_ours = hasattr(attention, "score")
    flags = ["needs_weights"] if is_ours else ["need_weights", "need_head_weights"]

    def request_weights(module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return args, kwargs | dict.fromkeys(flags, True)

    def keep_weights(module: Any, args: Any, output: Any) -> None:
        # Both modules return (values, weights).
        seen.append(output[1])

    # The hooks request the weights from outside, so the model itself stays as it was trained.
    hooks = [
        attention.register_forward_pre_hook(request_weights, with_kwargs=True),
        attention.register_forward_hook(keep_weights),
    ]
    try:
        source_BS = source_S[None].to(translator.device)
        # Our encoder finds the lengths from the padding. fairseq's encoder has an argument for
        # them.
        lengths = {} if is_ours else {"src_lengths": source_BS.new_tensor([len(source_S)])}
        with torch.no_grad():
            encoded = translator.model.encoder(source_BS, **lengths)
            if target_T is not None:
                # The decoder reads the target shifted right by one position (section 3.1).
                shifted_T = target_T.roll(1)
                translator.model.decoder(shifted_T[None].to(translator.device), encoder_out=encoded)
    finally:
        for hook in hooks:
            hook.remove()
    # Ours are (B, H, Q, K), fairseq's are (H, B, Q, K).
    weights_HQK: np.ndarray = seen[-1].squeeze(0 if is_ours else 1).float().cpu().numpy()
    return weights_HQK
