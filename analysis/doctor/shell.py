"""Splits a shell script, a pasted line or a page with commands in it into commands: nothing is run.

The part of the POSIX shell in which trainings are started is read: continued lines, quotes, comments, assignments and
their expansion (with defaults and integer arithmetic), arrays, pipes and redirections, `for` (its first value). What
is known only in a run (`$1`, `$(...)`) stays in the word as written. Fences and prompts of a pasted page are
omitted; its prose becomes commands that match no program.

Variables are put in place in the text of a line, without its redirections and comments; `shlex` splits what results.
"""

import ast
import io
import operator
import re
import shlex
from collections.abc import Iterator

import msgspec

from aiayn.errors import CommandError

MAX_JOINED_LINES = 400  # that one quotation or array may span
_FENCE = re.compile(r"\s*(?:```|~~~)")
_PROMPT = re.compile(r"^\s*(?:\$|%|>)\s+(?=\S)")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_DECLARATIONS = ("export", "local", "declare", "readonly", "typeset")
_DECLARING = re.compile(rf"\s*(?:(?:{'|'.join(_DECLARATIONS)})\s+)?[A-Za-z_]\w*\+?=")
_VARIABLE = re.compile(r"\$(?:(\w+|[@*#?$!])|\{(\w+|[@*#?])(\[[@*\d]+\])?(:?[-=+?][^{}]*)?\})")
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\[ \t]*$")  # blanks after it are a slip of whoever pasted the line
_FOR = re.compile(r"\s*for\s+(\w+)\s+in\s+(.*?)\s*(?:;|$)")
_SUBSTITUTION = re.compile(r"\$\(\(.*?\)\)|\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`")
_PART = re.compile(
    rf"""(?P<single>'[^']*'|\\.)
    | (?P<double>"(?:\\.|[^"\\])*")
    | (?P<comment>(?<!\S)\#[^\n]*)
    | (?P<substitution>{_SUBSTITUTION.pattern})
    | (?P<variable>{_VARIABLE.pattern})
    | (?P<redirection>(?:(?<!\S)\d)?(?:&>>?|>>?&?|<<?<?-?&?)[ \t]*(?:"[^"]*"|'[^']*'|[^\s;|&()<>'"]*))""",
    re.VERBOSE | re.DOTALL,
)
_ASSIGNED = re.compile(r"(?:^|[\s;])[A-Za-z_]\w*\+?=\S*$")  # before a variable that is not split at blanks
_OPERATORS = ";|&()"
_ARITHMETIC = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


class Word(msgspec.Struct, frozen=True):
    """A word as the program gets it, and its line, from 1."""

    text: str
    line: int


class ShellCommand(msgspec.Struct, frozen=True):
    """A simple command: its words, and the variables that were set before it or for it."""

    words: tuple[Word, ...]
    variables: dict[str, str]

    @property
    def line(self) -> int:
        """The line in which it begins."""
        return self.words[0].line


def split_commands(text: str, place: str) -> list[ShellCommand]:
    """Return the commands of a text in their order.

    Raises:
        CommandError: if the text ends within a command: it was cut.
    """
    variables: dict[str, str] = {}
    commands: list[ShellCommand] = []
    for line, written in _logical_lines(text, place):
        logical = _with_arrays(written) if _DECLARING.match(written) else written
        if found := _FOR.match(logical):
            values = _words(found[2], line, variables)
            variables[found[1]] = values[0][0].text if values else ""
        for words in _words(logical, line, variables):
            commands += _command(words, variables)
    return commands


def split_words(text: str, line: int) -> list[Word]:
    """Return the words of a command inside a word, such as that of `bash -c`."""
    return [Word(word.text, line) for words in _words(text, line, {}) for word in words]


