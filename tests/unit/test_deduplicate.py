"""Of equal pairs the first stays, however many files and buckets their digests lie in."""

import random
from pathlib import Path

import pytest

from aiayn.text import deduplicate
from aiayn.text.deduplicate import DigestFile, PairDigests, mark_duplicates, num_buckets_of, read_mask
from aiayn.text.joined_parts import join_parts


def marks(folder: Path, pairs: list[tuple[str, str]], pairs_per_file: int, num_buckets: int) -> list[bool]:
    """Return each pair's mark, with its digests in files of so many pairs."""
    files = []
    for first_pair in range(0, len(pairs), pairs_per_file):
        digests = PairDigests()
        for pair in pairs[first_pair : first_pair + pairs_per_file]:
            digests.add(*pair)
        path = folder / f"digests{first_pair}"
        files.append(DigestFile(path, digests.write(path, num_buckets), first_pair))
    num_duplicates = mark_duplicates(files, len(pairs), folder / "mask")
    mask = read_mask(folder / "mask", 0, len(pairs)).tolist()
    assert num_duplicates == sum(mask)
    found: list[bool] = mask
    return found


def test_the_first_of_equal_pairs_is_not_marked(tmp_path: Path) -> None:
    pairs = [("a", "b"), ("a", "c"), ("a", "b"), ("", "ab"), ("ab", ""), ("a", "b"), ("a", "c")]
    assert marks(tmp_path, pairs, 7, 1) == [False, False, True, False, False, True, True]


@pytest.mark.parametrize(("pairs_per_file", "num_buckets"), [(1, 1), (7, 3), (100, 5), (400, 400)])
def test_neither_files_nor_buckets_matter(tmp_path: Path, pairs_per_file: int, num_buckets: int) -> None:
    rng = random.Random(1)
    pairs = [(f"source {rng.randrange(40)}", f"target {rng.randrange(5)}") for _ in range(400)]
    expected = [pair in pairs[:index] for index, pair in enumerate(pairs)]
    assert sum(expected) > 200
    assert marks(tmp_path, pairs, pairs_per_file, num_buckets) == expected


def test_digests_that_share_their_first_half_are_not_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class HalfAlike:
        """A digest whose first eight bytes are always the same."""

        def __init__(self, content: bytes, digest_size: int) -> None:
            self.content = content

        def digest(self) -> bytes:
            return b"12345678" + self.content.ljust(8)

    monkeypatch.setattr(deduplicate.hashlib, "blake2b", HalfAlike)
    assert marks(tmp_path, [("a", "b"), ("a", "c"), ("a", "b")], 2, 2) == [False, False, True]


def test_a_file_without_a_pair_is_passed_over(tmp_path: Path) -> None:
    none, one = PairDigests(), PairDigests()
    one.add("a", "b")
    files = [
        DigestFile(tmp_path / "0", none.write(tmp_path / "0", 2), 0),
        DigestFile(tmp_path / "1", one.write(tmp_path / "1", 2), 0),
        DigestFile(tmp_path / "2", one.write(tmp_path / "2", 2), 1),
    ]
    assert mark_duplicates(files, 2, tmp_path / "mask") == 1
    assert read_mask(tmp_path / "mask", 1, 1).tolist() == [True]
    assert mark_duplicates(files[:1], 0, tmp_path / "mask") == 0


def test_a_bucket_holds_as_many_pairs_however_large_the_corpus() -> None:
    assert [num_buckets_of(num_pairs) for num_pairs in (1, 250_000, 250_001, 36_000_000)] == [1, 1, 2, 144]


def test_joined_text_lacks_the_marked_lines_alone(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(b"a\rb\nc\n\nd\n")
    (tmp_path / "1").write_bytes("e\u2028f\n".encode())
    (tmp_path / "mask").write_bytes(b"\x00\x01\x00\x01")
    parts = [(tmp_path / "0", read_mask(tmp_path / "mask", 0, 4)), (tmp_path / "1", None)]
    num_lines, sha256 = join_parts(parts, tmp_path / "joined")
    content = (tmp_path / "joined").read_bytes()
    assert (num_lines, content) == (3, "a\rb\n\ne\u2028f\n".encode())
    assert sha256 == deduplicate.hashlib.sha256(content).hexdigest()


def test_a_mask_of_another_number_of_lines_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(b"a\nb\n")
    (tmp_path / "mask").write_bytes(b"\x00")
    with pytest.raises(ValueError, match="shorter"):
        join_parts([(tmp_path / "0", read_mask(tmp_path / "mask", 0, 1))], tmp_path / "joined")
