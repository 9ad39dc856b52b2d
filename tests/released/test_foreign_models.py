"""`aiayn evaluate` reads checkpoints, data-bins and codes of every version of fairseq, notices a
dictionary that is not the model's, and runs no code of a file.
"""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from aiayn.__main__ import main
from aiayn.data.text.foreign import foreign_splitter
from aiayn.data.text.tokenize_moses import detokenize_line
from aiayn.decode.decode import Translator
from aiayn.decode.decoder_steps import FairseqSteps, TransformerSteps, as_plain_transformer
from aiayn.errors import CheckpointError, CorpusError
from aiayn.records import BinarizedCorpus
from aiayn.spec.system import read_system
from analysis.released.heavy_dictionary_check import check_by_loss
from tests.engine.random_checkpoint import save_random
from tests.engine.tiny_spec import DECODING, TRAINING
from tests.released.foreign_models import (
    Foreign,
    make_data_bin,
    rewrite_to_2018,
    write,
)

pytestmark = pytest.mark.slow


def evaluate(checkpoint: Path, *arguments: object) -> int:
    search = ["--search", "fairseq", "--device", "cpu"]
    return main(["evaluate", "--checkpoint", str(checkpoint), *search, *map(str, arguments)])


def translations(tmp_path: Path, checkpoint: Path, *arguments: object) -> list[str]:
    output = tmp_path / "output"
    assert evaluate(checkpoint, *arguments, "--output", output) == 0
    return output.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("dataset_impl", ["raw", "lazy", "cached", "mmap"])
def test_a_file_of_2018_translates_every_data_bin_as_fairseq_generate(
    foreign: Foreign,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    dataset_impl: str,
) -> None:
    old = rewrite_to_2018(foreign.checkpoint, tmp_path / "model.pt")
    dictionary = str(foreign.data / "dict.en.txt")
    data = make_data_bin(foreign.text, tmp_path / "bin", dataset_impl, "--srcdict", dictionary)
    assert len(foreign.expected) == 100
    assert len(set(foreign.expected)) > 50
    assert translations(tmp_path, old, "--data", data) == foreign.expected
    printed = capsys.readouterr()
    assert printed.out.startswith("bleu_as_given")
    assert "this model with a shuffled dictionary" in printed.err


def test_text_with_codes_gives_the_translations_of_the_data_bin(
    foreign: Foreign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ["--source", foreign.text / "raw.test.en", "--dictionaries", foreign.data]
    codes = ["--bpe-codes", foreign.text / "bpecodes"]
    expected = [detokenize_line(line, "de") for line in foreign.expected]  # plain, as the source
    assert translations(tmp_path, foreign.checkpoint, *source, *codes) == expected
    printed = capsys.readouterr().err
    assert "Moses without -a, because @-@ is not in the dictionary" in printed
    assert "in the order of frequency" in printed
    references = ["--references", foreign.text / "raw.test.de"]
    assert translations(tmp_path, foreign.checkpoint, *source, *codes, *references) == expected
    assert "a unigram model of the same text" in capsys.readouterr().err
    assert evaluate(foreign.checkpoint, *source) == 2
    assert "--bpe-codes FILE" in capsys.readouterr().err


def test_refused_tokens_of_a_data_bin_are_kept(
    foreign: Foreign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = ["--references", foreign.text / "raw.test.de", "--results", tmp_path]
    assert evaluate(foreign.checkpoint, "--data", foreign.data, *plain) == 1
    (kept,) = (tmp_path / "evaluate").iterdir()
    assert kept.name == "training-checkpoint_last-test.de"
    assert kept.read_text(encoding="utf-8").splitlines() == foreign.expected
    message = capsys.readouterr().err
    assert "of the lines have Moses' tokens" in message
    assert f" < {kept} > plain.txt" in message


def change_order(foreign: Foreign, folder: Path, *, is_tied: bool) -> Path:
    """Return a data-bin whose dictionary has its lines in another order: all of them, or those with
    equal counts.
    """
    lines = (foreign.data / "dict.en.txt").read_text(encoding="utf-8").splitlines()
    if is_tied:  # stable: among equal counts the order of the alphabet backwards
        lines.sort(reverse=True)
        lines.sort(key=lambda line: -int(line.rpartition(" ")[2]))
    else:
        lines.reverse()
    folder.mkdir()
    write(folder / "changed.txt", lines)
    flags = ("--srcdict", str(folder / "changed.txt"))
    return make_data_bin(foreign.text, folder / "bin", "cached", *flags)


@pytest.mark.parametrize("is_tied", [False, True])
def test_a_dictionary_that_was_made_again_is_noticed(
    foreign: Foreign, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_tied: bool
) -> None:
    data = change_order(foreign, tmp_path / "changed", is_tied=is_tied)
    output = tmp_path / "output"
    assert evaluate(foreign.checkpoint, "--data", data, "--output", output) == 1
    printed = capsys.readouterr().err
    assert "this dictionary is not the model's, or the model is not trained" in printed
    assert "a unigram model" in printed
    assert "shuffled dictionary" in printed
    assert not output.exists()
    # With the model's own dictionaries next to it, the first other symbol is named.
    model = rewrite_to_2018(foreign.checkpoint, tmp_path / "model.pt")
    for language in ("en", "de"):
        name = f"dict.{language}.txt"
        (tmp_path / name).write_bytes((foreign.data / name).read_bytes())
    assert evaluate(model, "--data", data) == 1
    printed = capsys.readouterr().err
    assert "dict.en.txt: its symbol " in printed
    assert "which came with the model" in printed


def test_the_check_of_a_dictionary_cuts_lines_to_the_models_positions(
    data: BinarizedCorpus, tmp_path: Path
) -> None:
    """Otherwise one long line of the text would end the evaluation."""
    translator = Translator(
        save_random(tmp_path, data, TRAINING), data.folder, DECODING, device="cpu"
    )
    long_line = translator.number("\u2581the " * 1500)
    # The model is not trained, and this is all that the check says.
    with pytest.raises(CheckpointError, match="this dictionary is not the model's"):
        check_by_loss(translator, [long_line], [long_line], "dict.en.txt")


def test_a_transformer_of_fairseq_is_searched_by_our_steps(foreign: Foreign) -> None:
    decoding = read_system("base", "paper").decoding
    translator = Translator(foreign.checkpoint, foreign.data, decoding, device="cpu")
    assert isinstance(translator.steps, TransformerSteps)
    sources = [translator.number("Die Frau")]
    plain = translator.translate(sources)[0]
    translator.steps = FairseqSteps(translator.model)
    assert translator.translate(sources)[0].pieces == plain.pieces
    # Another activation has the same parameters, and other outputs.
    translator.model.encoder.layers[0].activation_fn = torch.tanh
    assert as_plain_transformer(translator.model) is None


def write_variant(foreign: Foreign, path: Path, **changes: Any) -> Path:
    return rewrite_to_2018(foreign.checkpoint, path, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "language_modeling", "arch": "transformer_lm"}, "task 'language_modeling'"),
        ({"task": "speech_to_text", "arch": "s2t_transformer"}, "task 'speech_to_text'"),
        ({"arch": "mine", "user_dir": "/home/me/code"}, "with --user-dir /home/me/code, which"),
    ],
)
def test_models_of_other_kinds_are_refused_in_a_sentence(
    foreign: Foreign,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, str],
    words: str,
) -> None:
    model = write_variant(foreign, tmp_path / "model.pt", **changes)
    assert evaluate(model, "--data", foreign.data) == 1
    printed = capsys.readouterr().err
    assert words in printed
    assert "Traceback" not in printed


