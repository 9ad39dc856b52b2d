"""Every example in a docstring is Python that compiles."""

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("workflow/aiayn", "workflow/aiayn_fairseq", "analysis", "paper_tables")
# An indented block of a docstring is an example if a line of it assigns, calls or imports. Blocks
# of other kinds are commands, tables of words, and formulas.
_LOOKS_LIKE_PYTHON = re.compile(
    r"^\s*(from [\w.]+ import |import \w|def |class |@|with |return |\w[\w., ]* = \w[\w.]*[(\[{])"
)
# Sections that Google's style indents.
_SECTION = re.compile(r"^(Raises|Returns|Args|Yields|Attributes|Example):$")


def examples(docstring: str) -> Iterator[str]:
    """Yield the indented blocks of a cleaned docstring that look like Python."""
    lines, block = docstring.splitlines(), []
    heading = ""
    for line in [*lines, "end"]:
        if line.startswith("    ") or (not line.strip() and block):
            block.append(line)
            continue
        text = textwrap.dedent("\n".join(block)).strip("\n")
        is_section = _SECTION.match(heading) is not None
        if not is_section and any(_LOOKS_LIKE_PYTHON.match(part) for part in text.splitlines()):
            yield text
        block = []
        heading = line.strip() or heading


def problems(source: str) -> list[str]:
    """Return each example of a module that is not Python."""
    faults = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for example in examples(ast.get_docstring(node) or ""):
                try:
                    ast.parse(example)
                except SyntaxError as error:
                    faults.append(f"line {error.lineno} of: {example}")
    return faults


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_example_compiles(folder: str) -> None:
    broken = {
        str(path.relative_to(ROOT)): faults
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (faults := problems(path.read_text(encoding="utf-8")))
    }
    assert broken == {}
