"""Turns YAML into typed, frozen specs.

A misspelt, mistyped or missing key is refused with file, line and advice.
"""

import copy
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import inspect

from aiayn.errors import ConfigError, did_you_mean
from aiayn.removed import explain_removed_key

_Spec = TypeVar("_Spec", bound=msgspec.Struct)
_UNKNOWN_FIELD = re.compile(r"unknown field `(?P<key>[^`]+)`")
_MISSING_FIELD = re.compile(r"missing required field `(?P<key>[^`]+)`")
_PLACE = re.compile(r" - at (?P<is_key>`key` in )?`\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\[\.\.\.\]|\[\d+\]|[^.\[]+")
_NUMBER = re.compile(r"[-+]?[\d_]*\.?\d+([eE][-+]?\d+)?")
_LAST_STEP = re.compile(r"(\.|\[)[^.\[]*$")
_ANY_KEY = "[...]"  # msgspec's name for a key of a mapping with free keys
_STRING_TAG = "tag:yaml.org,2002:str"
_NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
# CSafeLoader is SafeLoader over libyaml, ten times as fast. PyYAML may be built without it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Document(msgspec.Struct, frozen=True):
    """A parsed mapping, with `location_by_path` from a key's dotted path to its `file:line`.

    Paths look like `training.p_drop` and `seeds[0]`; the empty path is the document.
    """

    path: Path
    values: dict[str, Any]
    location_by_path: dict[str, str]

    def location(self, dotted_path: str) -> str:
        """Return `file:line` of a key, or of the nearest enclosing key."""
        while dotted_path and dotted_path not in self.location_by_path:
            shorter = _LAST_STEP.sub("", dotted_path)
            dotted_path = shorter if shorter != dotted_path else ""
        return self.location_by_path.get(dotted_path, str(self.path))

    def require(self, dotted_path: str, is_right: bool, value: object, expected: str) -> None:
        """Refuse a key's value.

        Raises:
            ConfigError: unless it is right, with file, line and what was expected.
        """
        if not is_right:
            raise ConfigError(
                f"{self.location(dotted_path)}: {dotted_path} is {value!r}; expected {expected}"
            )


