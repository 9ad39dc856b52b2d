"""Verbs print what the files of tests/golden/transcripts say: `$ aiayn ...` and what it prints, any number of times.

For a new transcript write the line of its command into a file, run `make golden`, and read what came below it. A
command that fails is followed by its errors and its exit code. The commands of a file run one after the other in a new
folder, with links to workflow/ and paper_tables/, on a machine without GPUs whose core does 10^11 operations a second.
"""

import shlex
from pathlib import Path

import pytest

from aiayn.__main__ import main, verbs
from tests.golden_files import GOLDEN_FOLDER, check_golden

CHECKOUT = GOLDEN_FOLDER.parents[1]
PATHS = sorted((GOLDEN_FOLDER / "transcripts").glob("*.txt"))
PROMPT = "$ aiayn "


def run_commands(commands: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the transcript of commands, with the name of the folder that they run in replaced."""
    text = ""
    for command in commands:
        capsys.readouterr()
        try:
            code = main(shlex.split(command))
        except SystemExit as exit:  # of argparse
            code = int(exit.code or 0)
        output, errors = capsys.readouterr()
        text += f"{PROMPT}{command}\n{output}" + (f"{errors}[exit code {code}]\n" if code else "")
    return text.replace(str(folder), "FOLDER")


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_a_transcript_is_the_golden_one(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    commands = [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]
    assert commands, f"{path}: no line begins with {PROMPT!r}"
    if missing := {shlex.split(command)[0] for command in commands} - set(verbs()):
        pytest.skip(f"not among the verbs here: {', '.join(missing)}")
    for name in ("workflow", "paper_tables"):
        (tmp_path / name).symlink_to(CHECKOUT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("COLUMNS", "100")  # argparse's
    monkeypatch.setattr("aiayn.train.fairseq_args.USER_FOLDER", Path("workflow/aiayn_fairseq"))
    monkeypatch.setattr("aiayn.train.fairseq_args.NUM_VALIDATIONS", 20)  # tests of the engine lower it in their process
    monkeypatch.setattr("aiayn.plan.machine.cpu_flops_per_second_per_core", lambda: 1.0e11)
    check_golden(f"transcripts/{path.name}", run_commands(commands, tmp_path, capsys))


def test_a_failing_command_shows_its_errors_and_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = run_commands(["score --records nowhere"], tmp_path, capsys)
    assert text.startswith("$ aiayn score --records nowhere\n")
    assert text.endswith("\n[exit code 2]\n")
