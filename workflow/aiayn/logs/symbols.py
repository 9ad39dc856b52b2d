"""Turns fairseq's arguments into the paper's symbols: the inverse of `aiayn.train.fairseq_args`.

A symbol that the arguments do not determine is omitted, never guessed.
tests/logs/test_log_symbols.py sends every shipped system through both tables and back, so they
cannot diverge. Two symbols exist only for logs, because fairseq has two settings where the paper
has one: `tokens_per_update` is max_tokens x update_freq x GPUs (positions, including padding), and
`peak_learning_rate` is the maximum of the schedule, which is d_model^-0.5 * warmup_steps^-0.5 in
equation (3).

`SYMBOL_RULES` define how a symbol is compared with the value of its system, for logs and for the
doctor.
"""

import ast
import math
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aiayn.cost import target_tokens_per_full_update
from aiayn.logs.findings import Severity
from aiayn.logs.types import Argument
from aiayn.printed import read_rows
from aiayn.schedule import learning_rate
from aiayn.spec.system import TrainingSpec

Symbol = bool | int | float | str
Symbols = dict[str, Symbol]

OUR_ARCHITECTURE = "aiayn_transformer"
OUR_TASK = "aiayn_translation"
# Table 3's own columns, and what its row (E) changes: together they identify the row of a training.
ROW_SYMBOLS = (
    "architecture",
    "num_layers",
    "d_model",
    "d_ff",
    "num_heads",
    "d_k",
    "d_v",
    "p_drop",
    "eps_ls",
    "positions",
)
_SAME_NAME = (
    "num_layers",
    "d_model",
    "d_ff",
    "num_heads",
    "d_k",
    "d_v",
    "norm_order",
    "norm",
    "attention",
    "attention_biases",
    "embeddings",
    "p_drop",
    "p_drop_attention",
    "p_drop_ffn",
    "adam_beta_1",
    "adam_beta_2",
    "adam_epsilon",
)
OURS_ONLY = (
    "norm_epsilon",
    "initialisation",
    "sinusoids",
)  # which fairseq's own models do not choose
_OF_BOTH_SIDES = (
    "num_layers",
    "d_model",
    "d_ff",
    "num_heads",
    "positions",
    "norm_order",
)  # encoder's and decoder's
_WORDS_OF_SWITCH = {
    "positions": ("sinusoidal", "learned"),
    "norm_order": ("post", "pre"),
}  # off, on
_OLDER_KEYS = {"p_drop_ffn": "relu_dropout"}
# fairseq's names of the transformer as it is; other names (transformer_align, dlcl_transformer) are
# other models.
_TRANSFORMER = re.compile(
    r"transformer(_iwslt_de_en|(_vaswani)?_wmt_en_(de|fr)(_big)?(_t2t)?|_tiny)?"
)
MIN_POSITIONS = 256  # below fairseq's 1,024; a shorter limit leaves out sentences of WMT14
MAX_FIRST_RATE = 1e-5  # of a warm-up, fairseq's is 1e-7: a hundredth of the paper's peak
# What fairseq's transformer has in one form only (`aiayn.spec.training`).
_FAIRSEQ_ONLY: Symbols = {
    "norm": "layer",
    "attention": "scaled",
    "attention_biases": True,
    "embeddings": "d_model",
}
_SMOOTHED = ("label_smoothed_cross_entropy", "aiayn_label_smoothing")


class SymbolRule(msgspec.Struct, frozen=True):
    """How a symbol is compared with its system's: its name in messages, and how fairseq sets it.

    `check` is the doctor's that compares it; `key` is the argument of fairseq's that has it, '' if
    none has; `flags` is what gives it the value {0}, `source` the place in the paper. The tolerance
    is relative.
    """

    symbol: str
    words: str
    check: str
    key: str
    flags: str
    source: str
    tolerance: float
    severity: Severity


# In the order of the paper. A log's row is found by ROW_SYMBOLS, so that in these it never differs.
SYMBOL_RULES = {
    rule.symbol: rule for _, rule in read_rows(Path(__file__).parent / "symbols.csv", SymbolRule)
}


def is_ours(arguments: Mapping[str, Argument]) -> bool:
    """Return whether a training was started by `aiayn train`."""
    return arguments.get("task") == OUR_TASK


