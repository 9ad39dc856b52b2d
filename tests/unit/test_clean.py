"""Each reason to drop a pair, by pairs that a reader can count; test sets pass byte for byte."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from aiayn.clean import PairFilter, clean_corpus, num_words
from aiayn.errors import ConfigError, CorpusError, SpaceError
from aiayn.provenance import file_sha256, gather_provenance
from aiayn.records import RawCorpus, TextPair
from aiayn.spec import CleanSpec, CorpusSpec, GeneratedSource, PublicFile, SegmentedSource, SubwordSpec
from aiayn.text import read_lines, text_pair

SPEC = CorpusSpec(
    name="small",
    description="for these tests",
    language_pair="en-de",
    source=GeneratedSource(num_train_pairs=1, num_dev_pairs=1, num_test_pairs=1, grammar_seed=1),
    dev_testset="dev",
    test_testset="test",
    clean=CleanSpec(max_words=4, max_length_ratio=2.0, deduplicate=True),
    subword=SubwordSpec(vocabulary_size=10, joint=True),
)
PAIRS = [
    ("a b", "c d", None),
    ("", "c", "empty_side"),
    ("\u00a0\t", "c", "empty_side"),
    ("a b c d e", "f g h i", "too_long"),
    ("a b c", "d", "length_ratio"),  # 3 to 1; 2 to 1 is allowed
    ("a b", "d", None),
    ("a b", "c d", "duplicate"),
    ("a b", "c d e", None),  # one side alone is no duplicate
]


def write_raw(folder: Path, source: bytes, target: bytes) -> RawCorpus:
    """Write the given training text and two test sets of odd lines, and return their record."""
    content_by_name = {"train.en": source, "train.de": target}
    for split in ("dev", "test"):
        content_by_name |= {f"{split}.en": b"a\rb\n\n\n", f"{split}.de": "c\u2028d\n\n\n".encode()}
    pair_by_split = {}
    for name, content in content_by_name.items():
        (folder / name).write_bytes(content)
    for split in ("dev", "test"):
        pair_by_split[split] = text_pair({"en": folder / f"{split}.en", "de": folder / f"{split}.de"})
    pair_by_split["train"] = TextPair(
        path_by_language={"en": str(folder / "train.en"), "de": str(folder / "train.de")},
        num_lines=source.count(b"\n"),
        sha256_by_language={"en": file_sha256(folder / "train.en"), "de": file_sha256(folder / "train.de")},
    )
    return RawCorpus(provenance=gather_provenance(), corpus="small", pair_by_split=pair_by_split)


def raw_of_pairs(folder: Path, pairs: list[tuple[str, str]]) -> RawCorpus:
    """Write the pairs as training text, with the two test sets."""
    sides = ["".join(f"{line}\n" for line in side).encode() for side in zip(*pairs, strict=True)]
    return write_raw(folder, sides[0], sides[1])


@pytest.fixture
def record_path(tmp_path: Path) -> Path:
    """Return where the cleaned record goes; the raw text lies in its grandparent."""
    return tmp_path / "clean" / "record.json"


def test_words_are_what_blanks_separate() -> None:
    assert num_words("a  b c ") == 3
    assert num_words("10\u00a0000 d\tog") == 2


def test_each_pair_is_dropped_for_its_reason() -> None:
    assert SPEC.clean is not None
    pair_filter = PairFilter(SPEC.clean)
    assert [pair_filter.reason_to_drop(source, target) for source, target, _ in PAIRS] == [r for _, _, r in PAIRS]


def test_duplicates_stay_where_the_corpus_says_so() -> None:
    pair_filter = PairFilter(CleanSpec(max_words=4, max_length_ratio=2.0, deduplicate=False))
    assert [pair_filter.reason_to_drop("a", "b") for _ in range(2)] == [None, None]


def test_kept_pairs_are_in_step_and_dropped_ones_counted(tmp_path: Path, record_path: Path) -> None:
    raw = raw_of_pairs(tmp_path, [(source, target) for source, target, _ in PAIRS])
    record = clean_corpus(SPEC, raw, record_path=record_path)
    assert record.num_pairs == record.pair_by_split["train"].num_lines == 3
    assert record.num_dropped_by_reason == {"empty_side": 2, "too_long": 1, "length_ratio": 1, "duplicate": 1}
    assert list(read_lines(record_path.parent / "train.en")) == ["a b", "a b", "a b"]
    assert list(read_lines(record_path.parent / "train.de")) == ["c d", "d", "c d e"]
    assert record.pair_by_split["train"].path_by_language["de"] == str(record_path.parent / "train.de")


def test_test_sets_are_untouched(tmp_path: Path, record_path: Path) -> None:
    record = clean_corpus(SPEC, raw_of_pairs(tmp_path, [("a", "b")]), record_path=record_path)
    for name in ("dev.en", "dev.de", "test.en", "test.de"):
        assert (record_path.parent / name).read_bytes() == (tmp_path / name).read_bytes()
    assert record.pair_by_split["test"].num_lines == 3


def test_odd_characters_do_not_shift_lines(tmp_path: Path, record_path: Path) -> None:
    pairs = [("a\rb", "c"), ("d\u2028e", "f"), ("g\u00a0h", "i")]
    record = clean_corpus(SPEC, raw_of_pairs(tmp_path, pairs), record_path=record_path)
    assert record.num_pairs == 3
    assert list(read_lines(record_path.parent / "train.en")) == ["a\rb", "d\u2028e", "g\u00a0h"]


def test_unequal_line_counts_leave_nothing_behind(tmp_path: Path, record_path: Path) -> None:
    raw = write_raw(tmp_path, b"a\nb\n", b"c\n")
    with pytest.raises(CorpusError, match=r"train\.en has 2 lines, .*train\.de has 1 lines"):
        clean_corpus(SPEC, raw, record_path=record_path)
    assert list(record_path.parent.iterdir()) == []


def test_a_corpus_with_no_pair_left_is_refused(tmp_path: Path, record_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"train\.en and .*train\.de: no training pair is left.*'empty_side': 1"):
        clean_corpus(SPEC, raw_of_pairs(tmp_path, [("a", "")]), record_path=record_path)


def test_a_failure_leaves_the_earlier_result(tmp_path: Path, record_path: Path) -> None:
    clean_corpus(SPEC, raw_of_pairs(tmp_path, [("a", "b")]), record_path=record_path)
    record_path.write_text("the record")
    with pytest.raises(CorpusError):
        clean_corpus(SPEC, raw_of_pairs(tmp_path, [("a", "")]), record_path=record_path)
    assert list(read_lines(record_path.parent / "train.de")) == ["b"]
    assert record_path.read_text() == "the record"
    assert len(list(record_path.parent.iterdir())) == 7  # three splits in two languages, and the record


def test_a_full_disk_is_noticed_beforehand(tmp_path: Path, record_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = raw_of_pairs(tmp_path, [("a", "b")])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3))
    with pytest.raises(SpaceError, match="needed for the cleaned text"):
        clean_corpus(SPEC, raw, record_path=record_path)
    assert not record_path.parent.exists()


def test_text_that_comes_in_pieces_is_not_cleaned(tmp_path: Path, record_path: Path) -> None:
    public_files = {"en": PublicFile(path="x.en", sha256=""), "de": PublicFile(path="x.de", sha256="")}
    spec = CorpusSpec(
        name="small",
        description="in pieces",
        language_pair="en-de",
        source=SegmentedSource(mirror_folder="x", public_url="http://localhost", file_by_split={"train": public_files}),
        dev_testset="dev",
        test_testset="test",
    )
    with pytest.raises(ConfigError, match="comes in pieces"):
        clean_corpus(spec, raw_of_pairs(tmp_path, [("a", "b")]), record_path=record_path)


def test_another_corpus_is_refused(tmp_path: Path, record_path: Path) -> None:
    raw = RawCorpus(provenance=gather_provenance(), corpus="other", pair_by_split={})
    with pytest.raises(CorpusError, match="of corpus other, expected small"):
        clean_corpus(SPEC, raw, record_path=record_path)
