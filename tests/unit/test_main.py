"""The one command ends without a word where nobody reads on, and with words where something else
broke.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import aiayn
from aiayn.__main__ import EXIT_UNREAD, main, verbs

needs_plan = pytest.mark.skipif("plan" not in verbs(), reason="the wing of `plan` is deleted")


def end_unread(arguments: Sequence[str], *, unbuffered: str = "") -> tuple[int, str]:
    """Run the command with a standard output whose reader has left, and return its exit code and
    its words.
    """
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "aiayn", *arguments],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    finally:
        os.close(writer)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments", [("--help",), pytest.param(("plan", "--system", "base"), marks=needs_plan)]
)
def test_a_reader_that_has_left_ends_the_command_without_a_word(
    arguments: tuple[str, ...], unbuffered: str
) -> None:
    """As `| head` does. 141 is what a shell says of a program that SIGPIPE ended. Unbuffered it is
    seen at once.
    """
    assert end_unread(arguments, unbuffered=unbuffered) == (EXIT_UNREAD, "")


def test_a_verbs_help_that_nobody_reads_ends_without_a_word() -> None:
    """argparse prints it and ends the program. Unbuffered, newer Pythons forgive themselves what
    breaks there.
    """
    assert end_unread(("train", "--help")) == (EXIT_UNREAD, "")
    assert end_unread(("train", "--help"), unbuffered="1") in [(0, ""), (EXIT_UNREAD, "")]


def test_a_copy_installed_without_the_checkouts_files_says_so(tmp_path: Path) -> None:
    shutil.copytree(Path(aiayn.__file__).parent, tmp_path / "aiayn")
    ended = subprocess.run(
        [sys.executable, "-m", "aiayn", "status"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert re.fullmatch(
        r"aiayn status: /.*config: no such folder: .* --editable \.`, or .*\n", ended.stderr
    )


def test_a_failure_keeps_its_exit_code_where_nobody_reads() -> None:
    returncode, words = end_unread(("tables", "--so-far", "--configfile", "no_such_file.yaml"))
    assert returncode == 1
    assert "no_such_file.yaml" in words


def test_another_pipe_that_breaks_is_an_error_with_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_pipe(args: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("aiayn.cli.status.run", break_pipe)
    assert main(["status"]) == 1
    assert capsys.readouterr().err.endswith(": Broken pipe\n")
