"""fairseq's own `transformer`, taken over into ours: the same parameters, the same function."""

from pathlib import Path
from typing import Any

from aiayn.engine import compat
from aiayn.engine.checkpoints import load_checkpoint
from aiayn.engine.transformer import AiaynTransformer, AiaynTransformerConfig
from aiayn.errors import CheckpointError

compat.install()
FAIRSEQ_NORM_EPSILON = 1e-5  # torch's default, which fairseq leaves
FAIRSEQ_POSITION_OFFSET = 2  # fairseq counts positions from its padding index 1, plus 1
# What a stock transformer may have switched on that ours has no key for, with the value that it must have.
_REQUIRED = {
    "activation_fn": "relu", "no_scale_embedding": False, "no_token_positional_embeddings": False,
    "layernorm_embedding": False, "no_cross_attention": False, "cross_self_attention": False, "adaptive_input": False,
    "base_layers": 0, "tie_adaptive_weights": False,
}  # fmt: skip


def config_of(stock: Any) -> AiaynTransformerConfig:
    """Return ours for the `model` part of a stock checkpoint's config (a Namespace or a mapping of its flags).

    Raises:
        CheckpointError: naming the flag, if it is of a model that ours does not have.
    """
    flags = stock if isinstance(stock, dict) else vars(stock)
    required = dict(_REQUIRED)
    for part in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before", "learned_pos"):
        required[f"decoder_{part}"] = flags[f"encoder_{part}"]
    for name, value in required.items():
        if flags.get(name, value) != value:
            raise CheckpointError(
                f"stock transformer with {name} {flags[name]!r}: ours has only {value!r}; use fairseq-generate for it"
            )
    width, num_heads = flags["encoder_embed_dim"], flags["encoder_attention_heads"]
    is_decoder_tied = flags.get("share_decoder_input_output_embed", False)
    return AiaynTransformerConfig(
        num_layers=flags["encoder_layers"], d_model=width, d_ff=flags["encoder_ffn_embed_dim"], num_heads=num_heads,
        d_k=width // num_heads, d_v=width // num_heads,
        norm_order="pre" if flags["encoder_normalize_before"] else "post", norm_epsilon=FAIRSEQ_NORM_EPSILON,
        attention_biases=True, positions="learned" if flags["encoder_learned_pos"] else "sinusoidal_halves",
        position_offset=FAIRSEQ_POSITION_OFFSET, max_positions=flags.get("max_source_positions", 1024),
        share_embeddings="all" if flags.get("share_all_embeddings") else "decoder" if is_decoder_tied else "none",
        p_drop=flags["dropout"], p_drop_attention=flags["attention_dropout"], p_drop_ffn=flags["activation_dropout"],
    )  # fmt: skip


def adopt_checkpoint(path: Path, task: Any) -> AiaynTransformer:
    """Return our model with the parameters of a stock fairseq transformer's checkpoint, for a task's dictionaries.

    Raises:
        CheckpointError: if it is torn, or of a model that ours does not have.
    """
    state = load_checkpoint(path)
    stock = state["cfg"]["model"] if state.get("cfg") is not None else state["args"]
    model = AiaynTransformer.build_model(config_of(stock), task)
    model.load_state_dict(state["model"])
    return model
