"""The house style where a machine can see it: names, ASCII, and words that have no place in a
project.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE_FOLDERS = ("workflow/aiayn", "workflow/aiayn_fairseq", "analysis", "paper_tables")
TEXT_SUFFIXES = (".cff", ".md", ".py", ".smk", ".toml", ".yaml", ".yml")
TEXT_NAMES = ("Makefile", "Snakefile", "constraints.txt")
NOT_OURS = {".git", ".snakemake", ".venv", "build", "results", "runs", "logs", "benchmarks"}

HIDDEN_FOLDERS_OF_OURS = {".ci", ".github"}

FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "misc", "manager", "common"}
FORBIDDEN_PREFIXES = ("get_", "process_", "handle_", "do_")
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


def package_paths() -> list[Path]:
    """Return every module of the packages."""
    return sorted(path for folder in PACKAGE_FOLDERS for path in (CHECKOUT / folder).rglob("*.py"))


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


def empty_names(source: str) -> list[str]:
    """Return the functions whose verb says nothing; methods are left out, as another library may
    have named them.
    """
    functions = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return [name for name in functions if name.lstrip("_").startswith(FORBIDDEN_PREFIXES)]


# Python 3.12 and later split an f-string, whose text is then a token of its own.
STRING_TOKENS = {
    tokenize.STRING,
    tokenize.NEWLINE,
    getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),
}


def foreign_characters(source: str) -> list[str]:
    """Return what is not ASCII in code, comments and docstrings; other strings are data and may
    hold any text.
    """
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr)]
    docstrings = {(node.lineno, node.col_offset) for node in nodes}  # of strings, and calls
    return [
        f"{token.start[0]}: {token.string}"
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if not token.string.isascii()
        if token.type not in STRING_TOKENS or token.start in docstrings
    ]


def forbidden_words(text: str) -> list[str]:
    """Return `line: word` for each forbidden word of a text."""
    for phrase in ALLOWED_PHRASES:
        text = text.replace(phrase, "")
    pattern = re.compile("|".join(rf"(?<![A-Za-z_]){re.escape(word)}" for word in FORBIDDEN_WORDS))
    lines = enumerate(text.split("\n"), start=1)
    return [f"{number}: {found}" for number, line in lines for found in pattern.findall(line)]


def test_no_module_is_named_for_nothing() -> None:
    parts = {(name_of(path), part) for path in package_paths() for part in path.stem.split("_")}
    assert [(name, part) for name, part in sorted(parts) if part in FORBIDDEN_NAMES] == []


def test_every_test_file_has_a_name_of_its_own() -> None:
    """pytest imports them by their base names: of two alike it collects none, as `make golden`
    would.
    """
    names = [path.name for path in (CHECKOUT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_no_function_is_named_for_nothing() -> None:
    named = {path: empty_names(path.read_text(encoding="utf-8")) for path in package_paths()}
    assert {path: functions for path, functions in named.items() if functions} == {}


def test_code_and_comments_are_ascii() -> None:
    paths = [*package_paths(), *sorted((CHECKOUT / "tests").rglob("*.py"))]
    found = {path: foreign_characters(path.read_text(encoding="utf-8")) for path in paths}
    assert {path: characters for path, characters in found.items() if characters} == {}


def test_rules_and_configs_are_ascii() -> None:
    names = {name_of(path) for path in text_paths() if path.suffix != ".py"}
    assert {"workflow/rules/train.smk", "workflow/config/demo.yaml"} <= names
    foreign = {name for name in names if not (CHECKOUT / name).read_bytes().isascii()}
    assert {name for name in foreign if not name.startswith("paper_tables/measured/")} == set()


def test_no_text_holds_a_word_that_has_no_place_here() -> None:
    found = {
        name_of(path): forbidden_words(path.read_text(encoding="utf-8")) for path in text_paths()
    }
    expected = {"README.md", "Makefile", ".ci/run", ".github/workflows/ci.yml"}
    assert expected <= set(found)
    assert {name: words for name, words in found.items() if words} == {}


def test_a_name_that_says_nothing_is_noticed() -> None:
    source = (
        "def get_it(): ...\ndef _handle_it(): ...\ndef getter(): ...\nclass A:\n    def"
        " get_it(self): ...\n"
    )
    assert empty_names(source) == ["get_it", "_handle_it"]


def test_characters_beyond_ascii_are_noticed_but_not_in_data() -> None:
    assert foreign_characters('x = "\u00e4"\n') == []
    assert foreign_characters("x = 1  # \u00e4\n") == ["1: # \u00e4"]
    assert foreign_characters('"""\u00e4"""\n') == ['1: """\u00e4"""']
    assert foreign_characters('def f():\n    """\u00e4"""\n') == ['2: """\u00e4"""']


@pytest.mark.parametrize("word", FORBIDDEN_WORDS)
def test_a_forbidden_word_is_noticed(word: str) -> None:
    assert forbidden_words(f"first\n# see {word} here\n") == [f"2: {word}"]
    assert forbidden_words(f"# {ALLOWED_PHRASES[0]} here") == []
