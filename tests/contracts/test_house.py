"""Texts are ASCII and have no words that have no place in a project."""

import re
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
TEXT_SUFFIXES = (".cff", ".md", ".py", ".smk", ".toml", ".yaml", ".yml")
TEXT_NAMES = ("Makefile", "Snakefile", "constraints.txt")
NOT_OURS = {".git", ".snakemake", ".venv", "build", "results", "runs", "logs", "benchmarks"}

HIDDEN_FOLDERS_OF_OURS = {".ci", ".github"}

# Put together here, so that this file does not hold them itself.
FORBIDDEN_WORDS = (
    "/wo" + "rk/",
    "TO" + "DO",
    "FIX" + "ME",
    "XX" + "X",
    "ses" + "sion",
    "shared/" + "facts",
)
ALLOWED_PHRASES = ('scope="ses' + 'sion"',)  # pytest's word for all tests of a run


def text_paths() -> list[Path]:
    """Return every text that the project wrote, except golden files and the oracle's data."""
    paths = []
    for path in CHECKOUT.rglob("*"):
        folders = path.relative_to(CHECKOUT).parts[:-1]
        hidden = {folder for folder in folders if folder.startswith(".")}
        is_text = (
            path.suffix in TEXT_SUFFIXES or path.name in TEXT_NAMES or path.parent.name == ".ci"
        )
        is_ours = NOT_OURS.isdisjoint(folders[:1]) and hidden <= HIDDEN_FOLDERS_OF_OURS
        if is_text and is_ours and "golden" not in folders and path.is_file():
            paths.append(path)
    return sorted(paths)


def name_of(path: Path) -> str:
    """Return a path relative to the checkout."""
    return path.relative_to(CHECKOUT).as_posix()


def forbidden_words(text: str) -> list[str]:
    """Return `line: word` for each forbidden word of a text."""
    for phrase in ALLOWED_PHRASES:
        text = text.replace(phrase, "")
    pattern = re.compile("|".join(rf"(?<![A-Za-z_]){re.escape(word)}" for word in FORBIDDEN_WORDS))
    lines = enumerate(text.split("\n"), start=1)
    return [f"{number}: {found}" for number, line in lines for found in pattern.findall(line)]


def test_code_rules_and_configs_are_ascii() -> None:
    """Tests may hold other letters as data."""
    names = {name_of(path) for path in text_paths() if "tests" not in path.parts}
    assert {"workflow/rules/train.smk", "workflow/config/demo.yaml"} <= names
    foreign = {name for name in names if not (CHECKOUT / name).read_bytes().isascii()}
    assert {name for name in foreign if not name.startswith("paper_tables/measured/")} == set()


def test_no_text_holds_a_word_that_has_no_place_here() -> None:
    words_by_name = {
        name_of(path): forbidden_words(path.read_text(encoding="utf-8")) for path in text_paths()
    }
    expected = {"README.md", "Makefile", ".ci/run", ".github/workflows/ci.yml"}
    assert expected <= set(words_by_name)
    assert {name: words for name, words in words_by_name.items() if words} == {}
