"""Every package is on the map, in the contract of layers, and in CONTRIBUTING's table of tests."""

import re
import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
HIDDEN = ("__init__", "__main__", "__pycache__")  # not subjects


def members(package: Path) -> set[str]:
    """Return the names of the packages and modules directly in a package."""
    names = {path.parent.name for path in package.glob("*/__init__.py")}
    return names | {path.stem for path in package.glob("*.py") if path.stem not in HIDDEN}


def rooms() -> set[str]:
    """Return what the map must show: packages and modules of the library, and every wing."""
    library = {f"aiayn.{name}" for name in members(CHECKOUT / "workflow" / "aiayn")}
    return library | {"aiayn_fairseq", "paper_tables"} | wings()


def wings() -> set[str]:
    """Return the wings as names of packages."""
    folder = CHECKOUT / "analysis"
    return {f"analysis.{path.parent.name}" for path in folder.glob("*/wing.py")}


def layers(contract: str) -> set[str]:
    """Return the names in the layers of a contract."""
    text = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    for section in tomllib.loads(text)["tool"]["importlinter"]["contracts"]:
        if section["id"] == contract:
            return {name for layer in section["layers"] for name in re.split(r" [|:] ", layer)}
    raise AssertionError(f"pyproject.toml has no contract {contract!r}")


def absent_from(text: str, names: set[str]) -> list[str]:
    """Return the names that a text does not have in backticks."""
    return sorted(name for name in names if not re.search(rf"`(\S*/)?{re.escape(name)}`", text))


def test_the_map_shows_every_package_and_wing() -> None:
    text = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
    names = {name.removeprefix("analysis.") for name in rooms()}
    assert absent_from(text, names) == []


def test_every_package_has_a_layer() -> None:
    own = {f"aiayn.{name}" for name in members(CHECKOUT / "workflow" / "aiayn")}
    assert layers("layers") >= own | {"analysis", "paper_tables", "aiayn_fairseq"}
    assert layers("layers-of-tables") == members(CHECKOUT / "paper_tables")


def test_contributing_says_where_the_tests_of_every_package_and_wing_are() -> None:
    text = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert absent_from(text, rooms()) == []
    named = set(re.findall(r"`(tests/[a-z_]+)`", text))
    assert [name for name in sorted(named) if not (CHECKOUT / name).is_dir()] == []
