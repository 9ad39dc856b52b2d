"""Runs the cells of a notebook in their order in this interpreter, as a kernel would; no kernel is
needed.
"""

import ast
import json
from pathlib import Path
from typing import Any


def run_notebook(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """Return the names that the cells left behind, and the value of each code cell's last line,
    None without one.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    values = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]), filename=cell["id"])
        shown = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, cell["id"], "exec"), names)
        is_value = isinstance(shown, ast.Expr)
        values.append(
            eval(compile(ast.Expression(shown.value), cell["id"], "eval"), names)
            if is_value
            else None
        )
    return names, values
