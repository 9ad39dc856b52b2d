"""Reads YAML files as typed structs, called specs.

A key that is misspelt or missing, or a value of a wrong type, raises an error with file, line and
advice.
"""

import re
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

from aiayn.errors import ConfigError, did_you_mean, require_no_password
from aiayn.packed import read_bounded

MAX_BYTES = 1 << 20
MAX_DEPTH = 50
_Spec = TypeVar("_Spec", bound=msgspec.Struct)
# msgspec's message is, for example, "Object missing required field `seed` - at `$.training`".
_MISSING_FIELD = re.compile(r"missing required field `(?P<key>[^`]+)`")
# A number as people write it, such as 1e-9, 1_000 or .5.
_NUMBER = re.compile(r"[-+]?[\d_]*\.?\d+([eE][-+]?\d+)?")
_STRING_TAG = "tag:yaml.org,2002:str"
_NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
# CSafeLoader is SafeLoader over libyaml, ten times as fast. PyYAML may be built without it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# PyYAML does not catch Python's own errors about values such as 0x_ and 2024-13-41.
YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError)


class Document(msgspec.Struct, frozen=True):
    """A parsed YAML file. The dict `location_by_path` has the file and line number of each key, by
    the key's dotted path.

    For example, training.p_drop is the dotted path of the key p_drop below the key training. The
    empty path stands for the whole document.
    """

    path: Path
    values: dict[str, Any]
    location_by_path: dict[str, str]

    def location(self, dotted_path: str) -> str:
        """Return the file and line number of a key, in the form `file:line`. If the key is not in
        the file, return the location of the nearest enclosing key.
        """
        while dotted_path and dotted_path not in self.location_by_path:
            dotted_path = dotted_path.rpartition(".")[0]
        return self.location_by_path.get(dotted_path, str(self.path))

    def require(self, dotted_path: str, is_right: bool, value: object, expected: str) -> None:
        """Raise an error if the value of a key in the YAML file is wrong.

        Raises:
            ConfigError: if the argument `is_right` is false. The message contains file, line and
                what was expected.
        """
        if not is_right:
            raise ConfigError(
                f"{self.location(dotted_path)}: {dotted_path} is {value!r}; expected {expected}"
            )


def read_document(path: Path) -> Document:
    """Parse a YAML file, which must contain a mapping without repeated keys.

    Raises:
        ConfigError: if the file is absent, unreadable, not YAML or not a mapping, if a key occurs
            twice, or if YAML does not read a key as text.
    """
    try:
        # Bounded, because the path may be a device or a file of any size.
        text = read_bounded(path, MAX_BYTES).decode("utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file; {_neighbours(path)}") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise ConfigError(
            f"{path}: cannot be read as UTF-8 text: {error}; expected a YAML file"
        ) from error
    location_by_path = {"": f"{path}:1"}
    try:
        # Before the parse below, which would need memory and stack for such a document.
        _check_nesting(path, text)
        loader = _LOADER(text)
        root = loader.get_single_node()
        _record_locations(root, "", path, location_by_path)
        values = None if root is None else loader.construct_document(root)
    except YAML_ERRORS as error:  # a wrong value or a character that YAML forbids has no mark
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", "") or " ".join(str(error).split())
        raise ConfigError(
            f"{path}{line}: not YAML: {problem}; look for a colon, quote, indent or odd character"
        ) from error
    # An empty file is None, and a file of one word is a string.
    if not isinstance(values, dict):
        kind = "nothing" if values is None else type(values).__name__
        raise ConfigError(
            f"{path}:1: expected a mapping of keys to values, found {kind}; write `key: value`"
            " lines"
        )
    return Document(path, values, location_by_path)


