"""Extract the templates of fairseq's log lines from its sources, and write what is known of them.

    python -m tests.facts.extract_templates 0.6.1=FOLDER 0.10.2=FOLDER ... (oldest first)

Each FOLDER is an unpacked sdist or a checkout. A template is the text of a call of `print`, of a logger or of
`warnings.warn`, with a typed field for each value. templates.csv classifies them: read or harmless. For each row of
templates.csv whose template is in a source, the script writes the module and the versions of fairseq that print it.
Templates without a row go into tests/facts/unknown_templates.csv: the reader does not know them. Rows that no source
prints (third parties) stay as they are.
"""

import ast
import csv
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from aiayn.facts.templates import TEMPLATES_PATH, compile_template

UNKNOWN_PATH = Path(__file__).with_name("unknown_templates.csv")
# The modules that a training, an averaging or a decoding of text can run.
MODULES = (
    "train.py", "generate.py", "interactive.py", "scripts/average_checkpoints.py",
    "fairseq_cli/train.py", "fairseq_cli/hydra_train.py", "fairseq_cli/generate.py", "fairseq_cli/interactive.py",
    "fairseq_cli/validate.py", "fairseq/*.py", "fairseq/distributed/*.py", "fairseq/logging/*.py",
    "fairseq/dataclass/*.py", "fairseq/data/*.py", "fairseq/models/fairseq_*.py", "fairseq/models/__init__.py",
    "fairseq/models/distributed_fairseq_model.py", "fairseq/models/transformer.py", "fairseq/models/transformer/*.py",
    "fairseq/models/lstm.py", "fairseq/models/fconv.py", "fairseq/modules/*.py", "fairseq/criterions/__init__.py",
    "fairseq/criterions/fairseq_criterion.py", "fairseq/criterions/*cross_entropy.py", "fairseq/optim/*.py",
    "fairseq/optim/lr_scheduler/*.py", "fairseq/scoring/*.py", "fairseq/tasks/__init__.py",
    "fairseq/tasks/fairseq_task.py", "fairseq/tasks/translation.py", "fairseq/tasks/text_to_speech.py",
)  # fmt: skip
LOGGER_METHODS = {"info": "INFO", "warning": "WARNING", "warn": "WARNING", "error": "ERROR"}
# A value of these names is a number; any other value without a format is text.
NUMBERS = re.compile(r"epoch|updates?|num_|len|rank|size|count|seconds|world|scale|total|nsents")
_PERCENT = re.compile(r"%[-+ 0#]*\d*(?:\.\d+)?([sdfgeri%])")
_BRACES = re.compile(r"(?<!\{)\{([^{}:!]*)(?:![rs])?(?::([^{}]*))?\}(?!\})")


class Line(NamedTuple):
    """A line that a source prints: its template, its level and its module."""

    template: str
    level: str
    module: str


def extract(folder: Path) -> Iterator[Line]:
    """Yield the lines that the modules of a source print."""
    for pattern in MODULES:
        for path in sorted(folder.glob(pattern)):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            module = path.relative_to(folder).as_posix()
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and (level := level_of(node)):
                    template = template_of(node)
                    # A line without a word says nothing by which it could be recognised.
                    if template and re.search(r"[A-Za-z]{2}", re.sub(r"\{:\w+\}", "", template)):
                        yield Line(template, level, module)


def level_of(call: ast.Call) -> str:
    """Return the level of a printing call, '' for another call."""
    function = call.func
    if isinstance(function, ast.Name) and function.id == "print" and call.args:
        return "PRINT"
    if not (
        isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and call.args
    ):
        return ""
    owner, method = function.value.id, function.attr
    if owner in {"logger", "logging", "LOG", "log"}:
        return LOGGER_METHODS.get(method, "")
    return "WARNING" if owner == "warnings" and method == "warn" else ""


def template_of(call: ast.Call) -> str:
    """Return the template of a call's message; '' if it is not a literal text."""
    first = call.args[0]
    if isinstance(call.func, ast.Name):
        text = " ".join(text_of(argument) for argument in call.args)
    elif len(call.args) > 1 and isinstance(first, ast.Constant) and "%" in str(first.value):
        text = _percent(str(first.value))
    else:
        text = text_of(first)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    text = re.sub(r"^\| ", "", lines[0]) if lines else ""
    return re.sub(r"(\{:\w+\})+", r"\1", text).strip()


