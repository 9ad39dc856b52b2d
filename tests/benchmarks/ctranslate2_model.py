"""Turns our tensors into a model for CTranslate2, to compare its speed and translations with ours.

CTranslate2's own converter only reads fairseq's stock models. CTranslate2 only has heads of width
d_model / h for queries, keys and values, layer normalisation, the length penalty `n^alpha`, and a
search that ends a sentence when beam_size hypotheses have ended. `build_spec` works for systems
within these limits.

Scores and translations equal those of `aiayn translate`, with three exceptions. Our search never
chooses <pad>. It forbids an empty translation after the softmax, CTranslate2 before it
(`min_decoding_length`, 1 by default), which raises all scores of a sentence a little. At the
maximal length our translation ends with </s>, and CTranslate2's is cut.
"""

import math
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from ctranslate2.specs import TransformerSpec

from aiayn.model.positions import Positions
from aiayn.spec.system import TrainingSpec
from aiayn.spec.training import MAX_POSITIONS

Tensors = dict[str, torch.Tensor]


def save_ctranslate2(model: Any, task: Any, training: TrainingSpec, folder: Path) -> None:
    """Write `model.bin`, `config.json` and the vocabularies of a model."""
    spec = build_spec(model, training, end_of_sentence=task.target_dictionary.eos())
    spec.register_source_vocabulary(task.source_dictionary.symbols)
    spec.register_target_vocabulary(task.target_dictionary.symbols)
    spec.validate()
    spec.optimize()  # stores tied matrices once; weights stay float32
    spec.save(str(folder))


def build_spec(model: Any, training: TrainingSpec, *, end_of_sentence: int) -> TransformerSpec:
    """Return CTranslate2's description of a model, with the model's tensors in it."""
    spec = TransformerSpec.from_config(
        training.num_layers,
        training.num_heads,
        pre_norm=training.norm_order == "pre",
        activation=ctranslate2.specs.Activation.RELU,
    )
    spec.config.layer_norm_epsilon = training.norm_epsilon
    spec.config.decoder_start_token = (
        spec.config.eos_token
    )  # as in training: the decoder starts from </s>
    spec.config.add_source_eos = True
    tensors: Tensors = model.state_dict()
    for side, stack_spec in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        embeddings = stack_spec.embeddings[0] if side == "encoder" else stack_spec.embeddings
        embeddings.weight = tensors[f"{side}.embed_tokens.weight"]
        stack_spec.scale_embeddings = math.sqrt(training.d_model)  # section 3.4
        stack_spec.position_encodings.encodings = position_table(
            getattr(model, side), end_of_sentence
        )
        if training.norm_order == "pre":
            _set_norm(stack_spec.layer_norm, tensors, f"{side}.layer_norm")
        for index, layer_spec in enumerate(stack_spec.layer):
            _set_layer(layer_spec, tensors, f"{side}.layers.{index}", training)
    spec.decoder.projection.weight = tensors["decoder.output_projection.weight"]
    return spec


def position_table(stack: Any, end_of_sentence: int) -> torch.Tensor:
    """Return the vector of each position from a sentence's first token on, (MAX_POSITIONS,
    d_model).
    """
    positions = stack.embed_positions
    if isinstance(positions, Positions):
        return positions.weight.detach()[positions.offset :].contiguous()
    table: torch.Tensor = positions(torch.full((1, MAX_POSITIONS), end_of_sentence))[
        0
    ]  # fairseq's own, by its tokens
    return table.detach().contiguous()


def _set_layer(layer_spec: Any, tensors: Tensors, prefix: str, training: TrainingSpec) -> None:
    attentions = [("self_attn", layer_spec.self_attention)]
    if prefix.startswith("decoder"):
        attentions.append(("encoder_attn", layer_spec.attention))
    for name, attention_spec in attentions:
        _set_norm(attention_spec.layer_norm, tensors, f"{prefix}.{name}_layer_norm")
        projections = [
            [f"{prefix}.{name}.{letter}_proj" for letter in group]
            for group in (("qkv",) if name == "self_attn" else ("q", "kv"))
        ]
        for linear_spec, group in zip(
            attention_spec.linear, [*projections, [f"{prefix}.{name}.out_proj"]], strict=True
        ):
            _set_linear(linear_spec, tensors, group)
        attention_spec.queries_scale = queries_scale(training, tensors, f"{prefix}.{name}")
    _set_norm(layer_spec.ffn.layer_norm, tensors, f"{prefix}.final_layer_norm")
    _set_linear(layer_spec.ffn.linear_0, tensors, [f"{prefix}.fc1"])
    _set_linear(layer_spec.ffn.linear_1, tensors, [f"{prefix}.fc2"])


def queries_scale(training: TrainingSpec, tensors: Tensors, attention: str) -> float:
    """Return the factor of q.k in the softmax: equation (1)'s, or what a variant has in its place."""
    if training.attention == "temperature":
        return 1.0 / float(tensors[f"{attention}.temperature"])
    width = {"scaled": training.d_k, "sqrt_d_model": training.d_model, "unscaled": 1}[
        training.attention
    ]
    return 1.0 / math.sqrt(width)


def _set_norm(norm_spec: Any, tensors: Tensors, name: str) -> None:
    norm_spec.gamma, norm_spec.beta = tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def _set_linear(linear_spec: Any, tensors: Tensors, names: list[str]) -> None:
    """Set one matrix made of several, one below the other, and its bias if they have any."""
    linear_spec.weight = torch.cat([tensors[f"{name}.weight"] for name in names])
    if f"{names[0]}.bias" in tensors:
        linear_spec.bias = torch.cat([tensors[f"{name}.bias"] for name in names])
