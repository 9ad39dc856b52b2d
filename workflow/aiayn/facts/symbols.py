"""Turns fairseq's arguments into the paper's symbols. The inverse is the module
`aiayn.train.fairseq_args`, which turns the paper's symbols into fairseq's arguments.

A symbol of the paper that fairseq's arguments do not determine is omitted, never guessed. The test
tests/logs/test_log_symbols.py converts every shipped system to fairseq's arguments and back, so the
two conversions cannot diverge. Two symbols exist only for logs, because fairseq has two settings
where the paper has one: tokens_per_update is max_tokens x update_freq x GPUs (positions, including
padding), and peak_learning_rate is the maximum of the learning rate's schedule, which is
d_model^-0.5 * warmup_steps^-0.5 in equation (3).

The file known_good.csv lists the allowed values of the symbols.
"""

import ast
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aiayn.cost import target_tokens_per_full_update
from aiayn.facts.types import Section
from aiayn.facts.types import Value as Argument
from aiayn.printed import read_rows
from aiayn.schedule import learning_rate
from aiayn.spec.system import TrainingSpec

Symbol = bool | int | float | str
Symbols = dict[str, Symbol]

OUR_ARCHITECTURE = "aiayn_transformer"
# Symbols that cannot be chosen in fairseq's own models.
OURS_ONLY = (
    "norm_epsilon",
    "initialisation",
    "sinusoids",
)
# The values of a symbol for a switch of fairseq that is off, and on.
_WORDS_BY_SWITCH = {
    "positions": ("sinusoidal", "learned"),
    "norm_order": ("post", "pre"),
}
# fairseq's names for the standard transformer. Other names, such as transformer_align or
# dlcl_transformer, are other models.
_TRANSFORMER = re.compile(
    OUR_ARCHITECTURE + r"|transformer(_iwslt_de_en|(_vaswani)?_wmt_en_(de|fr)(_big)?(_t2t)?|_tiny)?"
)
# The symbols with a single possible value in fairseq's transformer (`aiayn.spec.training`).
_FAIRSEQ_ONLY: Symbols = {
    "norm": "layer",
    "attention": "scaled",
    "attention_biases": True,
    "embeddings": "d_model",
}
_SMOOTHED = ("label_smoothed_cross_entropy", "aiayn_label_smoothing")


class _SymbolRule(msgspec.Struct, frozen=True):
    """How fairseq's arguments set a symbol of the paper.

    The string `keys` lists fairseq's arguments that have the value of the symbol. The first of
    these arguments that the log contains is used. The string `keys` is '' if the symbol is computed
    from several arguments.
    """

    symbol: str
    keys: str


SYMBOL_RULES = {
    rule.symbol: rule for _, rule in read_rows(Path(__file__).parent / "symbols.csv", _SymbolRule)
}


def symbols_of_spec(training: TrainingSpec) -> Symbols:
    """Return the values of the paper's symbols, such as d_model, that a log must contain if the
    system was trained with these settings. The keys are the names of the symbols, as in
    `symbols_of_arguments`.
    """
    symbols: Symbols = {
        name: value for name in SYMBOL_RULES if (value := getattr(training, name, None)) is not None
    }
    # Values that fairseq prints, but that are implicit in a spec.
    symbols |= _positions(training.positions) | {"optimizer": "adam", "weight_decay": 0.0}
    symbols["tokens_per_update"] = target_tokens_per_full_update(training)
    if training.architecture == "fairseq_transformer":
        symbols["architecture"] = "transformer"
    if training.schedule == "constant":
        symbols["warmup_steps"] = 0
    else:
        symbols["schedule"] = "inverse_sqrt"
    # fairseq's argument --lr is the peak, which equation (3) reaches at the end of the warm-up.
    if training.schedule == "equation_3":
        symbols["peak_learning_rate"] = _peak_of_equation_3(training.d_model, training.warmup_steps)
    return {name: symbols[name] for name in SYMBOL_RULES if name in symbols}


def symbols_of_start(section: Section) -> dict[str, Argument]:
    """Return the paper's symbols for one start of a training (one run of fairseq-train). The number
    of GPUs is the number in the log's own lines, not in the arguments. The symbol `updates` is left
    out, because the actual number of updates is compared, and not the planned number in the
    arguments.
    """
    arguments = dict(section.arguments)
    # The printed number counts the processes that really run. The argument is the requested number.
    printed = section.value("num_gpus")
    if printed is not None:
        arguments["distributed_world_size"] = printed
    left_out = {"updates", *(() if section.is_ours else OURS_ONLY)}
    symbols = symbols_of_arguments(arguments)
    return {name: value for name, value in symbols.items() if name not in left_out}


def symbols_of_arguments(arguments: Mapping[str, Argument]) -> Symbols:
    """Return the values of the paper's symbols that follow from fairseq's arguments."""
    symbols: Symbols = {}
    for symbol, rule in SYMBOL_RULES.items():
        # fairseq's name and ours for one symbol. A log states only one of the two.
        for key in rule.keys.split():
            value = _common_value(arguments, key)
            if value is not None:
                names = _WORDS_BY_SWITCH.get(symbol)
                symbols[symbol] = names[value] if names and isinstance(value, bool) else value
                break
    if name := str(arguments.get("arch") or ""):
        symbols["architecture"] = "transformer" if _TRANSFORMER.fullmatch(name) else name
        if name != OUR_ARCHITECTURE:
            symbols |= _fixed_by_fairseq(symbols)
        elif "positions" in symbols:
            symbols |= _positions(str(symbols["positions"]))
    tied = _tied_embeddings(arguments)
    if tied is not None:
        symbols["tied_embeddings"] = tied
    symbols |= _optimiser(arguments) | _schedule(arguments, symbols.get("d_model"))
    return symbols | _batches(arguments)