def symbols_of_spec(training: TrainingSpec) -> Symbols:
    """Return the symbols that a log of a system's training must have, under the names of
    `symbols_of_arguments`.
    """
    symbols: Symbols = {name: getattr(training, name) for name in _SAME_NAME}
    architecture = training.architecture
    symbols["architecture"] = (
        "transformer" if architecture == "fairseq_transformer" else architecture
    )
    symbols |= {"norm_epsilon": training.norm_epsilon, "initialisation": training.initialisation}
    symbols |= _positions(training.positions)
    symbols["tied_embeddings"] = training.tied_embeddings
    symbols["eps_ls"] = training.eps_ls
    symbols["optimizer"] = "adam"
    symbols["weight_decay"] = 0.0
    symbols["clip_norm"] = training.clip_norm
    symbols["schedule"] = "constant" if training.schedule == "constant" else "inverse_sqrt"
    symbols["warmup_steps"] = 0 if training.schedule == "constant" else training.warmup_steps
    if training.schedule == "equation_3":
        symbols["peak_learning_rate"] = _peak_of_equation_3(training.d_model, training.warmup_steps)
    elif training.peak_learning_rate is not None:
        symbols["peak_learning_rate"] = training.peak_learning_rate
    symbols["updates"] = training.updates
    symbols["tokens_per_update"] = target_tokens_per_full_update(training)
    symbols["precision"] = training.precision
    return symbols


def symbols_of_arguments(arguments: Mapping[str, Argument], num_gpus: int | None = None) -> Symbols:
    """Return the paper's symbols of a training's arguments; `num_gpus` is used where they give no
    number of ranks.
    """
    symbols = (
        _our_model(arguments)
        if arguments.get("arch") == OUR_ARCHITECTURE
        else _fairseq_model(arguments)
    )
    symbols |= _optimiser(arguments) | _schedule(arguments, symbols.get("d_model"))
    return symbols | _batches(arguments, num_gpus)


def _our_model(arguments: Mapping[str, Argument]) -> Symbols:
    symbols: Symbols = {"architecture": "transformer"}
    names = (*_SAME_NAME, "norm_epsilon", "initialisation")
    symbols |= {name: value for name in names if (value := arguments.get(name)) is not None}
    if arguments.get("positions") is not None:
        symbols |= _positions(str(arguments["positions"]))
    if "share_embeddings" in arguments:
        symbols["tied_embeddings"] = arguments["share_embeddings"] != "none"
    return symbols


def _given(arguments: Mapping[str, Argument], *names: str) -> Symbols:
    """Return the symbols that arguments have, under our name, fairseq's (symbols.csv), or an older
    one of fairseq's.
    """
    symbols: Symbols = {}
    for name in names:
        keys = (name, SYMBOL_RULES[name].key, _OLDER_KEYS.get(name, ""))
        if (
            value := next((arguments[key] for key in keys if arguments.get(key) is not None), None)
        ) is not None:
            symbols[name] = value
    return symbols


def _positions(name: str) -> Symbols:
    """Return Table 3's distinction, row (E), and which sinusoids they are (section 3.5 or
    tensor2tensor's).
    """
    return (
        {"positions": "learned"}
        if name == "learned"
        else {"positions": "sinusoidal", "sinusoids": name}
    )


def _fairseq_model(arguments: Mapping[str, Argument]) -> Symbols:
    name = str(arguments.get("arch") or "")
    symbols: Symbols = {}
    if name:
        symbols["architecture"] = _architecture(name)
    for symbol in _OF_BOTH_SIDES:
        value = _common_value(arguments, SYMBOL_RULES[symbol].key)
        if value is not None:
            words = _WORDS_OF_SWITCH.get(symbol)
            symbols[symbol] = words[value] if words and isinstance(value, bool) else value
    d_model, num_heads = symbols.get("d_model"), symbols.get("num_heads")
    if isinstance(d_model, int) and isinstance(num_heads, int) and num_heads:
        symbols["d_k"] = symbols["d_v"] = d_model // num_heads  # fairseq has no other
    if symbols.get("architecture") == "transformer":
        symbols |= _FAIRSEQ_ONLY
    symbols |= _given(arguments, "p_drop", "p_drop_attention", "p_drop_ffn")
    if "share_all_embeddings" in arguments or "share_decoder_input_output_embed" in arguments:
        is_half_tied = arguments.get("share_decoder_input_output_embed") is True
        symbols["tied_embeddings"] = arguments.get("share_all_embeddings") is True or (
            "of the decoder" if is_half_tied else False
        )
    return symbols


def _architecture(name: str) -> str:
    """Return `transformer` for fairseq's names of it, else the model's own name."""
    return "transformer" if _TRANSFORMER.fullmatch(name) else name