def text_of(node: ast.expr) -> str:
    """Return the text of an expression, with a typed field for each value."""
    match node:
        case ast.Constant(value=value):
            return str(value).replace("{", "{{").replace("}", "}}")
        case ast.JoinedStr(values=values):
            return "".join(text_of(value) for value in values)
        case ast.FormattedValue(value=value, format_spec=spec):
            return _field(ast.unparse(value), ast.unparse(spec) if spec else "")
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return text_of(left) + text_of(right)
        case ast.BinOp(left=ast.Constant(value=str(value)), op=ast.Mod()):
            return _percent(value)
        case ast.Call(func=ast.Attribute(value=value, attr="format")):
            return _formatted(_literal(value), node.args)
    return _field(ast.unparse(node), "")


def _literal(node: ast.expr) -> str:
    """Return a text that `.format` is called on."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _literal(node.left) + _literal(node.right)
    return ""


def _formatted(text: str, arguments: Sequence[ast.expr]) -> str:
    """Return the template of `text.format(*arguments)`."""
    names = iter([ast.unparse(argument) for argument in arguments])

    def replace(match: re.Match[str]) -> str:
        name = match[1] if match[1] and not match[1].isdigit() else next(names, "")
        return _field(name, match[2] or "")

    return _BRACES.sub(replace, text)


def _percent(text: str) -> str:
    """Return the template of a text with `%` formats."""
    types = {"d": "int", "i": "int", "f": "float", "g": "float", "e": "float"}
    return _PERCENT.sub(
        lambda match: "%" if match[1] == "%" else f"{{:{types.get(match[1], 'text')}}}", text
    )


def _field(name: str, spec: str) -> str:
    if re.search(r"[fge%]'?$", spec):
        return "{:float}"
    is_number = spec.endswith(("d", ",", ",'", "d'")) or NUMBERS.search(name)
    return "{:int}" if is_number else "{:text}"


def sample(template: str) -> str:
    """Return a line of a template: the number 1 in each field, which is of every type."""
    line = re.sub(r"\{:\w+\}", "1", template)
    return line.replace("{{", "{").replace("}}", "}")


def read_rows() -> list[dict[str, str]]:
    """Return the rows of templates.csv."""
    with TEMPLATES_PATH.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def patterns_of(rows: Sequence[dict[str, str]]) -> list[re.Pattern[str]]:
    """Return the pattern of each row."""
    return [compile_template(row["template"], row["kind"]).pattern for row in rows]


def place_of(line: Line, patterns: Sequence[re.Pattern[str]]) -> int | None:
    """Return the place of the first row that matches a line, None if it is unknown."""
    text = sample(line.template)
    return next((place for place, found in enumerate(patterns) if found.fullmatch(text)), None)


def main(sources: Sequence[str]) -> None:
    """Read the sources, and write both tables."""
    rows = read_rows()
    patterns = patterns_of(rows)
    versions_by_line: dict[Line, list[str]] = {}
    for source in sources:
        version, _, folder = source.partition("=")
        for line in extract(Path(folder)):
            versions = versions_by_line.setdefault(line, [])
            if version not in versions:
                versions.append(version)
    order = [source.partition("=")[0] for source in sources]
    printed: dict[int, list[tuple[str, str]]] = {}
    unknown = []
    for line, versions in versions_by_line.items():
        place = place_of(line, patterns)
        if place is None:
            unknown.append((line.template, line.level, line.module, _span(versions, order)))
        else:
            printed.setdefault(place, []).extend((version, line.module) for version in versions)
    for place, found in printed.items():
        newest = max(found, key=lambda entry: order.index(entry[0]))
        rows[place]["source"] = newest[1]
        rows[place]["versions"] = _span([version for version, _ in found], order)
    _write(TEMPLATES_PATH, list(rows[0]), [list(row.values()) for row in rows])
    _write(UNKNOWN_PATH, ["template", "level", "source", "versions"], sorted(unknown))
    print(f"{len(versions_by_line)} lines, {len(printed)} rows are printed, {len(unknown)} unknown")


def _span(versions: Sequence[str], order: Sequence[str]) -> str:
    """Return the oldest and the newest of some versions."""
    places = sorted(order.index(version) for version in versions)
    first, last = order[places[0]], order[places[-1]]
    return first if first == last else f"{first}-{last}"


def _write(path: Path, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([names, *rows])


if __name__ == "__main__":
    main(sys.argv[1:])