def _check_nesting(path: Path, text: str) -> None:
    """Check that a YAML text is not nested too deeply and has no aliases (`*name`). With aliases, a
    small file can expand to a huge document.

    Raises:
        ConfigError: if the YAML is nested too deeply or has aliases. The message contains the line.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        # Events are read one after the other, so this check itself needs no memory for deep
        # documents.
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH or isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1 if event.start_mark else 1
            problem = f"more than {MAX_DEPTH} levels" if depth > MAX_DEPTH else "an alias (*name)"
            raise ConfigError(f"{path}:{line}: {problem}; write plain values, without aliases")


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
    """Record the locations (file and line) of all keys below a node of a YAML document, and raise
    an error for keys and values that PyYAML misreads.

    If a key is repeated, PyYAML silently keeps the last value. PyYAML reads the time 2:00:00 as the
    number 7200.
    """
    # YAML 1.1 reads `2:00:00` as a number to the base 60, so a time limit would become 7200.
    if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBER_TAGS and ":" in node.value:
        raise ConfigError(
            f"{path}:{node.start_mark.line + 1}: {node.value} is {yaml.safe_load(node.value)} to"
            " YAML, which counts by sixties; write the plain number, or put text in quotes"
        )
    # Items of a list have no key. Errors about them show the line of the list's key.
    if isinstance(node, yaml.SequenceNode):
        for item_node in node.value:
            _record_locations(item_node, prefix, path, location_by_path)
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
    """Return a document with the keys of two documents, `base` and `top`. For a key in both
    documents, mappings are merged, and any other value is taken from `top`.
    """

    def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
        merged = dict(below)
        for key, value in above.items():
            # Lists are replaced as a whole, because nobody can say which items were meant to stay.
            both_mappings = isinstance(value, dict) and isinstance(below.get(key), dict)
            merged[key] = merge(below[key], value) if both_mappings else value
        return merged

    return Document(
        top.path, merge(base.values, top.values), base.location_by_path | top.location_by_path
    )


def convert(document: Document, spec_type: type[_Spec], *, strict: bool = True) -> _Spec:
    """Convert a parsed YAML file to a typed struct (a spec). Unknown keys, wrong types and missing
    keys are errors.

    If `strict` is false, a text such as "5" is accepted for a number.

    Raises:
        ConfigError: if a key or value is wrong. The message contains file, line, the wrong value,
            and what may have been meant.
    """
    # Checked before the conversion, because errors of the conversion repeat the wrong value.
    _require_no_passwords(document, "", document.values)
    try:
        return msgspec.convert(document.values, spec_type, strict=strict)
    except msgspec.ValidationError as error:
        refusal = _explain(document, "", document.values, spec_type, str(error), strict)
        raise ConfigError(refusal) from error


def _require_no_passwords(document: Document, dotted_path: str, value: object) -> None:
    """Raise an error if any value of a YAML file, also in a list or a mapping, is a URL with a
    password.
    """
    if isinstance(value, str):
        require_no_password(value, f"{document.location(dotted_path)}: {dotted_path}")
    elif isinstance(value, dict):
        for key, member in value.items():
            _require_no_passwords(document, f"{dotted_path}.{key}".lstrip("."), member)
    elif isinstance(value, list):
        for member in value:
            _require_no_passwords(document, dotted_path, member)


def _explain(
    document: Document, path: str, value: Any, type_: Any, message: str, strict: bool
) -> str:
    """Return the error message about a wrong value in a YAML file: the location of the value and
    the probable correction. The argument `message` is the error of the library msgspec.

    The function looks for the smallest part of the document that msgspec rejects, because msgspec's
    message about the whole document does not contain the keys of a mapping whose keys are not
    fixed.
    """
    type_by_key = _type_by_key(value, type_) if isinstance(value, dict) else {}
    parts = [
        (f"{path}.{key}" if path else key, value[key], inner_type)
        for key, inner_type in type_by_key.items()
        if key in value
    ]
    # The first part that msgspec refuses contains the error, so the search goes on inside it.
    for part_path, part, part_type in parts:
        try:
            msgspec.convert(part, part_type, strict=strict)
        except msgspec.ValidationError as error:
            return _explain(document, part_path, part, part_type, str(error), strict)
    # All parts are right, so an unknown or a missing key may be wrong.
    for key in value if type_by_key else ():
        if key not in type_by_key:
            location = document.location(f"{path}.{key}" if path else key)
            keys = list(type_by_key)
            hint = did_you_mean(key, keys, f"known keys: {', '.join(keys)}")
            return f"{location}: unknown key {key!r}; {hint}"
    location = document.location(path)
    if missing := _MISSING_FIELD.search(message):
        where = f" under {path!r}" if path else ""
        return f"{location}: missing key {missing['key']!r}{where}; add it"
    # A misspelt word of a fixed set: the nearest word is the likely one.
    choices = _choices(type_)
    if choices and isinstance(value, str):
        hint = did_you_mean(value, choices, f"expected one of: {', '.join(choices)}")
        return f"{location}: {path}: {value!r}; {hint}"
    # YAML 1.1 reads 1e-9 as text, because it has no point.
    spells_number = isinstance(value, str) and _NUMBER.fullmatch(value) is not None
    advice = "correct it"
    if spells_number:
        advice = "to YAML it is text: write 1.0e-9 for 1e-9, and no quotes"
    elif "`array`" in message:
        advice = "write a list: [VALUE]"
    return f"{location}: {path}: {value!r}: {message}; {advice}"


def _members(type_: Any) -> list[Any]:
    """Return the types of a union type, or a list with the type itself if it is not a union."""
    # `Count | None` is a union of a type with limits (Annotated) and None.
    if get_origin(type_) is Annotated:
        return _members(get_args(type_)[0])
    if get_origin(type_) not in (Union, UnionType):
        return [type_]
    return [inner for member in get_args(type_) for inner in _members(member)]


def _type_by_key(mapping: dict[str, Any], type_: Any) -> dict[str, Any]:
    """Return the keys that a mapping in a YAML file may have, with the type of each key's value. If
    several structs are possible, the mapping's tag (such as `kind`) selects one of them.
    """
    type_by_key: dict[str, Any] = {}
    tags: list[Any] = []
    for member in _members(type_):
        # `dict[Literal["tgz", "zip"], ...]` allows these keys only, `dict[str, ...]` allows any
        # key.
        if get_origin(member) is dict:
            key_type, value_type = get_args(member)
            type_by_key = dict.fromkeys(_choices(key_type) or mapping, value_type)
        elif isinstance(member, type) and issubclass(member, msgspec.Struct):
            config = member.__struct_config__
            # The tag, such as `kind`, chooses among the structs of a union.
            if config.tag is not None:
                tags.append(config.tag)
                type_by_key[str(config.tag_field)] = Literal[tuple(tags)]
            if config.tag in (None, mapping.get(str(config.tag_field))):
                fields = msgspec.structs.fields(member)
                type_by_key |= {field.encode_name: field.type for field in fields}
    return type_by_key


def _choices(type_: Any) -> list[str]:
    """Return the words that a type allows, if it is a Literal or a union with Literals."""
    literals = [member for member in _members(type_) if get_origin(member) is Literal]
    return [str(word) for literal in literals for word in get_args(literal)]