def _common_value(arguments: Mapping[str, Argument], encoder_key: str) -> Symbol | None:
    """Return the common value of encoder and decoder; both in words where they differ; None without
    either.
    """
    encoder, decoder = (
        arguments.get(encoder_key),
        arguments.get(encoder_key.replace("encoder_", "decoder_")),
    )
    if encoder == decoder or decoder is None:
        return encoder
    return f"{encoder} and {decoder}" if encoder is not None else decoder


def _optimiser(arguments: Mapping[str, Argument]) -> Symbols:
    symbols: Symbols = {}
    if (criterion := arguments.get("criterion")) is not None:
        smoothing = arguments.get("label_smoothing")
        if criterion in _SMOOTHED and smoothing is not None:
            symbols["eps_ls"] = smoothing
        elif criterion == "cross_entropy":
            symbols["eps_ls"] = 0.0
    if (optimizer := arguments.get("optimizer")) is not None:
        symbols["optimizer"] = "adam" if optimizer == "aiayn_adam" else optimizer
    for name, value in zip(
        ("adam_beta_1", "adam_beta_2"), _pair(arguments.get("adam_betas")), strict=True
    ):
        if (beta := value if arguments.get(name) is None else arguments[name]) is not None:
            symbols[name] = beta
    symbols |= _given(arguments, "adam_epsilon", "weight_decay", "clip_norm")
    if optimizer == "aiayn_adam":
        symbols.setdefault("weight_decay", 0.0)  # ours has none
    return symbols


def _pair(text: Argument) -> tuple[float, float] | tuple[None, None]:
    try:
        first, second = ast.literal_eval(str(text))
    except (ValueError, SyntaxError, TypeError):
        return None, None
    return float(first), float(second)


def _schedule(arguments: Mapping[str, Argument], d_model: Symbol | None) -> Symbols:
    name, rate, warmup = (
        arguments.get("lr_scheduler"),
        arguments.get("lr"),
        arguments.get("warmup_updates"),
    )
    if name is None:
        return {}
    if name == "fixed":
        symbols: Symbols = {"schedule": "constant", "warmup_steps": warmup or 0}
        return symbols | ({} if rate is None else {"peak_learning_rate": rate})
    if name not in ("inverse_sqrt", "equation_3"):
        return {"schedule": name}
    symbols = {"schedule": "inverse_sqrt"}
    if warmup is not None:
        symbols["warmup_steps"] = warmup
    width = arguments.get("schedule_d_model", d_model)
    if name == "inverse_sqrt" and rate is not None:
        symbols["peak_learning_rate"] = (
            float(rate) if isinstance(rate, int | float) else rate
        )  # or a rate an epoch
    elif name == "equation_3" and isinstance(width, int) and isinstance(warmup, int):
        symbols["peak_learning_rate"] = _peak_of_equation_3(width, warmup)
    return symbols


def _peak_of_equation_3(d_model: int, warmup_steps: int) -> float:
    return learning_rate(warmup_steps, d_model=d_model, warmup_steps=warmup_steps)


def _batches(arguments: Mapping[str, Argument], num_gpus: int | None) -> Symbols:
    symbols: Symbols = {}
    if (updates := arguments.get("max_update")) and isinstance(updates, int):
        symbols["updates"] = updates
    max_tokens, frequency = arguments.get("max_tokens"), arguments.get("update_freq")
    ranks = arguments.get("distributed_world_size") or num_gpus
    if isinstance(max_tokens, int) and isinstance(frequency, int) and isinstance(ranks, int):
        symbols["tokens_per_update"] = max_tokens * frequency * max(1, ranks)
    elif isinstance(frequency, str):  # of several batches, by epoch
        symbols["tokens_per_update"] = f"{max_tokens} x {frequency} x {ranks}"
    if is_half := [
        key for key in ("fp16", "bf16", "memory_efficient_fp16") if arguments.get(key) is True
    ]:
        symbols["precision"] = "bf16" if is_half == ["bf16"] else "fp16"
    elif "fp16" in arguments:
        symbols["precision"] = str(arguments.get("precision") or "fp32")
    return symbols


def are_equal(found: Symbol, expected: Symbol, tolerance: float = 0.0) -> bool:
    """Return whether two values are one; numbers may differ by a relative `tolerance`."""
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, str) or isinstance(expected, str):
        return found == expected
    return math.isclose(found, expected, rel_tol=max(tolerance, 1e-9), abs_tol=1e-15)
