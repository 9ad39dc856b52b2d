"""`aiayn score` refuses each form of text that would decide the score, and its command restores the
lines. Plain sentences are scored, however bad they are.
"""

import json
import os
import random
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from aiayn.__main__ import main
from aiayn.data.text.tokenize_moses import tokenize_line
from aiayn.packed import glob
from aiayn.scoring.outputs.form import find_form_fault, word_match
from aiayn.scoring.outputs.system_output import read_output

WORDS = [
    *("Mann", "Frau", "Kind", "Nachbar", "Haus", "Flu\u00df", "Schiff", "Stadt", "Wasser", "Wald"),
    *("Berg", "Stra\u00dfe", "Br\u00fccke", "Garten", "Vogel", "Hund", "Katze", "Fenster"),
    *("T\u00fcr", "Dach", "Brot", "K\u00e4se", "Wein", "Abend", "Morgen", "Winter", "Sommer"),
]


def sentences(rng: random.Random) -> list[str]:
    """Return sentences with commas, umlauts and few words in common."""
    drawn = [rng.sample(WORDS, 6) for _ in range(60)]
    return [f"{a} {b}, sagt {c} {d}, \u00fcber {e} und {f}." for a, b, c, d, e, f in drawn]


REFERENCES = sentences(random.Random(2017))
CLEAN = [
    line.replace("\u00fcber", "unter") if number % 3 else line
    for number, line in enumerate(REFERENCES)
]


def cut(line: str, mark: str, blank: str = " ") -> str:
    """Return a line with longer words cut after three letters, and a mark between the parts."""
    return blank.join(
        f"{word[:3]}{mark}{word[3:]}" if len(word) > 4 else word for word in line.split()
    )


def ascii_of(line: str) -> str:
    """Return a line without accents."""
    return "".join(
        character for character in unicodedata.normalize("NFKD", line) if character.isascii()
    )


# By form: what the message says, what each line becomes, and whether the command restores it.
FORMS: dict[str, tuple[str, Callable[[str], str], bool]] = {
    "subword-nmt": ("subword-nmt", lambda line: cut(line, "@@ "), True),
    "sentencepiece": ("sentencepiece", lambda line: "\u2581" + line.replace(" ", " \u2581"), True),
    "underscores": ("`_` before words", lambda line: "_" + line.replace(" ", " _"), True),
    "tensor2tensor": ("tensor2tensor", lambda line: f"{cut(line, ' ', '_ ')}_", True),
    "end of words": ("</w>", lambda line: f"{cut(line, ' ', '</w> ')}</w>", True),
    "WordPiece": ("WordPiece", lambda line: cut(line, " ##"), True),
    "joiners": ("joiners", lambda line: cut(line, "\uffed "), True),
    "byte-level": ("byte-level", lambda line: "\u0120" + line.replace(" ", " \u0120"), True),
    "sentence ends": ("symbols", "<s> {} </s>".format, True),
    "padding": ("symbols", "{} <pad> <pad> <pad> <pad>".format, True),
    "segments": ("sgm", '<seg id="1">{}</seg>'.format, True),
    "language tags": ("language tags", ">>deu<< {}".format, True),
    "Python lists": ("Python lists", lambda line: str(line.split()), True),
    "byte strings": ("byte strings", lambda line: str(line.encode()), True),
    "JSON lines": ("JSON objects", lambda line: json.dumps({"id": 1, "translation": line}), True),
    "JSON strings": ("JSON strings", json.dumps, True),
    "quoted": ("quoted lines", "'{}'".format, True),
    "escapes": ("escapes", lambda line: json.dumps(line)[1:-1], True),
    "an n-best list": ("n-best", "0 ||| {} ||| LM= -3.1 ||| -0.7".format, True),
    "source column": ("columns", "the source of this sentence\t{}".format, True),
    "line numbers": ("line numbers", "(17) {}".format, True),
    "mojibake": ("mojibake", lambda line: line.encode().decode("cp1252", "replace"), True),
    "decomposed": ("NFD", lambda line: unicodedata.normalize("NFD", line), True),
    "zero-width": ("invisible", lambda line: line.replace(" ", "\u200b "), True),
    "compound split": (
        "compound split",
        lambda line: re.sub("(Nach)(bar)", r"\1 ##AT##-##AT## \2", line),
        False,
    ),
    "entities": ("HTML entities", lambda line: line.replace("e", "&#101;"), True),
    "tokens": ("Moses' tokens", lambda line: tokenize_line(line, "de").rstrip(), True),
    # Without a known form the figures refuse, and the references' marks.
    "ASCII for umlauts": ("accents or umlauts", ascii_of, False),
    "no punctuation": ("punctuation", lambda line: re.sub("[,.]", "", line), False),
    "no blanks": ("blanks are at other places", lambda line: line.replace(" ", ""), False),
    "blanks in words": ("blanks are at other places", lambda line: cut(line, " "), False),
    "hyphens for blanks": (
        "blanks are at other places",
        lambda line: line.replace(" ", "-"),
        False,
    ),
}


