"""What README.md and docs/ tell a reader to type and to look at: commands parse, and paths, targets
and links exist.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiayn.__main__ import build_parser, verbs

CHECKOUT = Path(__file__).resolve().parents[2]
DOCS_NAMES = sorted(f"docs/{path.name}" for path in CHECKOUT.glob("docs/*.md"))
PAGE_NAMES = ("README.md", "CONTRIBUTING.md", "workflow/README.md", *DOCS_NAMES)
MAX_README_LINES = 110  # two screens
FENCE = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
MAKE_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
REDIRECTIONS = ("<", ">", ">>", "2>", "<<<")


def read(name: str) -> str:
    """Return a file of the checkout."""
    return (CHECKOUT / name).read_text(encoding="utf-8")


def simple_commands(line: str) -> Iterator[list[str]]:
    """Yield the commands of a shell line, each as its words: pipes and lists taken apart,
    redirections dropped.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    is_file_of_redirection = False
    for word in lexer:
        if word in REDIRECTIONS:
            is_file_of_redirection = True
        elif is_file_of_redirection:
            is_file_of_redirection = False
        elif set(word) <= set("|&;()"):
            yield words
            words = []
        else:
            words.append(word)
    yield words


def typed_commands(text: str, program: str) -> list[list[str]]:
    """Return the words of every command of a program in the fenced blocks of a Markdown text."""
    lines = [
        line for block in FENCE.findall(text) for line in block.replace("\\\n", " ").split("\n")
    ]
    mentioning = [
        line.partition(" # ")[0].strip().removeprefix("$ ")
        for line in lines
        if re.search(rf"(^|[\s|;&$]){program}\s", f"{line} ")
    ]
    commands = [words for line in mentioning for words in simple_commands(line)]
    return [
        words[words.index(program) :]
        for words in commands
        if program in words[:2] and words[0] != "cd"
    ]  # after one NAME=VALUE at most


def mentions(text: str, program: str) -> list[list[str]]:
    """Return the words of every code span, outside of the blocks, that begins with a program."""
    spans = SPAN.findall(FENCE.sub("", text))
    return [
        span.split() for span in spans if span.split()[:1] == [program] and len(span.split()) > 1
    ]


def fault_of_command(words: list[str]) -> str:
    """Return what is wrong with a whole `aiayn` command, or nothing."""
    if words[1:] in (["--help"], ["--version"], ["help", "VERB"], ["VERB", "--help"]):
        return ""
    if len(words) < 2 or words[1] not in verbs():
        return f"no such verb: {shlex.join(words)}"
    try:
        build_parser(words[1]).parse_args(words[2:])
    except SystemExit as exit_:
        return "" if exit_.code == 0 else f"is refused: {shlex.join(words)}"
    return ""


def fault_of_mention(words: list[str]) -> str:
    """Return what is wrong with a part of an `aiayn` command in running text: its verb, or a flag."""
    if words[1] in ("VERB", "--help", "--version") or words[1:] == ["help", "VERB"]:
        return ""
    if words[1] not in verbs():
        return f"no such verb: {' '.join(words)}"
    known = {flag for action in build_parser(words[1])._actions for flag in action.option_strings}
    unknown = [
        word for word in words[2:] if word.startswith("-") and word.partition("=")[0] not in known
    ]
    return f"no such flag: {' '.join(words)}" if unknown else ""


def anchors(text: str) -> set[str]:
    """Return what a link may name behind `#` in a Markdown text: its headings as GitHub writes
    them.
    """
    headings = HEADING.findall(FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(text: str, path: Path) -> list[str]:
    """Return the relative links of a Markdown text at a path that lead to no file or to no heading."""
    dead = []
    for link, anchor in LINK.findall(FENCE.sub("", text)):
        target = path.parent / link if link else path
        if "://" not in link and not target.exists():
            dead.append(link)
        elif (
            anchor
            and target.suffix == ".md"
            and anchor not in anchors(target.read_text(encoding="utf-8"))
        ):
            dead.append(f"{link}#{anchor}")
    return dead


def deleted_wings() -> list[str]:
    """Return the wings in the map's table whose folder is deleted."""
    table = read("docs/architecture.md").partition("| wing | question |")[2].partition("\n\n")[0]
    wings = re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)
    assert len(wings) > 5
    return [wing for wing in wings if not (CHECKOUT / "analysis" / wing / "wing.py").is_file()]


@pytest.mark.parametrize("name", PAGE_NAMES)
def test_every_command_of_a_page_parses(name: str) -> None:
    text = read(name)
    faults = [fault_of_command(words) for words in typed_commands(text, "aiayn")]
    faults += [fault_of_mention(words) for words in mentions(text, "aiayn")]
    if deleted_wings():  # the pages still have its verbs
        faults = [fault for fault in faults if not fault.startswith("no such verb")]
    assert [fault for fault in faults if fault] == []


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_has_help_with_an_example_that_parses(verb: str) -> None:
    text = build_parser(verb).format_help()
    example = text.partition("example:")[2]
    commands = typed_commands(f"```\n{example}\n```", "aiayn")
    assert [words[1] for words in commands] == [verb]
    assert fault_of_command(commands[0]) == ""
    assert len(text.partition("usage:")[2].split("\n\n")[1]) > len("what this verb is for")


@pytest.mark.parametrize("name", PAGE_NAMES)
def test_every_link_of_a_page_leads_somewhere(name: str) -> None:
    dead = dead_links(read(name), CHECKOUT / name)
    folders = [f"tests/{wing}/" for wing in deleted_wings()]
    assert [link for link in dead if not any(folder in link for folder in folders)] == []


def test_every_page_of_docs_is_linked_from_the_readme() -> None:
    linked = {path for path, _ in LINK.findall(read("README.md"))}
    assert len(PAGE_NAMES) > 2
    assert [name for name in PAGE_NAMES if name != "README.md" and name not in linked] == []


def test_the_readme_fits_on_two_screens() -> None:
    lines = read("README.md").splitlines()
    assert len(lines) <= MAX_README_LINES
    assert [line for line in lines if len(line) > 120] == []


def test_the_make_targets_of_the_pages_exist() -> None:
    text = "\n".join(read(name) for name in PAGE_NAMES)
    used = {
        word
        for words in typed_commands(text, "make") + mentions(text, "make")
        for word in words[1:]
    }
    targets = {word for word in used if "=" not in word and not word.startswith("-")}
    assert {"demo", "test"} <= targets
    assert targets <= set(MAKE_TARGET.findall(read("Makefile")))


def test_the_config_files_of_the_pages_exist() -> None:
    commands = [words for name in PAGE_NAMES for words in typed_commands(read(name), "snakemake")]
    assert commands != []
    paths = [
        words[words.index(flag) + 1]
        for words in commands
        for flag in ("--configfile",)
        if flag in words
    ]
    assert [path for path in paths if not (CHECKOUT / path).exists()] == []
