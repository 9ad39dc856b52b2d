"""Codes and pieces equal the output of subword-nmt's commands, in any order of the languages."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from aiayn.data.text import binarize
from aiayn.data.text.lines import read_lines
from aiayn.data.text.subword import CodesEncoder, load_encoders, segment_corpus
from aiayn.data.text.tokenize_moses import tokenize_lines
from aiayn.errors import ConfigError, CorpusError
from aiayn.records import ParallelText
from aiayn.spec.system import SubwordSpec
from tests.encoded_lines import encoded_lines
from tests.small_corpus import SMALL, write_train

NUM_MERGES = 300
ENGLISH = [
    "the dog sees the house",
    "the dogs &apos;s  house",
    "a dog sleeps in the house .",
    "",
] * 10
GERMAN = [
    "der Hund sieht das Haus",
    "die Hunde &#91; Haus",
    "ein Hund schl\u00e4ft im Haus .",
    "\U0001f600",
] * 10
SPEC = msgspec.structs.replace(
    SMALL,
    tokenise="moses",
    subword=SubwordSpec(vocabulary_size=20, joint=True, method="subword_nmt"),
)


@pytest.fixture
def text(tmp_path: Path) -> ParallelText:
    """Return the record of the small text."""
    return write_train(tmp_path / "text", {"en": ENGLISH, "de": GERMAN})


def run_subword_nmt(*arguments: str, stdin: str) -> str:
    """Return what the library's own command prints."""
    command = [sys.executable, "-c", "from subword_nmt.subword_nmt import main; main()", *arguments]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONWARNINGS": "ignore"}
    finished = subprocess.run(
        command, input=stdin.encode(), capture_output=True, check=True, env=environment
    )
    return finished.stdout.decode()


@pytest.fixture(scope="module")
def real_lines(newstest: Path) -> dict[str, list[str]]:
    """Return 600 lines of newstest2013 in Moses tokens, English and German."""
    return {
        k: tokenize_lines(list(read_lines(newstest / f"newstest2013.{k}"))[:600], k)
        for k in ("en", "de")
    }


@pytest.fixture(scope="module")
def real_codes(real_lines: dict[str, list[str]]) -> str:
    """Return what `cat train.de train.en | subword-nmt learn-bpe` prints: Google's order of the
    languages.
    """
    joined = "".join(f"{line}\n" for language in ("de", "en") for line in real_lines[language])
    return run_subword_nmt("learn-bpe", "-s", str(NUM_MERGES), stdin=joined)


def test_codes_of_real_text_are_the_commands(
    real_lines: dict[str, list[str]], real_codes: str, tmp_path: Path
) -> None:
    """Ours are counted English first. The order does not matter."""
    subword = SubwordSpec(vocabulary_size=NUM_MERGES, joint=True, method="subword_nmt")
    record = segment_corpus(
        msgspec.structs.replace(SPEC, subword=subword),
        write_train(tmp_path / "text", real_lines),
        record_path=tmp_path / "segment" / "record.json",
    )
    assert (tmp_path / "segment" / "joint.codes").read_text(encoding="utf-8") == real_codes
    assert record.model_path_by_language == dict.fromkeys(
        ("en", "de"), tmp_path / "segment" / "joint.codes"
    )
    assert record.learning_by_model["joint"].num_lines == 1200