def _common_value(arguments: Mapping[str, Argument], key: str) -> Argument:
    """Return the value of one of fairseq's arguments. If the encoder and the decoder have different
    values of an argument, return both values as text.
    """
    value, decoder = arguments.get(key), arguments.get(key.replace("encoder_", "decoder_"))
    if value == decoder or decoder is None:
        return value
    return f"{value} and {decoder}" if value is not None else decoder


def _positions(name: str) -> Symbols:
    """Return the symbol for the positional encoding: learned or sinusoidal (Table 3, row E), and
    which sinusoids (section 3.5 or tensor2tensor's).
    """
    return (
        {"positions": "learned"}
        if name == "learned"
        else {"positions": "sinusoidal", "sinusoids": name}
    )


def _fixed_by_fairseq(symbols: Symbols) -> Symbols:
    """Return the values of the paper's symbols that are not arguments of fairseq's own models."""
    fixed = dict(_FAIRSEQ_ONLY) if symbols["architecture"] == "transformer" else {}
    # fairseq fixes d_k to d_model / num_heads.
    d_model, num_heads = symbols.get("d_model"), symbols.get("num_heads")
    if isinstance(d_model, int) and isinstance(num_heads, int) and num_heads:
        fixed["d_k"] = fixed["d_v"] = d_model // num_heads
    return fixed


def _tied_embeddings(arguments: Mapping[str, Argument]) -> Symbol | None:
    # Our argument has three values, fairseq's are two switches.
    if "share_embeddings" in arguments:  # ours
        return arguments["share_embeddings"] != "none"
    if arguments.get("share_all_embeddings") is True:
        return True
    if arguments.get("share_decoder_input_output_embed") is True:
        return "of the decoder"
    is_stated = arguments.keys() & {"share_all_embeddings", "share_decoder_input_output_embed"}
    return False if is_stated else None


def _optimiser(arguments: Mapping[str, Argument]) -> Symbols:
    symbols: Symbols = {}
    smoothing = arguments.get("label_smoothing")
    # Plain cross entropy has an argument for smoothing in some versions, and ignores it.
    if arguments.get("criterion") == "cross_entropy":
        symbols["eps_ls"] = 0.0
    elif arguments.get("criterion") in _SMOOTHED and smoothing is not None:
        symbols["eps_ls"] = smoothing
    if arguments.get("optimizer") == "aiayn_adam":
        symbols |= {"optimizer": "adam", "weight_decay": arguments.get("weight_decay") or 0.0}
    # fairseq has one argument for both, such as `(0.9, 0.98)`. Our argument for each has priority.
    betas = zip(("adam_beta_1", "adam_beta_2"), _pair(arguments.get("adam_betas")), strict=True)
    return symbols | {
        name: beta for name, beta in betas if beta is not None and arguments.get(name) is None
    }


def _pair(text: Argument) -> tuple[float, float] | tuple[None, None]:
    try:
        first, second = ast.literal_eval(str(text))
        return float(first), float(second)
    except (ValueError, SyntaxError, TypeError):
        return None, None


def _schedule(arguments: Mapping[str, Argument], d_model: Symbol | None) -> Symbols:
    name, rate, warmup = map(arguments.get, ("lr_scheduler", "lr", "warmup_updates"))
    value_by_symbol = {"schedule": name, "warmup_steps": None, "peak_learning_rate": None}
    if name == "fixed":
        value_by_symbol = {
            "schedule": "constant",
            "warmup_steps": warmup or 0,
            "peak_learning_rate": rate,
        }
    elif name == "inverse_sqrt":
        # --lr may be a list with a rate for each epoch, which is text here.
        peak = float(rate) if isinstance(rate, int | float) else rate  # text: a rate for each epoch
        value_by_symbol |= {"warmup_steps": warmup, "peak_learning_rate": peak}
    elif name == "equation_3":
        value_by_symbol |= {"schedule": "inverse_sqrt", "warmup_steps": warmup}
        width = arguments.get("schedule_d_model", d_model)
        if isinstance(width, int) and isinstance(warmup, int):
            value_by_symbol["peak_learning_rate"] = _peak_of_equation_3(width, warmup)
    return {symbol: value for symbol, value in value_by_symbol.items() if value is not None}


def _peak_of_equation_3(d_model: int, warmup_steps: int) -> float:
    return learning_rate(warmup_steps, d_model=d_model, warmup_steps=warmup_steps)


def _batches(arguments: Mapping[str, Argument]) -> Symbols:
    symbols: Symbols = {}
    updates, max_tokens, frequency = map(arguments.get, ("max_update", "max_tokens", "update_freq"))
    # 0 means no limit in fairseq.
    if updates and isinstance(updates, int):
        symbols["updates"] = updates
    ranks = arguments.get("distributed_world_size")
    if isinstance(max_tokens, int) and isinstance(frequency, int) and isinstance(ranks, int):
        symbols["tokens_per_update"] = max_tokens * frequency * max(1, ranks)
    elif isinstance(frequency, str):  # such as "[4,8]": a number for each epoch
        symbols["tokens_per_update"] = f"{max_tokens} x {frequency} x {ranks}"
    # fairseq's mixed precision. Our own argument `precision` counts only if both are off.
    if arguments.get("fp16") is True or arguments.get("memory_efficient_fp16") is True:
        symbols["precision"] = "fp16"
    elif arguments.get("bf16") is True:
        symbols["precision"] = "bf16"
    elif "fp16" in arguments:
        symbols["precision"] = str(arguments.get("precision") or "fp32")
    return symbols
