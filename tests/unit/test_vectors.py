"""Vectors of pieces from how often they stand together: by hand where a hand can, else by what must come out alike."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from aiayn.text.numbered_parts import WordNumberer

from aiayn.__main__ import main
from aiayn.errors import CorpusError
from aiayn.provenance import file_sha256, gather_provenance
from aiayn.records import BinarizedCorpus, RawCorpus, TokenVectors, read_record, write_record
from aiayn.spec import CorpusSpec, GeneratedSource
from aiayn.text.binarize import binarize_corpus
from aiayn.text.lines import text_pair, write_lines
from aiayn.text.vectors import (
    Block,
    count_pairs,
    decompose,
    make_vectors,
    positive_information,
    read_dimensions,
    read_token_blocks,
)

SPEC = CorpusSpec(
    name="small", description="for these tests", language_pair="en-de", dev_testset="dev", test_testset="test",
    source=GeneratedSource(num_train_pairs=1, num_dev_pairs=1, num_test_pairs=1, grammar_seed=1),
)  # fmt: skip
ENGLISH = ["the cat sleeps", "the dog sleeps", "a car stops", "a bus stops"]
GERMAN = ["die Katze schl\u00e4ft", "der Hund schl\u00e4ft", "ein Auto h\u00e4lt", "ein Bus h\u00e4lt"]


def binarized(folder: Path, english: list[str], german: list[str], *, is_joint: bool = True) -> Path:
    """Write a data-bin whose training text is given, and return its record's path."""
    lines_by_name = {"train.en": english, "train.de": german}
    lines_by_name |= {f"{split}.{language}": ["x"] for split in ("dev", "test") for language in ("en", "de")}
    folder.mkdir()
    for name, lines in lines_by_name.items():
        write_lines(lines, folder / name)
    pairs = {split: text_pair({k: folder / f"{split}.{k}" for k in ("en", "de")}) for split in ("train", "dev", "test")}
    raw = RawCorpus(provenance=gather_provenance(), corpus="small", pair_by_split=pairs)
    both = WordNumberer()
    numberers = {"en": both, "de": both if is_joint else WordNumberer()}
    record_path = folder / "binarize" / "record.json"
    write_record(binarize_corpus(SPEC, raw, numberers, record_path=record_path), record_path)
    return record_path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return the record's path of four sentences in two languages."""
    return binarized(tmp_path / "corpus", ENGLISH, GERMAN)


def block_of(*lines: list[int]) -> Block:
    """Return lines of tokens as one block."""
    tokens = np.array([token for line in lines for token in line], np.int64)
    return tokens, np.array([len(line) for line in lines], np.int64)


def call(binarized_path: Path, dimensions: int, record_path: Path, *more: str) -> int:
    """Call the verb."""
    places = ["--binarized", str(binarized_path), "--record", str(record_path)]
    return main(["vectors", *places, "--dimensions", str(dimensions), *more])


def read_rows(path: Path) -> dict[str, list[float]]:
    """Return the vectors of a file by symbol, its first line left out."""
    rows = [line.split(" ") for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n")[1:]]
    return {symbol: [float(number) for number in numbers] for symbol, *numbers in rows}


def cosine(one: list[float], other: list[float]) -> float:
    """Return the cosine of the angle between two vectors."""
    return float(np.dot(one, other) / np.linalg.norm(one) / np.linalg.norm(other))


def test_pairs_are_counted_within_the_window_and_never_across_lines() -> None:
    """Line 0 1 2, line 3 0: neighbours 0-1, 1-2 and 3-0; two apart 0-2. 2 and 3 are of two lines."""
    blocks = [block_of([0, 1, 2], [3, 0])]
    near = [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]]
    assert count_pairs(blocks, 4, window=1).toarray().tolist() == near
    far = [[0, 1, 1, 1], [1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]]
    assert count_pairs(blocks, 4, window=2).toarray().tolist() == far
    assert count_pairs(blocks, 4, window=9).toarray().tolist() == far


def test_lines_count_alike_in_one_block_and_in_two() -> None:
    lines = [[0, 1, 2], [1, 1], [2, 0, 1, 2]]
    together = count_pairs([block_of(*lines)], 3, window=2).toarray()
    apart = count_pairs([block_of(lines[0]), block_of(*lines[1:])], 3, window=2).toarray()
    assert together.tolist() == apart.tolist()
    assert together[1, 1] == 2  # a symbol beside itself is a pair in either order


def test_information_is_the_log_of_how_much_more_often_than_by_chance() -> None:
    """Lines 0 1 and 2 3 are 4 ordered pairs, each symbol first in one: 0 1 by chance 1 x 1 / 4 times, in fact once."""
    information = positive_information(count_pairs([block_of([0, 1], [2, 3])], 4, window=1)).toarray()
    assert information[0, 1] == information[2, 3] == pytest.approx(np.log(4))
    assert information.sum() == pytest.approx(4 * np.log(4))


def test_what_is_as_often_as_by_chance_or_less_has_no_information() -> None:
    """0 and 1 in every order, each beside itself as often as beside the other: chance itself."""
    blocks = [block_of([0, 0], [1, 1], [0, 1], [0, 1])]
    assert count_pairs(blocks, 2, window=1).toarray().tolist() == [[2, 2], [2, 2]]
    assert positive_information(count_pairs(blocks, 2, window=1)).nnz == 0


def test_a_data_bin_is_read_back_in_blocks_of_any_size(small: Path) -> None:
    """fairseq's indices: </s> is 2, then by falling count."""
    prefix = Path(read_record(small, BinarizedCorpus).folder) / "train.en-de.en"
    whole = list(read_token_blocks(prefix))
    assert len(whole) == 1
    assert whole[0][1].tolist() == [4, 4, 4, 4]
    assert whole[0][0][3::4].tolist() == [2, 2, 2, 2]
    by_line = list(read_token_blocks(prefix, lines_per_block=1))
    assert len(by_line) == 4
    assert np.concatenate([tokens for tokens, _ in by_line]).tolist() == whole[0][0].tolist()


