"""Drop the training pairs that the corpus file says to drop, and count them by reason; test sets pass untouched."""

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from aiayn.errors import ConfigError, CorpusError
from aiayn.provenance import gather_provenance, replace_outputs_on_success, require_free_space
from aiayn.records import ParallelText, RawCorpus
from aiayn.spec import CleanSpec, CorpusSpec
from aiayn.text import count_aligned_lines, read_lines, text_pair, unchanged_paths

REASONS = ("empty_side", "too_long", "length_ratio", "duplicate")
_PAIR_DIGEST_BYTES = 16  # two of 40 million pairs collide with probability 2e-24


class PairFilter:
    """Judges training pairs one after the other; it remembers those it kept, to know their duplicates."""

    def __init__(self, spec: CleanSpec) -> None:
        """Begin with no pair seen."""
        self._spec = spec
        self._seen: set[bytes] = set()

    def reason_to_drop(self, source: str, target: str) -> str | None:
        """Return which of REASONS drops the pair, the first that holds, or None for a pair to keep."""
        if not source.strip() or not target.strip():
            return "empty_side"
        shorter, longer = sorted((num_words(source), num_words(target)))
        if self._spec.max_words is not None and longer > self._spec.max_words:
            return "too_long"
        if self._spec.max_length_ratio is not None and longer > self._spec.max_length_ratio * shorter:
            return "length_ratio"
        if self._spec.deduplicate:
            digest = hashlib.blake2b(f"{source}\n{target}".encode(), digest_size=_PAIR_DIGEST_BYTES).digest()
            if digest in self._seen:
                return "duplicate"
            self._seen.add(digest)
        return None


def num_words(line: str) -> int:
    """Return the number of words, that is, of what blanks (U+0020 alone) separate."""
    return sum(word != "" for word in line.split(" "))


def clean_corpus(spec: CorpusSpec, raw: RawCorpus, *, record_path: Path) -> ParallelText:
    """Write the kept training pairs and copies of the test sets beside the record, and return the record.

    Raises:
        ConfigError: if the corpus comes in pieces, which others have cleaned.
        CorpusError: if the sides of training differ in their number of lines, if no pair is left, or if a raw file
            has changed since it was fetched.
    """
    if spec.clean is None:
        raise ConfigError(f"corpus {spec.name}: its text comes in pieces, cleaned by others; run `aiayn binarize`")
    _refuse_other_routes(spec, spec.clean)
    if raw.corpus != spec.name:
        raise CorpusError(f"the raw record is of corpus {raw.corpus}, expected {spec.name}; name its own")
    paths_by_split = {split: unchanged_paths(pair) for split, pair in raw.pair_by_split.items()}
    all_paths = [path for paths in paths_by_split.values() for path in paths.values()]
    require_free_space(record_path.parent, sum(path.stat().st_size for path in all_paths), "the cleaned text")
    num_dropped_by_reason = dict.fromkeys(REASONS, 0)
    with replace_outputs_on_success(record_path) as folder:
        for split, path_by_language in paths_by_split.items():
            if split == "train":
                _write_kept_pairs(spec, path_by_language, folder, num_dropped_by_reason)
            else:
                for language, path in path_by_language.items():
                    shutil.copyfile(path, folder / f"{split}.{language}")
        pair_by_split = {
            split: text_pair({language: folder / f"{split}.{language}" for language in paths}, record_path.parent)
            for split, paths in paths_by_split.items()
        }
    return ParallelText(
        provenance=gather_provenance(all_paths),
        corpus=spec.name,
        pair_by_split=pair_by_split,
        num_pairs=pair_by_split["train"].num_lines,
        num_dropped_by_reason=num_dropped_by_reason,
    )


def _refuse_other_routes(spec: CorpusSpec, clean: CleanSpec) -> None:
    """Refuse a route that this version would only approximate: other text would be cleaned than the recipe says."""
    method = None if spec.subword is None else spec.subword.method
    route = (spec.normalise, spec.tokenise, clean.unit, method)
    if route != ("none", "none", "words", "sentencepiece"):
        raise ConfigError(
            f"corpus {spec.name}: normalise {spec.normalise}, tokenise {spec.tokenise}, lengths in {clean.unit}, "
            f"subword method {method}: this version carries out none, none, words, sentencepiece alone; choose a "
            "recipe of these (`aiayn recipes`)"
        )


def read_pairs(
    path_by_language: Mapping[str, Path], source_language: str, target_language: str
) -> Iterator[tuple[str, str]]:
    """Yield the line pairs of two files in step.

    Raises:
        CorpusError: naming both files and counts, before the first pair, if they have not equally many lines.
    """
    count_aligned_lines(path_by_language)
    yield from zip(
        read_lines(path_by_language[source_language]), read_lines(path_by_language[target_language]), strict=True
    )


def _write_kept_pairs(
    spec: CorpusSpec, path_by_language: Mapping[str, Path], folder: Path, num_dropped_by_reason: dict[str, int]
) -> None:
    """Write the pairs to keep, and count the others into `num_dropped_by_reason`."""
    assert spec.clean is not None  # clean_corpus has refused the others
    pair_filter = PairFilter(spec.clean)
    num_kept = 0
    with (
        (folder / f"train.{spec.source_language}").open("w", encoding="utf-8", newline="\n") as source_text,
        (folder / f"train.{spec.target_language}").open("w", encoding="utf-8", newline="\n") as target_text,
    ):
        for source, target in read_pairs(path_by_language, spec.source_language, spec.target_language):
            reason = pair_filter.reason_to_drop(source, target)
            if reason is not None:
                num_dropped_by_reason[reason] += 1
                continue
            source_text.write(f"{source}\n")
            target_text.write(f"{target}\n")
            num_kept += 1
    if num_kept == 0:
        names = " and ".join(str(path) for path in path_by_language.values())
        raise CorpusError(
            f"{names}: no training pair is left, dropped: {num_dropped_by_reason}; loosen `clean` of corpus {spec.name}"
        )