def score(folder: Path, hypotheses: list[str]) -> int:
    """Score lines against the references, and return the exit code."""
    for name, lines in (("out.de", hypotheses), ("ref.de", REFERENCES)):
        (folder / name).write_text("\n".join([*lines, ""]), encoding="utf-8")
    files = ["--hypotheses", str(folder / "out.de"), "--references", str(folder / "ref.de")]
    return main(["score", *files, "--language-pair", "en-de"])


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_refused_with_both_figures_and_its_command_restores_the_lines(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, change, is_restored = FORMS[name]
    assert score(tmp_path, [change(line) for line in CLEAN]) == 1
    message = capsys.readouterr().err
    assert words in message
    assert re.search(
        r"[\d.]+ % of the n-grams match the references, [\d.]+ % without this form", message
    )
    if is_restored:
        command = message[message.index("undo it: ") + 9 : message.index(" > plain.txt")]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        restored = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            check=True,
            env=os.environ | {"PATH": path, "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"},
        )
        lines = restored.stdout.decode("utf-8").splitlines()
        assert [line.strip() for line in lines] == CLEAN


BAD: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "telegraphic": lambda line: " ".join(word for word in line.split() if len(word) > 3),
    "long words": lambda line: " ".join(word for word in line.split() if len(word) > 6),
    "first words": lambda line: " ".join(line.split()[:3]),
    "cut": lambda line: line[:30],
    "half of the lines": lambda line: line if len(line) % 2 else "",
    "words twice": lambda line: " ".join(f"{word} {word}" for word in line.split()),
    "a loop at the end": lambda line: line + " und" * 20,
    "words in another order": lambda line: " ".join(sorted(line.split())),
    "wrong endings": lambda line: re.sub(r"e\b", "en", line),
    "one word": lambda line: "Ja.",
    "double blanks": lambda line: line.replace(" ", "  "),
    "unknown words": lambda line: re.sub(r"\b[a-m]\w+", "<unk>", line),
}


@pytest.mark.parametrize("name", BAD)
def test_plain_sentences_are_scored_however_bad_they_are(name: str, tmp_path: Path) -> None:
    assert score(tmp_path, [BAD[name](line) for line in CLEAN]) == 0


def test_deeply_nested_lines_are_scored(tmp_path: Path) -> None:
    num_lines = len(CLEAN) // 10
    assert score(tmp_path, ['{"a":' * 2000 + "}"] * num_lines + CLEAN[num_lines:]) == 0


MEASURED = Path(__file__).parents[2] / "paper_tables/measured/multi30k/decode/multi30k_en_de"


@pytest.mark.skipif("AIAYN_MIRROR" not in os.environ, reason="set AIAYN_MIRROR: Multi30k")
@pytest.mark.parametrize("system", ["base", "table3_c_dmodel256", "table3_a_h1"])
def test_degraded_translations_of_our_models_are_scored(system: str) -> None:
    folder = Path(os.environ["AIAYN_MIRROR"].removeprefix("file://")) / "multi30k/data/task1/raw"
    source, references = (
        read_output(folder / f"test_2016_flickr.{language}.gz").lines[::5]
        for language in ("en", "de")
    )
    path = glob(MEASURED / system, "*/last1/test_2016_flickr.txt.xz")[0]
    lines = read_output(path).lines[::5]
    for change in BAD.values():
        assert find_form_fault([change(line) for line in lines], references) is None
    assert find_form_fault(source, references) is None
    assert find_form_fault([references[3]] * len(lines), references) is None
    pieces = [re.sub(r"(\w{4})(\w{2,})", r"\1@@ \2", line) for line in lines]
    assert find_form_fault(pieces, references) is not None


def test_the_match_by_hand() -> None:
    # Pairs: 2 of 3 and 4; triples: 1 of 2 and 3; four words: 0 of 1 and 2.
    assert word_match(["a b c d"], ["x a b c y"]) == pytest.approx(100 * 2 * 3 / (6 + 9))
    assert word_match(["a a a"], ["a a"]) == pytest.approx(100 * 2 / (3 + 1))  # each counts once
    assert word_match([""], ["a"]) == 0
