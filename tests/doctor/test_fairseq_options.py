"""The tables of fairseq's options and architectures agree with the installed fairseq."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fairseq_options import ARCHITECTURES_PATH, OPTIONS_PATH


def test_the_tables_of_fairseqs_options_are_those_of_the_installed_fairseq(tmp_path: Path) -> None:
    pytest.importorskip("fairseq")
    subprocess.run([sys.executable, "-m", "tests.fairseq_options", str(tmp_path)], check=True)
    for path in (OPTIONS_PATH, ARCHITECTURES_PATH):
        made = (tmp_path / path.name).read_text(encoding="utf-8")
        assert path.read_text(encoding="utf-8") == made, "python -m tests.fairseq_options writes it anew"
