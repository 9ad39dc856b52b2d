"""`aiayn translate RUN` reads sentences from standard input and prints each translation with its
score.
"""

import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import aiayn.cli.translate
from aiayn.__main__ import main


def translate(
    lines: bytes, *arguments: str, monkeypatch: pytest.MonkeyPatch, is_terminal: bool = False
) -> int:
    """Run the command on standard input."""
    stdin = SimpleNamespace(buffer=io.BytesIO(lines), isatty=lambda: is_terminal)
    monkeypatch.setattr("sys.stdin", stdin)
    return main(["translate", *arguments])


def test_each_line_becomes_a_score_and_a_line(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Split only at line feeds, with an empty line and without a line feed at the end; more
    than one block.
    """
    monkeypatch.setattr(aiayn.cli.translate, "LINES_AT_ONCE", 2)
    lines = "The boy sees the girl.\n\nA\u2028b\rc\r\n\U0001f600".encode()
    assert translate(lines, "uninter", "--results", str(results), monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr()
    translations = printed.out.removesuffix("\n").split("\n")
    assert len(translations) == 4
    for line in translations:
        assert re.fullmatch(r"-?\d+\.\d{4}\t[^\n]*", line)
    assert (
        "uninterrupted, last2, beam:4|lenpen:gnmt|alpha:0.6|stop:tensor2tensor|maxlen:1x+50"
        in printed.err
    )


def test_without_a_name_it_is_the_newest_run_and_a_terminal_shows_translations_only(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    flags = ["--results", str(results), "--average", "last2"]
    assert translate(b"a\nb\n", *flags, monkeypatch=monkeypatch, is_terminal=True) == 0
    printed = capsys.readouterr()
    assert printed.out.count("\n") == 2
    assert printed.err.endswith("one sentence a line; Ctrl-D ends\n")


def test_a_line_that_is_not_utf_8_is_named(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert translate(b"good\nb\xffd\n", "--results", str(results), monkeypatch=monkeypatch) == 1
    assert "standard input, line 2: not UTF-8" in capsys.readouterr().err