@pytest.mark.parametrize("max_words", [50, 1 << 17])
def test_pieces_of_real_text_are_the_commands(
    real_lines: dict[str, list[str]],
    real_codes: str,
    newstest: Path,
    tmp_path: Path,
    max_words: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Encode the text from which the codes were learnt, and French, which is new to them."""
    monkeypatch.setattr(binarize, "MAX_WORDS", max_words)
    codes_path = tmp_path / "joint.codes"
    codes_path.write_text(real_codes, encoding="utf-8", newline="\n")
    french = tokenize_lines(list(read_lines(newstest / "newstest2013.fr"))[:300], "fr")
    lines = [*real_lines["de"], *real_lines["en"], *french]
    theirs = run_subword_nmt(
        "apply-bpe", "-c", str(codes_path), stdin="".join(f"{line}\n" for line in lines)
    )
    encoder = CodesEncoder(codes_path)
    # The command keeps a blank that Moses' tokenizer leaves at a line's end; readers of pieces
    # ignore it.
    their_lines = [line.rstrip(" ") for line in theirs.removesuffix("\n").split("\n")]
    assert [encoder.pieces(line) for line in lines] == their_lines
    assert encoded_lines(encoder, lines) == [f"{line} </s>".strip() for line in their_lines]


def test_pieces_of_odd_lines(text: ParallelText, tmp_path: Path) -> None:
    """Blanks in a row, none at all, a character never seen, a word of one character."""
    encoder = load_encoders(
        segment_corpus(SPEC, text, record_path=tmp_path / "segment" / "record.json")
    )["en"]
    assert encoder.pieces("  Haus   x ") == "Haus x"
    assert encoder.pieces("") == ""
    assert encoder.pieces("\u4e2dx") == "\u4e2d@@ x"
    assert encoded_lines(encoder, ["", "x", " "]) == ["</s>", "x </s>", "</s>"]


def test_each_language_has_its_own_codes_where_they_are_separate(
    text: ParallelText, tmp_path: Path
) -> None:
    spec = msgspec.structs.replace(
        SPEC, subword=SubwordSpec(vocabulary_size=8, joint=False, method="subword_nmt")
    )
    encoders = load_encoders(
        segment_corpus(spec, text, record_path=tmp_path / "segment" / "record.json")
    )
    german = "".join(f"{line}\n" for line in GERMAN)
    assert run_subword_nmt("learn-bpe", "-s", "8", stdin=german) == (
        tmp_path / "segment/de.codes"
    ).read_text("utf-8")
    assert encoders["en"].pieces("Hund") != encoders["de"].pieces("Hund") == "Hund"


@pytest.mark.parametrize(("lines", "most"), [(["abc abc"], 2), (["a b c"], 0), (["ab"], 0)])
def test_more_merges_than_the_text_yields_are_refused(
    lines: list[str], most: int, tmp_path: Path
) -> None:
    """A pair must occur twice to be merged. Words of a single character have no pairs."""
    text = write_train(tmp_path / "text", {"en": lines, "de": ["x"]})
    expected = (
        r"train\.en and .*train\.de: subword\.vocabulary_size is 20 merges; expected at"
        rf" most {most}, which this text yields"
    )
    with pytest.raises(ConfigError, match=expected):
        segment_corpus(SPEC, text, record_path=tmp_path / "segment" / "record.json")


def test_white_space_within_a_word_is_refused(tmp_path: Path) -> None:
    """Text that nobody tokenised: fairseq would split a piece there."""
    text = write_train(tmp_path / "text", {"en": ["10\u00a0km"] * 9, "de": ["x"] * 9})
    with pytest.raises(
        CorpusError, match=r"the word '10\\xa0km' contains white space, where fairseq would split"
    ):
        segment_corpus(SPEC, text, record_path=tmp_path / "segment" / "record.json")


def test_white_space_within_a_word_of_a_test_set_is_refused(
    text: ParallelText, tmp_path: Path
) -> None:
    encoder = load_encoders(
        segment_corpus(SPEC, text, record_path=tmp_path / "segment" / "record.json")
    )["en"]
    with pytest.raises(
        CorpusError, match=r"joint\.codes: the word 'a\\u2028b' contains white space"
    ):
        encoded_lines(encoder, ["a\u2028b"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"joint\.codes: no such file"),
        (b"", r"joint\.codes: not codes of subword-nmt: .* rerun `aiayn segment`"),
        (b"\nthe model of another library", r"joint\.codes: not codes"),
        (b"#version: 0.2\na b\na b c\n", r"joint\.codes: not codes"),
        (b"#version: 0.2\n\xff b\n", r"joint\.codes:2: not UTF-8"),
    ],
)
def test_codes_that_are_none_are_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    """The library itself would end the process at a wrong line."""
    if content is not None:
        (tmp_path / "joint.codes").write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        CodesEncoder(tmp_path / "joint.codes")


def test_codes_hold_unicode_line_ends(tmp_path: Path) -> None:
    """Readers that end lines at U+0085 or U+2028 fall out of step: subword-nmt's own once did (its
    issue 92).
    """
    (tmp_path / "joint.codes").write_bytes("#version: 0.2\na\u0085 b\nc d</w>\n".encode())
    assert CodesEncoder(tmp_path / "joint.codes").pieces("cd") == "cd"


def test_the_libraries_memory_of_words_is_not_used(tmp_path: Path) -> None:
    """It would hold every word of the text."""
    (tmp_path / "joint.codes").write_bytes(b"#version: 0.2\na b\n")
    encoder = CodesEncoder(tmp_path / "joint.codes")
    encoder.pieces("abc bcd cde")
    assert len(encoder._bpe.cache) == 0
