"""Each reason to drop a pair, by pairs that a reader can count, every route of a recipe, and text
that is not right.
"""

from pathlib import Path

import msgspec
import pytest

from aiayn.data.text import chunks
from aiayn.data.text.clean import clean_corpus, num_words
from aiayn.data.text.lines import read_lines, text_pair
from aiayn.errors import CorpusError
from aiayn.provenance import file_sha256
from aiayn.records import RawCorpus
from aiayn.spec.system import CleanSpec, SubwordSpec
from tests.small_corpus import SMALL, write_raw

SPEC = msgspec.structs.replace(
    SMALL,
    clean=CleanSpec(max_words=4, max_length_ratio=2.0, deduplicate=True, max_word_characters=9),
    subword=SubwordSpec(vocabulary_size=10, joint=True),
)
MOSES = msgspec.structs.replace(
    SPEC,
    tokenise="moses",
    clean=CleanSpec(max_words=6, max_length_ratio=1.5, deduplicate=True),
    subword=SubwordSpec(vocabulary_size=10, joint=True, method="subword_nmt"),
)
PAIRS = [
    ("a b", "c d", None),
    ("", "c", "empty_side"),
    ("\u00a0\t", "c", "empty_side"),
    ("a b c d e", "f g h i", "too_long"),
    ("a b c", "d", "length_ratio"),  # 3 to 1; 2 to 1 is allowed
    ("a b", "d", None),
    ("a 1234567890", "d", "long_word"),
    ("a", "123456789", None),
    ("a b", "c d", "duplicate"),
    ("a b", "c d e", None),  # a pair with one equal side is not a duplicate
]


def raw_of_pairs(folder: Path, pairs: list[tuple[str, str]]) -> RawCorpus:
    """Write the pairs as training text, and two test sets of odd lines. Return their record."""
    sources, targets = zip(*pairs, strict=True)
    lines_by_name = {"train.en": sources, "train.de": targets}
    for split in ("dev", "test"):
        lines_by_name |= {f"{split}.en": ("a\rb", "", ""), f"{split}.de": ("c\u2028d", "", "")}
    return write_raw(folder, lines_by_name)


@pytest.fixture
def record_path(tmp_path: Path) -> Path:
    """Return where the cleaned record goes. The raw text is in its grandparent folder."""
    return tmp_path / "clean" / "record.json"


def test_words_are_what_blanks_separate() -> None:
    assert num_words("a  b c ") == 3
    assert num_words("10\u00a0000 d\tog") == 2


def test_duplicates_stay_where_the_corpus_says_so(tmp_path: Path, record_path: Path) -> None:
    assert SPEC.clean is not None
    spec = msgspec.structs.replace(
        SPEC, clean=msgspec.structs.replace(SPEC.clean, deduplicate=False)
    )
    record = clean_corpus(spec, raw_of_pairs(tmp_path, [("a", "b")] * 3), record_path=record_path)
    assert (record.num_pairs, record.num_dropped_by_reason["duplicate"]) == (3, 0)


def test_kept_pairs_are_in_step_and_dropped_ones_counted(tmp_path: Path, record_path: Path) -> None:
    raw = raw_of_pairs(tmp_path, [(source, target) for source, target, _ in PAIRS])
    record = clean_corpus(SPEC, raw, record_path=record_path)
    assert record.num_pairs == record.pair_by_split["train"].num_lines == 4
    assert record.num_dropped_by_reason == {
        "empty_side": 2,
        "too_long": 1,
        "length_ratio": 1,
        "long_word": 1,
        "duplicate": 1,
    }
    assert list(read_lines(record_path.parent / "train.en")) == ["a b", "a b", "a", "a b"]
    assert list(read_lines(record_path.parent / "train.de")) == ["c d", "d", "123456789", "c d e"]
    assert record.pair_by_split["train"] == text_pair(
        {"en": record_path.parent / "train.en", "de": record_path.parent / "train.de"}
    )
    assert record.provenance.input_sha256_by_path[tmp_path / "train.en"] == file_sha256(
        tmp_path / "train.en"
    )


