"""docs/claims.md names tests that exist and is complete: each statement once, and the counts of its
first lines.
"""

import ast
import re
from collections import Counter
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = (CHECKOUT / "docs" / "claims.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([VX]-[0-9]+)([a-z]?) \| .+ \| ([a-z* ]+) \| .+ \|$", re.MULTILINE)
IDS = [f"V-{number:02d}" for number in range(1, 75)] + [f"X-{number}" for number in range(1, 9)]


def missing_tests(page: str) -> list[str]:
    """Return the `path::name` of a page whose file or function does not exist."""
    missing = []
    for path, name in sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page))):
        source = (CHECKOUT / path).read_text(encoding="utf-8") if (CHECKOUT / path).exists() else ""
        functions = [
            node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)
        ]
        if name not in functions:
            missing.append(f"{path}::{name}")
    return missing


def test_each_statement_has_a_row_and_its_parts_are_in_order() -> None:
    rows = ROW.findall(PAGE)
    assert list(dict.fromkeys(number for number, _, _ in rows)) == IDS
    for number in IDS:
        parts = "".join(part for row_number, part, _ in rows if row_number == number)
        assert "abcdefghijk".startswith(parts), number


def test_the_first_lines_count_the_answers() -> None:
    count = Counter(answer.strip("*") for _, _, answer in ROW.findall(PAGE))
    assert (
        f"{count['holds']} parts hold, {count['does not hold']} do not, {count['open']} are open,"
        f" and {count['not tested here']} are not tested here." in " ".join(PAGE.split())
    )


def test_every_test_that_the_page_names_exists() -> None:
    assert missing_tests(PAGE) == []
    assert missing_tests(
        "`tests/engine/test_parity.py::test_of_nothing`, `tests/none.py::test_x`"
    ) == [
        "tests/engine/test_parity.py::test_of_nothing",
        "tests/none.py::test_x",
    ]


def test_each_statement_that_a_system_names_is_on_the_page() -> None:
    named = set()
    for path in (CHECKOUT / "workflow" / "config" / "systems").rglob("*.yaml"):
        named |= set(re.findall(r"\b[VX]-[0-9]+\b", path.read_text(encoding="utf-8")))
    assert named
    assert named <= set(IDS)
