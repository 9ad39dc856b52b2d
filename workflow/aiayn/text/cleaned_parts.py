"""The training pairs of a corpus, prepared and filtered shard by shard, and which of them are duplicates.

Lines stream by, and duplicates are found on disk: memory does not grow with the corpus.
"""

import functools
import hashlib
import itertools
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

import msgspec
import sacremoses  # type: ignore[import-untyped, unused-ignore]

from aiayn.spec import CorpusSpec
from aiayn.stages import STAGE_VERSIONS
from aiayn.text.deduplicate import DigestFile, Mask, PairDigests, mark_duplicates, num_buckets_of, read_mask
from aiayn.text.pair_filter import REASONS, reason_to_drop
from aiayn.text.route import TextRoute
from aiayn.text.shards import Shard, map_shards, part_path, read_shard, split_into_shards

_DIGESTS_NAME = "digests"
_MASK_NAME = "duplicates"


class CleanedShard(msgspec.Struct, frozen=True):
    """What was done to a shard; `num_digests_by_bucket` is empty where duplicates stay."""

    num_kept: int
    num_dropped_by_reason: dict[str, int]
    num_digests_by_bucket: list[int]


class CleanedParts:
    """The parts of all shards, in order: `train.<language>` in each, one line a pair that is kept."""

    def __init__(self, folders: Sequence[Path], cleaned: Sequence[CleanedShard]) -> None:
        """Take the parts' folders and what was done to each shard; duplicates are not yet looked for."""
        self.folders = folders
        self._cleaned = cleaned
        self._first_pairs = [0, *itertools.accumulate(one.num_kept for one in cleaned)]
        self._mask_path = folders[0].parent / _MASK_NAME
        self._num_duplicates = 0

    @property
    def num_kept(self) -> int:
        """How many pairs the parts hold, duplicates among them."""
        return self._first_pairs[-1]

    def num_dropped_by_reason(self) -> dict[str, int]:
        """Return how many pairs each of REASONS drops."""
        counts = {reason: sum(one.num_dropped_by_reason[reason] for one in self._cleaned) for reason in REASONS}
        return counts | {"duplicate": self._num_duplicates}

    def find_duplicates(self) -> None:
        """Mark the pairs that were there before, where the corpus file says that they go."""
        if self._cleaned[0].num_digests_by_bucket:
            files = [
                DigestFile(folder / _DIGESTS_NAME, one.num_digests_by_bucket, first_pair)
                for folder, one, first_pair in zip(self.folders, self._cleaned, self._first_pairs[:-1], strict=True)
            ]
            self._num_duplicates = mark_duplicates(files, self.num_kept, self._mask_path)

    def duplicates_of(self, part_index: int) -> Mask | None:
        """Return the marks of a part's pairs, or None if none of them is a duplicate."""
        if self._num_duplicates == 0:
            return None
        mask = read_mask(self._mask_path, self._first_pairs[part_index], self._cleaned[part_index].num_kept)
        return mask if mask.any() else None


def make_parts(
    spec: CorpusSpec,
    path_by_language: Mapping[str, Path],
    sha256_by_language: Mapping[str, str],
    *,
    parts_folder: Path,
    num_processes: int,
    lines_per_shard: int,
) -> CleanedParts:
    """Prepare and filter training text in shards; parts that are there from an earlier start are taken.

    Raises:
        CorpusError: if the sides differ in their number of lines, have none, or are not UTF-8.
    """
    assert spec.clean is not None  # clean_corpus has refused the others
    shards = split_into_shards(path_by_language, lines_per_shard=lines_per_shard)
    num_pairs = shards[-1].first_line + shards[-1].num_lines
    num_buckets = num_buckets_of(num_pairs) if spec.clean.deduplicate else 0
    key = _key(spec, sha256_by_language)
    cleaned = map_shards(
        functools.partial(_clean_shard, spec=spec, path_by_language=path_by_language, num_buckets=num_buckets),
        shards,
        CleanedShard,
        folder=parts_folder,
        key=key,
        num_processes=num_processes,
        what=f"clean {spec.name}",
    )
    return CleanedParts([part_path(parts_folder, key, shard) for shard in shards], cleaned)


def _key(spec: CorpusSpec, sha256_by_language: Mapping[str, str]) -> str:
    """Return a digest of all that a shard's part depends on, beside its lines."""
    parts: list[object] = [STAGE_VERSIONS["clean"], spec.language_pair, spec.normalise, spec.tokenise, spec.clean]
    parts += [sha256_by_language, sacremoses.__version__, unicodedata.unidata_version]
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()[:16]


def route_of(spec: CorpusSpec, language: str) -> TextRoute:
    """Return the way of a language's lines to a corpus's words."""
    return TextRoute(normalise=spec.normalise, tokenise=spec.tokenise, language=language)


def _clean_shard(
    shard: Shard, folder: Path, *, spec: CorpusSpec, path_by_language: Mapping[str, Path], num_buckets: int
) -> CleanedShard:
    """Write a shard's kept pairs, prepared, and their digests if there are buckets for these."""
    assert spec.clean is not None
    languages = (spec.source_language, spec.target_language)
    prepare_source, prepare_target = (route_of(spec, language).prepare for language in languages)
    source_lines, target_lines = (
        read_shard(path_by_language[language], shard.offset_by_language[language], shard.num_lines)
        for language in languages
    )
    num_kept, num_dropped_by_reason, digests = 0, dict.fromkeys(REASONS, 0), PairDigests()
    with _open_text(folder, languages[0]) as source_text, _open_text(folder, languages[1]) as target_text:
        for raw_source, raw_target in zip(source_lines, target_lines, strict=True):
            source, target = prepare_source(raw_source), prepare_target(raw_target)
            reason = reason_to_drop(source, target, spec.clean)
            if reason is not None:
                num_dropped_by_reason[reason] += 1
                continue
            if num_buckets:
                digests.add(source, target)
            source_text.write(f"{source}\n")
            target_text.write(f"{target}\n")
            num_kept += 1
    num_by_bucket = digests.write(folder / _DIGESTS_NAME, num_buckets) if num_buckets else []
    return CleanedShard(num_kept, num_dropped_by_reason, num_by_bucket)


def _open_text(folder: Path, language: str) -> TextIO:
    return (folder / f"train.{language}").open("w", encoding="utf-8", newline="\n")