@pytest.mark.parametrize(("lines_per_chunk", "num_processes"), [(1, 1), (3, 1), (4, 2), (5, 3)])
def test_neither_chunks_nor_processes_change_the_output(
    tmp_path: Path,
    record_path: Path,
    lines_per_chunk: int,
    num_processes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = raw_of_pairs(tmp_path, [(source, target) for source, target, _ in PAIRS] * 2)
    whole = clean_corpus(SPEC, raw, record_path=tmp_path / "whole" / "record.json")
    monkeypatch.setattr(chunks, "LINES_PER_CHUNK", lines_per_chunk)
    monkeypatch.setattr(chunks, "LINES_PER_PROCESS", 1)
    chunked = clean_corpus(SPEC, raw, record_path=record_path, num_processes=num_processes)
    assert chunked.num_dropped_by_reason == whole.num_dropped_by_reason
    assert (
        chunked.num_dropped_by_reason["duplicate"] == 6
    )  # the list has 1 duplicate, and its repetition adds 5
    for split, pair in whole.pair_by_split.items():
        assert chunked.pair_by_split[split].sha256_by_language == pair.sha256_by_language
    assert sorted(path.name for path in record_path.parent.iterdir()) == [
        "dev.de",
        "dev.en",
        "test.de",
        "test.en",
        "train.de",
        "train.en",
    ]


def test_a_moses_recipe_prepares_all_splits_and_counts_tokens(
    tmp_path: Path, record_path: Path
) -> None:
    pairs = [
        (
            "It's a well-known old fact.",
            "Das ist ja bekannt, ja.",
        ),  # It 's a well-known old fact . : 7 tokens, over 6
        ("A trip - now!", 'Die "Reise" jetzt!'),  # A trip - now ! / Die " Reise " jetzt !
        ("A\u00a0trip - now !", 'Die "Reise" jetzt !'),  # the same tokens
        ("One two three.", "Eins."),  # 4 to 2
        ("\u00a0", "Leer."),
    ]
    record = clean_corpus(MOSES, raw_of_pairs(tmp_path, pairs), record_path=record_path)
    assert record.num_dropped_by_reason == {
        "empty_side": 1,
        "too_long": 1,
        "length_ratio": 1,
        "long_word": 0,
        "duplicate": 1,
    }
    assert list(read_lines(record_path.parent / "train.en")) == ["A trip - now !"]
    assert list(read_lines(record_path.parent / "train.de")) == ["Die &quot; Reise &quot; jetzt !"]
    assert list(read_lines(record_path.parent / "test.en")) == [
        "a b",
        "",
        "",
    ]  # the CR separates tokens and ends no line
    assert list(read_lines(record_path.parent / "test.de")) == ["c d", "", ""]
    assert record.pair_by_split["test"].num_lines == 3
    assert (
        tmp_path / "test.de"
    ).read_bytes() == "c\u2028d\n\n\n".encode()  # what scores are counted on


def test_test_sets_are_untouched(tmp_path: Path, record_path: Path) -> None:
    record = clean_corpus(SPEC, raw_of_pairs(tmp_path, [("a", "b")]), record_path=record_path)
    for name in ("dev.en", "dev.de", "test.en", "test.de"):
        assert (record_path.parent / name).read_bytes() == (tmp_path / name).read_bytes()
    assert record.pair_by_split["test"].num_lines == 3


def test_a_corpus_with_no_pair_left_is_refused(tmp_path: Path, record_path: Path) -> None:
    with pytest.raises(
        CorpusError, match=r"train\.en and .*train\.de: no training pair is left.*'empty_side': 1"
    ):
        clean_corpus(SPEC, raw_of_pairs(tmp_path, [("a", "")]), record_path=record_path)
    assert list(record_path.parent.iterdir()) == []


@pytest.mark.parametrize("name", ["train.en", "test.de"])
def test_a_raw_file_that_has_changed_since_fetch_is_refused(
    tmp_path: Path, record_path: Path, name: str
) -> None:
    raw = raw_of_pairs(tmp_path, [("a", "b")])
    (tmp_path / name).write_bytes(b"changed\n")
    with pytest.raises(CorpusError, match=rf"{name}: sha256 .*, its record says .*; restore it"):
        clean_corpus(SPEC, raw, record_path=record_path)
