"""Pastes each command of README.md into a shell, next to a small finished training of the demo, and
those of docs/ that have the mark `needs the demo`.

What would take long, or needs what a test lacks, is tried in part. The table below says how.
Words in capitals are placeholders for the reader's own values: `EXAMPLE_BY_WORD` has one where
the finished
training is one, and the rest are only parsed (`tests/contracts/test_readme.py`, which has the pages
of docs/ too).
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aiayn.__main__ import main
from tests.contracts.test_readme import CHECKOUT, DOCS_NAMES, FENCE, SPAN, read
from tests.engine.pipeline_verbs import data_commands, training_commands

pytestmark = pytest.mark.slow

PROGRAMS = ("make", "snakemake", "source", "aiayn", "echo")
# What is added to a command: none of these is run whole.
IN_PART = {"make": " --dry-run", "snakemake": " --dry-run --quiet all"}
# Exit codes other than 0: what they check may be found wanting here, as no machine of 8 GPUs is.
EXIT_CODES = {"aiayn preflight": (0, 1), "aiayn doctor": (0, 1), "aiayn where": (0, 1)}
EXAMPLE_BY_WORD = {"FOLDER": "runs"}
CORPUS, SYSTEM = "demo_en_de", "base"


def commands_of_the_readme() -> list[str]:
    """Return every line of a block and every code span that is a command, without placeholders."""
    text = read("README.md")
    lines = [
        line.partition(" # ")[0].strip()
        for block in FENCE.findall(text)
        for line in block.split("\n")
    ]
    commands = [*lines, *SPAN.findall(FENCE.sub("", text))]
    for word, example in EXAMPLE_BY_WORD.items():
        commands = [re.sub(rf"\b{word}\b", example, command) for command in commands]
    return [
        command
        for command in dict.fromkeys(commands)
        if command.split(" ")[0] in PROGRAMS
        and not re.search(r"\s[A-Z]+\b(?!=)", command)
        and "--released" not in command  # half an hour, and a network
        and " " in command
    ]


def commands_that_need_the_demo() -> list[str]:
    """Return the commands of docs/ that have this mark. One training is here, not two."""
    marked = re.compile(r"^ *(aiayn .*?) +# needs the demo", re.MULTILINE)
    commands = [command for name in DOCS_NAMES for command in marked.findall(read(name))]
    return [command for command in dict.fromkeys(commands) if "seed2" not in command]


COMMANDS = list(dict.fromkeys([*commands_of_the_readme(), *commands_that_need_the_demo()]))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with links to the checkout, the environment as .venv, and a finished training
    in it.
    """
    folder, here = tmp_path_factory.mktemp("reader"), Path.cwd()
    for path in CHECKOUT.iterdir():
        if not path.name.startswith(".") and path.name not in (
            "results",
            "runs",
            "logs",
            "benchmarks",
        ):
            (folder / path.name).symlink_to(path)
    (folder / ".venv").symlink_to(sys.prefix)
    training = f"{CORPUS}/{SYSTEM}/seed1"

    def record(verb: str) -> str:
        paths = {"train": f"{training}.json", "average": f"{training}/last5.json"}
        return f"results/demo/{verb}/{paths.get(verb, f'{CORPUS}/record.json')}"

    train, average, *_ = training_commands(
        CORPUS, record, scale="demo", system=SYSTEM, testset="", updates=100, num_averaged=5
    )
    os.chdir(folder)
    try:
        for command in (*data_commands(CORPUS, record), train, average):
            assert main(command) == 0, command
    finally:
        os.chdir(here)
    return folder


def paste(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder as the reader does, who has activated the environment."""
    program = command.split(" ", maxsplit=1)[0]
    line = f"source .venv/bin/activate && {command}{IN_PART.get(program, '')}"
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def fault_of(command: str, done: subprocess.CompletedProcess[str]) -> str:
    """Return what a reader would stumble over, or nothing."""
    allowed = EXIT_CODES.get(" ".join(command.split(" ")[:2]), (0,))
    if done.returncode not in allowed or "Traceback" in done.stderr:
        return (
            f"{command}\nexit code {done.returncode}\n{done.stdout[-1000:]}\n{done.stderr[-2000:]}"
        )
    return ""


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_works_when_it_is_pasted(command: str, scene: Path) -> None:
    assert fault_of(command, paste(command, scene)) == ""


def test_the_readmes_commands_are_found() -> None:
    """Blocks and spans, of each program."""
    assert {
        "make demo",
        "snakemake --profile slurm",
        "source .venv/bin/activate",
        "aiayn --help",
    } <= set(COMMANDS)
    assert [command for command in COMMANDS if "| aiayn translate" in command] != []
    assert "aiayn attention demo_en_de-base-seed1" in COMMANDS
    assert [command for command in COMMANDS if "FILE" in command or "CELL" in command] == []
