"""Types the commands of README.md and docs/ into one shell, in the order of the pages: in a fresh
clone, with an empty home, without an environment on PATH.

A command that needs more than a network for `make core` has a mark on the page, a comment with
`needs ...` (Slurm, a network, the demo, your files) or `takes ...` (more than 5 minutes). Marked
commands are only parsed (test_readme.py); tests/engine/test_readme_commands.py types those that need
the demo or `make install`. A command of README's table needs what its row says.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contracts.test_readme import CHECKOUT, DOCS_NAMES, FENCE, read

PROGRAMS = (
    "git clone",
    "cd",
    "make",
    "source .venv",
    "aiayn",
    "snakemake",
    "python3",
    ".venv",
    "diff",
)
MARK = re.compile(r" # .*\b(needs|takes)\b")
ROW = re.compile(r"^\|.*\| `(aiayn [^`]*)` \| `make core` \|$", re.MULTILINE)
EXIT_CODES = {"--expect": (0, 4)}  # an answer that differs from the expected one
PLACEHOLDER = "ADDRESS"


def typed_commands_of(text: str) -> list[str]:
    """Return the commands of a page that a reader can type after `make core`, in their order."""
    commands: list[tuple[int, str]] = [(match.start(), match[1]) for match in ROW.finditer(text)]
    for block in FENCE.finditer(text):
        for line in block[1].replace("\\\n", " ").split("\n"):
            command = line.partition(" # ")[0].strip()
            if command.startswith(PROGRAMS) and not MARK.search(line):
                commands.append((block.start() + block[0].index(line.strip() or "\n"), command))
    return [command for _, command in sorted(commands)]


def all_commands() -> list[str]:
    """Return the commands of all pages, README's first."""
    return [
        command for name in ("README.md", *DOCS_NAMES) for command in typed_commands_of(read(name))
    ]


def clone_with_changes(address: Path) -> None:
    """Make a repository of the checkout, with the changes that are not committed yet."""
    subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(address)], check=True)
    listing = subprocess.run(
        ["git", "ls-files", "-mo", "--exclude-standard", "-z"],
        cwd=CHECKOUT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listing.stdout.decode().split("\0")):
        if (CHECKOUT / name).is_file():
            (address / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, address / name)
    who = ["-c", "user.name=reader", "-c", "user.email=reader@example.org"]
    subprocess.run(["git", "add", "--all"], cwd=address, check=True)
    subprocess.run(
        ["git", *who, "commit", "--quiet", "--allow-empty", "-m", "as it is"],
        cwd=address,
        check=True,
    )


def type_commands(commands: list[str], folder: Path) -> list[str]:
    """Type commands into one shell, and return a text for each that a reader would stumble over."""
    (folder / "home").mkdir()
    script = ""
    for number, command in enumerate(commands):
        output = folder / f"{number}.out"
        script += f"{command} > '{output}' 2>&1; echo \"{number} $?\" >> '{folder}/codes'\n"
    kept = ("PIP_", "http", "HTTP", "SSL_", "REQUESTS_")
    variables = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    variables["HOME"] = str(folder / "home")
    variables["PATH"] = os.pathsep.join([str(Path(sys.base_prefix) / "bin"), "/usr/bin", "/bin"])
    subprocess.run(["bash", "-c", script], cwd=folder, env=variables, check=False, timeout=1800)
    faults = []
    codes = (folder / "codes").read_text(encoding="utf-8").splitlines()
    for line, command in zip(codes, commands, strict=True):
        number, code = line.split()
        shown = (folder / f"{number}.out").read_text(encoding="utf-8")
        allowed = next((EXIT_CODES[flag] for flag in EXIT_CODES if flag in command), (0,))
        if int(code) not in allowed or "Traceback" in shown:
            faults.append(f"{command}\nexit code {code}\n{shown[-1500:]}")
    return faults


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_the_pages_can_be_typed_in_a_fresh_clone(tmp_path: Path) -> None:
    clone_with_changes(tmp_path / "address")
    commands = [
        command.replace(PLACEHOLDER, str(tmp_path / "address")) for command in all_commands()
    ]
    assert type_commands(commands, tmp_path) == []


def test_readme_begins_with_a_clone_and_a_first_result() -> None:
    commands = typed_commands_of(read("README.md"))
    assert commands[:4] == [
        "git clone ADDRESS aiayn",
        "cd aiayn",
        "make core",
        "source .venv/bin/activate",
    ]
    assert commands[4].startswith("aiayn explain")
    screen = "\n".join(read("README.md").splitlines()[:25])
    assert "make core" in screen
    assert "fairseq 0.12 runs here on current Python" in screen


def test_commands_of_the_table_are_found_and_marked_commands_are_left_out() -> None:
    commands = all_commands()
    assert "aiayn tables --from-logs paper_tables/measured/multi30k" in commands
    assert "aiayn where table3:base:bleu_dev --scale multi30k" in commands
    assert not any("--profile slurm" in command or command == "make demo" for command in commands)
    assert typed_commands_of("```\naiayn status  # needs the demo\naiayn --help  # all\n```\n") == [
        "aiayn --help"
    ]


def test_a_command_that_fails_is_noticed(tmp_path: Path) -> None:
    faults = type_commands(["cd /tmp", "true", "no_such_program --help"], tmp_path)
    assert len(faults) == 1
    assert faults[0].startswith("no_such_program --help\nexit code 127")