def read_document(path: Path) -> Document:
    """Parse a YAML file that must hold a mapping without repeated keys.

    Raises:
        ConfigError: if the file is absent, unreadable, not YAML or not a mapping, repeats a key, or
            has a key that YAML does not read as text.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file; {_neighbours(path)}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: cannot be read as UTF-8 text: {error}; expected a YAML file"
        ) from error
    location_by_path = {"": f"{path}:1"}
    try:
        loader = _LOADER(text)
        root = loader.get_single_node()
        _record_locations(root, "", path, location_by_path)
        values = None if root is None else loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(
            f"{path}{line}: not YAML: {error.problem}; look for a colon, quote or indent"
        ) from error
    except yaml.YAMLError as error:
        raise ConfigError(
            f"{path}: not YAML: {' '.join(str(error).split())}; write it as plain text"
        ) from error
    if not isinstance(values, dict):
        kind = "nothing" if values is None else type(values).__name__
        raise ConfigError(
            f"{path}:1: expected a mapping of keys to values, found {kind}; write `key: value`"
            " lines"
        )
    return Document(path, values, location_by_path)


def _neighbours(path: Path) -> str:
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist"
    names = sorted(p.stem for p in path.parent.glob("*.yaml") if not p.name.startswith("."))
    return did_you_mean(
        path.stem, names, f"{path.parent} holds: {', '.join(names) or 'no YAML file'}"
    )


def _record_locations(
    node: yaml.Node | None, prefix: str, path: Path, location_by_path: dict[str, str]
) -> None:
    """Record the locations of all keys below a node, and refuse values that PyYAML misreads.

    PyYAML silently keeps the last of repeated keys, and reads the time 2:00:00 as 7200.
    """
    if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBER_TAGS and ":" in node.value:
        raise ConfigError(
            f"{path}:{node.start_mark.line + 1}: {node.value} is {yaml.safe_load(node.value)} to"
            " YAML, which counts by sixties; write the plain number, or put text in quotes"
        )
    if isinstance(node, yaml.SequenceNode):
        for index, item_node in enumerate(node.value):
            location_by_path[f"{prefix}[{index}]"] = f"{path}:{item_node.start_mark.line + 1}"
            _record_locations(item_node, f"{prefix}[{index}]", path, location_by_path)
    if not isinstance(node, yaml.MappingNode):
        return
    first_location_by_key: dict[str, str] = {}
    for key_node, value_node in node.value:
        location = f"{path}:{key_node.start_mark.line + 1}"
        if key_node.tag != _STRING_TAG:  # YAML does not read no, 1, ~ and << as text
            kind = key_node.tag.rpartition(":")[2]
            raise ConfigError(
                f"{location}: key {key_node.value!r} is a {kind} to YAML, not text; put it in"
                " quotes"
            )
        key = key_node.value
        if key in first_location_by_key:
            raise ConfigError(
                f"{location}: {key!r} is given twice (first at {first_location_by_key[key]});"
                " keep one"
            )
        first_location_by_key[key] = location
        dotted_path = f"{prefix}.{key}" if prefix else key
        location_by_path[dotted_path] = location
        _record_locations(value_node, dotted_path, path, location_by_path)


def overlay(base: Document, top: Document) -> Document:
    """Return `base` with the keys of `top` over it; mappings are merged, other values replaced."""

    def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
        merged = dict(below)
        for key, value in above.items():
            both_mappings = isinstance(value, dict) and isinstance(below.get(key), dict)
            merged[key] = merge(below[key], value) if both_mappings else value
        return merged

    return Document(
        top.path, merge(base.values, top.values), base.location_by_path | top.location_by_path
    )


def convert(document: Document, spec_type: type[_Spec], *, strict: bool = True) -> _Spec:
    """Turn a document into a spec; refuse unknown keys, wrong types and missing keys.

    With `strict` false, text that spells a number is read as the number.

    Raises:
        ConfigError: with file, line, the wrong value, and what may have been meant.
    """
    try:
        return msgspec.convert(document.values, spec_type, strict=strict)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(str(error), document, spec_type, strict)) from error


def _explain(
    message: str, document: Document, spec_type: type[msgspec.Struct], strict: bool
) -> str:
    """Return msgspec's message with its location, and what may have been meant."""
    place = _PLACE.search(message)
    steps = _STEP.findall(place["path"]) if place else []
    is_key = place is not None and place["is_key"] is not None
    steps = _named_steps(
        [*steps, _ANY_KEY] if is_key else steps, message, document.values, spec_type, strict
    )
    dotted_path = _dotted(steps)
    if unknown := _UNKNOWN_FIELD.search(message):
        location = document.location(_dotted([*steps, unknown["key"]]))
        if removed := explain_removed_key(unknown["key"]):
            return f"{location}: {removed}"
        known = _fields_of(_types_at(spec_type, steps))
        hint = did_you_mean(unknown["key"], known, f"known keys: {', '.join(known)}")
        return f"{location}: unknown key {unknown['key']!r}; {hint}"
    location = document.location(dotted_path)
    if missing := _MISSING_FIELD.search(message):
        where = f" under {dotted_path!r}" if dotted_path else ""
        return f"{location}: missing key {missing['key']!r}{where}; add it"
    if is_key:
        value, choices = steps[-1], _keys_at(spec_type, steps[:-1])
        dotted_path = f"a key of {_dotted(steps[:-1])}"
    else:
        value, choices = _value_at(document.values, steps), _choices_at(spec_type, steps)
    if choices and isinstance(value, str):
        hint = did_you_mean(value, choices, f"expected one of: {', '.join(choices)}")
        return f"{location}: {dotted_path}: {value!r}; {hint}"
    spells_number = isinstance(value, str) and _NUMBER.fullmatch(value) is not None
    advice = (
        "to YAML it is text: write 1.0e-9 for 1e-9, and no quotes"
        if spells_number
        else "correct it"
    )
    return f"{location}: {dotted_path}: {value!r}: {_PLACE.sub('', message)}; {advice}"


