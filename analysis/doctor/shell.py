"""Splits a shell script, a pasted line or a page with commands in it into commands: nothing is run.

The part of the POSIX shell in which trainings are started is read: continued lines, quotes, comments, assignments and
their expansion (with defaults and integer arithmetic), arrays, pipes and redirections, `for` (its first value). What
is known only in a run (`$1`, `$(...)`) stays in the word as written. Fences and prompts of a pasted page are
omitted; its prose becomes commands that match no program.
"""

import ast
import operator
import re
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
_TOKEN = re.compile(
    rf"""(?P<blank>\s+)
    | (?P<comment>(?<!\S)\#.*)
    | (?P<substitution>{_SUBSTITUTION.pattern})
    | (?P<single>'[^']*')
    | (?P<double>"(?:\\.|[^"\\])*")
    | (?P<escaped>\\.)
    | (?P<redirection>\d?(?:&>>?|>>?&?|<<?<?-?&?)(?P<to>\d|-)?)
    | (?P<operator>[|&;()])
    | (?P<variable>\$\{{[^}}]*\}}|\$\w+|\$[@*#?$!])
    | (?P<plain>[^\s'"\\<>`|&;()$]+|.)""",
    re.VERBOSE | re.DOTALL,
)
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


class _Piece(msgspec.Struct, frozen=True):
    """A part of a word: expanded later unless single-quoted, split at blanks unless quoted at all."""

    text: str
    is_literal: bool
    is_quoted: bool


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
            values = _words(found[2], [line] * len(found[2]), variables)
            variables[found[1]] = values[0][0].text if values and values[0] else ""
        lines = _line_of_character(logical, line)
        for words in _words(logical.replace("\n", " "), lines, variables):
            commands += _command(words, variables)
    return commands


def split_words(text: str, line: int) -> list[Word]:
    """Return the words of a command inside a word, such as that of `bash -c`."""
    return [word for words in _words(text.replace("\n", " "), [line] * len(text), {}) for word in words]


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
    quote, depth, index = "", 0, 0
    is_array = bool(_DECLARING.match(text)) and "=(" in text
    while index < len(text):
        character = text[index]
        if quote:
            if character == "\\" and quote == '"':
                index += 1
            elif character == quote:
                quote = ""
        elif character == "\\":
            index += 1
        elif character in "'\"":
            quote = character
        elif character == "#" and (index == 0 or text[index - 1].isspace()):
            end = text.find("\n", index)
            index = len(text) if end < 0 else end
        elif is_array and character in "()":
            depth += 1 if character == "(" else -1
        index += 1
    return bool(quote) or depth > 0


def _with_arrays(logical: str) -> str:
    """Return an assignment with its array as one quoted word: `A=(b 'c d')` becomes `A="b 'c d'"`."""
    found = re.match(r"(\s*(?:\w+\s+)?[A-Za-z_]\w*\+?=)\((.*)\)\s*$", logical, re.DOTALL)
    if not found:
        return logical
    uncommented = re.sub(r"(?:^|(?<=\s))#[^\n]*", "", found[2])
    return found[1] + '"' + uncommented.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _line_of_character(logical: str, first_line: int) -> list[int]:
    lines, line = [], first_line
    for character in logical:
        lines.append(line)
        line += character == "\n"
    return lines


def _words(logical: str, lines: list[int], variables: dict[str, str]) -> list[list[Word]]:
    """Return the words of each simple command of a logical line, expanded; redirections are left out."""
    commands: list[list[Word]] = [[]]
    pieces: list[_Piece] = []
    begin = 0
    is_target = False  # the next word is a file that output goes to
    for token in _TOKEN.finditer(logical + " "):
        kind = token.lastgroup or ""
        if kind not in ("blank", "redirection", "operator", "comment"):
            begin = begin if pieces else token.start()
            pieces.append(_piece(kind, token[0], variables))
            continue
        if pieces and not is_target:
            words = _expanded(pieces, variables, is_first=not commands[-1])
            commands[-1] += [Word(word, lines[begin]) for word in words]
        if pieces or kind != "blank":
            is_target = kind == "redirection" and token["to"] is None
        pieces = []
        if kind == "operator":
            commands.append([])
    return [words for words in commands if words]


def _piece(kind: str, text: str, variables: dict[str, str]) -> _Piece:
    """Return a part of a word from its token; an apostrophe that quotes nothing is literal."""
    if kind == "single":
        return _Piece(text[1:-1], is_literal=True, is_quoted=True)
    if kind == "double":
        inner = _SUBSTITUTION.sub(lambda found: _substituted(found[0], variables), text[1:-1])
        return _Piece(re.sub(r"\\([\"\\`])", r"\1", inner), is_literal=False, is_quoted=True)
    if kind == "escaped":
        return _Piece(text[1:], is_literal=True, is_quoted=True)
    if kind == "substitution":
        return _Piece(_substituted(text, variables), is_literal=True, is_quoted=True)
    return _Piece(text, is_literal=kind != "variable", is_quoted=False)


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


def _expanded(pieces: list[_Piece], variables: dict[str, str], *, is_first: bool) -> list[str]:
    """Return the words that one written word becomes; an assignment at the beginning is never split."""
    words, is_empty = [""], not any(piece.is_quoted for piece in pieces)
    is_assignment = is_first and bool(_ASSIGNMENT.match(pieces[0].text)) and not pieces[0].is_quoted
    for piece in pieces:
        text = piece.text if piece.is_literal else _VARIABLE.sub(lambda found: _value(found, variables), piece.text)
        is_array = piece.is_quoted and re.fullmatch(r"\$\{\w+\[@\]\}", piece.text)
        if is_assignment or not (is_array or (not piece.is_quoted and text != piece.text)):
            words[-1] += text
            continue
        parts = [word.text for word in split_words(text, 0)] if text.strip() else []
        if parts:
            words[-1] += parts[0]
            words += parts[1:]
    return [word for word in words if word or not is_empty]


def _value(found: re.Match[str], variables: dict[str, str]) -> str:
    """Return a variable's value, its default, or its name as written if it has neither."""
    name, default = found[1] or found[2], found[4] or ""
    if name in ("@", "*"):
        return ""
    if name in variables:
        return variables[name]
    if default[:1] in ("-", "=") or default[:2] in (":-", ":="):
        return default.lstrip(":").lstrip("-=").strip("'\"")
    return found[0]


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
