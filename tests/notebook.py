"""Runs the cells of a notebook in their order in this interpreter, as a kernel would. No kernel is
needed.
"""

import ast
import base64
import contextlib
import io
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
        values.append(_run_cell(cell, names))
    return names, values


def execute_notebook(path: Path) -> dict[str, Any]:
    """Return a notebook with the outputs of its cells, as Jupyter would store them; pictures as
    PNG, which a forge shows without scripts.
    """
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            value = _run_cell(cell, names)
        cell["execution_count"] = count
        cell["outputs"] = []
        if printed.getvalue():
            text = printed.getvalue().splitlines(keepends=True)
            cell["outputs"].append({"name": "stdout", "output_type": "stream", "text": text})
        if value is not None:
            cell["outputs"].append(
                {
                    "data": _shown(value),
                    "execution_count": count,
                    "metadata": {},
                    "output_type": "execute_result",
                }
            )
    return notebook


def _run_cell(cell: dict[str, Any], names: dict[str, Any]) -> Any:
    """Run the lines of a cell, and return the value of its last line, None without one."""
    tree = ast.parse("".join(cell["source"]), filename=cell["id"])
    shown = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, cell["id"], "exec"), names)
    if not isinstance(shown, ast.Expr):
        return None
    return eval(compile(ast.Expression(shown.value), cell["id"], "eval"), names)


def _shown(value: Any) -> dict[str, Any]:
    """Return the forms of a value: a picture of a chart, a table of a frame, else its text."""
    if hasattr(value, "to_dict") and hasattr(value, "save"):
        picture = io.BytesIO()
        value.save(picture, format="png", ppi=72)
        return {
            "image/png": base64.b64encode(picture.getvalue()).decode("ascii"),
            "text/plain": ["a chart"],
        }
    forms = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        forms["text/html"] = value._repr_html_().splitlines(keepends=True)
    return forms