def _dotted(steps: Sequence[str]) -> str:
    """Join steps to a path: `a`, `b`, `[0]` to `a.b[0]`."""
    return "".join(step if step.startswith("[") else f".{step}" for step in steps).removeprefix(".")


def _named_steps(
    steps: Sequence[str], message: str, values: Any, spec_type: type[msgspec.Struct], strict: bool
) -> list[str]:
    """Return the steps to the value that msgspec refuses, with the keys that it does not name.

    To find such a key, the mapping is reduced to a single key, each in turn, until msgspec's
    message is the same.
    """
    values, named = copy.deepcopy(values), []
    for step in steps:
        named.append(step)
        if step == _ANY_KEY:
            mapping: dict[str, Any] = _value_at(values, named[:-1])
            for named[-1], value in list(mapping.items()):
                mapping.clear()
                mapping[named[-1]] = value
                try:
                    msgspec.convert(values, spec_type, strict=strict)
                except msgspec.ValidationError as error:
                    if str(error) == message:
                        break
    return named


def _value_at(values: Any, steps: Iterable[str]) -> Any:
    for step in steps:
        if isinstance(values, dict):
            values = values.get(step)
        elif isinstance(values, list):
            values = values[int(step.strip("[]"))]
    return values


def _types_at(spec_type: type[msgspec.Struct], steps: Iterable[str]) -> list[inspect.Type]:
    """Return the types of the value at these steps; a union gives several."""
    types = _members(inspect.type_info(spec_type))
    for step in steps:
        inner: list[inspect.Type] = []
        for outer in types:
            if isinstance(outer, inspect.StructType):
                inner += [field.type for field in outer.fields if field.encode_name == step]
            elif isinstance(outer, inspect.DictType):
                inner.append(outer.value_type)
            elif isinstance(outer, inspect.ListType):
                inner.append(outer.item_type)
        types = []
        for member_or_union in inner:
            types += _members(member_or_union)
    return types


def _members(type_: inspect.Type) -> list[inspect.Type]:
    return list(type_.types) if isinstance(type_, inspect.UnionType) else [type_]


def _fields_of(types: Iterable[inspect.Type]) -> list[str]:
    fields: dict[str, None] = {}
    for type_ in types:
        if isinstance(type_, inspect.StructType):
            fields |= dict.fromkeys(field.encode_name for field in type_.fields)
    return list(fields)


def _literals(types: Iterable[inspect.Type]) -> list[str]:
    words: list[str] = []
    for type_ in types:
        if isinstance(type_, inspect.LiteralType):
            words += [str(value) for value in type_.values if str(value) not in words]
    return words


def _keys_at(spec_type: type[msgspec.Struct], steps: Sequence[str]) -> list[str]:
    """Return the words that are allowed as keys of a mapping."""
    words: list[str] = []
    for type_ in _types_at(spec_type, steps):
        if isinstance(type_, inspect.DictType):
            words += _literals(_members(type_.key_type))
    return words


def _choices_at(spec_type: type[msgspec.Struct], steps: Sequence[str]) -> list[str]:
    """Return the words that are allowed as a key's value.

    They are the values of a Literal, or the kinds of a union of structs.
    """
    types = _types_at(spec_type, steps)
    words = _literals(types)
    if words and any(isinstance(type_, inspect.IntType) for type_ in types):
        words.append("a whole number")
    if words:
        return words
    outer_types = _types_at(spec_type, steps[:-1])
    structs = [type_ for type_ in outer_types if isinstance(type_, inspect.StructType)]
    return [str(struct.tag) for struct in structs if struct.tag_field in steps[-1:]]
