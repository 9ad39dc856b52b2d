"""Parses the arguments that fairseq prints at its start into a flat mapping; it evaluates no code.

Two forms are read (fairseq_cli/train.py of each version): `Namespace(adam_eps=1e-09, arch='transformer', ...)` up to
0.10, and `{'_name': None, 'common': {'seed': 1, ...}, 'model': Namespace(...), ...}` after it. Groups are flattened;
where a key occurs in several the first wins, and the `_name` of a group is the group's value: `lr_scheduler` is the
`_name` of that group. Below a hydra model's `encoder` and `decoder`, `embed_dim` becomes `encoder_embed_dim`.
"""

import hashlib
import re

from analysis.logs.types import Argument

# Where a run is, and how it is launched: no part of what it computes.
PLACE_KEYS = frozenset(
    {
        "data_buffer_size", "device_id", "distributed_backend", "distributed_init_method", "distributed_no_spawn",
        "distributed_port", "distributed_rank", "empty_cache_freq", "heartbeat_timeout", "log_file", "log_format",
        "log_interval", "no_progress_bar", "nprocs_per_node", "num_workers", "path", "plasma_path", "reset_dataloader",
        "reset_lr_scheduler", "reset_meters", "reset_optimizer", "restore_file", "save_dir", "tensorboard_logdir",
        "user_dir", "wandb_project", "max_epoch", "max_update", "stop_time_hours",
    }
)  # fmt: skip

KEPT_KEYS = frozenset(
    {
        # the model
        "arch", "task", "activation_fn", "encoder_layers", "decoder_layers", "encoder_embed_dim", "decoder_embed_dim",
        "encoder_ffn_embed_dim", "decoder_ffn_embed_dim", "encoder_attention_heads", "decoder_attention_heads",
        "encoder_normalize_before", "decoder_normalize_before", "encoder_learned_pos", "decoder_learned_pos",
        "no_token_positional_embeddings", "no_decoder_final_norm", "encoder_embed_path", "decoder_embed_path",
        "encoder_layers_to_keep", "decoder_layers_to_keep", "quant_noise_pq",
        "share_all_embeddings", "share_decoder_input_output_embed",
        "layernorm_embedding", "no_scale_embedding", "adaptive_softmax_cutoff", "encoder_layerdrop",
        "decoder_layerdrop", "no_cross_attention", "cross_self_attention",
        # ours (train/fairseq_model.py, train/optimiser.py): the paper's symbols themselves
        "num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v", "norm_order", "norm", "norm_epsilon", "attention",
        "attention_biases", "positions", "share_embeddings", "embeddings", "initialisation", "p_drop",
        "p_drop_attention", "p_drop_ffn", "adam_beta_1", "adam_beta_2", "adam_epsilon", "precision",
        # regularisation and optimiser
        "dropout", "attention_dropout", "activation_dropout", "relu_dropout", "label_smoothing", "criterion",
        "optimizer", "adam_betas", "adam_eps", "weight_decay", "clip_norm", "lr", "lr_scheduler", "warmup_updates",
        "warmup_init_lr", "schedule_d_model", "fp16", "bf16", "memory_efficient_fp16", "seed",
        "sentence_avg", "restore_file", "reset_optimizer", "finetune_from_model",
        # length and batches
        "max_tokens", "max_sentences", "batch_size", "update_freq", "distributed_world_size", "max_update", "max_epoch",
        "patience", "validate_interval", "validate_interval_updates", "save_interval", "save_interval_updates",
        "disable_validation", "cpu", "valid_subset",
        # data and places
        "data", "source_lang", "target_lang", "save_dir", "path", "user_dir", "upsample_primary", "train_subset",
        "max_source_positions", "max_target_positions",
        # validation's and generate's search
        "eval_bleu", "eval_bleu_args", "eval_bleu_detok", "eval_bleu_remove_bpe", "eval_tokenized_bleu", "gen_subset",
        "beam", "lenpen", "max_len_a", "max_len_b", "remove_bpe", "post_process", "sacrebleu", "scoring", "bpe",
        "tokenizer", "model_overrides", "sacrebleu_tokenizer", "sacrebleu_lowercase", "nbest", "sampling",
        "unnormalized", "prefix_size", "min_len", "unkpen", "temperature", "match_source_len", "no_repeat_ngram_size",
        "diverse_beam_groups", "replace_unk", "lm_path", "constraints", "retain_dropout", "num_shards",
        "score_reference",
    }
)  # fmt: skip
_MAX_ARGUMENT_CHARACTERS = 200  # of one value; `data` may be a long list of shards

# One step of the scanner: a key with a value or with what opens a group, what closes or opens one, or a bare string.
# Strings are taken whole, so that a key inside one ('{"beam": 5}') is none of ours.
_STRING = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_STEP = re.compile(
    rf"""['"]?(\w+)['"]?\s*[:=]\s*(?:({_STRING}|(?>[^\s,(){{}}\[\]'"<]+)(?!\()|\[[^\[\]]*\]|\([^()]*\)|<[^<>]*>)|(\w*\(|\{{))"""
    rf"""|([}})])|([{{(])|(?:{_STRING})"""
)
_SIDES = ("encoder", "decoder")


class ParsedArguments(dict[str, Argument]):
    """The kept arguments; `digest` is over all keys that can decide a result."""

    digest: str = ""


def is_open(text: str) -> bool:
    """Return whether more brackets open than close: the arguments go on in the next line, or were cut."""
    return text.count("(") + text.count("{") + text.count("[") > text.count(")") + text.count("}") + text.count("]")


def parse_arguments(text: str) -> ParsedArguments:
    """Return the flat arguments of a printed Namespace or config."""
    value_by_key: dict[str, str] = {}
    groups: list[str] = []
    for step in _STEP.finditer(text):
        key, value, opened, closed, bare = step.groups()
        if value is not None:
            flat_key = _flat_key(key, groups)
            if flat_key:
                value_by_key.setdefault(flat_key, value)
        elif closed is not None:
            if groups:
                groups.pop()
        elif opened is not None or bare is not None:
            groups.append(key or "")
    parsed = ParsedArguments({key: parse_value(value) for key, value in value_by_key.items() if key in KEPT_KEYS})
    deciding = "\n".join(f"{key}={value_by_key[key]}" for key in sorted(value_by_key.keys() - PLACE_KEYS))
    parsed.digest = hashlib.blake2b(deciding.encode(), digest_size=8).hexdigest()
    return parsed


def _flat_key(key: str, groups: list[str]) -> str:
    group = groups[-1] if groups else ""
    if key == "_name":
        return {"model": "arch"}.get(group, group)
    return f"{group}_{key}" if group in _SIDES else key


def parse_value(text: str) -> Argument:
    """Return a printed Python value, or hydra's; a list or tuple of one is that one, others stay text."""
    if text.lower() in ("none", "null", "true", "false"):
        return {"true": True, "false": False}.get(text.lower())
    if text[:1] in ("'", '"'):
        inner = text[1:-1]
        return {"True": True, "False": False}.get(inner, inner[:_MAX_ARGUMENT_CHARACTERS])
    if text[:1] in ("[", "("):
        items = [item.strip() for item in text[1:-1].split(",") if item.strip()]
        return parse_value(items[0]) if len(items) == 1 else text[:_MAX_ARGUMENT_CHARACTERS]
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text[:_MAX_ARGUMENT_CHARACTERS]
