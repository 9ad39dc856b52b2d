"""`translate` of the shipped model, without fairseq and what only trainings need."""

import subprocess
import sys

import pytest

CODE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Blocked())
from aiayn.__main__ import main
sys.exit(main(["translate", "--plain"]))
"""
NOT_NEEDED = {
    "fairseq",
    "fairseq_cli",
    "omegaconf",
    "safetensors",
    "subword_nmt",
    "snakemake",
    "submitit",
}


def translate_without(blocked: set[str], folder: object) -> "subprocess.CompletedProcess[str]":
    """Translate a sentence with the shipped model where some packages are not installed."""
    command = [sys.executable, "-c", CODE.format(blocked=blocked)]
    return subprocess.run(
        command,
        check=False,
        input="A dog runs on the beach.\n",
        capture_output=True,
        text=True,
        cwd=str(folder),
    )


def test_the_shipped_model_translates_with_torch_and_sentencepiece_alone(tmp_path: object) -> None:
    done = translate_without(NOT_NEEDED, tmp_path)
    assert done.stdout == "Ein Hund rennt am Strand.\n", done.stderr


@pytest.mark.parametrize("package", ["torch", "sentencepiece"])
def test_what_is_missing_is_named(tmp_path: object, package: str) -> None:
    done = translate_without({package}, tmp_path)
    assert done.returncode == 1
    expected = f"needs {package}, which is not installed: type `make install` in the checkout"
    assert expected in done.stderr