class Harmful:
    """What a stranger's pickle may hold: a call."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("is_zip", [False, True])
def test_no_code_of_a_file_is_run(
    foreign: Foreign, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_zip: bool
) -> None:
    path, trace = tmp_path / "model.pt", tmp_path / "trace"
    state = {"model": {}, "args": Harmful(trace)}
    torch.save(state, path, _use_new_zipfile_serialization=is_zip)
    assert evaluate(path, "--data", foreign.data) == 1
    assert "holds a call of posix.mkdir, which no checkpoint needs" in capsys.readouterr().err
    assert not trace.exists()
    pickle.loads(pickle.dumps(Harmful(trace)))  # the control: the file would have done it
    assert trace.exists()


def test_forms_of_codes_give_the_same_pieces(foreign: Foreign, tmp_path: Path) -> None:
    codes = (foreign.text / "bpecodes").read_text(encoding="utf-8")
    merges = codes.splitlines()[1:]
    line = (foreign.text / "raw.test.en").read_text(encoding="utf-8").splitlines()[0]
    write(tmp_path / "headless", merges)
    write(tmp_path / "fast", [f"{merge} {1000 - n}" for n, merge in enumerate(merges)])
    split, _ = foreign_splitter(foreign.text / "bpecodes", ["@-@"], "en")
    assert "@@ " in split(line)
    for name in ("headless", "fast"):
        assert foreign_splitter(tmp_path / name, ["@-@"], "en")[0](line) == split(line)
    # Version 0.1 has the end of a word as a symbol of its own.
    write(tmp_path / "first", ["a b", "b </w>", "ab </w>"])
    assert foreign_splitter(tmp_path / "first", [], "en")[0]("ab b") == "ab b"
    write(tmp_path / "wrong", ["a b 1", "b c"])
    with pytest.raises(CorpusError, match="wrong: not codes of subword-nmt"):
        foreign_splitter(tmp_path / "wrong", [], "en")


def test_hyphens_and_apostrophes_are_decided_by_the_dictionary(foreign: Foreign) -> None:
    codes = foreign.text / "bpecodes"
    line = "the well-known man\u2019s"

    def tokens(symbols: list[str]) -> str:
        split, _ = foreign_splitter(codes, symbols, "en")
        return split(line).replace("@@ ", "")

    assert tokens(["@-@", "\u2019"]) == "the well @-@ known man \u2019 s"
    assert tokens([]) == "the well-known man &apos;s"
    assert "-a, because @-@ is in" in foreign_splitter(codes, ["@-@"], "en")[1]
