"""Parses the arguments that a program of fairseq prints at its start; it evaluates no code.

Two forms are read: `Namespace(adam_eps=1e-09, arch='transformer', ...)` up to 0.10, and the config
`{'_name': None, 'common': {'seed': 1, ...}, 'model': Namespace(...), ...}` after it. A config has
groups that its program does not use (fairseq-train prints `beam`, fairseq-generate `lr`): these are
left out. The `_name` of a group
is the value of the group: `lr_scheduler` is the `_name` of that group. Below the model's `encoder`,
`decoder` and `quant_noise`, `embed_dim` becomes `encoder_embed_dim`.

arguments.csv lists every argument that fairseq 0.6.1 to 0.12.2 prints for translation, with its
default and its role.
"""

import functools
import hashlib
import re
from pathlib import Path
from typing import Literal

import msgspec

from aiayn.logs.types import Argument
from aiayn.printed import read_rows

ARGUMENTS_PATH = Path(__file__).parent / "arguments.csv"
Program = Literal[
    "train", "generate", "interactive", "validate", "preprocess", "average", "score", ""
]
# How an argument enters a comparison. `symbol`: as one of the paper's symbols. `model`, `training`,
# `data`, `dev`, `search`, `scoring`: it changes these, unless its value is allowed. `rows`,
# `limit`, `first-rate`, `begin`, `validation`, `checked`: other quantities show its effect.
# `harmless`, `place`, `unused`: any value will do.
Role = Literal[
    "symbol",
    "model",
    "training",
    "data",
    "dev",
    "search",
    "scoring",
    "rows",
    "limit",
    "first-rate",
    "begin",
    "validation",
    "checked",
    "harmless",
    "place",
    "unused",
]
COMPARED_ROLES = ("model", "training", "data", "dev", "search", "scoring")
_SAMPLING_KEYS = (
    "seed",
    "valid_subset",
    "source_lang",
    "target_lang",
    "batch_size",
    "max_sentences",
)
_MAX_ARGUMENT_CHARACTERS = 200  # of a value; `data` may be a long list of shards
# The groups of a config that a program uses. The others hold defaults of other programs.
_COMMON_GROUPS = ("common", "distributed_training", "dataset", "checkpoint", "model", "task")
GROUPS_BY_PROGRAM: dict[str, tuple[str, ...]] = {
    "train": (
        *_COMMON_GROUPS,
        "optimization",
        "bmuf",
        "criterion",
        "optimizer",
        "lr_scheduler",
        "ema",
    ),
    "generate": (*_COMMON_GROUPS, "common_eval", "generation", "scoring", "bpe", "tokenizer"),
}

# One step of the scanner: a key with a value or with what opens a group, what closes or opens a
# group, or a bare string. Strings are taken whole, so that a key inside a string ('{"beam": 5}') is
# not read as an argument.
_STRING = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_STEP = re.compile(
    rf"""['"]?(\w+)['"]?\s*[:=]\s*(?:({_STRING}|(?>[^\s,(){{}}\[\]'"<]+)(?!\()|\[[^\[\]]*\]|\([^()]*\)|<[^<>]*>)"""
    rf"""|(\w*\(|\{{))|([}})])|([{{(])|(?:{_STRING})"""
)
_CONSTANTS: dict[str, Argument] = {"none": None, "null": None, "true": True, "false": False}
_NESTED = ("encoder", "decoder", "quant_noise")


class KnownArgument(msgspec.Struct, frozen=True, dict=True):
    """An argument of a program: its defaults by version, its role, the allowed values in JSON (''
    for any), and why.
    """

    key: str
    program: Literal["train", "generate"]
    default: str
    role: Role
    allowed: str
    reason: str

    @functools.cached_property
    def allowed_values(self) -> list[Argument] | None:
        """The values at which it changes nothing; None if any value will do, or if other quantities
        show it.
        """
        return msgspec.json.decode(self.allowed) if self.allowed else None


def _known_arguments() -> dict[str, dict[str, KnownArgument]]:
    known: dict[str, dict[str, KnownArgument]] = {"train": {}, "generate": {}}
    for _, row in read_rows(ARGUMENTS_PATH, KnownArgument):
        known[row.program][row.key] = row
    return known


KNOWN_ARGUMENTS = _known_arguments()


