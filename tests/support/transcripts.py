"""Runs transcripts: files with `$ aiayn ...` and what it prints, any number of times. The core's are
in tests/golden/transcripts, a wing's in tests/<wing>/transcripts.

For a new transcript write the lines of its commands into a file, run `make golden`, and read what
came below them. A command that fails is followed by its errors and its exit code. The commands of a
file run one after the other in a new folder, with links to workflow/ and paper_tables/, on a
machine without GPUs whose core does 10^11 operations a second, one hour after noon of 2026. `$
scene NAME` makes what tests/scenes.py has of this name. Other commands are the shell's (a
here-document ends with END), and prepare what a verb is to find. `$ read FILE EDIT` reads a file of
a config folder after an edit of sed's, and shows why it is refused.
"""

import logging
import pkgutil
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from aiayn import printed
from aiayn.__main__ import main
from aiayn.errors import ConfigError, TableError
from aiayn.spec.cluster import read_cluster
from aiayn.spec.sheet import read_sheet
from aiayn.spec.system import read_corpus, read_scale, read_scale_document, read_system
from tests import scenes
from tests.golden_files import GOLDEN_FOLDER, check_golden
from tests.records_factory import write_sealed

CHECKOUT = GOLDEN_FOLDER.parents[1]
# Differs from run to run: versions of packages in signatures, and progress bars.
CHANGING = re.compile(r"\|(sacremoses|version):[\d.]+|^\w+: +\d+%\|.*\n", re.MULTILINE)
PROMPT, HERE, END = "$ ", "<<'END'", "END"


def read_commands(text: str) -> Iterator[str]:
    """Yield the commands of a transcript, here-documents included."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(PROMPT):
            command = line.removeprefix(PROMPT)
            while HERE in command and command.rpartition("\n")[2] != END:
                command += f"\n{next(lines)}"
            yield command


READER_BY_FILE = {  # of files that `aiayn.printed` does not read
    "gaps": "paper_tables.published_data",
    "public_seeds": "paper_tables.public_seeds",
    **dict.fromkeys(("reference_replications", "causes"), "analysis.reported.published"),
}


def read_printed(path: Path) -> None:
    """Read a file of published numbers by its own reader, without the reader's cache."""
    if module := READER_BY_FILE.get(path.stem):
        pkgutil.resolve_name(f"{module}:read_{path.stem}")(path.parent)
        return
    name, *number = re.findall(r"[a-z]+|\d", path.stem)  # `table1` is read by read_table(1)
    reader = getattr(printed, f"read_{name}")
    with mock.patch.object(printed, "PUBLISHED_FOLDER", path.parent):
        getattr(reader, "__wrapped__", reader)(*number)


def read_config(name: str, edit: str = "", other: str = "") -> str:
    """Return `read`, or why a file of a config folder or of `published` is refused.

    It is read as it is, or after an edit of sed's. With `other` that file is read, while the edited
    one is as edited.
    """
    path, asked = Path(name), Path(other or name)
    original = path.read_text(encoding="utf-8") if edit else ""
    if edit:
        path.write_text(
            subprocess.run(["sed", edit, name], check=True, capture_output=True, text=True).stdout
        )
        assert path.read_text() != original, f"{edit!r} changes nothing in {name}"
    try:
        if asked.parent.name == "published":
            read_printed(asked)
        elif asked.parent.name in ("corpora", "clusters"):
            (read_corpus if asked.parent.name == "corpora" else read_cluster)(
                asked.stem, Path("config")
            )
        elif asked.parent.name == "trainings":
            read_sheet(asked)
        elif "systems" in asked.parts:
            read_system(asked.stem, asked.parent.name, Path("config"))
        else:
            read_scale_document(
                asked, config_folder=Path("config")
            ) if not asked.exists() else read_scale(asked)
    except (ConfigError, TableError) as error:
        return str(error)
    finally:
        if edit:
            path.write_text(original, encoding="utf-8")
    return "read"


def run_command(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a verb in this process, make a scene, read a config, seal an edited record, or call the
    shell. Return the exit code.
    """
    program, _, rest = command.partition(" ")
    if program == "scene":
        scenes.SCENES[rest](folder, monkeypatch)
        return 0
    if program == "read":
        print(read_config(*shlex.split(rest)))
        return 0
    if program == "reseal":  # an edited record gets the checksum of its new lines
        write_sealed(Path(rest).read_text(encoding="utf-8"), Path(rest))
        return 0
    if program != "aiayn":
        return subprocess.run(["sh", "-c", command], check=False).returncode
    arguments = shlex.split(rest)
    monkeypatch.setattr(sys, "argv", ["aiayn", *arguments])  # for the command in records
    try:
        return main(arguments)
    except SystemExit as exit:  # of argparse
        return int(exit.code or 0)
    finally:
        logging.root.handlers.clear()  # of the verb, which hold the streams of this test


def run_commands(
    commands: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> str:
    """Return the transcript of commands, without the folder that they run in and CHANGING."""
    text = ""
    for command in commands:
        capfd.readouterr()
        code = run_command(command, folder, monkeypatch)
        output, errors = capfd.readouterr()
        text += f"{PROMPT}{command}\n{output}" + (f"{errors}[exit code {code}]\n" if code else "")
    return CHANGING.sub("", text.replace(str(folder), "FOLDER").replace(str(CHECKOUT), "CHECKOUT"))


def refuse_to_wrap(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """Let the wrapping of a text with the absolute path of a folder fail: its lines would be others
    where the folder has a longer path.
    """

    def wrap_relative(self: textwrap.TextWrapper, text: str) -> list[str]:
        for folder in folders:
            assert str(folder) not in text, f"an absolute path is wrapped: {text}"
        return wrap(self, text)

    wrap = textwrap.TextWrapper.wrap
    monkeypatch.setattr(textwrap.TextWrapper, "wrap", wrap_relative)


def transcripts(folder: Path) -> list[Path]:
    """Return the transcripts of a folder, as the values of a parameter `path`."""
    paths = sorted(folder.glob("*.txt"))
    assert paths, f"{folder} has no transcript"
    return paths


def check_transcript(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Run the commands of a transcript in a new folder, and compare what they print with it."""
    commands = list(read_commands(path.read_text(encoding="utf-8")))
    asked = {command.split()[1] for command in commands if command.startswith("aiayn ")}
    assert asked or any(command.startswith("read ") for command in commands), (
        f"{path}: no command of ours"
    )
    for name in ("workflow", "paper_tables", "analysis"):
        (tmp_path / name).symlink_to(CHECKOUT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("COLUMNS", "100")  # argparse's
    monkeypatch.setattr("aiayn.train.fairseq_args.USER_FOLDER", Path("workflow/aiayn_fairseq"))
    monkeypatch.setattr(
        "aiayn.train.fairseq_args.NUM_VALIDATIONS", 20
    )  # tests of the engine lower it in their process
    monkeypatch.setattr("aiayn.plan.machine.cpu_flops_per_second_per_core", lambda: 1.0e11)
    refuse_to_wrap(monkeypatch, tmp_path, CHECKOUT)
    check_golden(path.name, run_commands(commands, tmp_path, monkeypatch, capfd), path.parent)
