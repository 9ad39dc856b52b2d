"""The command line's conventions: a wrong command costs no import, and its one sentence can be typed
on. And version, help, colours, width and completion.
"""

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aiayn.__main__ import EXTRA_BY_MODULE, main, verbs
from aiayn.cli.flags import decimal_number
from aiayn.terminal import WIDTH, coloured, reflowed, sections, text_width

# What takes more than a tenth of a second of CPU to import.
HEAVY = (
    *("altair", "fairseq", "pandas", "sacremoses", "safetensors", "scipy", "sentencepiece"),
    *("snakemake", "submitit", "torch", "vl_convert"),
)
VERBS = tuple(verbs())  # also those of wings, which are hidden while a test of the core runs
ASK_WHAT_IS_LOADED = """
import sys
from aiayn.__main__ import main, verbs
for verb in verbs():
    try:
        main([verb, "--no-such-flag"])
    except SystemExit as end:
        print(verb, end.code, *(name for name in sys.argv[1:] if name in sys.modules))
"""


def test_a_wrong_flag_of_any_verb_is_answered_without_heavy_imports() -> None:
    """The first verb that imports one is the first that names it."""
    done = subprocess.run(
        [sys.executable, "-c", ASK_WHAT_IS_LOADED, *HEAVY],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [f"{verb} 2" for verb in VERBS]
    assert done.stderr.count("\n") == len(VERBS)


def test_a_number_has_a_decimal_point() -> None:
    assert decimal_number("26.9") == 26.9
    for text in ("26,9", "26.9%", "", "1,2,3"):
        with pytest.raises(Exception, match="expected a number"):
            decimal_number(text)


@pytest.mark.parametrize("arguments", [["--version"], ["-V"]])
def test_the_version_names_commit_and_folder(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 0
    assert re.fullmatch(r"aiayn \d+\.\d+\.\d+, commit \S+, /.*aiayn\n", capsys.readouterr().out)


def test_help_of_a_verb_is_asked_for_in_two_ways(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for arguments in (["help", "status"], ["status", "--help"]):
        with pytest.raises(SystemExit):
            main(arguments)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != ""
    assert main(["help"]) == 0
    assert "verbs:" in capsys.readouterr().out


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured("a", "red", Terminal()) == "\x1b[31ma\x1b[0m"
    assert coloured("a", "red", io.StringIO()) == "a"
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured("a", "red", Terminal()) == "a"


def test_answers_have_a_colour_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    answers = ("", ["  NOT REPRODUCED. It is 2 below", "REPRODUCED.", "never REPRODUCED"])
    plain = sections(answers)
    assert "\x1b" not in plain
    monkeypatch.setattr("sys.stdout", Terminal())
    shown = sections(answers)
    assert "\x1b[31m  NOT REPRODUCED\x1b[0m." in shown
    assert "\n\x1b[32mREPRODUCED\x1b[0m." in shown
    assert shown.endswith("\nnever REPRODUCED\n")


def test_text_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "61")
    assert text_width(Terminal()) == 61
    assert text_width(io.StringIO()) == WIDTH
    monkeypatch.setattr("sys.stdout", Terminal())
    text = reflowed(f"{'word ' * 30}\n{'more ' * 30}\n\n  an indented line stays{' ' * 60}so")
    assert {len(line) <= 61 for line in text.split("\n")[:-1]} == {True}
    assert text.split("\n")[-1].endswith(" so")


def on_terminal(command: str, columns: int) -> str:
    """Return what a command prints on a terminal of so many columns."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        ["sh", "-c", f"stty cols {columns}; {command}"],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm", "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            block = os.read(leader, 1 << 16)
        except OSError:  # the terminal is closed
            break
        if not block:
            break
        shown += block
    process.wait()
    os.close(leader)
    return shown.decode()


def test_a_narrow_terminal_gets_narrow_answers_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = on_terminal(f"{sys.executable} -m aiayn train --help", 60)
    assert max(map(len, shown.partition("options:")[0].splitlines())) <= 60
    assert "\x1b[31maiayn trian" not in shown
    assert "\x1b[31maiayn\x1b[0m: no verb 'trian'" in on_terminal(
        f"{sys.executable} -m aiayn trian", 60
    )


def test_completion_knows_verbs_and_flags(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    assert [verb for verb in verbs() if f"'{verb}'" not in script] == []
    assert "'--from-logs'" in script


@pytest.mark.parametrize("what", ["systems", "corpora", "scales"])
def test_names_are_listed(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", what]) == 0
    listed = capsys.readouterr().out
    known = {"systems": "table3_a_h1", "corpora": "multi30k_en_de", "scales": "multi30k.yaml"}
    assert known[what] in listed
    assert main(["list", what, "--json"]) == 0
    assert capsys.readouterr().out.startswith("[")


@pytest.mark.parametrize(("module", "command"), [("torch", "install"), ("altair", "core")])
def test_a_package_that_is_not_installed_is_one_sentence_for_every_verb(
    module: str,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def need(args: object) -> None:
        monkeypatch.setitem(sys.modules, module, None)  # importing it fails
        __import__(module)

    assert module in EXTRA_BY_MODULE
    monkeypatch.setattr("aiayn.cli.status.run", need)
    assert main(["status"]) == 1
    assert capsys.readouterr().err == (
        f"aiayn status: needs {module}, which is not installed: type `make {command}` in the"
        " checkout\n"
    )


def test_a_missing_module_of_ours_is_a_mistake_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def need(args: object) -> None:
        __import__("aiayn.no_such_module")

    monkeypatch.setattr("aiayn.cli.status.run", need)
    with pytest.raises(ModuleNotFoundError):
        main(["status"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_below_the_output_is_one_sentence() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "aiayn", "list", "corpora"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "standard output" in done.stderr
    assert "No space left on device" in done.stderr


def test_a_full_disk_names_the_file_and_what_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from aiayn.provenance import replace_on_success

    def write(args: object) -> None:
        with replace_on_success(tmp_path / "figure.svg") as partial_path:
            partial_path.touch()
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("aiayn.cli.status.run", write)
    assert main(["status"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"aiayn status: {tmp_path / 'figure.svg'}: No space left on device;")
    assert re.search(rf"{re.escape(str(tmp_path))} has [\d,.]+ MB free", error)
