"""`aiayn evaluate` scores a checkpoint that fairseq's own code has trained and saved, by its
translations.
"""

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from aiayn.__main__ import main
from aiayn.records import BinarizedCorpus, SegmentedText
from tests.engine.hooked_job import CHECKOUT

pytestmark = pytest.mark.slow

TINY = (
    "--encoder-layers 1 --decoder-layers 1 --encoder-attention-heads 2 --decoder-attention-heads 2"
    " --encoder-embed-dim 16 --decoder-embed-dim 16 --encoder-ffn-embed-dim 32"
    " --decoder-ffn-embed-dim 32 --share-all-embeddings"
)


def call_fairseq(command: str, *arguments: str) -> None:
    """Run a command of fairseq in a process of its own; our plugin replaces the compiled
    batching.
    """
    plugin = ["--user-dir", str(CHECKOUT / "workflow" / "aiayn_fairseq")]
    called = [sys.executable, "-m", f"fairseq_cli.{command}", *arguments, *plugin]
    answer = subprocess.run(called, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr[-2000:]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory, data: BinarizedCorpus) -> Path:
    """Return what fairseq-train saves of its own transformer, task, criterion and optimiser."""
    folder = tmp_path_factory.mktemp("stock")
    flags = (
        f"--arch transformer {TINY} --task translation --optimizer adam --lr 0.01 --max-tokens 2000"
        " --max-update 30 --cpu --disable-validation --seed 1 --num-workers 0"
    )
    call_fairseq("train", str(data.folder), "--save-dir", str(folder), *flags.split())
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def references(data: BinarizedCorpus) -> Path:
    """Return the file of the test set's German side."""
    return Path(data.folder).parents[1] / "fetch" / "tiny_test.de"


def evaluate(checkpoint: Path, data: BinarizedCorpus, *arguments: str) -> int:
    """Call the verb for the test set's split."""
    files = ["--checkpoint", str(checkpoint), "--data", str(data.folder), "--device", "cpu"]
    return main(["evaluate", *files, *arguments])


def test_the_translations_are_fairseqs_own_and_are_scored(
    checkpoint: Path,
    data: BinarizedCorpus,
    references: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "out.de"
    scored = ["--references", str(references), "--search", "fairseq", "--output", str(output)]
    assert evaluate(checkpoint, data, *scored, "--no-warning") == 0
    printed = capsys.readouterr().out
    # Its own BLEU is compiled, so it scores by sacreBLEU.
    flags = (
        "--gen-subset test --beam 4 --lenpen 0.6 --cpu --remove-bpe"
        " sentencepiece --scoring sacrebleu --num-workers 0 --batch-size 1"
    )
    paths = [str(data.folder), "--path", str(checkpoint), "--results-path", str(tmp_path)]
    call_fairseq("generate", *paths, *flags.split())
    generated = (tmp_path / "generate-test.txt").read_text(encoding="utf-8").splitlines()
    theirs = {
        int(line.split("\t")[0][2:]): line.split("\t")[2]
        for line in generated
        if line.startswith("D-")
    }
    assert output.read_text(encoding="utf-8").splitlines() == [
        theirs[index] for index in range(len(theirs))
    ]
    sides = ["--hypotheses", str(output), "--references", str(references)]
    assert main(["score", *sides, "--json", "--no-warning"]) == 0
    by_file = {score["metric"]: score["value"] for score in json.loads(capsys.readouterr().out)}
    assert {line.split()[0]: line.split()[1] for line in printed.splitlines()} == {
        metric: f"{value:.2f}" for metric, value in by_file.items()
    }
    assert "beam:4|lenpen:len|alpha:0.6|stop:fairseq" in printed


def test_text_with_a_sentencepiece_model_gives_the_translations_of_the_data_bin(
    checkpoint: Path,
    data: BinarizedCorpus,
    segmented: SegmentedText,
    references: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outputs = [tmp_path / "of_data", tmp_path / "of_text"]
    model = segmented.model_path_by_language["en"]
    source = ["--source", str(references.with_suffix(".en")), "--bpe-codes", str(model)]
    assert evaluate(checkpoint, data, "--output", str(outputs[0]), "--no-warning") == 0
    files = [*source, "--dictionaries", str(data.folder), "--output", str(outputs[1])]
    assert main(["evaluate", "--checkpoint", str(checkpoint), "--device", "cpu", *files]) == 0
    assert "tiny_test.en: sentencepiece" in capsys.readouterr().err
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_references_of_another_length_are_refused_after_the_translations_are_kept(
    checkpoint: Path, data: BinarizedCorpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "references").write_text("eins\n", encoding="utf-8")
    output = tmp_path / "out.de"
    wrong = [
        "--references",
        str(tmp_path / "references"),
        "--beam-size",
        "1",
        "--output",
        str(output),
    ]
    assert evaluate(checkpoint, data, *wrong) == 1
    assert f"21 lines, {tmp_path / 'references'} has 1" in capsys.readouterr().err
    assert len(output.read_text(encoding="utf-8").splitlines()) == 21


@pytest.mark.parametrize(("part", "name"), [("model", "s2t_conformer"), ("task", "speech_to_text")])
def test_a_model_of_another_kind_is_refused_with_those_that_are_known(
    checkpoint: Path,
    data: BinarizedCorpus,
    references: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    part: str,
    name: str,
) -> None:
    state = torch.load(checkpoint, weights_only=False)
    settings = state["cfg"][part]
    if isinstance(settings, Namespace):
        settings._name = settings.arch = name
    else:
        settings["_name"] = name
    torch.save(state, tmp_path / "other.pt")
    assert evaluate(tmp_path / "other.pt", data, "--references", str(references)) == 1
    seen = capsys.readouterr().err
    assert f"{part} {name!r}" in seen
    assert "transl" in seen or "transformer" in seen


def test_bad_input_is_refused(
    checkpoint: Path,
    data: BinarizedCorpus,
    references: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["evaluate", "--checkpoint", str(checkpoint)]) == 2
    assert "give --checkpoint FILE with --data FOLDER" in capsys.readouterr().err
    torn = tmp_path / "torn.pt"
    torn.write_bytes(checkpoint.read_bytes()[:1000])
    assert evaluate(torn, data, "--references", str(references)) == 1
    assert str(torn) in capsys.readouterr().err
    assert evaluate(checkpoint, data, "--references", str(references), "--split", "nothing") == 1
    assert "give a split of this data-bin" in capsys.readouterr().err
