"""Parses the arguments that a program of fairseq prints at its start. Parsing does not execute code
from the log.

fairseq prints its arguments in two forms: up to fairseq 0.10 as a Python Namespace,
`Namespace(adam_eps=1e-09, arch='transformer', ...)`, and later as a config with groups of
arguments, `{'_name': None, 'common': {'seed': 1, ...}, 'model': Namespace(...), ...}`. A config
also has groups that the program does not use, and these groups are left out. For example,
fairseq-train prints the beam size, and fairseq-generate prints a group of model arguments that are
not the arguments of the checkpoint (fairseq 0.12 prints wav2vec2 there). A group may have an entry
`_name`, which is read as an argument with the name of the group: the argument lr_scheduler is the
entry `_name` of the group lr_scheduler. In the subgroups `encoder`, `decoder` and `quant_noise` of
the model, the name of the subgroup is put before the name of each argument: embed_dim becomes
encoder_embed_dim.
"""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from aiayn.facts.types import Value

# The groups of a config that a program does not use. Other groups are kept, also unknown groups.
_OTHER_GROUPS: dict[str, frozenset[str]] = {
    "train": frozenset(
        (
            "common_eval",
            "generation",
            "eval_lm",
            "interactive",
            "scoring",
            "bpe",
            "tokenizer",
            "job_logging_cfg",
        )
    ),
    "generate": frozenset(
        (
            "model",
            "optimization",
            "bmuf",
            "criterion",
            "optimizer",
            "lr_scheduler",
            "ema",
            "eval_lm",
            "interactive",
            "job_logging_cfg",
        )
    ),
}
# fairseq-hydra-train prints only the arguments of the model that the user sets. The others have the
# defaults of TransformerConfig (fairseq/models/transformer/transformer_config.py, 0.12).
_HYDRA_MODEL: dict[str, Value] = {
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "share_all_embeddings": False,
    "share_decoder_input_output_embed": False,
}
for _side in ("encoder", "decoder"):
    _HYDRA_MODEL |= {
        f"{_side}_embed_dim": 512,
        f"{_side}_ffn_embed_dim": 2048,
        f"{_side}_layers": 6,
        f"{_side}_attention_heads": 8,
        f"{_side}_normalize_before": False,
        f"{_side}_learned_pos": False,
    }
