"""Compares a line of a log with templates of the lines that fairseq's source code prints.

templates.csv has one template a line: `num. model params: {num_parameters:int} (num. trained:
{num_trained:int})`. A template matches a whole message, which is a line of a log without its time,
level and logger. The fields of a template (in braces) have types, and the value of a field without
a name is not kept. If a template of the kind `read` matches a line, the values of its named fields
become facts. A line that matches a template of the kind `harmless` does not affect any number. A
line that no template matches is called unknown.
"""

import csv
import re
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


class Template(NamedTuple):
    """A template for a line of a log: its regular expression, the types of its named fields, and
    its kind (`read` or `harmless`).
    """

    pattern: re.Pattern[str]
    type_by_name: dict[str, str]
    kind: str


def match_template(message: str, templates: list[Template]) -> tuple[str, dict[str, Value]] | None:
    """Return the kind of the first template that matches the whole message, and the values of its
    named fields, or None if no template matches.
    """
    for template in templates:
        if match := template.pattern.fullmatch(message):
            # Fields without a name have no group, so they are dropped here.
            fields = match.groupdict()
            types = template.type_by_name
            return template.kind, {name: _convert(fields[name], types[name]) for name in types}
    return None


def compile_template(text: str, kind: str) -> Template:
    """Return the template that a text with fields in braces describes.

    Raises:
        ValueError: if a field of the template has an unknown type.
    """
    pattern = ""
    type_by_name: dict[str, str] = {}
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
        pattern += f"(?P<{name}>{inner})" if name else f"(?:{inner})"
        if name:
            type_by_name[name] = type_name
        end = field.end()
    return Template(re.compile(pattern + _literal(text[end:])), type_by_name, kind)


def _literal(text: str) -> str:
    """Return a regular expression for the literal text between the fields of a template. A space
    matches any number of spaces, because fairseq aligns columns.
    """
    # Braces are doubled in the table, as in Python's own templates.
    plain = text.replace("{{", "{").replace("}}", "}")
    return re.sub(r"(?:\\ )+", r"\\s+", re.escape(plain))


def _convert(text: str, type_name: str) -> Value:
    if type_name == "int":
        return int(text.replace(",", ""))
    if type_name == "float":
        return float(text.replace(",", "").rstrip("%"))
    return text


def read_templates(path: Path = TEMPLATES_PATH) -> list[Template]:
    """Return the templates in a CSV table, in the order of its rows."""
    with path.open(encoding="utf-8", newline="") as lines:
        return [compile_template(row["template"], row["kind"]) for row in csv.DictReader(lines)]