def test_a_torn_data_bin_is_refused(small: Path) -> None:
    prefix = Path(read_record(small, BinarizedCorpus).folder) / "train.en-de.en"
    tokens_path, index_path = (prefix.with_name(prefix.name + suffix) for suffix in (".bin", ".idx"))
    tokens_path.write_bytes(tokens_path.read_bytes()[:-2])
    with pytest.raises(CorpusError, match=r"train.en-de.en.bin: torn: ends before its last number; rerun"):
        list(read_token_blocks(prefix))
    index_path.write_bytes(b"TNTIDX" + index_path.read_bytes()[6:])
    with pytest.raises(CorpusError, match=r"en.idx: no index of a fairseq mmap data-bin"):
        list(read_token_blocks(prefix))
    tokens_path.unlink()
    with pytest.raises(CorpusError, match=r"en.bin: no such file; rerun"):
        list(read_token_blocks(prefix))


def test_words_in_the_same_company_have_the_same_vector(small: Path, tmp_path: Path) -> None:
    """A cat and a dog stand between `the` and `sleeps`, a car and a bus between `a` and `stops`."""
    assert call(small, 4, tmp_path / "v.json") == 0
    rows = read_rows(tmp_path / "v.txt")
    assert cosine(rows["cat"], rows["dog"]) == pytest.approx(1.0, abs=1e-4)
    assert cosine(rows["car"], rows["bus"]) == pytest.approx(1.0, abs=1e-4)
    assert cosine(rows["cat"], rows["car"]) < 0.5


def test_the_file_is_word2vecs_and_its_record_holds_to_it(small: Path, tmp_path: Path) -> None:
    """8 English words, 9 German ones and </s>; <s>, <pad> and <unk> stand in no line."""
    assert call(small, 3, tmp_path / "v.json") == 0
    path = tmp_path / "v.txt"
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines[0] == "18 3"
    assert lines[-1] == ""
    assert len(lines) == 1 + 18 + 1
    assert lines[1].startswith("</s> ")
    assert "schl\u00e4ft" in read_rows(path)
    record = read_record(tmp_path / "v.json", TokenVectors)
    assert (record.num_vectors, record.dimensions, record.window, record.seed) == (18, 3, 5, 1)
    assert (record.path, record.sha256) == (path, file_sha256(path))
    assert record.data_digest == read_record(small, BinarizedCorpus).digest
    assert read_dimensions(path) == 3


def test_the_same_seed_gives_the_same_bytes(small: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        assert call(small, 4, tmp_path / f"{name}.json", "--seed", "7") == 0
    assert (tmp_path / "first.txt").read_bytes() == (tmp_path / "second.txt").read_bytes()


def test_another_window_gives_other_vectors(small: Path, tmp_path: Path) -> None:
    assert call(small, 4, tmp_path / "wide.json") == 0
    assert call(small, 4, tmp_path / "narrow.json", "--window", "1") == 0
    assert (tmp_path / "wide.txt").read_bytes() != (tmp_path / "narrow.txt").read_bytes()


def test_the_largest_component_of_a_direction_is_positive() -> None:
    """One symbol beside each of three others: the signs of singular vectors are anybody's, ours are fixed."""
    information = positive_information(count_pairs([block_of([0, 1], [0, 2], [0, 3], [1, 2], [3, 3])], 4, window=1))
    vectors = decompose(information, 2, seed=1)
    assert (vectors[np.abs(vectors).argmax(axis=0), np.arange(2)] > 0).all()
    assert (vectors**2).sum(axis=0)[0] >= (vectors**2).sum(axis=0)[1]  # the largest singular value first


def test_a_text_without_words_is_refused(tmp_path: Path, small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Empty lines hold their end alone, which stands beside nothing."""
    empty = binarized(tmp_path / "empty", ["", ""], ["", ""])
    assert call(empty, 1, tmp_path / "v.json") == 1
    assert "no two symbols of its training text stand together; is it empty?" in capsys.readouterr().err
    assert not (tmp_path / "v.txt").exists()


def test_too_few_symbols_are_refused(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(small, 18, tmp_path / "v.json") == 1
    assert "18 different symbols have no 18 dimensions; expected more symbols than that" in capsys.readouterr().err


def test_a_dictionary_for_each_language_is_refused(tmp_path: Path) -> None:
    record_path = binarized(tmp_path / "apart", ENGLISH, GERMAN, is_joint=False)
    data = read_record(record_path, BinarizedCorpus)
    with pytest.raises(CorpusError, match=r"a dictionary for each language, expected one for both"):
        make_vectors(data, [], dimensions=2, window=5, seed=1, binarized_path=record_path, record_path=tmp_path / "v")


def test_vectors_of_a_changed_data_bin_are_refused(small: Path, tmp_path: Path) -> None:
    data = read_record(small, BinarizedCorpus)
    write_record(msgspec.structs.replace(data, digest="0" * 64), small)
    assert call(small, 4, tmp_path / "v.json") == 1


@pytest.mark.parametrize("header", ["", "18", "18 x", "18 3 4", "0 3", "-1 3"])
def test_a_first_line_that_is_no_header_is_refused(header: str, tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text(f"{header}\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"v.txt:1: .* expected `V d`"):
        read_dimensions(path)


def test_an_absent_file_of_vectors_is_refused_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no such file of vectors; `aiayn vectors` makes one"):
        read_dimensions(tmp_path / "v.txt")