def _logical_lines(text: str, place: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of lines as the shell joins them; line feeds are kept, so that lines can be counted."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
    first = 0
    while first < len(lines):
        last = first
        logical = "" if _FENCE.match(lines[first]) else _PROMPT.sub("", lines[first], count=1)
        while _CONTINUED.search(logical) and not logical.lstrip().startswith("#"):
            last += 1
            if last == len(lines):
                raise CommandError(
                    f"{place}:{last}: the file ends in a continued line (`\\`): is it cut? Give the whole command, "
                    f"or remove that `\\`"
                )
            logical = _CONTINUED.sub("", logical) + "\n" + lines[last]
        closed = _open_until(lines, last, logical, place)
        logical = "\n".join([logical, *lines[last + 1 : closed + 1]])
        yield first + 1, logical
        first = closed + 1


def _open_until(lines: list[str], index: int, logical: str, place: str) -> int:
    """Return the line in which a quotation or array that a logical line opens is closed; its own if it opens none.

    An apostrophe of prose opens nothing: only a line with a flag or an assignment is taken to be a command.
    """
    if not _is_open(logical) or not (re.search(r"(?:^|\s)--?[A-Za-z]", logical) or _DECLARING.match(logical)):
        return index
    joined = logical
    for end in range(index + 1, min(len(lines), index + MAX_JOINED_LINES)):
        joined += "\n" + lines[end]
        if not _is_open(joined):
            return end
    raise CommandError(
        f"{place}:{index + 1}: a quotation or bracket of this command is not closed: is the file cut? "
        "Give the whole command"
    )


def _is_open(text: str) -> bool:
    """Return whether a quotation or the bracket of an array is open at the end of a text."""
    rest = _PART.sub("", text)
    is_array = bool(_DECLARING.match(text)) and "=(" in text
    return "'" in rest or '"' in rest or (is_array and rest.count("(") > rest.count(")"))


def _with_arrays(logical: str) -> str:
    """Return an assignment with its array as one quoted word: `A=(b 'c d')` becomes `A="b 'c d'"`."""
    found = re.match(r"(\s*(?:\w+\s+)?[A-Za-z_]\w*\+?=)\((.*)\)\s*$", logical, re.DOTALL)
    if not found:
        return logical
    uncommented = re.sub(r"(?:^|(?<=\s))#[^\n]*", "", found[2])
    return found[1] + '"' + uncommented.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Yield the words and operators of a text, each with the number of line feeds before it.

    Raises:
        ValueError: if a quotation is not closed.
    """
    stream = io.StringIO(text + " ")
    lexer = shlex.shlex(stream, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split, lexer.commenters = True, ""
    for token in lexer:
        end = stream.tell() - 1
        yield token.replace("\n", " "), text.count("\n", 0, end) - token.count("\n")


def _words(logical: str, first_line: int, variables: dict[str, str]) -> list[list[Word]]:
    """Return the words of each simple command of a logical line, expanded; redirections are left out."""
    expanded = _PART.sub(lambda part: _expanded(part, variables), logical)
    try:
        tokens = list(_tokens(expanded))
    except ValueError:  # an apostrophe of prose
        tokens = [(word, 0) for word in logical.split()]
    commands: list[list[Word]] = [[]]
    for token, num_line_feeds in tokens:
        if token and not token.strip(_OPERATORS):
            commands.append([])
        else:
            commands[-1].append(Word(token, first_line + num_line_feeds))
    return [words for words in commands if words]


def _expanded(part: re.Match[str], variables: dict[str, str]) -> str:
    """Return a part of a line as `shlex` is to read it: a value within quotes stays one word, another is split."""
    if part["single"]:
        return part[0]
    if part["comment"] or part["redirection"]:
        return ""
    if part["substitution"]:
        return shlex.quote(_substituted(part[0], variables))
    if part["variable"]:
        value = _value(part[0], variables)
        return f'"{_escaped(value)}"' if _ASSIGNED.search(part.string, 0, part.start()) else value
    inner = part[0][1:-1]
    if re.fullmatch(r"\$\{\w+\[@\]\}", inner):
        return _value(inner, variables)
    inner = _SUBSTITUTION.sub(lambda found: _escaped(_substituted(found[0], variables)), inner)
    return f'"{_VARIABLE.sub(lambda found: _escaped(_value(found[0], variables)), inner)}"'


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _substituted(text: str, variables: dict[str, str]) -> str:
    """Return the value of integer arithmetic or of `$(which ...)`; what is known only in a run stays as written."""
    if text.startswith("$((") and text.endswith("))"):
        inner = re.sub(r"[A-Za-z_]\w*", lambda name: variables.get(name[0], name[0]), text[3:-2].replace("$", ""))
        value = _integer(inner.replace("/", "//"))
        return text if value is None else str(value)
    found = re.fullmatch(r"(?:\$\(|`)\s*which\s+(\S+)\s*(?:\)|`)", text)
    return found[1] if found else text


def _integer(expression: str) -> int | None:
    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return int(_ARITHMETIC[type(node.op)](value(node.left), value(node.right)))
        raise ValueError

    try:
        return value(ast.parse(expression.strip(), mode="eval").body)
    except (ValueError, SyntaxError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(written: str, variables: dict[str, str]) -> str:
    """Return a variable's value, its default, or the variable as written if it has neither."""
    found = _VARIABLE.fullmatch(written)
    if found is None:
        return written
    name, default = found[1] or found[2], found[4] or ""
    if name in ("@", "*"):
        return ""
    if name in variables:
        return variables[name]
    if default[:1] in ("-", "=") or default[:2] in (":-", ":="):
        return default.lstrip(":").lstrip("-=").strip("'\"")
    return written


def _command(words: list[Word], variables: dict[str, str]) -> Iterator[ShellCommand]:
    """Set what is assigned, and yield the command that is left, if one is."""
    own: dict[str, str] = {}
    rest = list(words)
    is_declaration = rest[0].text in _DECLARATIONS
    if is_declaration:
        rest = [word for word in rest[1:] if not word.text.startswith("-")]
    while rest and (found := _ASSIGNMENT.match(rest[0].text)):
        value = rest[0].text[found.end() :]
        own[found[1]] = variables.get(found[1], "") + value if found[2] else value
        rest.pop(0)
    if not rest or is_declaration:
        variables |= own
    else:
        yield ShellCommand(tuple(rest), dict(variables) | own)