_NESTED = ("encoder", "decoder", "quant_noise")
_MAX_CHARACTERS = 200  # of a value: `data` may be a long list of shards
_MAX_WHOLE = 10**30  # a larger number is damaged, and three of them multiplied are no float
_STRING = r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\""""
# `<ChoiceEnum.ddp: 'ddp'>` and `???` are not Python, so they become strings.
_NO_PYTHON = re.compile(rf"({_STRING})|<[^<>]*>|\?\?\?")


class Arguments(NamedTuple):
    """The arguments in a start line, the line in which a program of fairseq prints its arguments.

    In `pairs`, the list of arguments with their values, an argument occurs twice if two groups of a
    config state different values for it.
    """

    program: str
    is_config: bool
    pairs: tuple[tuple[str, Value], ...]

    def by_key(self) -> dict[str, Value]:
        """Return the first value of each argument."""
        values: dict[str, Value] = {}
        for key, value in self.pairs:
            values.setdefault(key, value)
        return values


def is_open(text: str) -> bool:
    """Return whether a text opens more brackets than it closes. If brackets are open, the printed
    arguments continue in the next line of the log, or the log was cut.
    """
    num_opened = text.count("(") + text.count("{") + text.count("[")
    return num_opened > text.count(")") + text.count("}") + text.count("]")


def parse_arguments(text: str) -> Arguments:
    """Parse the arguments that a program printed. Return program and arguments. The name of the
    program is '' if it is neither fairseq-train nor fairseq-generate.

    Raises:
        ValueError: if the text is not a complete Namespace or config, the two forms in which
            fairseq prints arguments.
    """
    # A string is matched first and kept, so that a `<` inside a path is not changed.
    python = _NO_PYTHON.sub(lambda found: found[1] or repr(found[0]), text.strip())
    try:
        tree = ast.parse(python, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        raise ValueError("the arguments are cut: no whole Namespace or config") from error
    # The first group that states a key decides, as in fairseq's own Namespace of a config.
    entries = list(_flatten(tree))
    is_config = isinstance(tree, ast.Dict)
    values: dict[str, Value] = {}
    for _, key, value in entries:
        values.setdefault(key, value)
    program = _program_of(values)
    # Only fairseq-hydra-train prints this architecture with a part of its arguments.
    if is_config and program == "train" and values.get("arch") == "transformer":
        is_printed = {key for group, key, _ in entries if group == "model"}
        is_whole = "encoder_normalize_before" in is_printed
        missing = {} if is_whole else _HYDRA_MODEL
        # Keys that the line has are kept: the user set them.
        entries += [
            ("model", key, value) for key, value in missing.items() if key not in is_printed
        ]
    unused_groups = _OTHER_GROUPS.get(program, frozenset()) if is_config else frozenset()
    # If two groups state a key with different values, both are kept, and the reader reports them.
    pairs = {
        (key, str(value)): (key, value)
        for group, key, value in entries
        if group not in unused_groups
    }
    return Arguments(program, is_config, tuple(pairs.values()))


def _flatten(tree: ast.expr, group: str = "", inner: str = "") -> Iterator[tuple[str, str, Value]]:
    """Yield group, name and value of each argument of a config or a Namespace."""
    for key, value in _items(tree):
        # A Namespace within a config is the group `model` of older architectures.
        if _is_group(value):
            nested = key if group and key in _NESTED else ""
            yield from _flatten(value, group or key, nested)
            continue
        number_or_text = _value(value)
        if key != "_name":
            yield group, f"{inner}_{key}" if inner else key, number_or_text
        elif number_or_text is not None and group:
            yield group, "arch" if group == "model" else group, number_or_text


def _items(tree: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(tree, ast.Dict):
        for name, value in zip(tree.keys, tree.values, strict=True):
            yield (str(name.value) if isinstance(name, ast.Constant) else ast.dump(tree)), value
    elif isinstance(tree, ast.Call):
        for keyword in tree.keywords:
            yield keyword.arg or "", keyword.value


def _is_group(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "Namespace"
    return isinstance(value, ast.Dict) and bool(value.keys)


def _value(tree: ast.expr) -> Value:
    """Return the value of an argument from the syntax tree of its printed form. A list with one
    element becomes this element. A value that is neither a number nor a string stays text, such as
    `PosixPath('x')` or `torch.float32`.
    """
    if isinstance(tree, ast.List | ast.Tuple) and len(tree.elts) == 1:
        return _value(tree.elts[0])
    # A negative number is an operator and a number in Python's grammar.
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        number = _value(tree.operand)
        return -number if isinstance(number, int | float) else ast.unparse(tree)
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        # Older versions print switches as text.
        switches = {"True": True, "False": False}
        return switches.get(tree.value, tree.value[:_MAX_CHARACTERS])
    if isinstance(tree, ast.Constant) and isinstance(tree.value, bool | int | float | None):
        is_too_large = isinstance(tree.value, int) and tree.value > _MAX_WHOLE
        return ast.unparse(tree)[:_MAX_CHARACTERS] if is_too_large else tree.value
    # hydra prints YAML's spellings (true, null), which are names to Python.
    text = ast.unparse(tree)[:_MAX_CHARACTERS]
    return {
        "inf": float("inf"),
        "nan": float("nan"),
        "true": True,
        "false": False,
        "null": None,
    }.get(text, text)


def _program_of(values: dict[str, Value]) -> str:
    """Return which program printed these arguments: fairseq-train (`train`), fairseq-generate
    (`generate`), or any other program ('').
    """
    if values.get("path") not in (None, ""):
        # fairseq-interactive has the arguments of generate and a buffer. fairseq-validate has no
        # beam.
        is_session = values.get("buffer_size") not in (None, 0)
        return "generate" if "beam" in values and not is_session else ""
    is_training = bool({"criterion", "task", "lr_scheduler", "max_update"} & values.keys())
    return "train" if "arch" in values and is_training else ""