class ParsedArguments(dict[str, Argument]):
    """The arguments by key; `digest` is over all that can decide a result, whatever their order."""

    program: Program = ""
    is_config: bool = False
    digest: str = ""


def is_open(text: str) -> bool:
    """Return whether more brackets open than close: the arguments go on in the next line, or were
    cut.
    """
    num_opened = text.count("(") + text.count("{") + text.count("[")
    return num_opened > text.count(")") + text.count("}") + text.count("]")


def parse_arguments(text: str) -> ParsedArguments:
    """Return the arguments of a printed Namespace or config, without those of groups that its
    program does not use.
    """
    text_by_group = _scan(text)
    is_config = text.startswith("{")
    everything = {key: value for values in text_by_group.values() for key, value in values.items()}
    program = _program_of(everything, is_config=is_config)
    groups = GROUPS_BY_PROGRAM.get(program) if is_config else None
    parsed = ParsedArguments()
    parsed.program, parsed.is_config = program, is_config
    for group, values in text_by_group.items():
        if groups is None or group in groups:
            for key, value in values.items():
                parsed.setdefault(key, parse_value(value))
    deciding = "\n".join(f"{key}={parsed[key]}" for key in sorted(parsed) if _decides(program, key))
    parsed.digest = hashlib.blake2b(deciding.encode(), digest_size=8).hexdigest()
    return parsed


def _scan(text: str) -> dict[str, dict[str, str]]:
    """Return the printed values by key, by the group of the config that they are in ('' in a
    Namespace).
    """
    text_by_group: dict[str, dict[str, str]] = {}
    opened_groups: list[str] = []
    for step in _STEP.finditer(text):
        key, value, opened, closed, bare = step.groups()
        if value is not None:
            group = opened_groups[1] if len(opened_groups) > 1 else ""
            inner = opened_groups[-1] if opened_groups else ""
            if key == "_name" and value == "None":
                key = ""
            elif key == "_name":
                key = {"model": "arch"}.get(inner, inner)
                group = inner if len(opened_groups) > 1 else group
            elif inner in _NESTED:
                key = f"{inner}_{key}"
            if key:
                text_by_group.setdefault(group, {}).setdefault(key, value)
        elif closed is not None:
            if opened_groups:
                opened_groups.pop()
        elif opened is not None or bare is not None:
            opened_groups.append(key or "")
    return text_by_group


def _program_of(text_by_key: dict[str, str], *, is_config: bool) -> Program:
    """Return the program that prints such arguments; '' for a program that is not fairseq's."""
    if "trainpref" in text_by_key and "destdir" in text_by_key:
        return "preprocess"
    if "inputs" in text_by_key and "output" in text_by_key:
        return "average"
    if "sys" in text_by_key and "ref" in text_by_key:
        return "score"
    if text_by_key.get("path", "None") not in ("None", "''"):
        if "beam" not in text_by_key:
            return "validate"
        return "interactive" if "buffer_size" in text_by_key and not is_config else "generate"
    is_training = bool({"criterion", "task", "lr_scheduler", "max_update"} & text_by_key.keys())
    return "train" if "arch" in text_by_key and is_training else ""


def _decides(program: str, key: str) -> bool:
    known = KNOWN_ARGUMENTS.get(program, {}).get(key)
    if known is None or key in _SAMPLING_KEYS:
        return True
    return (
        known.role in (*COMPARED_ROLES, "symbol", "rows", "limit", "first-rate")
        and key != "max_update"
    )


def parse_value(text: str) -> Argument:
    """Return a printed Python value, or hydra's. A list with a single element is that element, a
    longer one is text.
    """
    lower = text.lower()
    if lower in _CONSTANTS:
        return _CONSTANTS[lower]
    if text[:1] in ("'", '"'):
        inner = text[1:-1]
        return {"True": True, "False": False}.get(inner, inner[:_MAX_ARGUMENT_CHARACTERS])
    if text[:1] in ("[", "("):
        items = [item.strip() for item in text[1:-1].split(",") if item.strip()]
        return parse_value(items[0]) if len(items) == 1 else text[:_MAX_ARGUMENT_CHARACTERS]
    text = text[:_MAX_ARGUMENT_CHARACTERS]  # Python refuses numbers of thousands of digits
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text
