"""Matches a line that a program prints against the line templates of fairseq's sources.

templates.csv has one template a line: `num. model params: {num_parameters:int} (num. trained:
{num_trained:int})`. A template matches a whole message, which is a line without its time, level and
logger. Its fields are typed, and a field without a name is not kept. A `read` template makes a fact
of each named field. A `harmless` line changes no number. A line that no template matches is
unknown.
"""

import csv
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from aiayn.facts.types import Value

TEMPLATES_PATH = Path(__file__).with_name("templates.csv")
_PATTERN_BY_TYPE = {
    "int": r"\d[\d,]{0,20}",
    "float": r"(?:-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?|-?\.\d+|nan|-?inf)%?",
    "word": r"\S+",
    "path": r"\S.*?",
    "text": r".*?",
    "rest": r".*",
}
_FIELD = re.compile(r"\{(\w*):(\w+)\}")
_NUM_KEY_CHARACTERS = 4  # templates are looked up by so many first characters


class Match(NamedTuple):
    """The result of matching a line with a template: the kind of the template, and its named fields
    with their values.
    """

    kind: str
    fields: tuple[tuple[str, Value], ...]


class Template(NamedTuple):
    """One template: its pattern, the names and types of its fields, and whether it is read."""

    pattern: re.Pattern[str]
    types: tuple[tuple[str, str], ...]
    kind: str


class Templates:
    """All templates, looked up by the beginning of a message. The first that matches counts."""

    def __init__(self, rows: Iterable[tuple[str, str]]) -> None:
        self._by_beginning: dict[str, list[Template]] = {}
        for text, kind in rows:
            beginning = _FIELD.split(text, maxsplit=1)[0]
            word = beginning.replace("{{", "{").replace("}}", "}").split(" ")[0]
            key = word[:_NUM_KEY_CHARACTERS]
            self._by_beginning.setdefault(key, []).append(compile_template(text, kind))

    def match(self, message: str) -> Match | None:
        """Return what the first template that matches the whole message finds."""
        for length in range(_NUM_KEY_CHARACTERS, -1, -1):
            for template in self._by_beginning.get(message[:length], ()):
                if len(message) < length:
                    continue
                if match := template.pattern.fullmatch(message):
                    values = zip(template.types, match.groups(), strict=True)
                    fields = [(name, _convert(text, kind)) for (name, kind), text in values]
                    return Match(template.kind, tuple(fields))
        return None


def compile_template(text: str, kind: str) -> Template:
    """Return a template with its pattern.

    Raises:
        ValueError: if a field has a type that is not known.
    """
    pattern = ""
    types: list[tuple[str, str]] = []
    end = 0
    for field in _FIELD.finditer(text):
        name, type_name = field.groups()
        if type_name not in _PATTERN_BY_TYPE:
            raise ValueError(
                f"{text}: {type_name} is not a type of a field; write one of"
                f" {', '.join(_PATTERN_BY_TYPE)}"
            )
        pattern += _literal(text[end : field.start()])
        inner = _PATTERN_BY_TYPE[type_name]
        pattern += f"({inner})" if name else f"(?:{inner})"
        if name:
            types.append((name, type_name))
        end = field.end()
    return Template(re.compile(pattern + _literal(text[end:])), tuple(types), kind)


def _literal(text: str) -> str:
    """Return the pattern of literal text. A space matches any number: fairseq aligns columns."""
    plain = text.replace("{{", "{").replace("}}", "}")
    return re.sub(r"(?:\\ )+", r"\\s+", re.escape(plain))


def _convert(text: str, type_name: str) -> Value:
    if type_name == "int":
        return int(text.replace(",", ""))
    if type_name == "float":
        return float(text.replace(",", "").rstrip("%"))
    return text


def read_templates(path: Path = TEMPLATES_PATH) -> Templates:
    """Return the templates of a table, in its order."""
    with path.open(encoding="utf-8", newline="") as lines:
        return Templates((row["template"], row["kind"]) for row in csv.DictReader(lines))
