"""Find the pairs of a corpus that were there before, by digests on disk: memory is that of one bucket of them.

Each shard leaves its pairs' digests in a file, sorted into buckets by their values. A pair and its duplicates share a
bucket, so the buckets are gone through one by one; there are as many as keep one to some 250,000 pairs. The first
occurrence stays, whatever shards and processes there were.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

PAIRS_PER_BUCKET = 250_000  # 24 bytes each, and as much again to sort them
_DIGEST = np.dtype([("high", "<u8"), ("low", "<u8")])  # 16 bytes: two of 40 million pairs collide with 2e-24
_ENTRY = np.dtype([("high", "<u8"), ("low", "<u8"), ("pair", "<u8")])  # `pair` counts a shard's kept pairs from 0

Mask = npt.NDArray[np.bool_]


class DigestFile(msgspec.Struct, frozen=True):
    """A shard's digests: the file, how many of its entries are of each bucket, and the index of its first pair."""

    path: Path
    num_by_bucket: list[int]
    first_pair: int


class PairDigests:
    """Collects the digests of one shard's pairs, in their order."""

    def __init__(self) -> None:
        """Begin without a pair."""
        self._digests = bytearray()

    def add(self, source: str, target: str) -> None:
        """Note the next pair; a line holds no LF, so no two pairs give the same bytes."""
        self._digests += hashlib.blake2b(f"{source}\n{target}".encode(), digest_size=_DIGEST.itemsize).digest()

    def write(self, path: Path, num_buckets: int) -> list[int]:
        """Write the digests sorted into buckets, in each of them in order of pairs; return how many are in each."""
        digests = np.frombuffer(self._digests, _DIGEST)
        buckets = digests["high"] % num_buckets
        order = np.argsort(buckets, kind="stable")
        entries = np.empty(len(digests), _ENTRY)
        entries["high"], entries["low"], entries["pair"] = digests["high"][order], digests["low"][order], order
        path.write_bytes(entries.tobytes())
        counts: list[int] = np.bincount(buckets.astype(np.intp), minlength=num_buckets).tolist()
        return counts


def num_buckets_of(num_pairs: int) -> int:
    """Return how many buckets keep each to about PAIRS_PER_BUCKET, if all pairs are different."""
    return -(-num_pairs // PAIRS_PER_BUCKET)


def mark_duplicates(files: Sequence[DigestFile], num_pairs: int, mask_path: Path) -> int:
    """Write one byte a pair, 1 for each that was there before, and return how many these are; `files` are in order."""
    with mask_path.open("wb") as mask_file:
        mask_file.truncate(num_pairs)
    if num_pairs == 0:
        return 0
    mask = np.memmap(mask_path, np.bool_, "r+")
    num_duplicates = 0
    offsets = [0] * len(files)
    for bucket in range(len(files[0].num_by_bucket)):
        entries = [_read_bucket(file, bucket, offset) for file, offset in zip(files, offsets, strict=True)]
        offsets = [offset + len(some) for offset, some in zip(offsets, entries, strict=True)]
        duplicates = _later_occurrences(np.concatenate(entries))
        mask[duplicates] = True
        num_duplicates += len(duplicates)
    mask.flush()
    return num_duplicates


def _read_bucket(file: DigestFile, bucket: int, offset: int) -> npt.NDArray[np.void]:
    """Return the entries of a bucket with pairs numbered over all files; `offset` counts entries of buckets before."""
    entries = np.fromfile(file.path, _ENTRY, file.num_by_bucket[bucket], offset=offset * _ENTRY.itemsize)
    entries["pair"] += np.uint64(file.first_pair)
    return entries


def _later_occurrences(entries: npt.NDArray[np.void]) -> npt.NDArray[np.uint64]:
    """Return the pairs whose digest occurs before them; entries are in order of pairs."""
    order = np.lexsort((entries["low"], entries["high"]))  # stable: equal digests stay in order of pairs
    high, low = entries["high"][order], entries["low"][order]
    is_later = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    later: npt.NDArray[np.uint64] = entries["pair"][order[1:][is_later]]
    return later


def read_mask(mask_path: Path, first_pair: int, num_pairs: int) -> Mask:
    """Return the marks of a shard's pairs."""
    return np.fromfile(mask_path, np.bool_, num_pairs, offset=first_pair)
